"""Models on the stand-in accelerator give what the host gives: collection, every decoding method, and the audit."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hlmtheory.codec import CodecMenu
from hlmtheory.wire import CertifiedRows, DevicePolicy, UncertaintyLine, threshold_rule
from tests.device.stand_in import Far
from tests.validation.decoding.test_heads import write
from tests.validation.tiny_texts import PROMPTS
from validation.audit import ModelLaw, audit_sampler
from validation.audit.samplers import method_sampler, transformers_sampler
from validation.collection.collect import collect
from validation.decoding.loop import decode
from validation.decoding.methods.base import Method
from validation.decoding.methods.catalogue import METHODS
from validation.decoding.methods.heads import Eagle2, Medusa
from validation.decoding.methods.planned import Planned
from validation.decoding.methods.registry import Fitted, Setup
from validation.decoding.methods.single_draft import Hlm, UHlm
from validation.models.heads import EAGLE, MEDUSA
from validation.models.pair import load_pair
from validation.models.versions import CACHES, VersionedTarget

MENU = CodecMenu(kinds=("top-k", "lattice", "mixture"), widths=(6, 12), sizes=(1, 4, 16), resolutions=(4, 16, 64))
SETUP = Setup(Fitted(0.8, -0.05, 0.5, 0.5, 0.7, 0.5, 30))
PLANNED = DevicePolicy(300, 1.0, threshold_rule(2, 0.93), CertifiedRows(MENU), UncertaintyLine(1.0, 0.0))
BY_HAND: dict[str, Callable[[Path], Method]] = {
    "U-HLM": lambda _: UHlm(0.5),
    "Planned": lambda _: Planned(PLANNED),
    "Medusa-1": lambda heads: Medusa(heads / MEDUSA, nodes=6),
    "EAGLE-2": lambda heads: Eagle2(heads / EAGLE, depth=3, top_k=2, nodes=5),
}
"""Methods that no study makes by itself; some need a folder with trained heads."""


@pytest.fixture(scope="session")
def pairs(folders):
    draft, target = folders
    there = load_pair(draft=draft, target=target, device="far")
    assert there.dtype == "bfloat16"
    assert all(isinstance(one, Far) for model in (there.draft, there.target) for one in model.parameters())
    return load_pair(draft=draft, target=target, dtype="bfloat16"), there


@pytest.fixture(scope="session")
def heads(pairs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads")
    for kind in (MEDUSA, EAGLE):
        write(folder / kind, kind, pairs[0].target)
    return folder


@pytest.fixture(scope="session")
def traces(pairs, tmp_path_factory):
    place = tmp_path_factory.mktemp("traces")
    here, there = (
        collect(pair, PROMPTS, place / str(pair.device), positions=36, new_tokens=12, batch=3) for pair in pairs
    )
    return here, there


def test_a_trace_of_the_device_is_that_of_the_host(traces):
    here, there = (trace.arrays for trace in traces)
    for name in ("draft_logits", "target_logits", "tokens"):
        np.testing.assert_array_equal(np.asarray(here[name]), np.asarray(there[name]))


GREEDY = ("HLM", "CU-HLM online", "K-SQS", "fixed K", "draft tree", "Planned")
"""Methods that are also tried at temperature 0, where the rules are others."""


@pytest.mark.parametrize(
    ("name", "temperature"), [(name, one) for name in METHODS for one in (1.0, 0.0) if one or name in GREEDY]
)
def test_a_method_writes_the_tokens_of_the_host(pairs, heads, name, temperature):
    made = METHODS[name].default
    method = made(SETUP) if made else BY_HAND[name](heads)
    if name == "Planned" and not temperature:
        method = Planned(replace(PLANNED, temperature=0.0, line=None, rule=threshold_rule(2, None)))
    options = {"temperature": temperature, "new_tokens": 4, "batch": 2, "times": (1.0, 2.0)}
    here, there = (
        decode(pair, PROMPTS[:3], method, risk=temperature > 0 and not method.tree_nodes, **options) for pair in pairs
    )
    for ours, theirs in zip(here, there, strict=True):
        assert theirs.tokens == ours.tokens
        assert theirs.total("bytes") == ours.total("bytes")
        assert theirs.total("risk") == pytest.approx(ours.total("risk"), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("caches", CACHES)
def test_a_target_with_versions_writes_the_tokens_of_the_host(pairs, caches):
    found = []
    for pair in pairs:
        newer = copy.deepcopy(pair.target)
        newer.get_output_embeddings().weight.data.neg_()
        switches = [(0, "base"), (2, "new"), (4, "base")]
        target = VersionedTarget({"base": pair.target, "new": newer}, switches, pin="position", caches=caches)
        found.append([decode(one, PROMPTS[:2], Hlm(), new_tokens=6) for one in (replace(pair, target=target), pair)])
    for served, plain in zip(*(zip(*both, strict=True) for both in found), strict=True):
        ours, base = served
        theirs, _ = plain
        assert theirs.tokens == ours.tokens
        assert ours.tokens != base.tokens, "the other version has no say"


def test_the_audit_has_the_law_of_the_host_and_acquits_our_method(pairs):
    prompts = [pairs[0].tokenizer(one.text)["input_ids"] for one in PROMPTS[:2]]
    laws = [ModelLaw(pair.target, prompts, vocabulary=pair.vocabulary) for pair in pairs]
    tokens = np.arange(6).reshape(3, 2)
    np.testing.assert_allclose(laws[1].next_rows(0, tokens), laws[0].next_rows(0, tokens), rtol=1e-6)
    texts = [one.text for one in PROMPTS[:2]]
    sampler = method_sampler(pairs[1], Hlm(), texts, temperature=1.0, top_p=1.0)
    report = audit_sampler(laws[1], sampler, depth=1, draws=128, seed=3)
    assert not report.found_after
    drawn = [transformers_sampler(pair.target, new_tokens=3, do_sample=True)(prompts, 4, seed=1) for pair in pairs]
    assert drawn[0] == drawn[1]
