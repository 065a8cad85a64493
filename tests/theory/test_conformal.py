"""The adaptive threshold: the controller against a plain recursion, its guarantees, its clip, and paper errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hlmtheory import conformal
from hlmtheory.conformal import ThresholdController

from .kinds import LIBRARIES, kind_of, numbers, to
from .strategies import grid_rows, quantity, rows, shapes, vocabularies

EPSILON = st.one_of(st.integers(1, 7).map(lambda n: n / 8), quantity(1e-4, 0.9))
RATE = quantity(1e-3, 32.0)
START = st.one_of(st.just(0.0), quantity(1e-3, 4.0))


@st.composite
def batched_runs(draw):
    """Streams of batches of drafts; in each batch some drafts are accepted."""
    shape, size = draw(shapes()), draw(vocabularies())
    count, length = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    settings = {"epsilon": EPSILON, "learning_rate": RATE, "threshold": START}
    return {
        "drafts": draw(rows((*shape, count, length), size)),
        "accepted": draw(hnp.arrays(np.int64, (*shape, count), elements=st.integers(0, length))),
        **{name: draw(hnp.arrays(np.float64, shape, elements=element)) for name, element in settings.items()},
    }


@st.composite
def exact_runs(draw):
    """Rows and settings on a coarse grid: sums are exact, so a tie at the threshold is a tie in any order."""
    shape = (*draw(shapes()), draw(st.integers(1, 6)))
    eighths = {"epsilon": (1, 7), "learning_rate": (1, 16), "threshold": (0, 12)}
    settings = {
        name: draw(hnp.arrays(np.int64, shape[:-1], elements=st.integers(*ends))) / 8 for name, ends in eighths.items()
    }
    return {"drafts": draw(grid_rows(shape, draw(st.integers(1, 8)))), **settings}


PEAKED, FLAT = [1.0, 0.0, 0.0, 0.0], [0.25] * 4


# ----------------------------------------------------------------------------------------------------- controller


def plain(draft, epsilon, rate, threshold, clip=False):
    """(6) and (8) in plain numbers: return the dropped mass and the next threshold."""
    tau = min(threshold, max(draft)) if clip else threshold
    top = max(range(len(draft)), key=lambda i: draft[i])
    dropped = sum(x for i, x in enumerate(draft) if x < tau and i != top)
    return dropped, tau - rate * (dropped - epsilon)


@given(exact_runs(), st.booleans())
def test_the_controller_is_the_plain_recursion(instance, clip):
    setting = [instance[name] for name in ("epsilon", "learning_rate", "threshold")]
    controller = ThresholdController(*setting, clip=clip)
    supports = [controller.step(instance["drafts"][..., n, :]) for n in range(instance["drafts"].shape[-2])]
    for index in np.ndindex(instance["threshold"].shape):
        epsilon, rate, tau = (float(value[index]) for value in setting)
        for draft, support in zip(instance["drafts"][index], supports, strict=True):
            dropped, tau = plain((draft / draft.sum()).tolist(), epsilon, rate, tau, clip)
            assert float(draft[~support[index]].sum()) == pytest.approx(dropped, abs=1e-9)
        assert float(np.asarray(controller.threshold)[index]) == pytest.approx(tau, abs=1e-9 * (1 + rate))


def test_a_batch_is_rolled_back_to_the_rejected_draft():
    drafts = [FLAT, PEAKED, FLAT]
    for accepted in range(4):
        controller = ThresholdController(0.25, 0.5, 0.5)
        tau = 0.5
        for n, draft in enumerate(drafts):
            controller.step(draft)
            tau = plain(draft, 0.25, 0.5, tau)[1] if n <= accepted else tau
        assert float(controller.roll_back(accepted)) == tau == float(controller.threshold)
        controller.step(FLAT)
        assert float(controller.roll_back(0)) == plain(FLAT, 0.25, 0.5, tau)[1]  # the next batch starts from there


def test_a_batch_without_a_draft_changes_nothing():
    controller = ThresholdController(0.25, 0.5, [0.5, 0.25])
    assert controller.roll_back([0, 0]).tolist() == [0.5, 0.25]


def test_streams_are_rolled_back_one_by_one():
    controller = ThresholdController(0.25, 0.5, [0.5, 0.5])
    controller.step([FLAT, FLAT])
    first = controller.threshold.tolist()
    controller.step([PEAKED, PEAKED])
    assert controller.roll_back([0, 1]).tolist() == [first[0], plain(PEAKED, 0.25, 0.5, first[1])[1]]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("clip", [False, True])
def test_the_controller_takes_any_library(library, clip):
    controller = ThresholdController(to(library, 0.25), to(library, 0.5), to(library, [0.5, 2.0]), clip=clip)
    support = controller.step(to(library, [FLAT, PEAKED], "float32"))
    assert numbers(support).tolist() == [[1.0, *[1.0 if clip else 0.0] * 3], [1.0, 0.0, 0.0, 0.0]]
    kept = controller.roll_back(to(library, [0, 1]))
    assert kind_of(kept) == (kind_of(kept)[0], "float64")
    assert numbers(kept).tolist() == ([0.375, 1.125] if clip else [0.25, 2.125])


def test_the_top_token_is_always_kept():
    assert conformal.threshold_support([FLAT, PEAKED], 5.0).tolist() == [[True, False, False, False]] * 2
    assert conformal.threshold_support(FLAT, 0.25).all()
    assert conformal.threshold_support(PEAKED, 0.0).all()


def test_a_clip_changes_no_support_but_for_ties_of_the_top():
    rng = np.random.default_rng(3)
    draft = rng.dirichlet([0.5] * 9, size=200)
    tau = rng.uniform(-0.5, 1.5, 200)
    clipped = np.minimum(tau, draft.max(-1))
    assert (conformal.threshold_support(draft, tau) == conformal.threshold_support(draft, clipped)).all()


# ------------------------------------------------------------------------------------------ Algorithm 1, line 12


def line_12(thresholds, dropped, accepted, epsilon, rate):
    """β_{T+1} = β_T - η(d_T - ε), word for word; the lists begin with n = 1. For T = 0 there is no β_0."""
    if accepted == 0:
        return thresholds[0]
    return thresholds[accepted - 1] - rate * (dropped[accepted - 1] - epsilon)


def batch(draft_rows, epsilon, rate, tau):
    """Return β_n and d_n of lines 4 to 9 in plain numbers."""
    thresholds, dropped = [tau], []
    for draft in draft_rows:
        mass, after = plain(draft, epsilon, rate, thresholds[-1])
        dropped.append(mass)
        thresholds.append(after)
    return thresholds, dropped


@pytest.mark.parametrize("accepted", range(4))
@pytest.mark.parametrize("library", LIBRARIES)
def test_line_12_as_printed_is_what_line_8_has_done(accepted, library):
    drafts = [FLAT, PEAKED, [0.5, 0.25, 0.125, 0.125]]
    controller = ThresholdController(to(library, 0.25), to(library, 0.5), to(library, 0.375))
    for draft in drafts:
        controller.step(to(library, draft))
    thresholds, dropped = batch(drafts, 0.25, 0.5, 0.375)
    found = numbers(controller.roll_back(to(library, accepted), printed=True))
    assert float(found) == line_12(thresholds, dropped, accepted, 0.25, 0.5) == thresholds[accepted]


def test_both_forms_agree_where_nothing_is_rejected():
    for printed in (False, True):
        controller = ThresholdController(0.25, 0.5, [0.5, 0.5])
        controller.step([FLAT, FLAT])
        controller.step([PEAKED, FLAT])
        assert controller.roll_back([2, 2], printed=printed).tolist() == [0.375, 0.375]


def stream(instance):
    """The batches of one stream, with its settings."""
    setting = {name: float(instance[name].flat[0]) for name in ("epsilon", "learning_rate", "threshold")}
    drafts = instance["drafts"].reshape(-1, *instance["drafts"].shape[-3:])[0]
    return drafts, instance["accepted"].reshape(-1, len(drafts))[0].tolist(), setting


@given(batched_runs())
def test_as_printed_the_mean_over_accepted_positions_keeps_the_sharp_bound(instance):
    """After a roll-back as printed, the threshold has seen only the accepted rows, which Theorem 2's proof counts."""
    assume(0 not in instance["accepted"].shape)
    drafts, accepted, setting = stream(instance)
    controller, alone = (ThresholdController(**setting) for _ in range(2))
    dropped = []
    for rows_of_batch, count in zip(drafts, accepted, strict=True):
        supports = [controller.step(draft) for draft in rows_of_batch]
        for draft, support in zip(rows_of_batch[:count], supports, strict=False):
            assert (alone.step(draft) == support).all()
            dropped.append(float(draft[~support].sum()))
        assert float(controller.roll_back(count, printed=True)) == float(alone.roll_back(max(count - 1, 0)))
    if dropped:
        bound = conformal.regret_bound_sharp(**setting, steps=len(dropped))
        assert np.mean(dropped) <= float(bound) * (1 + 1e-9)


