"""The price of an engine's lossy mode, against a loop over positions."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from tests.validation.stored_traces import stored
from validation.cli.commands import main
from validation.errors import UserError
from validation.planning.lossy import parameters_of, price_of
from validation.trace.reader import probabilities


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("price") / "trace", noise=0.5)


@pytest.fixture
def counts(tmp_path):
    """Counts of SGLang: 10 steps that accepted 1 of 2 drafts."""
    path = tmp_path / "sglang.json"
    meta = {"spec_verify_ct": 10, "spec_num_correct_drafts": 10, "spec_correct_drafts_histogram": [0, 10]}
    path.write_text(json.dumps({"meta_info": meta}))
    return path


def by_hand(trace, single, acc):
    """Return mean acceptance and distance of SGLang's rule, from the law of each token."""
    found = []
    for draft, target in zip(trace.arrays["draft_logits"][:], trace.arrays["target_logits"][:], strict=True):
        q, p = probabilities(draft), probabilities(target)
        v = int(q.argmax())
        accepted = 1.0 if p[v] >= single else min(1.0, p[v] / acc)
        law = np.where(np.arange(len(p)) == v, 0.0, p) / (1.0 - p[v]) * (1.0 - accepted)
        law[v] = accepted
        found.append((p[v], accepted, 0.5 * np.abs(law - p).sum()))
    return np.mean(found, axis=0)


def test_the_price_of_thresholds(trace):
    price = price_of(trace, "threshold", parameters_of("threshold", "single=0.3,acc=0.75"), 2, 0.95)
    lossless, accepted, distance = by_hand(trace, 0.3, 0.75)
    assert price.lossless.value == pytest.approx(lossless)
    assert price.accepted.value == pytest.approx(accepted)
    assert price.distance.value == pytest.approx(distance)
    assert price.wasted.value == pytest.approx(0.0, abs=1e-12)
    assert price.distance.low <= price.distance.value <= price.distance.high
    assert price.tokens.value > price.tokens_lossless.value


def test_a_lossless_threshold_costs_nothing(trace):
    price = price_of(trace, "threshold", parameters_of("threshold", ""), 2, 0.95)
    assert price.distance.value == pytest.approx(0.0, abs=1e-12)
    assert price.tokens.value == pytest.approx(price.tokens_lossless.value)


def test_typical_acceptance_wastes_and_relaxed_is_for_greedy_decoding(trace):
    typical = price_of(trace, "typical", parameters_of("typical", "epsilon=0.2,delta=1"), 2, 0.95)
    assert typical.wasted.value > 0
    relaxed = price_of(trace, "relaxed", parameters_of("relaxed", "topk=2,delta=1"), 2, 0.95)
    assert relaxed.wasted.value == pytest.approx(0.0, abs=1e-12)
    assert relaxed.distance.value == pytest.approx(relaxed.accepted.value - relaxed.lossless.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("fly", "", "no price: FLy looks"),
        ("block", "", "no price: it is lossless"),
        ("threshold", "topk=1", "no parameter of threshold"),
        ("threshold", "acc=2", "from 0 to 1"),
        ("threshold", "acc=x", "give a number"),
        ("relaxed", "topk=0.5", "a whole number"),
    ],
)
def test_wrong_rules_are_named(name, text, said):
    with pytest.raises(UserError, match=said):
        parameters_of(name, text)


def test_the_command_prints_a_price(trace, counts):
    words = ["acceptance", str(counts), "--verification", "threshold", "--draft-length", "2", "--price", trace.path]
    result = CliRunner().invoke(main, [str(word) for word in (*words, "--rule", "acc=0.5")])
    assert result.exit_code == 0, result.output
    assert "Price of the rule threshold (single = 1, acc = 0.5)" in result.output
    stored_price = CliRunner().invoke(main, [str(word) for word in (*words, "--rule", "acc=0.5", "--json")])
    assert json.loads(stored_price.stdout)["price"]["distance"]["value"] > 0
