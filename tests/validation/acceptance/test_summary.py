"""What records say together, and what other planners take from it, by hand and against simulated rounds."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from hlmtheory.draft_length import acceptance_by_depth
from tests.theory.test_censored import rounds_by_loop
from validation.acceptance.planners import acceptance_length, mean_over
from validation.acceptance.record import AcceptanceRecord, tally
from validation.acceptance.summary import RoundTimes, _best, _crossover, schedule, square, summarise
from validation.errors import UserError

TIMES = RoundTimes(round_trip=0.02, verify=0.03, draft=0.005)


def record(counts, source="a", **fields):
    steps = sum(map(sum, counts.values()))
    accepted = sum(i * count for row in counts.values() for i, count in enumerate(row))
    totals = {"num_spec_steps": steps, "num_accepted_draft_tokens": accepted, "engine": "test"}
    return AcceptanceRecord(source=source, by_draft_length=counts, **(totals | fields))


def test_a_table_by_hand():
    """20 rounds: 10 drafted one token and 10 two; 10 of 20 first drafts, then 3 of 5 second ones."""
    found = summarise([record({1: (5, 5), 2: (5, 2, 3)})], times=TIMES)
    assert [(one.examined, one.accepted) for one in found.depths] == [(20, 10), (5, 3)]
    assert [one.acceptance for one in found.depths] == [0.5, 0.6]
    assert [one.tokens for one in found.lengths] == pytest.approx([1.5, 1.8])
    assert [one.tokens_per_second for one in found.lengths] == pytest.approx([1.5 / 0.055, 1.8 / 0.06])
    assert (found.best, found.mean_acceptance_length) == (0, 1.65)
    assert found.alone_per_second == pytest.approx(1 / 0.03)  # without drafts the target streams: no round trip
    near = summarise([record({1: (5, 5), 2: (5, 2, 3)})], times=RoundTimes(round_trip=0.005, verify=0.03, draft=0.005))
    assert (near.best, near.schedule) == (2, ((1, 1, 2),))
    assert all(one.low < one.tokens < one.high for one in found.lengths)


def test_the_draft_model_of_llama_cpp_reads_the_verified_tokens_again():
    """A round of K drafts has K passes of one token and another of K + 1; by hand, and in the batch where it loses."""
    times, counts = RoundTimes(verify=0.03, draft=0.004, draft_token=0.001, draft_cache=0.002), {2: (10, 10, 20)}
    ours, theirs = (summarise([record(counts, engine=name)], times=times) for name in ("test", "llama.cpp"))
    assert [one.tokens_per_second for one in ours.lengths] == pytest.approx([1.75 / 0.037, 2.25 / 0.044])
    assert [one.tokens_per_second for one in theirs.lengths] == pytest.approx([1.75 / 0.045, 2.25 / 0.053])
    assert (ours.best, theirs.best, len(theirs.remarks) - len(ours.remarks)) == (2, 2, 1)
    assert theirs.crossover.loses_from == 3 < ours.crossover.loses_from  # 2.25 x 30 = 67.5 > 42 + 11 B ms up to B = 2
    copied = [summarise([record(counts, engine=name, copied=True)], times=times) for name in ("test", "llama.cpp")]
    assert copied[0].lengths == copied[1].lengths


def test_the_acceptance_of_a_known_law_is_found():
    """Rounds of a law with acceptances .9, .5, .2, at lengths drawn beforehand."""
    rng, law = np.random.default_rng(1), (0.9, 0.5, 0.2)
    records = []
    for number in range(40):
        lengths = rng.integers(1, 4, 200)
        alive = np.cumprod(rng.random((200, 3)) < law, axis=1).sum(axis=1)
        steps = zip(lengths.tolist(), np.minimum(alive, lengths).tolist(), strict=True)
        records.append(record(tally(steps), source=str(number)))
    found = summarise(records)
    assert "requests that differ are independent" in found.intervals
    for one, truth in zip(found.depths, law, strict=True):
        assert one.low <= truth <= one.high
    for length, truth in zip(found.lengths, 1 + np.cumsum(np.cumprod(law)), strict=True):
        assert length.low <= truth <= length.high
    assert "20 or more records" in summarise(records[:2]).intervals


def test_the_interval_of_a_depth_covers_where_requests_differ():
    """60 requests of 50 rounds, their acceptance uniform on 0 to 1: a binomial interval would cover in a quarter."""
    rng, held = np.random.default_rng(3), 0
    for _ in range(200):
        found = summarise([record({1: (50 - int(a), int(a))}) for a in rng.binomial(50, rng.random(60))])
        held += found.depths[0].low <= 0.5 <= found.depths[0].high
    assert held >= binom.ppf(1e-6, 200, 0.94)


def copying(rng, tokens):
    """The drafts that are accepted from each token on, where drafts copy passages of up to 15 tokens."""
    runs = []
    while len(runs) < tokens:
        runs += range(int(rng.choice([0, 0, 0, 1, 4, 15])), -1, -1)
    return runs[:tokens]


def of_steps(steps, longest, **fields):
    return record({longest: tuple(steps.count(i) for i in range(longest + 1))}, **fields)


def test_copied_drafts_get_the_best_length_of_their_own_law():
    """A replay at each K agrees where rounds cover whole passages; acceptance by depth loses over 5%."""
    runs = copying(np.random.default_rng(5), 20_000)
    recorded = rounds_by_loop(runs, 20)
    lost_by_fit = []
    for draft in (0.0003, 0.001, 0.003, 0.005, 0.04):
        times = RoundTimes(verify=0.03, draft=draft)
        found = summarise([of_steps(recorded, 20, copied=True)], times=times)
        replayed = [1 / 0.03] + [
            len(runs) / (len(rounds_by_loop(runs, k)) * (times.rounds(1, np.array([k]))[0])) for k in range(1, 21)
        ]
        for one in found.lengths:
            assert one.tokens_per_second == pytest.approx(replayed[one.draft_length], rel=1e-3)  # the text's end
        assert replayed[found.best] == max(replayed)
        assert found.schedule == ((1, 1, found.best),)
        unmarked = summarise([of_steps(recorded, 20)], times=times)
        assert unmarked.best_if_copied == found.best
        lost_by_fit.append(1 - replayed[unmarked.best] / max(replayed))
    assert max(lost_by_fit) > 0.05
    assert found.best == 0  # a draft of 40 ms does not pay, and that is said


def test_a_pass_of_the_longest_time_makes_drafts_as_fast_as_none():
    flat, tokens = RoundTimes(verify=0.03, draft=0.004, round_trip=0.002), 2.5
    longer = replace(flat, verify_token=(flat.longest_pass(3, tokens) - 1.0) * flat.verify / 3)
    longer = replace(longer, verify=flat.verify - longer.verify_token)  # over one token as before
    assert tokens / longer.rounds(1, np.array([3]))[0] == pytest.approx(1.0 / longer.alone(), rel=1e-12)
    assert longer.alone() == pytest.approx(flat.alone(), rel=1e-12)


def test_the_break_even_is_that_of_the_times_by_batch():
    rng = np.random.default_rng(5)
    for _ in range(30):
        late = np.array([rng.uniform(0.0, 0.004, 4), rng.uniform(0.0, 0.05, 4)])  # of batch 1 and 8, by width
        times = RoundTimes(
            verify=0.02,
            verify_token=rng.uniform(1e-5, 4e-4),
            draft=0.003,
            target_rest=lambda batch, widths, late=late: late[:, widths - 1].T @ _share(batch),
            linear_from=8,
        )
        tokens = 1.0 + np.cumsum(rng.uniform(0.3, 0.9, 3) ** np.arange(1, 4))
        loses_from = min(_crossover(tokens, None, times).loses_from or 4000, 4000)
        batches = {*range(1, 200), *range(200, 4000, 13), max(loses_from - 1, 1), min(loses_from, 3999)}
        assert loses_from == 1 + max((batch for batch in batches if _best(tokens, times, batch)), default=0)


def _share(batch):
    share = min((batch - 1) / 7, 1.0)
    return np.array([1.0 - share, share])


def test_the_best_length_by_batch():
    """Each token of a large batch costs time, so that drafting pays less and at last not at all."""
    profile, times = np.array([0.8, 0.7, 0.6, 0.5]), RoundTimes(verify=0.03, verify_token=1e-4, draft=0.002)
    ranges = schedule(1 + np.cumsum(np.cumprod(profile)), times, 2000)
    assert ranges[0][0] == 1
    assert ranges[-1][1] == 2000
    assert [after[0] - before[1] for before, after in itertools.pairwise(ranges)] == [1] * (len(ranges) - 1)
    tokens = 1 + np.cumsum(np.concatenate([[0.0], np.cumprod(profile)]))[0:5]
    for first, last, length in ranges:
        for batch in (first, last):
            rates = [tokens[k] / times.rounds(batch, np.array([k]))[0] for k in range(5)]
            assert rates[length] == pytest.approx(max(rates), rel=1e-12)
    assert [length for _, _, length in ranges] == sorted((length for _, _, length in ranges), reverse=True)


def of_places(steps, drafted, *places, **fields):
    totals = {"num_spec_steps": steps, "num_accepted_draft_tokens": sum(places), "num_draft_tokens": drafted}
    return AcceptanceRecord(engine="vllm", **({"source": "a"} | totals | fields), accepted_per_position=places)


@pytest.mark.parametrize(("steps", "longest"), [(1, 3), (2, 3), (3, 3), (4, 2), (2, 4)])
def test_the_fewest_and_the_most_examined_drafts_are_those_of_some_steps(steps, longest):
    """Every way to draft: for each histogram and sum of drafts, the ends at each depth are attained."""
    kinds = [(k, i) for k in range(1, longest + 1) for i in range(k + 1)]
    seen = {}
    for way in itertools.combinations_with_replacement(kinds, steps):
        places = tuple(sum(i >= d for _, i in way) for d in range(1, longest + 1))
        examined = [sum(k >= d and i >= d - 1 for k, i in way) for d in range(1, longest + 1)]
        seen.setdefault((sum(k for k, _ in way), places), []).append(examined)
    for (drafted, places), ways in seen.items():
        tables = of_places(steps, drafted, *places).examined()
        found = [acceptance_by_depth(square(table, longest)) for table in tables]
        assert [one.examined.tolist() for one in found] == [
            np.min(ways, axis=0).tolist(),
            np.max(ways, axis=0).tolist(),
        ]
        assert {tuple(one.accepted) for one in found} == {places}


def test_more_examined_drafts_lower_both_ends():
    """So the interval for an unknown number of examined drafts joins two intervals."""
    for accepted in (0, 1, 3, 20):
        table = np.zeros((120, 2, 2), dtype=np.int64)
        table[:, 1, 0], table[:, 1, 1] = np.arange(120), accepted
        for error in (0.95, 0.05, 0.001):
            found = acceptance_by_depth(table, error=error, method="anytime")
            assert (np.diff(found.low[:, 0]) <= 1e-12).all()
            assert (np.diff(found.high[:, 0]) <= 1e-12).all()


def test_lengths_that_varied_widen_the_intervals():
    """At depth 1 the interval of 60 of 100; deeper it holds those of every number of examined drafts."""
    found = summarise([of_places(100, 200, 60, 25, 5)], times=TIMES)
    first = acceptance_by_depth(np.diag([0, 60]) + np.array([[0, 0], [40, 0]]), error=1 - 0.95, method="anytime")
    assert (found.depths[0].acceptance, found.depths[0].low) == (0.6, first.low[0])
    assert not found.identified
    assert found.counts is None
    for examined in (25, 40, 60):
        one = acceptance_by_depth([[0, 0], [examined - 25, 25]], error=1 - 0.95, method="anytime")
        assert found.depths[1].low <= one.low[0] < one.high[0] <= found.depths[1].high
    assert found.lengths[0].tokens == pytest.approx(1.6)
    assert all(one.low <= one.tokens <= one.high for one in found.lengths)
    assert (found.best, found.best_at_most) == (0, 3)


TWO_OF_FOUR = {"num_spec_tokens": 4, "acceptance_histogram": {0: 1, 2: 1}, "num_draft_tokens": 7}


@pytest.mark.parametrize(
    ("fields", "length", "said"),
    [
        (TWO_OF_FOUR, 7, "num_spec_tokens is 4"),
        (TWO_OF_FOUR, 2, "7 drafts in 2 steps"),
        ({"by_draft_length": {2: (1, 0, 1)}}, 3, "longest draft has 2"),
        ({"num_draft_tokens": 30}, 3, "30 drafts in 2 steps"),
        ({}, 0, "2 accepted drafts in 2 steps"),
    ],
)
def test_a_draft_length_that_the_counts_contradict_is_refused(fields, length, said):
    one = AcceptanceRecord(engine="e", source="a", num_spec_steps=2, num_accepted_draft_tokens=2, **fields)
    with pytest.raises(UserError, match=rf"a contradicts --draft-length {length}: .*{said}"):
        summarise([one], assumed_length=length)


ROUND = RoundTimes(verify=0.02, verify_token=0.002, draft=0.003)


def test_lengths_that_vary_are_weighed_by_their_steps():
    """A quarter of the steps drafted nothing, and emitted one token each."""
    records = [record({0: (100,), 1: (150, 150)})]
    summary = summarise(records)
    found = acceptance_length(records, summary, 0.95)
    assert found.value == 1.375
    assert found.low == pytest.approx(0.25 + 0.75 * summary.lengths[0].low)
    assert found.high == pytest.approx(0.25 + 0.75 * summary.lengths[0].high)


def test_the_interval_over_requests_covers_the_mean():
    """300 samples of 40 requests whose acceptance differs: 95% of the intervals hold it, up to chance."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(300):
        steps = rng.integers(20, 60, size=40)
        found = mean_over(rng.binomial(steps, rng.beta(4, 4, size=40)), steps, 0.95)
        inside += found.low <= 0.5 <= found.high
    assert inside >= 273  # P(fewer | 95%) < 0.2%