def means_by(again, drafts, accepted, epsilon, learning_rate, threshold):
    """Return mean d over the accepted, and all kept, positions: line 12 as printed, or with d_T counted twice."""
    tau, of_accepted, of_all = threshold, [], []
    for rows_of_batch, count in zip(drafts, accepted, strict=True):
        thresholds, dropped = batch(rows_of_batch, epsilon, learning_rate, tau)
        of_accepted += dropped[:count]
        of_all += dropped[: count + 1]
        tau = line_12(thresholds, dropped, count, epsilon, learning_rate)
        if again and 0 < count < len(rows_of_batch):
            tau -= learning_rate * (dropped[count - 1] - epsilon)
    return np.mean(of_accepted), np.mean(of_all), tau


def test_the_claim_reads_line_12_to_the_letter():
    claim = claim_of("conformal.resampled")
    case = {**claim.refuted, "drafts": np.asarray(claim.refuted["drafts"])}
    verdict = claim.check(case)
    of_accepted, of_all, _ = means_by(False, **case)
    assert float(verdict.lhs) == pytest.approx(of_all, abs=1e-12)
    assert of_all == pytest.approx(0.4911, abs=1e-4)
    assert float(verdict.rhs) == pytest.approx(0.009975, abs=1e-6)
    assert of_accepted == 0.0


