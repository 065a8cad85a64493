"""Top-k log-probabilities, in files that are written here field by field as each engine's documentation says."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory.truncation import certified_size
from hlmtheory.verification import acceptance_rate, softmax
from tests.validation.command_line import run
from tests.validation.stopping import damage
from validation.collection.answers import open_answers
from validation.collection.intervals import PROMISES, intervals
from validation.collection.processing import Processing
from validation.collection.top_k import Lists, pair_lists
from validation.errors import UserError

V, N = 40, 6
TEXT = np.random.default_rng(0).integers(0, V, N)


def rows(seed: int) -> np.ndarray:
    return softmax(np.random.default_rng(seed).normal(0, 3, (N, V)))


def largest(row: np.ndarray, k: int) -> list[tuple[int, float, int]]:
    return [(int(v), float(np.log(row[v])), rank) for rank, v in enumerate(np.argsort(-row)[:k], start=1)]


def with_text(row: np.ndarray, token: int, k: int) -> list[tuple[int, float, int]]:
    rank = int((row > row[token]).sum()) + 1
    return [(int(token), float(np.log(row[token])), rank), *(one for one in largest(row, k) if one[0] != token)]


def nested(p: np.ndarray, k: int) -> Any:
    places = [
        {str(v): {"logprob": x, "rank": rank, "decoded_token": "a"} for v, x, rank in with_text(row, t, k)}
        for row, t in zip(p, TEXT, strict=True)
    ]
    return {"prompt_logprobs": [None, *places]}


def once(p: np.ndarray, k: int) -> Any:
    return flat_of([[], *(with_text(row, t, k) for row, t in zip(p, TEXT, strict=True))])


def flat(p: np.ndarray, k: int) -> Any:
    firsts = [(int(t), float(np.log(row[t])), int((row > row[t]).sum()) + 1) for row, t in zip(p, TEXT, strict=True)]
    return flat_of([[], *([first, *largest(row, k)] for first, row in zip(firsts, p, strict=True))])


def flat_of(places: list[Any]) -> Any:
    ends = np.cumsum([len(place) for place in places]).tolist()
    every = [one for place in places for one in place]
    return {
        "prompt_logprobs": {
            "start_indices": [0, *ends[:-1]],
            "end_indices": ends,
            "token_ids": [v for v, _, _ in every],
            "logprobs": [x for _, x, _ in every],
            "ranks": [rank for _, _, rank in every],
        }
    }


def sglang(p: np.ndarray, k: int) -> Any:
    return {
        "meta_info": {
            "input_token_logprobs": [
                [None, 1, None],
                *([float(np.log(r[t])), int(t), None] for r, t in zip(p, TEXT, strict=True)),
            ],
            "input_top_logprobs": [None, *([[x, v, None] for v, x, _ in largest(row, k)] for row in p)],
        }
    }


def llama_cpp(p: np.ndarray, k: int) -> Any:
    return {
        "completion_probabilities": [
            {
                "id": int(t),
                "token": "a",
                "logprob": float(np.log(row[t])),
                "top_logprobs": [{"id": v, "token": "b", "logprob": x} for v, x, _ in largest(row, k)],
            }
            for row, t in zip(p, TEXT, strict=True)
        ]
    }


BARE: dict[str, list[int]] = {"token_ids": [1], "logprobs": [-1], "ranks": [1]}
ENGINES = {
    "nested": nested,
    "in choices": lambda p, k: {"choices": [nested(p, k)], "usage": {}},
    "flat": flat,
    "once": once,
    "sglang": sglang,
    "llama.cpp": llama_cpp,
}


def stored(path: Path, *answers: Any) -> Path:
    lines = "\n".join(map(json.dumps, answers))
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(answers[0]))
    return path


def pair(draft: Path, target: Path, vocabulary: int = V) -> Any:
    return pair_lists(*(open_answers(path, Processing()) for path in (draft, target)), vocabulary)


def read(path: Path, vocabulary: int = V) -> tuple[Lists, list[int]]:
    ((lists, tokens, _, _),) = pair(path, path, vocabulary).blocks()
    return lists, tokens.tolist()


@pytest.mark.parametrize("k", [1, 7, V])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_largest_are_read_whatever_the_engine(tmp_path, engine, k):
    p = rows(1)
    found, tokens = read(stored(tmp_path / "p.json", ENGINES[engine](p, k)))
    assert tokens == TEXT.tolist()
    expected = np.argsort(-p, axis=1)[:, :k]
    assert found.draft_tokens.tolist() == expected.tolist()
    np.testing.assert_allclose(found.draft_log_probabilities, np.log(np.take_along_axis(p, expected, 1)), rtol=1e-15)


@pytest.mark.parametrize("k", [1, 7, V])
def test_the_truth_is_within_the_intervals(tmp_path, k):
    p, q = rows(1), rows(2)
    files = [stored(tmp_path / f"{i}.json", sglang(row, k)) for i, row in enumerate((q, p))]
    found = intervals(pair(*files))
    truth = float(acceptance_rate(p, q).mean())
    low, high = found.acceptance
    assert low - 1e-12 <= truth <= high + 1e-12
    assert (high - low < 1e-9) == (k == V)
    if k == V:
        for one, promise in zip(found.certified, PROMISES, strict=True):
            assert (one.covered, one.mean_k) == (1.0, float(certified_size(q, promise).mean()))
    assert [one.covered for one in found.certified] == sorted(one.covered for one in found.certified)


def test_texts_are_numbered_and_must_agree(tmp_path):
    p, q = rows(1), rows(2)
    both = stored(tmp_path / "p.jsonl", sglang(p, 5), nested(p, 5))
    ((_, _, number, position),) = pair(both, both).blocks()
    assert (number.tolist(), position.tolist()) == ([0] * N + [1] * N, list(range(N)) * 2)
    with pytest.raises(UserError, match=r"q\.json has 1 texts and .*p\.jsonl has more"):
        pair(stored(tmp_path / "q.json", sglang(q, 5)), both)
    other, one = sglang(q, 5), stored(tmp_path / "one.json", sglang(p, 5))
    other["meta_info"]["input_token_logprobs"][3][1] += 1
    with pytest.raises(UserError, match=r"at position 2 of text 0, .*o\.json has token \d+ and .*one\.json has \d+"):
        pair(stored(tmp_path / "o.json", other), one)
    short = {"meta_info": {name: rows_[:-1] for name, rows_ in sglang(q, 5)["meta_info"].items()}}
    with pytest.raises(UserError, match=r"Text 0 has 5 positions in .*s\.json and 6 in .*one\.json"):
        pair(stored(tmp_path / "s.json", short), one)


def test_a_list_that_is_no_top_k_is_refused_by_its_place(tmp_path):
    p = rows(1)
    good = stored(tmp_path / "p.json", sglang(p, 5))
    with pytest.raises(
        UserError, match=r"p\.json, place \d has token \d+, but V = 3; check --vocabulary|lists 5 tokens"
    ):
        pair(good, good, 3)
    with pytest.raises(UserError, match=r"place \d has token \d+, but V = 20"):
        pair(good, good, 20)
    for shift, message in ((-9.0, "leave more than the other 35 tokens can hold"), (1.0, "have a sum above 1")):
        bad = sglang(p, 5)
        for one in bad["meta_info"]["input_top_logprobs"][4]:
            one[0] = min(one[0] + shift, 0.0)
        with pytest.raises(UserError, match=rf"b\.json, place 4: its 5 probabilities {message}"):
            pair(stored(tmp_path / "b.json", bad), good)
    with pytest.raises(UserError, match="give V with --vocabulary"):
        pair(good, good, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_logprobs": None}, "must have prompt_logprobs"),
        ({"prompt_logprobs": [None, {"3": {"logprob": 0.5}}]}, "not a log-probability"),
        ({"prompt_logprobs": [None, {"3": {"logprob": float("nan")}}]}, "not a log-probability"),
        ({"prompt_logprobs": [None, {"x": {"logprob": -1}}]}, "not a token id"),
        ({"prompt_logprobs": [None, {"3": -1.0}]}, "damaged"),
        ({"prompt_logprobs": [None]}, "has no log-probabilities"),
        ({"prompt_logprobs": {"start_indices": [0], "end_indices": [9]} | BARE}, "does not hold"),
        ({"completion_probabilities": [{"id": 1, "prob": 0.5, "top_probs": []}]}, "after the sampler"),
        ({"completion_probabilities": [{"id": 1, "top_logprobs": [{"id": 2, "logprob": -1}] * 2}]}, "twice"),
        ({"completion_probabilities": [{"id": 1, "top_logprobs": []}]}, "this server drafts; ask one without"),
        ({"prompt_logprobs": [None, {"3": {"logprob": 0.0, "rank": 1}}]}, "this server drafts"),
        ({"answer_start": -1, "prompt_logprobs": [None, {"3": {"logprob": -1}}]}, "answer_start is '-1'"),
    ],
)
def test_what_is_damaged_is_refused_by_its_place(tmp_path, change, message):
    path = stored(tmp_path / "bad.json", change)
    with pytest.raises(UserError, match=message) as refused:
        read(path)
    assert "bad.json" in str(refused.value)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_cut_and_flipped_byte_is_refused_or_read(tmp_path, engine):
    path = stored(tmp_path / "p.json", ENGINES[engine](rows(1), 3))
    assert all(found.exact for found, _ in damage(lambda: read(path, 2**31), path, 41, 11))


def test_the_command(tmp_path):
    files = [stored(tmp_path / name, nested(rows(seed), 8)) for name, seed in (("q.json", 2), ("p.json", 1))]
    words = ["top-k", "--draft", str(files[0]), "--target", str(files[1]), "--vocabulary", str(V)]
    shown = run(*words)
    assert shown.exit_code == 0, shown.output
    assert "6 positions of 1 texts, V = 40; at each, 8 probabilities" in shown.output
    found = json.loads(run(*words, "--json").stdout)
    assert f"{found['acceptance'][0]:.4f} to {found['acceptance'][1]:.4f}" in shown.output
    assert run(*words[:-1], "3").exit_code == 2


def certain(*lists: list[float]) -> Any:
    places = [[{"id": v, "logprob": x} for v, x in enumerate(one)] for one in lists]
    return {"completion_probabilities": [{"id": 0, "logprob": 0.0, "top_logprobs": place} for place in places]}


def test_a_certain_token_is_kept_and_an_accepted_draft_is_not(tmp_path):
    kept = (certain([0.0, -30.0], [-0.2, -2.0]), certain([0.0], [-0.2]), certain([-0.0, -40.0]))
    for number, answer in enumerate(kept):
        assert read(stored(tmp_path / f"{number}.json", answer), V)[0].exact
    for answer in (certain([0.0], [0.0]), certain([-0.2, -2.0], [0.0]), certain([-0.2, -2.0], [])):
        with pytest.raises(UserError, match="this server drafts; ask one without"):
            read(stored(tmp_path / "bad.json", answer), V)
    point = Processing("processed_logprobs", top_k=1)
    assert next(open_answers(stored(tmp_path / "p.json", certain([0.0], [0.0])), point).texts()).tokens.shape == (2, 1)


@pytest.mark.parametrize("form", ["nested", "flat"])
def test_positions_count_from_the_answer_on(tmp_path, form):
    paths = {}
    for chat, more in (("told", {"answer_start": 4}), ("chat", {"object": "chat.completion"}), ("plain", {})):
        for name, seed in (("q", 2), ("p", 1)):
            paths[chat, name] = stored(tmp_path / f"{chat}{name}.json", ENGINES[form](rows(seed), 8) | more)

    def asked(chat, *words):
        files = "--draft", str(paths[chat, "q"]), "--target", str(paths[chat, "p"])
        return run("top-k", *files, "--vocabulary", str(V), "--json", *words)

    header = ",".join(map(str, TEXT[1:3]))
    assert json.loads(asked("told").stdout)["places"] == 3  # the first of seven tokens has no list
    assert json.loads(asked("chat", "--answer-after", header).stdout)["places"] == 3
    assert (
        json.loads(asked("plain").stdout)["places"] == json.loads(asked("chat", "--whole-text").stdout)["places"] == 6
    )
    rates = acceptance_rate(rows(1), rows(2))[3:].mean()
    low, high = json.loads(asked("told").stdout)["acceptance"]
    assert low <= rates <= high
    assert "is of a chat" in asked("chat").output
    assert "does not hold the tokens [39, 39, 39]" in asked("plain", "--answer-after", "39,39,39").output
    assert "no position comes after" in asked("plain", "--answer-after", str(TEXT[-1])).output
    assert "give one of both" in asked("plain", "--whole-text", "--answer-after", "1").output
    assert "give token ids" in asked("plain", "--answer-after", "x").output
