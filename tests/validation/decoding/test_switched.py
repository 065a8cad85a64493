"""A message that is chosen before each round: the exact law of the texts, and a text that is written again."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pytest

from hlmtheory.wire import CertifiedRows, DevicePolicy, LatticeRows, SeededTokens, threshold_rule
from tests.validation.every_decision import Law, Script, ScriptedNoise, every_outcome
from tests.validation.tiny_texts import distance, exact_law, table_pair
from validation.collection.prompts import Prompt
from validation.decoding import session
from validation.decoding.loop import decode
from validation.decoding.methods.switched import Chosen, Switched, lossless_part
from validation.decoding.random_streams import ACCEPT, DRAFT, PURPOSES, REPLACE
from validation.decoding.session import Outcome
from validation.errors import UserError

V, TOKENS = 2, 3
POLICIES = {
    "rows": DevicePolicy(V, 1.0, threshold_rule(2), LatticeRows(2, top_k=V)),
    "tokens": DevicePolicy(V, 1.0, threshold_rule(2), SeededTokens()),
}
TARGET = np.array([[0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
PAIR = table_pair(np.full((7, V), 0.5), TARGET)
CELLS = {DRAFT: 2, ACCEPT: 2, REPLACE: 4}
Rule = Callable[[Outcome | None], Chosen]


class Branching(ScriptedNoise):
    """Each number is in the middle of one of its cells, chosen when it is first asked for; behind the text's end .5."""

    def __init__(self, script: Script, names: list[str]) -> None:
        super().__init__(script, names, TOKENS)
        self.known: dict[Hashable, int] = {}

    def number(self, key: Hashable, cells: int) -> float:
        if key not in self.known:
            self.known[key] = self.script.choose([1 / cells] * cells)
        return (self.known[key] + 0.5) / cells

    def uniform(self, purpose: int, sequences: Any, positions: Any) -> Any:
        assert purpose < PURPOSES
        places = np.broadcast_to(positions, np.broadcast_shapes(np.shape(sequences), np.shape(positions)))
        each = [self.number((purpose, x), CELLS[purpose]) if x < TOKENS else 0.5 for x in places.ravel().tolist()]
        return np.array(each).reshape(places.shape)

    def drafts(self, sequences: Any, positions: Any, ahead: Any, count: int) -> Any:
        pairs = zip(positions.tolist(), ahead.tolist(), strict=True)
        return np.array([[self.number((DRAFT, *pair), CELLS[DRAFT])] for pair in pairs])


class Watching(Switched):
    def __init__(self, rule: Rule, *, careless: bool = False) -> None:
        super().__init__(POLICIES, lambda: rule(self.seen))
        self.seen: Outcome | None = None
        self.careless = careless

    def learn(self, outcome: Outcome) -> None:
        super().learn(outcome)
        self.seen = outcome
        if self.careless:
            self.looked = 0


def law(rule: Rule, monkeypatch: pytest.MonkeyPatch, *, careless: bool = False) -> Law:
    """Return the exact law of the loop's texts; the shared stream is a number that both sides invert."""

    def run(script: Script) -> tuple[int, ...]:
        noise = Branching(script, ["a"])

        def race(rows: Any, keys: Any, positions: Any) -> tuple[Any, Any]:
            places = [int(x) - 1 for x in positions]  # the prompt has one token
            numbers = [noise.number(("stream", x), 4) if x < TOKENS else 0.5 for x in places]
            mass = np.cumsum(rows.double().numpy(), axis=1)
            winners = [np.searchsorted(row, u, side="right") for row, u in zip(mass, numbers, strict=True)]
            return np.array(winners), mass[:, -1]

        monkeypatch.setattr(session, "raced", race)
        method = Watching(rule, careless=careless)
        (one,) = decode(PAIR, [Prompt("a", "0", "")], method, new_tokens=TOKENS, noise=lambda *_: noise)
        return tuple(one.tokens)

    return every_outcome(run)


def first_tokens_then(follow: Callable[[int], Chosen]) -> Rule:
    return lambda seen: Chosen("tokens", 2) if seen is None else follow(seen.drafts[-1].token)


STEERED = first_tokens_then(lambda token: Chosen("tokens" if token == 0 else "rows", 1))
RULES = {
    "a dropped draft chooses the message": STEERED,
    "and the other way round": first_tokens_then(lambda token: Chosen("rows" if token == 0 else "tokens", 2 - token)),
    "by acceptance": lambda seen: Chosen("rows" if seen and seen.accepted else "tokens", 2),
}


@pytest.mark.parametrize("name", RULES)
def test_texts_have_the_targets_law_whatever_a_choice_follows_from(name, monkeypatch):
    assert distance(law(RULES[name], monkeypatch), exact_law(TARGET, TOKENS)) < 1e-12


def test_a_choice_by_dropped_drafts_changes_the_law_without_the_rule(monkeypatch):
    found = law(STEERED, monkeypatch, careless=True)
    assert distance(found, exact_law(TARGET, TOKENS)) == pytest.approx(1 / 32, abs=1e-12)


def test_one_text_at_a_time_and_lossless_policies():
    with pytest.raises(UserError, match="one text at a time, and the batch has 2"):
        decode(PAIR, [Prompt(name, "0", "") for name in "ab"], Watching(STEERED), new_tokens=2)
    with pytest.raises(UserError, match="leave --adapt out"):
        lossless_part(DevicePolicy(V, 1.0, threshold_rule(2), CertifiedRows()), 2)