def test_an_update_once_more_gives_up_theorem_2_as_well():
    """If d_T were counted twice, easy accepted positions before a rejection would raise the threshold twice as fast."""
    setting = {"epsilon": 0.05, "learning_rate": 1.0, "threshold": 0.0}
    flat = [1 / 64] * 64
    easy = [1.0] + [0.0] * 63
    drafts, accepted = [[easy, flat]] * 200 + [[flat, flat]] * 30, [1] * 200 + [2] * 30
    bound = float(conformal.regret_bound_sharp(**setting, steps=sum(accepted)))
    once, all_once, _ = means_by(False, drafts, accepted, **setting)
    twice, all_twice, _ = means_by(True, drafts, accepted, **setting)
    assert once <= bound < twice
    assert twice > 1.3 * bound
    assert min(all_once, all_twice) > 5 * bound  # neither version controls the sum of Theorem 1
    assert means_by(False, drafts[:3], accepted[:3], **setting)[2] == pytest.approx(0.15)
    assert means_by(True, drafts[:3], accepted[:3], **setting)[2] == pytest.approx(0.30)


# ---------------------------------------------------------------------------------------------------- wind-up


def means(clip, peaked, flat):
    """Return the mean dropped mass over the flat rows that follow peaked ones, and over all rows."""
    controller = ThresholdController(0.05, 0.5, 0.0, clip=clip)
    steep = np.array([0.97] + [0.01] * 3)
    wide = np.array([1.5 / 64.5] + [1 / 64.5] * 63)
    dropped = []
    for draft in [steep] * peaked + [wide] * flat:
        support = controller.step(draft)
        dropped.append(float(draft[~support].sum()))
    return np.mean(dropped[peaked:]), np.mean(dropped), float(controller.threshold)


