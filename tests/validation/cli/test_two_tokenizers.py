"""``hlm decode common`` with two tiny models whose tokenizers differ, and what other commands say of them."""

import json
from pathlib import Path

import pytest

from tests.validation.command_line import run
from validation.models.two_tokenizers import common_share, load_two


@pytest.fixture(scope="module")
def models(save_model, extended_tokenizer):
    own = extended_tokenizer(vocabulary=280)
    return save_model(seed=1, hidden=8, vocabulary=280, tokenizer=own), save_model(seed=2, hidden=16)


def test_it_decodes_without_a_trace_and_says_what_is_common(models, tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"id": str(n), "prompt": "two and two"}) + "\n" for n in range(3)))
    given = ("--prompts", prompts, "--new-tokens", "6", "--run", tmp_path / "run", "--device", "cpu")
    result = run("decode", "common", "--draft", models[0], "--target", models[1], *given, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    pair = load_two(*map(str, models))
    common = len(pair.draft.common)
    assert 0 < common < pair.vocabulary == 300
    assert found["common"]["tokens"] == common
    assert found["common"]["of_vocabulary"] == common / 300
    assert 0 < found["common"]["of_texts"] <= 1
    names = [line["method"] for line in found["methods"]]
    assert names == ["fixed K = 4", "shared seed (K = 4)", "prompt lookup (n = 3, K = 4)", "large only"]
    assert all(line["risk_per_token"]["value"] == 0 for line in found["methods"])
    texts = [json.loads(line) for line in Path(found["texts"]).read_text(encoding="utf-8").splitlines()]
    assert {one["method"] for one in texts} == set(names)


def test_the_share_of_common_tokens_of_texts(models):
    pair = load_two(*map(str, models))
    common = pair.draft.common.tolist()
    other = next(token for token in range(300) if token not in common)
    assert common_share(pair, [[common[0], other], [common[1], common[2]]]) == 0.75
    assert common_share(pair, [[]]) == 0.0
