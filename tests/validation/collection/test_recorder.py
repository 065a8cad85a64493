"""The recorder of assisted generation: nothing changes, and the rows are the models' own."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from hlmtheory.verification import softmax
from validation.collection.recorder import record_assisted
from validation.errors import UserError
from validation.trace.reader import open_trace


@pytest.fixture(scope="module")
def pair(folders):
    return [AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in folders]


def generated(pair, seed, **options):
    torch.manual_seed(seed)
    ids = torch.tensor([[5, 6, 7]])
    settings = {"max_new_tokens": 24, "assistant_model": pair[0], "do_sample": True} | options
    return pair[1].generate(ids, attention_mask=torch.ones_like(ids), **settings)[0]


SETTINGS = [{}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.9}, {"do_sample": False}]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_the_text_is_the_same_with_and_without(pair, options):
    plain = generated(pair, 3, **options)
    with record_assisted(pair[1]) as recorder:
        recorded = generated(pair, 3, **options)
    assert plain.tolist() == recorded.tolist() == generated(pair, 3, **options).tolist()
    (rounds,) = recorder.texts
    assert [token for one in rounds for token in one.tokens] == plain[3:].tolist()


def test_the_rows_are_those_of_the_models(pair, tmp_path):
    with record_assisted(pair[1], tmp_path / "trace") as recorder:
        texts = [generated(pair, seed, top_k=0) for seed in (1, 2)]
    assert open_trace(tmp_path / "trace").manifest["recorded"]["scores"] == "processed"
    for chunk in recorder.trace.chunks():
        for number, text in enumerate(texts):
            with torch.no_grad():
                rows = [model(text[None]).logits[0, 2:-1].double() for model in pair]
            here = chunk.prompt_index == number
            place = chunk.position[here]
            assert chunk.tokens[here].tolist() == text[3:][place].tolist()
            for stored, row in zip((chunk.draft_logits, chunk.target_logits), rows, strict=True):
                np.testing.assert_allclose(softmax(stored[here]), softmax(row[place].numpy()), atol=2e-5)


def test_the_accepted_drafts_are_counted(pair):
    with record_assisted(pair[1]) as recorder:
        texts = [generated(pair, seed) for seed in (1, 2)]
    for record, text in zip(recorder.acceptance(), texts, strict=True):
        assert record.completion_tokens == len(text) - 3
        assert sum(sum(row) for row in record.counts().values()) == record.num_spec_steps
        assert (record.draft_sampling, record.verification) == ("sampled", "standard")


@pytest.mark.parametrize("options", [{"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.9}])
def test_the_settings_are_stored_and_not_mixed(pair, tmp_path, options):
    found = []

    def record():
        with record_assisted(pair[1], tmp_path / "trace") as recorder:
            found.append(recorder)
            generated(pair, 1, **options)
            generated(pair, 1)

    with pytest.raises(UserError, match=r"Text 1 is generated with .*must not be mixed"):
        record()
    (recorder,) = found
    stored = recorder.trace.manifest["recorded"]["settings"]
    assert options.items() <= stored.items()
    assert (stored["candidates"], stored["drafts_sampled"]) == ("AssistedCandidateGenerator", True)
    (rounds,) = recorder.texts
    assert recorder.trace.positions == sum(min(len(one.tokens), one.drafted) for one in rounds) > 0
    assert "_get_candidate_generator" not in vars(pair[1])


def test_prompt_lookup_gives_the_accepted_drafts_only(pair, tmp_path):
    lookup = {"assistant_model": None, "prompt_lookup_num_tokens": 2}
    with record_assisted(pair[1]) as recorder:
        generated(pair, 1, **lookup)
    (record,) = recorder.acceptance()
    assert record.num_spec_steps > 0
    assert (record.draft_sampling, record.verification) == ("greedy", "match")
    assert recorder.trace is None
    with pytest.raises(UserError, match=r"gave no scores|Nothing"), record_assisted(pair[1], tmp_path / "trace"):
        generated(pair, 1, **lookup)
    assert not (tmp_path / "trace").exists()