def test_the_widened_intervals_hold_the_truth_of_steps_that_were_cut():
    """200 runs whose lengths are drawn, of which only the sum is recorded."""
    rng, law, missed = np.random.default_rng(8), np.array([0.7, 0.5, 0.8]), np.zeros(3)
    for _ in range(200):
        length = rng.integers(1, 4, 60)
        accepted = np.minimum(np.cumprod(rng.random((60, 3)) < law, axis=1).sum(axis=1), length)
        found = summarise([of_places(60, int(length.sum()), *(int((accepted >= d).sum()) for d in (1, 2, 3)))])
        for one in found.depths:
            missed[one.depth - 1] += not one.low <= law[one.depth - 1] <= one.high
    assert (missed <= binom.ppf(1 - 1e-6, 200, 0.05)).all()


def test_lengths_that_are_not_told_apart_are_the_best_for_some_acceptances_of_the_intervals():
    """The best length of any acceptances between the ends; both ends of the range are reached."""
    rng, times = np.random.default_rng(4), RoundTimes(verify=0.03, draft=0.003)
    for counts in ({5: (27, 28, 18, 12, 7, 8)}, {1: (5, 5), 2: (5, 2, 3)}, {4: (900, 60, 20, 15, 5)}):
        found = summarise([record(counts)], times=times)
        ends = [np.array([getattr(one, end) for one in found.lengths]) for end in ("low", "high")]
        low, high = (np.diff(end, prepend=1.0) / np.append(1.0, np.diff(end, prepend=1.0)[:-1]) for end in ends)
        share = np.vstack([np.zeros(len(low)), np.ones(len(low)), rng.random((2_000, len(low)))])
        tokens = 1.0 + np.cumsum(np.cumprod(low + share * (high - low), axis=1), axis=1)
        speeds = np.hstack([np.full((len(tokens), 1), 1 / 0.03), tokens / (0.03 + 0.003 * np.arange(1, len(low) + 1))])
        best = speeds.argmax(axis=1)
        assert found.not_told_apart == (best.min(), best.max())
        assert best.min() <= found.best <= best.max()
    many = {5: (27_000, 28_000, 18_000, 12_000, 7_000, 8_000)}
    assert summarise([record(many)], times=times).not_told_apart == (3, 3)


@pytest.mark.parametrize("requests", [1, 40])
def test_the_true_best_length_is_among_those_not_told_apart(requests):
    """Where requests differ too; the truth is the best length of the mean over requests."""
    rng, times, held = np.random.default_rng(6), RoundTimes(verify=0.03, draft=0.006), 0
    truth = int(
        np.argmax(
            [1 / 0.03, *((1 + sum(1 / (d + 1) for d in range(1, k + 1))) / (0.03 + 0.006 * k) for k in range(1, 6))]
        )
    )
    for _ in range(40):
        rate = rng.random((requests, 1)) if requests > 1 else None
        records = []
        for n in range(requests):
            if rate is None:
                alive = np.cumprod(rng.random((400, 5)) < np.arange(1, 6) / np.arange(2, 7), axis=1).sum(axis=1)
            else:
                alive = np.minimum(rng.geometric(1 - rate[n], 50) - 1, 5)
            records.append(of_steps(alive.tolist(), 5, source=str(n)))
        first, last = summarise(records, times=times).not_told_apart
        held += first <= truth <= last
    assert held >= 38
