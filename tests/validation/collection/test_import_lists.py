"""Top-k lists as a trace: what is stored, what is refused, how much memory it takes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hlmtheory import all_claims
from hlmtheory.verification import acceptance_rate, softmax
from tests.validation.command_line import run
from tests.validation.stopping import stopped, stopped_and_resumed
from validation.claims.check import check_trace
from validation.collection import import_lists as module
from validation.collection.import_lists import import_lists
from validation.collection.processing import Processing, parse_processing
from validation.errors import UserError
from validation.trace.reader import LISTS, LOGITS, ListChunk, open_trace

V, N, TEXTS = 60, 12, 4
RAW = (Processing(), Processing())


def rows(seed: int, *, noise: float = 0.0) -> np.ndarray:
    z = np.random.default_rng(seed).normal(0, 3, (TEXTS, N, V))
    return softmax(z + noise * np.random.default_rng(seed + 1).normal(size=z.shape))


TOKENS = np.random.default_rng(0).integers(0, V, (TEXTS, N))


def answers(path: Path, p: np.ndarray, k: int, *, logits: bool = False) -> Path:
    with path.open("w") as file:
        for text, tokens in zip(p, TOKENS, strict=True):
            order = np.argsort(-text, axis=1)[:, :k]
            values = np.log(np.take_along_axis(text, order, 1)) + (7.0 if logits else 0.0)
            top = [
                [[float(x), int(v), None] for x, v in zip(*row, strict=True)] for row in zip(values, order, strict=True)
            ]
            meta = {
                "input_token_logprobs": [[None, 0, None], *([-1.0, int(t), None] for t in tokens)],
                "input_top_logprobs": [None, *top],
            }
            file.write(json.dumps({"meta_info": meta}) + "\n")
    return path


@pytest.fixture
def files(tmp_path):
    return answers(tmp_path / "q.jsonl", rows(1, noise=0.7), 15), answers(tmp_path / "p.jsonl", rows(1), 12)


def imported(tmp_path: Path, files: tuple[Path, Path], *words: Any) -> Any:
    out = tmp_path / "trace"
    return run("import", "--draft", files[0], "--target", files[1], "--vocabulary", V, "--out", out, "--fresh", *words)


def test_the_lists_are_stored_as_they_are(tmp_path, files):
    assert imported(tmp_path, files).exit_code == 0
    trace = open_trace(tmp_path / "trace", verify=True, kinds=(LISTS,))
    assert (trace.kind, trace.positions, trace.vocabulary) == (LISTS, TEXTS * N, V)
    chunk = ListChunk(**trace.rows(0, 1000))
    order = np.argsort(-rows(1, noise=0.7).reshape(-1, V), axis=1)[:, :15]
    assert chunk.draft_tokens.tolist() == order.tolist()
    q = np.log(np.take_along_axis(rows(1, noise=0.7).reshape(-1, V), order, 1))
    assert np.array_equal(chunk.draft_log_probabilities, q)
    assert chunk.target_tokens.shape == (TEXTS * N, 12)
    assert chunk.tokens.tolist() == TOKENS.reshape(-1).tolist()
    assert chunk.prompt_index.tolist() == np.repeat(range(TEXTS), N).tolist()
    assert chunk.position.tolist() == list(range(N)) * TEXTS
    assert trace.manifest["texts"] == "corpus"
    assert trace.manifest["processing"]["draft"]["values"] == "raw_logprobs"
    again = run("import", "--draft", files[0], "--target", files[1], "--vocabulary", V, "--out", tmp_path / "trace")
    assert again.exit_code == 0


def test_a_stopped_import_goes_on(tmp_path, files, monkeypatch):
    monkeypatch.setattr(module, "COMMIT_ROWS", 10)
    monkeypatch.setattr("validation.collection.top_k.BLOCK_ENTRIES", 15 * 7)
    sources = [module.open_lists(file, Processing()) for file in files]
    given = {"vocabulary": V, "processing": RAW}

    def make(path, **options):
        return import_lists(*sources, path, **given, **options)

    stopped(make, tmp_path / "other", 20, during="storing")
    with pytest.raises(UserError, match="other settings"):
        import_lists(*sources, tmp_path / "other", vocabulary=V + 1, processing=RAW)
    assert stopped_and_resumed(make, tmp_path, 20, during="storing")[0] > 20


def test_lists_of_every_token_become_whole_rows(tmp_path):
    q, p = rows(1, noise=0.7), rows(1)
    for logits in (False, True):
        files = answers(tmp_path / "q.jsonl", q, V, logits=logits), answers(tmp_path / "p.jsonl", p, V, logits=logits)
        assert imported(tmp_path, files, *(("--processing", "raw_logits") if logits else ())).exit_code == 0
        trace = open_trace(tmp_path / "trace")
        assert trace.kind == LOGITS
        found = softmax(trace.arrays["draft_logits"][:].astype(float)).reshape(q.shape)
        np.testing.assert_allclose(found, q, rtol=1e-5)
    short = answers(tmp_path / "p.jsonl", p, V - 1, logits=True)
    found = imported(tmp_path, (files[0], short), "--processing", "raw_logits")
    assert found.exit_code == 2
    assert "holds raw_logits of" in found.output
    assert "not a log-probability; for logits say --processing" in imported(tmp_path, files).output


def test_what_is_decided_is_right_and_the_others_say_why(tmp_path, files):
    assert imported(tmp_path, files).exit_code == 0
    trace = open_trace(tmp_path / "trace", kinds=(LISTS,))
    measured = {
        n: c for n, c in all_claims().items() if n.startswith(("verification.", "truncation.", "skipping.mean"))
    }
    results = check_trace(trace, claims={n: c for n, c in measured.items() if not n.startswith("truncation.exact")})
    tallies = results.tallies
    for name in ("skipping.mean_rejection", "truncation.monotone", "truncation.certificate"):
        assert tallies[name].outcome == "holds", name
    assert not [name for name, tally in tallies.items() if tally.outcome == "violated"]
    assert tallies["verification.tokens"].never == "the texts are a corpus's, not the target model's own"
    assert "an identity" in tallies["verification.overlap"].never
    assert "the logit of every token" in tallies["verification.misdeclared"].never
    assert all(tally.in_scope or tally.never for tally in tallies.values())
    truth = acceptance_rate(rows(1), rows(1, noise=0.7)).mean()
    assert results.summary["acceptance_low"] <= truth <= results.summary["acceptance_high"]


def test_mixed_values_are_refused_by_a_sentence_that_names_both(tmp_path, files):
    hot = "processed_logprobs,temperature=0.7"
    found = imported(tmp_path, files, "--target-processing", hot)
    assert found.exit_code == 2
    assert "The draft model's values are raw_logprobs at temperature=1, the target model's processed_logprobs at " in (
        found.output
    )
    found = imported(tmp_path, files, "--target-processing", hot, "--draft-processing", hot.replace("7", "6"))
    assert "temperature=0.6, the target model's processed_logprobs at temperature=0.7" in found.output
    found = imported(tmp_path, files, "--processing", hot + ",top-p=0.9")
    assert found.exit_code == 0
    assert "processed_logprobs at temperature=0.7, top_p=0.9 (as stated)" in found.output
    assert open_trace(tmp_path / "trace", kinds=(LISTS,)).manifest["processing"]["target"]["temperature"] == 0.7
    assert imported(tmp_path, files, "--processing", hot, "--draft-processing", hot).exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cooked", "is not what an engine returns"),
        ("raw_logprobs,temperature=0.5", "the values before the sampler"),
        ("processed_logprobs,temperature=0", "a greedy engine"),
        ("processed_logprobs,temperature=nan", "outside its range"),
        ("processed_logprobs,top_p=1.5", "outside its range"),
        ("processed_logprobs,top_k=2.5", "outside its range"),
        ("processed_logprobs,heat=2", "is not a setting of a sampler"),
        ("processed_logprobs,top_p=.9,top-p=.8", "or given twice"),
        ("processed_logprobs,top_p", "outside its range"),
    ],
)
def test_a_statement_that_says_nothing_is_refused(text, message):
    with pytest.raises(UserError, match=message):
        parse_processing(text, "raw_logprobs")


def test_formats_are_found_or_refused(tmp_path, files):
    np.save(tmp_path / "q.npy", np.zeros((N, V)))
    assert "q.npy holds whole rows and" in imported(tmp_path, (tmp_path / "q.npy", files[1])).output
    assert "--tokens belongs to arrays" in imported(tmp_path, files, "--tokens", "t.npy").output
    assert "belongs to lists" in imported(tmp_path, (tmp_path / "q.npy", tmp_path / "q.npy")).output
    assert imported(tmp_path, (tmp_path / "none.jsonl", files[1])).exit_code == 2
    (tmp_path / "empty.jsonl").write_text("")
    assert "has no answer" in imported(tmp_path, (tmp_path / "empty.jsonl", files[1])).output