def test_a_threshold_winds_up_and_a_clip_prevents_it():
    """After 5,000 peaked rows, all 80 flat rows are cut to one token; with the clip only a few are."""
    late, _, reached = means(False, 5000, 80)
    clipped_late, clipped_all, _ = means(True, 5000, 80)
    assert late > 0.97
    assert reached > 1 + 0.5 * 0.05
    bound = float(conformal.regret_bound_sharp(0.05, 0.5, 1.5 / 64.5, 80))
    assert clipped_late <= bound < 0.07
    assert clipped_all <= 0.05 + 1e-3


def test_lemma_4_upper_half_fails_by_as_much_as_one_likes():
    """THEORY: τ reaches 499 at η = .5, ε = .05 after 20,000 peaked rows."""
    controller = ThresholdController(0.05, 0.5, 0.0)
    for _ in range(20_000):
        controller.step([1.0, 0.0])
    assert float(controller.threshold) == pytest.approx(500.0, rel=1e-3)


def test_a_clip_gives_up_the_other_side():
    """A long peaked text, then a flat one: without the clip the mean reaches ε, with the clip it stays below."""
    assert means(False, 400, 20)[1] >= 0.04
    assert means(True, 400, 20)[1] < means(False, 400, 20)[1]


# --------------------------------------------------------------------------------------------------------- bounds


@given(EPSILON, RATE, st.integers(2, 500))
def test_the_bound_for_v_tokens_is_reached_by_equal_entries(epsilon, rate, size):
    """With the threshold just above 1/V, a row of V equal entries keeps only its top token; at 0 it keeps all."""
    just_above = (1 + 1e-9) / size
    controller = ThresholdController(epsilon, rate, just_above)
    dropped = 1.0 - controller.step(np.full(size, 1 / size)).sum() / size
    bound = float(conformal.regret_bound_sharp(epsilon, rate, just_above, 1, vocabulary=size))
    assert dropped == pytest.approx(1 - 1 / size)
    assert dropped <= bound * (1 + 1e-12)
    if rate * (size - 1) >= 1:
        assert bound == pytest.approx(dropped, rel=1e-6, abs=2e-9 / rate)
    else:
        assert float(conformal.regret_bound_sharp(epsilon, rate, 0.0, 1, vocabulary=size)) == pytest.approx(
            0, abs=1e-12
        )


@given(EPSILON, RATE, START, st.integers(1, 50), st.integers(1, 10**6))
def test_the_bound_for_v_tokens_rises_to_that_for_all(epsilon, rate, threshold, steps, size):
    own, wider = (
        float(conformal.regret_bound_sharp(epsilon, rate, threshold, steps, vocabulary=v)) for v in (size, 2 * size)
    )
    for_all = float(conformal.regret_bound_sharp(epsilon, rate, threshold, steps))
    assert own <= wider * (1 + 1e-12) + 1e-12
    assert wider <= for_all * (1 + 1e-12)
    most = float(conformal.regret_bound_sharp(epsilon, rate, threshold, steps, vocabulary=10**12))
    assert most == pytest.approx(for_all, rel=1e-6, abs=1e-6)


# ------------------------------------------------------------------------------------------------------ bad input


def claim_of(name):
    return next(claim for claim in conformal.CLAIMS if claim.id == name)
