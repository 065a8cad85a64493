"""Plans with a limit on what sizes tell: classes hold every message, and the padding is charged."""

import json
import math

import numpy as np
import pytest

from hlmtheory.wire import DevicePolicy, LatticeRows, SeededTokens, ServerPolicy, threshold_rule
from tests.validation.command_line import run
from tests.validation.stored_traces import VOCABULARY
from validation.decoding.methods.planned import read_policy
from validation.decoding.methods.rows import COLOCATED, CU_HLM, FIXED, FLEXSPEC, GREEDY, OURS, SERVER, SQS, U_HLM
from validation.planning.menu import Evidence, options
from validation.planning.message_length import longest_bytes, message_bits, token_bytes
from validation.planning.option import Option
from validation.planning.padding import padded
from validation.planning.positions import LATTICES
from validation.planning.profile import CODECS, SEEDED
from validation.planning.rounds import COUNTS

UP, DOWN, EXCHANGES, PASSES = map(COUNTS.index, ("up_bits", "down_bits", "exchanges", "passes"))


@pytest.fixture(scope="module")
def plain(profile):
    return {(one.family, one.label): one for one in options(Evidence(profile)) if one.family != CU_HLM}


def of(found: list[Option], family: str) -> dict[str, Option]:
    return {one.label: one for one in found if one.family == family}


@pytest.mark.parametrize("bits", [0.0, 1.6, 6.0])
def test_classes_hold_every_message_and_cost_no_less_than_none(profile, plain, bits):
    ours = of(padded(list(plain.values()), profile, np.arange(profile.texts), bits), OURS)
    assert {one.codec for one in ours.values()} == set(range(1, len(CODECS)))
    for label, one in ours.items():
        before, most = plain[OURS, label], int(one.draft_length)
        assert one.lossless
        assert len(one.sizes) <= 2**bits
        assert one.leak_bits == pytest.approx(math.log2(len(one.sizes)))
        assert one.sizes[-1] == longest_bytes(one.codec, most, VOCABULARY) + 1
        same = [place for place in range(len(COUNTS)) if place != UP]
        np.testing.assert_allclose(one.counts[:, same], before.counts[:, same], rtol=1e-9)
        assert (one.counts[:, UP] >= before.counts[:, UP]).all()
        if bits == 0:
            np.testing.assert_allclose(one.counts[:, UP], 8.0 * one.sizes[0] * one.counts[:, EXCHANGES], rtol=1e-9)
        every = message_bits(profile.counted.transpose(1, 2, 0), profile.lengths, most, VOCABULARY)
        every = every[:, one.codec] / 8 + 1
        if bits == 6 and set(np.unique(every[every > 1])) <= set(one.sizes):  # a class for each size
            extra = one.counts[:, UP] - before.counts[:, UP]
            np.testing.assert_allclose(extra, 8.0 * one.counts[:, EXCHANGES], rtol=1e-9)


@pytest.mark.parametrize("codec", range(1, len(CODECS)))
def test_no_message_of_the_device_is_longer_than_the_largest_class(codec):
    rng, vocabulary = np.random.default_rng(codec), 300
    for most in (1, 3, 8):
        largest = longest_bytes(codec, most, vocabulary)
        if codec == SEEDED:
            policy = DevicePolicy(vocabulary, 1.0, threshold_rule(most), SeededTokens())
            assert largest == token_bytes(vocabulary, most)
        else:
            lattice = LATTICES[codec - 1]
            kept = {"threshold": lattice.threshold} if lattice.k is None else {"top_k": min(lattice.k, vocabulary)}
            policy = DevicePolicy(vocabulary, 1.0, threshold_rule(most), LatticeRows(lattice.resolution, **kept))
        assert largest <= ServerPolicy(policy).longest
        for scale in (0.0, 0.5, 1.0, 3.0, 20.0):
            logits = rng.normal(size=(most, vocabulary)) * scale
            drafts = [policy.draft(row, place=n + 1, rng=rng, seed=3, position=n + 1) for n, row in enumerate(logits)]
            assert len(policy.message(drafts)) <= largest


def test_rivals_are_padded_or_say_that_they_tell_more(profile, plain):
    none, two, five = (padded(list(plain.values()), profile, np.arange(profile.texts), b) for b in (0.0, 1.0, 3.0))
    assert {one.leak_bits for one in of(none, U_HLM).values()} == {math.inf}
    assert {one.leak_bits for label, one in of(none, SQS).items() if "B = " in label} == {math.inf}
    for label, one in of(none, COLOCATED).items():
        if "B = " in label or "u ≤" in label:
            assert one.leak_bits == math.inf, label
            continue
        token = profile.server[:, DOWN] / profile.lengths
        np.testing.assert_allclose(one.counts[:, DOWN], one.counts[:, PASSES] * (one.draft_length + 1) * token)
        assert of(five, COLOCATED)[label].leak_bits == (math.log2(one.draft_length + 1) if one.draft_length < 8 else 0)
    for label, one in of(none, FLEXSPEC).items():
        answer = 16.0 + 32.0 * VOCABULARY
        np.testing.assert_allclose(one.counts[:, DOWN], one.counts[:, EXCHANGES] * answer)
        assert (one.leak_bits, of(two, FLEXSPEC)[label].leak_bits) == (0.0, 1.0)
        assert (of(two, FLEXSPEC)[label].counts[:, DOWN] <= one.counts[:, DOWN]).all()
    header, token = 16.0, (VOCABULARY - 1).bit_length()
    for one in of(none, FIXED).values():
        row = header + one.draft_length * (token + 32.0 * VOCABULARY)
        np.testing.assert_allclose(one.counts[:, UP], one.counts[:, EXCHANGES] * row)
    for one in of(none, GREEDY).values():
        np.testing.assert_allclose(one.counts[:, UP], one.counts[:, EXCHANGES] * (header + one.draft_length * token))
        assert one.leak_bits == 0.0
    assert of(none, SERVER) == {label: one for (family, label), one in plain.items() if family == SERVER}


def test_the_command_writes_a_policy_with_its_sizes(folder, trace, monkeypatch):
    monkeypatch.chdir(folder)
    given = ("plan", "--trace", "trace", "--rate", "1M", "--policy", "policy.json", "--row", "ours", "--json")
    found = json.loads(run(*given, "--leak", "bits=1", "--no-shared-seed", "--rtt", "1ms").stdout)
    policy = read_policy("policy.json")
    assert found["request"]["leak_bits"] == 1.0
    assert any("the sizes of a round tell at most" in note for note in found["notes"]) == bool(policy.message_sizes)
    assert len(policy.message_sizes) <= 2
    (told,) = (one for one in policy.guarantees if one.quantity == "bits that the sizes of a round tell")
    assert (told.basis, told.value <= 1.0) == ("proved", True)
