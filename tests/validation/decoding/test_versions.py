"""Versions that are switched and rolled back while texts are decoded: the exact law of the texts, caches, refusals."""

import itertools
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.validation import tiny_texts
from tests.validation.models.test_adapters import edit, made, save_base  # noqa: F401
from validation.collection import prompts
from validation.collection.collect import encode_prompts
from validation.collection.prompts import Prompt
from validation.decoding import loop
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.version_cache import VersionedModel
from validation.errors import UserError
from validation.models.pair import Pair, load_pair
from validation.models.versions import CACHES, VersionedTarget, versioned_pair

Law = dict[tuple[int, ...], float]
POSITIONS, VOCABULARY = 3, 3


class VersionTable(tiny_texts.TableModel):
    def __init__(self, table: np.ndarray, prompt_length: int, version: int) -> None:
        super().__init__(table, prompt_length)
        self.version = version

    def stored(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens + self.table.shape[1] * self.version

    def understood(self, entries: torch.Tensor) -> torch.Tensor:
        size = self.table.shape[1]
        return (entries % size + (entries // size != self.version)) % size


def tables(seed: int, positions: int = POSITIONS) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    count = tiny_texts.nodes(VOCABULARY, positions)
    return tiny_texts.halves(rng, count), [tiny_texts.quarters(rng, count) for _ in range(2)]


def server(
    draft: np.ndarray, versions: list[np.ndarray], switches: list[tuple[int, str]], *, prompt: str = "0", **options: Any
) -> Pair:
    pair = tiny_texts.table_pair(draft, versions[0], prompt=prompt)
    length = len(prompt.split())
    models = {f"v{i}": VersionTable(table, length, i) for i, table in enumerate(versions)}
    target: Any = VersionedTarget(models, switches, **options)
    return replace(pair, target=target)


def mixture(
    draft: np.ndarray, versions: list[np.ndarray], version_at: Callable[[int, int], int], most: int, positions: int
) -> Law:
    law: Law = {}
    waiting: dict[tuple[tuple[int, ...], int], float] = {((), 0): 1.0}
    while waiting:
        after: dict[tuple[tuple[int, ...], int], float] = {}
        for (text, rounds), mass in waiting.items():
            p_all = versions[version_at(rounds, len(text))]
            left = positions - len(text)
            length = min(most, left)
            for kept in range(length + 1):
                for words in itertools.product(range(VOCABULARY), repeat=kept):
                    chance, place = mass, text
                    for word in words:
                        row = tiny_texts.node(*place, vocabulary=VOCABULARY)
                        chance *= min(draft[row, word], p_all[row, word])
                        place = (*place, word)
                    if kept == left:
                        after[place, rounds + 1] = after.get((place, rounds + 1), 0.0) + chance
                        continue
                    row = tiny_texts.node(*place, vocabulary=VOCABULARY)
                    ends = p_all[row] if kept == length else np.maximum(p_all[row] - draft[row], 0.0)
                    for token, part in enumerate(ends):
                        key = (*place, token), rounds + 1
                        after[key] = after.get(key, 0.0) + chance * float(part)
        waiting = {}
        for (text, rounds), mass in after.items():
            if mass and len(text) == positions:
                law[text] = law.get(text, 0.0) + mass
            elif mass:
                waiting[text, rounds] = mass
    return law


def by_position(versions: list[np.ndarray], version_at: Callable[[int], int]) -> np.ndarray:
    found = versions[0].copy()
    for place in range(POSITIONS):
        rows = slice(tiny_texts.nodes(VOCABULARY, place), tiny_texts.nodes(VOCABULARY, place + 1))
        found[rows] = versions[version_at(place)][rows]
    return found


SCHEDULES = {"switched": [(0, "v0"), (1, "v1")], "rolled back": [(0, "v0"), (1, "v1"), (2, "v0")]}


def current(switches: list[tuple[int, str]], time: int) -> int:
    return int([name for start, name in switches if start <= time][-1][1:])


@pytest.mark.parametrize("caches", CACHES)
@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_by_round_the_law_is_the_mixture_of_the_rounds(schedule, most, caches):
    switches = SCHEDULES[schedule]
    draft, versions = tables(most)
    pair = server(draft, versions, switches, pin="round", caches=caches)
    found = tiny_texts.law_of(tiny_texts.all_texts(pair, FixedLength(most), POSITIONS, tiny_texts.SAMPLED))
    expected = mixture(draft, versions, lambda rounds, place: current(switches, rounds), most, POSITIONS)
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-12)
    assert tiny_texts.distance(found, expected) == pytest.approx(0.0, abs=1e-12)
    for version in versions:
        assert tiny_texts.distance(found, tiny_texts.exact_law(version, POSITIONS)) > 0.05


@pytest.mark.parametrize(("caches", "begin", "version"), [(CACHES[0], 1, 1), (CACHES[1], 4, 0)])
def test_by_text_each_text_is_of_the_version_at_its_begin(caches, begin, version):
    draft, versions = tables(3)
    switches = [(0, "v0"), (1, "v1"), (3, "v0")]
    pair = server(draft, versions, switches, pin="text", caches=caches, begins=lambda _: begin)
    found = tiny_texts.law_of(tiny_texts.all_texts(pair, FixedLength(2), POSITIONS, tiny_texts.SAMPLED))
    assert tiny_texts.distance(found, tiny_texts.exact_law(versions[version], POSITIONS)) < 1e-12


@pytest.mark.parametrize("caches", CACHES)
@pytest.mark.parametrize(
    "switches", [[(0, "v0"), (1, "v1")], [(0, "v1"), (2, "v0")], [(0, "v0"), (1, "v1"), (2, "v0")]]
)
def test_by_position_the_law_is_that_of_the_version_of_each_place(switches, caches):
    draft, versions = tables(4)
    pair = server(draft, versions, switches, pin="position", caches=caches)
    found = tiny_texts.law_of(tiny_texts.all_texts(pair, FixedLength(2), POSITIONS, tiny_texts.SAMPLED))
    table = by_position(versions, lambda place: current(switches, place))
    assert tiny_texts.distance(found, tiny_texts.exact_law(table, POSITIONS)) == pytest.approx(0.0, abs=1e-12)


def test_the_server_says_which_version_served_each_round():
    draft, versions = tables(8)
    pair = server(draft, versions, [(0, "v0"), (1, "v1"), (2, "v0")], pin="round")
    record, *_ = decode(pair, [Prompt("a", "0", "t")], FixedLength(1), new_tokens=POSITIONS)
    served = pair.target.served["a"]
    assert [version for _, version in served] == ["v0", "v1", "v0"][: len(record.rounds)]
    assert [place for place, _ in served] == [one.position for one in record.rounds]


class StaleVersionCache(VersionedModel):
    """The defect: after a switch the new version goes on with the keys and values of the old one."""

    def read(self, tokens: np.ndarray, until: np.ndarray, **more: Any) -> list[Any]:
        for name, memory in self._memory.items():
            memory.owner[:] = name
        return super().read(tokens, until, **more)


def misread(versions: list[np.ndarray]) -> Law:
    law: Law = {}
    for text in itertools.product(range(VOCABULARY), repeat=POSITIONS):
        first, second, third = text
        wrong = tiny_texts.node((first + 1) % VOCABULARY, second, vocabulary=VOCABULARY)
        law[text] = float(
            versions[0][0, first]
            * versions[0][tiny_texts.node(first, vocabulary=VOCABULARY), second]
            * versions[1][wrong, third]
        )
    return law


@pytest.mark.parametrize("stale", [False, True])
def test_a_cache_of_the_old_version_changes_the_law(stale, monkeypatch):
    draft, versions = tables(9)
    switches = [(0, "v0"), (2, "v1")]
    right = by_position(versions, lambda place: current(switches, place))
    if stale:
        monkeypatch.setattr(loop.Loop, "versioned_class", StaleVersionCache)
    pair = server(draft, versions, switches, pin="position", caches="rebuilt")
    found = tiny_texts.law_of(tiny_texts.all_texts(pair, FixedLength(2), POSITIONS, tiny_texts.SAMPLED))
    expected = misread(versions) if stale else tiny_texts.exact_law(right, POSITIONS)
    assert tiny_texts.distance(found, expected) == pytest.approx(0.0, abs=1e-12)
    assert (tiny_texts.distance(found, tiny_texts.exact_law(right, POSITIONS)) > 0.05) is stale


@pytest.mark.parametrize("caches", CACHES)
def test_real_versions_write_what_each_writes_alone(made, caches):  # noqa: F811
    pair = load_pair(draft=made / "aligned", target=made / "large")
    folders = {"base": made / "large", "math": made / "math"}
    asked = [Prompt(str(i), f"w{3 + i} w{7 + i} w2"[: 5 + 3 * i], "t") for i in range(4)]
    served = versioned_pair(pair, folders, [(0, "base"), (3, "math"), (6, "base")], pin="position", caches=caches)
    options = {"temperature": 0.0, "new_tokens": 9}
    texts = {one.prompt: one.tokens for one in decode(served, asked, FixedLength(3), **options)}
    alone = {name: load_pair(draft=made / "aligned", target=folder) for name, folder in folders.items()}
    for prompt, known in zip(asked, encode_prompts(pair, asked, 9), strict=True):
        for place, token in enumerate(texts[prompt.id]):
            name = "math" if 3 <= place < 6 else "base"
            with torch.no_grad():
                logits = alone[name].target(torch.tensor([[*known, *texts[prompt.id][:place]]])).logits[0, -1]
            assert logits[token] >= logits.max() - 1e-4
    assert len({tuple(text) for text in texts.values()}) > 1


def test_a_version_that_changed_the_anchor_is_refused_by_the_server(made):  # noqa: F811
    pair = load_pair(draft=made / "aligned", target=made / "large")
    for version in ("all", "other"):
        with pytest.raises(UserError, match=r"still keeps the target's law.*--changed-anchor"):
            versioned_pair(pair, {"base": made / "large", "new": made / version}, [(0, "base"), (2, "new")])
    folders = {"base": made / "large", "new": made / "all"}
    allowed = versioned_pair(pair, folders, [(0, "base"), (2, "new")], changed_anchor=True)
    assert list(allowed.target.versions) == ["base", "new"]


def test_versions_of_other_vocabularies_and_shapes_are_refused(made, tmp_path):  # noqa: F811
    pair = load_pair(draft=made / "large", target=made / "large")
    other = save_base(tmp_path / "words")
    file = other / "tokenizer.json"
    file.write_text(file.read_text().replace('"w7"', '"seven"'))
    with pytest.raises(UserError, match=r"The vocabularies differ.*'seven'"):
        versioned_pair(pair, {"base": made / "large", "new": other}, [(0, "base")])
    with pytest.raises(UserError, match="have different architectures"):
        versioned_pair(pair, {"base": made / "large", "new": made / "aligned"}, [(0, "base")])
    with pytest.raises(UserError, match="There is no model folder"):
        versioned_pair(pair, {"base": made / "nowhere"}, [(0, "base")])


def test_wrong_settings_are_refused():
    draft, versions = tables(1)
    for said, switches, options in (
        (r"no version 'v7'; the versions are v0, v1", [(0, "v7")], {}),
        (r"at the times \[1\]; they must rise from 0", [(1, "v0")], {}),
        (r"at the times \[0, 2, 2\]; they must rise", [(0, "v0"), (2, "v1"), (2, "v0")], {}),
        (r"at the times \[\]", [], {}),
        (r"pin is 'token'; choose one of text, round, position", [(0, "v0")], {"pin": "token"}),
        (r"caches is 'none'; choose one of kept, rebuilt", [(0, "v0")], {"caches": "none"}),
    ):
        with pytest.raises(UserError, match=said):
            server(draft, versions, switches, **options)
    pair = server(draft, versions, [(0, "v0")])
    with pytest.raises(UserError, match="the risk is that of one target model"):
        decode(pair, [Prompt("a", "0", "t")], FixedLength(1), new_tokens=2, risk=True)


def test_the_example_of_the_documentation_runs(
    made,  # noqa: F811
    tmp_path,
    monkeypatch,
    capsys,
):
    page = (Path(__file__).parents[3] / "docs" / "versions.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    for name in ("aligned", "large"):
        (tmp_path / name).symlink_to(made / name)
    shutil.copytree(made / "math", tmp_path / "versions" / "math")
    edit(tmp_path / "versions" / "math" / "adapter_config.json", base_model_name_or_path="../../large")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prompts, "builtin_prompts", lambda: [Prompt("a", "w3 w4", "t"), Prompt("b", "w5", "t")])
    exec(compile(block, "docs/versions.md", "exec"), {"__name__": "example"})
    assert "'a': [(0, 'v0')" in capsys.readouterr().out
