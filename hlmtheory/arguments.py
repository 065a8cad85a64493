"""What an argument of a claim is, by its name: symbol, dimensions, domain, values to draw, values that are wrong.

From this table come the instances of the claims (:func:`instance`), in the tests and in the check of a user's models,
and the wrong values that the tests give to every claim. ``WITHIN`` holds what a name means in some claims alone.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hlmtheory import _joint as joint
from hlmtheory._samplers import (
    EXACT,
    INNER,
    RATE,
    ROW,
    UNIT,
    Draw,
    Rng,
    Row,
    Shape,
    Values,
    below,
    beside,
    between,
    derived,
    entries,
    no_rows,
    of,
    uniform,
    whole,
    zero_or,
)
from hlmtheory.claims import Claim, Instance

TRIES = 20
"""Batches that are drawn until one has an instance in scope."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a claim: its symbol, a letter for each dimension (alternatives by ``|``), and its values."""

    symbol: str
    axes: str
    values: Values

    def axes_of(self, dimensions: int) -> str:
        """Return the letters of an array of that many dimensions."""
        return next(axes for axes in self.axes.split("|") if len(axes) == dimensions)


def _size(*choices: int) -> Callable[[Draw], int]:
    return lambda draw: int(draw.rng.choice(choices))


def _up_to(most: int, least: int = 1) -> Callable[[Draw], int]:
    return lambda draw: int(draw.rng.integers(least, most + 1))


SIZES: Mapping[str, Callable[[Draw], int]] = {
    "V": _size(1, 2, 2, 3, 3, 3, 4, 5, 7, 8, 12, 64, 200),  # tokens of the vocabulary
    "W": _up_to(3),  # tokens of a vocabulary where texts are enumerated
    "N": _up_to(9),  # tokens of a text, rounds of a run, points
    "B": _up_to(4),  # batches of drafts
    "L": _up_to(4),  # drafts of a batch
    "T": lambda draw: sum(draw.size("W") ** level for level in range(int(draw.rng.integers(1, 4)))),  # prefixes
    "D": _up_to(5),  # depths 1..D of a round
    "E": lambda draw: draw.size("D") + 1,  # lengths 0..D
    "C": _up_to(3),  # contexts
    "K": _size(1, 2, 3, 3, 6),  # users
    "P": _up_to(3),  # plans of a user
    "R": _up_to(3),  # positions of a user
    "M": _up_to(3),  # messages of a position
    "J": _up_to(2),  # drafts of a round in the user's plan
    "A": _up_to(4),  # tasks
    "S": _up_to(4),  # steps of a schedule
    "G": _up_to(5),  # batches of tasks
    "H": lambda draw: 15,  # pasts of a run of four tokens
    "X": lambda draw: 12,  # turns of a schedule
    "U": _up_to(2, 0),  # a choice that all arguments share
}
"""Size of each dimension, drawn once for a batch of instances."""

_TIMES = Values(
    "0 or more and finite", lambda draw, shape: joint.times(draw.rng, shape), entries(-1.0, math.nan, math.inf)
)
_SIXTY_FOURTHS = Values(
    "positive and finite", lambda draw, shape: draw.rng.integers(1, 65, shape) / 64, entries(0.0, -1.0, math.nan)
)
"""Times whose sums are exact, so that what happens at one moment does."""
_TICKS = Values(
    "0 or more and finite", lambda draw, shape: draw.rng.integers(0, 301, shape) / 64, entries(-1.0, math.nan)
)
_MASK = "a mask of booleans"


def _pass_times(values: Values) -> Values:
    """Times of a pass, of a token in it and of a cached token."""
    return Values(
        "0 or more and finite",
        lambda draw, shape: values.draw(draw, shape) * [1.0, 1e-2, 1e-5],
        entries(-1.0, math.nan),
    )


def _mask(draw: Callable[[Draw, Shape], Row]) -> Values:
    return Values(_MASK, draw, lambda value: [np.asarray(value, dtype=np.float64)])


ARGUMENTS: Mapping[str, Argument] = {
    # rows of probabilities
    "draft": Argument("q", "V", ROW),
    "target": Argument("p", "V", beside("draft")),
    "actual_draft": Argument("q′", "V", beside("draft")),
    "received": Argument("p̂", "V", beside("target")),
    "old": Argument("p", "V", beside("draft")),
    "new": Argument("p′", "V", beside("old")),
    "drafts": Argument("q_n", "NV|BLV", derived(ROW, joint.stream)),
    "targets": Argument("p_n", "NV", beside("drafts")),
    "draft_chain": Argument("q(·|x)", "WW", ROW),
    "target_chain": Argument("p(·|x)", "WW", beside("draft_chain")),
    "old_chain": Argument("p(·|x)", "WW", beside("draft_chain")),
    "new_chain": Argument("p′(·|x)", "WW", beside("old_chain")),
    "law_chain": Argument("g(·|x)", "WW", joint.mixed("target_chain")),
    "decoded": Argument("q̂^(d)", "VV", joint.decoded("draft")),
    "decoded_chain": Argument("q̂^(d)(·|x)", "WWW", joint.decoded("draft_chain")),
    "target_law": Argument("p", "V", ROW),
    "sampler_law": Argument("g", "V", beside("target_law")),
    "cell_probabilities": Argument("f", "V", ROW),
    "mass": Argument("f", "V", ROW),
    "length_law": Argument("w", "E", EXACT),
    "context_law": Argument("c", "C", EXACT),
    "context_lengths": Argument("w_c", "CE", EXACT),
    "joint_law": Argument("w", "EE", Values(ROW.words, joint.joint_rows, joint.no_tables)),
    "target_rows": Argument("p", "R2", joint.safe_rows()),
    "draft_rows": Argument("q", "R2", joint.safe_rows()),
    "logits": Argument("z", "N", Values("logits, finite or -inf", joint.logits, entries(math.nan, math.inf))),
    # tokens, sizes, masks, counts
    "token": Argument("d", "", Values("a token in 0..V-1", joint.token, entries(-1, 9999, 0.5))),
    "k": Argument("k", "", Values("a whole number in 0..V", joint.k_of, entries(-1, 0.5))),
    "top_k": Argument("k_d", "V|N", Values("a whole number in 0..V", joint.top_k, entries(-1, 9999, 0.5))),
    "skip": Argument("s", "V", derived(UNIT, joint.skips)),
    "accept": Argument("a", "V", derived(UNIT, joint.skips)),
    "replacement": Argument("r", "V", beside("target")),
    "relaxed": Argument("e_d/(1 − α_d)", "D", UNIT),
    "skip_chain": Argument("s(·|x)", "WW", derived(UNIT, joint.skips)),
    "support": Argument("A", "V", _mask(joint.support)),
    "supports": Argument("A_n", "NV", _mask(joint.dropping)),
    "counts": Argument("b", "V", Values("a whole number, 0 or more", joint.counts_on_top, entries(-1, 0.5))),
    "groups": Argument("h", "V", Values("indices of groups", below("V").draw, entries(-1, 9999, 0.5))),
    "resolution": Argument("ℓ", "", whole(1, 200)),
    "budget_bits": Argument("B", "", between(32.0, 1e4)),
    "vocabulary": Argument("V", "", whole(1, 150_000)),
    "bits_per_probability": Argument("b", "", whole(1, 32)),
    "draft_count": Argument("m", "", whole(1, 4)),
    "order": Argument("π", "G", Values("a permutation", joint.order, entries(-1, 9999))),
    # probabilities
    "acceptance": Argument("α", "", UNIT),
    "believed": Argument("α", "", UNIT),
    "acceptances": Argument("α_d", "D", UNIT),
    "context_acceptances": Argument("α_d(c)", "CD", UNIT),
    "rejection": Argument("β", "R", UNIT),
    "non_acceptance": Argument("Δ", "", UNIT),
    "uncertainty": Argument("u", "", UNIT),
    "expected": Argument("E[u]", "", UNIT),
    "deviation": Argument("Δ_d", "V", UNIT),
    "kept": Argument("κ_n", "N", UNIT),
    "risk": Argument("ε", "|RM", UNIT),
    "risks": Argument("r", "H", derived(UNIT, joint.risks)),
    "expected_by_past": Argument("p", "H", UNIT),
    "law_by_past": Argument("g", "H", joint.away_from("expected_by_past")),
    "law": Argument("g", "", UNIT),
    "use": Argument("y", "K", UNIT),
    "mix": Argument("λ", "", UNIT),
    "audit_probability": Argument("ρ", "", RATE),
    "error": Argument("δ", "", INNER),
    "errors": Argument("δ_d", "D", INNER),
    "event": Argument("a", "", INNER),
    "distance": Argument("TV", "", Values(INNER.words, INNER.draw, entries(0.0, 1.5, math.nan))),
    "bet": Argument("λ", "", INNER),
    "bet_by_past": Argument("λ", "H", INNER),
    "epsilon": Argument("ε", "", INNER),
    "probability": Argument("ε", "", INNER),
    "leave_good": Argument("p", "", INNER),
    "leave_bad": Argument("r", "", INNER),
    # other numbers
    "slope": Argument("a", "", between(1e-3, 1e3)),
    "intercept": Argument("b", "", uniform(-1.0, 1.0, math.inf)),
    "exponent": Argument("s", "", of(1.0, 1.5, 2.0, 3.75, 50.0, math.inf, wrong=(0.5, math.nan))),
    "sharpness": Argument("η", "", of(1e-6, 1e-3, 0.5, 1.0, 5.0, 23.5, 100.0, 1e4, 1e30, wrong=(0.0, math.nan))),
    "temperatures": Argument("T", "N", between(1e-3, 2.0)),
    "threshold": Argument("τ", "", derived(uniform(-1.0, 3.0), joint.apart)),
    "distortion_tolerance": Argument("ε", "", Values("0 or more", joint.tolerance, entries(-0.1, math.nan))),
    "bias_tolerance": Argument("ε", "", Values("0 or more", between(1e-3, 2.0).draw, entries(-0.1, math.nan))),
    "losses": Argument("ℓ", "NS", derived(UNIT, joint.rising_losses)),
    "bound": Argument("B", "", of(0.5, 1.0, 8.0, wrong=(-1.0, math.nan, math.inf))),
    "learning_rate": Argument("η", "", between(1e-3, 32.0)),
    "learning_scale": Argument("c", "", between(1e-3, 32.0)),
    "target_scale": Argument("d", "", derived(between(1e-3, 1.0), INNER.draw)),
    "limit": Argument("ε", "", Values("0 or more", UNIT.draw, entries(-0.5, math.nan))),
    "steps": Argument("n", "|G", whole(1, 3)),
    "accepted": Argument(
        "τ", "B|N", derived(whole(0, 4), lambda draw, shape: draw.rng.integers(0, draw.size("L") + 1, shape))
    ),
    # the link and the band
    "mean_snr": Argument("γ̄", "", between(1e-2, 1e3)),
    "snr": Argument("γ", "|K", between(1e-3, 1e6, -1.0, math.nan)),
    "spectral_efficiency": Argument("η", "K", between(1e-6, 30.0)),
    "k_factor": Argument("K", "", zero_or(1e-2, 30.0)),
    "bandwidth_hz": Argument("B", "", between(1e5, 1e8)),
    "bits": Argument("b", "|K|RM", between(1e2, 1e7)),
    "power": Argument("p", "K", between(1e-3, 1.0)),
    "gain": Argument("g", "K", between(1e-12, 1.0)),
    "noise": Argument("σ²", "", between(1e-15, 1e-9)),
    "boost": Argument("c", "", between(1.0, 100.0, 0.5, math.nan)),
    "weights": Argument("w", "K", between(1e-3, 4.0)),
    "parts": Argument("w", "K", between(1e-3, 1.0)),
    "cut": Argument("x", "", between(1e-12, 1e-2)),
    "width": Argument("c", "", between(1.0, 1e6, 0.5, math.nan)),
    "times_s": Argument("t", "N", between(1e-6, 1e3)),
    # what messages tell
    "sizes": Argument("s", "K", Values("0 or more and finite", whole(1, 60).draw, entries(-1.0, math.nan))),
    "classes": Argument("m", "", whole(1, 6)),
    "tops": Argument("y", "K", _mask(joint.holds_the_largest)),
    # rounds
    "fixed": Argument("F", "", zero_or(1e-4, 1e3)),
    "marginal": Argument("M", "", between(1e-5, 1e2, -1e-6, math.inf)),
    "draft_length": Argument("K", "|J", whole(0, 12)),
    "other_length": Argument("K′", "", whole(1, 40)),
    "max_draft_length": Argument("K_max", "", whole(1, 40)),
    "rise": Argument("c", "", between(1.0, 100.0, 0.5)),
    "slowdown": Argument("c", "", between(1.0, 1e4, 0.5, math.nan)),
    "rate_bps": Argument("R", "", between(1e2, 1e8)),
    "bits_per_token": Argument("b", "", between(1.0, 64.0, -1.0, math.nan)),
    "header_bits": Argument("H", "", of(0.0, 16.0, 64.0, 320.0, 480.0, wrong=(-1.0, math.nan))),
    "luck": Argument("u", "ND", Values(UNIT.words, lambda draw, shape: draw.rng.random(shape), UNIT.wrong)),
    "waits": Argument("w", "N", derived(UNIT, joint.of_expected_mean)),
    "size_bytes": Argument("S", "", derived(between(1.0, 2.0), joint.storms)),
    "depth": Argument(
        "d", "", derived(whole(1, 2), lambda draw, shape: 1 + draw.rng.integers(0, draw.size("D"), shape))
    ),
    # serving
    "model": Argument("(L, h, f)", "3", whole(1, 20_000)),
    "models": Argument("(L, h, f)", "23", whole(1, 2)),
    "devices": Argument("(c₁, c₂)", "22", Values("0 or more", joint.devices, entries(-1.0, math.nan))),
    "target_pass": Argument("(a, b, c)", "3", _pass_times(between(1e-3, 1.0))),
    "draft_pass": Argument("(a_d, b_d, c_d)", "3", _pass_times(zero_or(1e-3, 1.0))),
    "overhead_s": Argument("o", "", zero_or(1e-3, 1.0)),
    "context": Argument("C", "", zero_or(1.0, 1e4)),
    "load": Argument("λ", "", between(1e-2, 1e4, -1.0, math.nan)),
    "memory": Argument("Γ", "", Values("positive", joint.memory, entries(0.0, math.nan))),
    "new_tokens": Argument("n", "", zero_or(1.0, 5e3)),
    "cached_tokens": Argument("n", "", zero_or(1.0, 1e4)),
    "input_tokens": Argument("I", "|A", whole(1, 8)),
    "output_tokens": Argument("O", "|A", derived(whole(1, 6), joint.same_outputs)),
    "batch_size": Argument("b", "", whole(1, 9)),
    "labels": Argument("m", "A", Values("indices of batches", joint.labels, entries(-1, 0.5))),
    "max_labels": Argument("Y", "", whole(1, 100)),
    "draft_times": Argument("T^d", "G|SG", _TIMES),
    "verify_times": Argument("T^v", "G|SG", _TIMES),
    "turns": Argument("m", "X", derived(whole(0, 4), below("G").draw)),
    # plans
    "tokens": Argument("τ", "K|KP", between(1.0, 8.0, 0.0, math.nan)),
    "fixed_s": Argument("f", "K|KP", between(1e-3, 10.0)),
    "plan_bits": Argument("b", "P|KP", between(1e-3, 1e3, -1.0, math.nan)),
    "plan_load": Argument("ℓ", "KP", between(1e-3, 1.0, -1.0, math.nan)),
    "choice": Argument("i", "K", whole(0, 3)),
    "band_price": Argument("μ", "", between(1e-3, 1e3)),
    "server_price": Argument("ν", "", zero_or(1e-2, 1e2)),
    "draft_s": Argument("t_d", "", between(1e-3, 1.0)),
    "verify_s": Argument("t_v", "", between(1e-3, 1.0)),
    "seconds_per_bit": Argument("s", "", between(1e-8, 1e-3)),
    "server_s": Argument("t", "", between(1e-3, 0.1, -1.0, math.nan)),
    "worth_s": Argument("w", "", between(1e-3, 3.0, -1.0, math.nan)),
    "skips": Argument("s", "R", Values("0 or 1", below("2").draw, entries(-1, 2))),
    "first": Argument("j", "R", whole(0, 2)),
    "later": Argument("j", "R|JR", whole(0, 2)),
    "kind": Argument("c", "", whole(0, 3)),
    "away_s": Argument("a", "KN", zero_or(1e-3, 1.0)),
    "draft_lengths": Argument("K", "K", whole(0, 4)),
    "pass_s": Argument("c₂", "", between(1e-2, 1.0)),
    "token_s": Argument("c₁", "", zero_or(1e-3, 0.1)),
    "batch": Argument("B", "", whole(1, 5)),
    "server_draft_s": Argument("t_s", "", between(1e-3, 0.5)),
    "other_s": Argument("o", "", zero_or(1e-3, 1.0)),
    "users": Argument("N", "", whole(1, 5)),
    "user_acceptances": Argument("α_i", "K", UNIT),
    "draft_each_s": Argument("t_i", "K", between(1e-3, 1.0)),
    "send_each_s": Argument("c_i", "K", between(1e-3, 1.0)),
    "window_s": Argument("W", "", between(1e-2, 4.0)),
    "rises_s": Argument("r_d", "D", zero_or(1e-3, 1.0)),
    "bias": Argument("ε", "NS", Values("0 or more", joint.levels(8), entries(-0.5, math.nan))),
    "bias_budget": Argument("ε", "", Values("0 or more", joint.levels(24), entries(-1.0, math.nan))),
    # drafts by a shared seed
    "seed": Argument(
        "", "", Values("0..2^63 - 1", lambda draw, shape: draw.rng.integers(2**63, size=shape), entries(-1, 0.5))
    ),
    "list_size": Argument("L", "", Values("1..V", joint.list_size, entries(0, 0.5))),
    "joint": Argument("P(a, b)", "VV", Values("sums to 1", joint.joint_law, no_rows)),
    "total_variation": Argument("T", "", UNIT),
    "draft_time": Argument("t_d", "", _SIXTY_FOURTHS),
    "round_trip": Argument("R", "", _TICKS),
    "verify_time": Argument("V", "", _TICKS),
}
"""What each name means, by name."""


def _in_domain(name: str, draw: Callable[[Draw, Shape], Row]) -> Argument:
    """Return the argument of this name with another way to draw."""
    return Argument(ARGUMENTS[name].symbol, ARGUMENTS[name].axes, derived(ARGUMENTS[name].values, draw))


def _drawn_as(name: str, values: Values, axes: str | None = None) -> Argument:
    """Return the argument of this name with other values, and other dimensions."""
    known = ARGUMENTS[name]
    return Argument(known.symbol, known.axes if axes is None else axes, values)


def _all(values: Values, *names: str) -> dict[str, Argument]:
    return {name: _drawn_as(name, values) for name in names}


_TREE = {
    "drafts": _drawn_as("drafts", ROW, "TW"),
    "targets": _drawn_as("targets", beside("drafts"), "TW"),
    "k": Argument("K_n", "T", derived(ARGUMENTS["k"].values, joint.k_on_support)),
    "resolution": Argument("ℓ_n", "T", whole(1, 9)),
    "draft_length": _drawn_as("draft_length", whole(1, 4)),
}
_PREFIXES = _mask(lambda draw, shape: draw.rng.random(shape) < 0.4)
_FEW_DEPTHS = _all(derived(whole(1, 2), ARGUMENTS["depth"].values.draw), "draft_length", "other_length")
_ON_SUPPORT = {
    "counts": _drawn_as("counts", Values("0 or more", joint.counts_on_support, lambda value: [-np.asarray(value)])),
    "token": _in_domain("token", joint.counted_token),
}
_LINK = {
    "mean_snr": _drawn_as("mean_snr", between(0.5, 100.0)),
    "bandwidth_hz": _drawn_as("bandwidth_hz", between(1e5, 1e7)),
}


WITHIN: Mapping[str, Mapping[str, Argument]] = {
    "batching.draft_count": {"draft_length": _drawn_as("draft_length", derived(whole(1, 3), of(1, 2, 3, 11).draw))},
    "batching": {"draft_length": _drawn_as("draft_length", whole(1, 3))},
    "channel.finite_mean": {
        "cut": _drawn_as("cut", between(1e-30, 1e-3)),
        "bound": _drawn_as("bound", between(1.0, 1381.0, -1.0, math.nan)),
    },
    "channel.leak": {
        "target_chain": Argument("P(s′|s)", "WW", ROW),
        "length_law": Argument("P(R)", "E", ROW),
        "kept": Argument("κ_n", "N", UNIT),
        "draft_length": _drawn_as("draft_length", whole(1, 12)),
    },
    "codec.round_trip": _ON_SUPPORT,
    "codec.cheapest": {
        "k": _in_domain("k", lambda draw, shape: draw.rng.integers(0, min(draw.size("V"), 16) + 1, shape)),
        "resolution": _drawn_as("resolution", whole(1, 16)),
        "width": Argument("b", "", whole(1, 16)),
    },
    "codec.text": {
        "bits": Argument(
            "b",
            "NS",
            Values(
                "0 or more", lambda draw, shape: draw.rng.integers(0, 21, shape).astype(float), entries(-1.0, math.nan)
            ),
        )
    },
    "conformal.hindsight": {"threshold": _drawn_as("threshold", derived(uniform(0.0, 1.0), zero_or(1e-3, 1.0).draw))},
    "conformal": {"threshold": _in_domain("threshold", joint.first_threshold)},
    "draft_length.light": {"targets": Argument("p(·|x)", "TW", ROW), "draft_count": Argument("P", "", whole(1, 60))},
    "draft_length.mean_": _FEW_DEPTHS,
    "draft_length.split": _all(whole(1, 6), "draft_length", "other_length"),
    "draft_length": {
        "accepted": _in_domain("accepted", joint.falling_runs),
        "draft_length": _drawn_as("draft_length", whole(1, 40, 0)),
    },
    "lattice.rejections": _TREE,
    "lossless": {"bet": _drawn_as("bet", between(1e-3, 1e3))},
    "policy.colocated_capacity": {"away_s": Argument("a", "", Values("0 or more", joint.never_idle, entries(-1.0)))},
    "policy.colocated_speed": {
        "draft_s": _drawn_as("draft_s", joint.no_later_than("server_draft_s", ARGUMENTS["draft_s"].values)),
        "context_lengths": _in_domain("context_lengths", joint.often_of_one_law),
    },
    "policy.colocated_streamed": {"acceptance": _drawn_as("acceptance", uniform(0.0, 0.99, -0.5, 1.5))},
    "policy.fading_cut": {"cut": _drawn_as("cut", between(1e-3, 1e3)), "bits": _drawn_as("bits", between(1e2, 1e6))},
    "policy": {
        **_LINK,
        "bits": _drawn_as("bits", between(1.0, 1e4, -1.0, math.nan)),
        "draft_length": _drawn_as("draft_length", whole(0, 3)),
    },
    "serving.free": {
        "steps": _drawn_as(
            "steps", derived(whole(1, 2), lambda draw, shape: draw.rng.integers(1, draw.size("S") + 1, shape))
        )
    },
    "serving.memory_peak": {
        **_all(whole(1, 30), "input_tokens", "output_tokens"),
        "draft_length": _drawn_as("draft_length", whole(1, 12)),
    },
    "serving": {
        **_all(whole(1, 30), "input_tokens", "output_tokens"),
        "batch_size": _drawn_as("batch_size", whole(1, 100)),
    },
    "shared_seed.streamed_bonus_rate": {
        "acceptance": _drawn_as("acceptance", uniform(0.0, 0.99, -0.5, 1.5)),
        "verify_time": _in_domain("verify_time", joint.half_or_twice_a_draft),
    },
    "shared_seed.streamed": {"acceptance": _drawn_as("acceptance", uniform(0.0, 0.99, -0.5, 1.5))},
    "shared_seed.invariant": {"draft_length": _drawn_as("draft_length", whole(1, 8))},
    "skipping.calibrated": {"risk": _drawn_as("risk", between(0.02, 4.0))},
    "skipping.confident": {
        "mass": _drawn_as("mass", ROW, "C"),
        "losses": _drawn_as("losses", UNIT, "CP"),
        "risk": _drawn_as("risk", INNER),
    },
    "skipping.text_risk": {"mass": _drawn_as("mass", ROW, "3")},
    "skipping.audit": {"risk": _drawn_as("risk", INNER)},
    "truncation.partial_box": {
        "error": Argument("δ", "", Values("0 or more", joint.error_of_intervals, entries(-0.5, math.nan)))
    },
    "verification.tokens_iid": {
        "draft_length": _drawn_as("draft_length", derived(whole(0, 60), joint.few_or_too_many))
    },
    "verification.block_token_skips": {"skips": Argument("s", "TW", _PREFIXES)},
    "verification.block": {name: _TREE[name] for name in ("drafts", "targets")},
    "verification.lossy_round": {"skips": Argument("s", "TW", _PREFIXES)}
    | {name: _TREE[name] for name in ("drafts", "targets")},
    "verification.lossy_early": {"acceptances": _in_domain("acceptances", joint.often_falling)},
    "verification.tree": {name: _TREE[name] for name in ("drafts", "targets")},
}
"""What a name means in the claims whose id begins so; the first that fits and has the name counts."""

FEWER: Mapping[str, Mapping[str, Callable[[Draw], int]]] = {
    "batching.draft_count": {"A": _up_to(3)},
    "codec.cheapest": {"V": _size(2, 3, 4, 7, 12)},
    "codec.text": {"N": _up_to(4)},
    "codec": {"V": _up_to(9, 2)},
    "draft_length.adaptive_depths": {"D": _up_to(2)},
    "draft_length.online": {"D": _up_to(3), "N": _size(2, 9, 60)},
    "ofdma": {"K": _size(1, 2, 3, 12, 100)},
    "policy.spin": {"K": _up_to(3)},
    "shared_seed.any_scheme": {"V": _up_to(5)},
    "shared_seed.list": {"V": _up_to(6)},
    "skipping.bill": {"V": _size(1, 2, 3, 4, 5, 8, 12)},
    "skipping.holder": {"V": _size(2, 3, 8, 12, 64)},
    "truncation.any_codec": {"V": _size(1, 2, 3, 4, 5, 8, 12)},
    "truncation.offline": {"V": _size(2, 3, 8, 12), "N": _up_to(4)},
    "verification.multi_draft": {"V": _up_to(5)},
    "verification.top_drafts": {"V": _up_to(5)},
}
"""Sizes of dimensions in the claims whose id begins so."""

COUNTS: Mapping[str, int] = {
    "batching": 8,
    "codec": 8,
    "conformal": 16,
    "draft_length.adaptive_depths": 30,
    "draft_length.online": 20,
    "lossless.ceiling": 5,
    "lossless": 50,
    "policy.user_": 30,
    "policy": 60,
    "serving": 16,
    "shared_seed.invariant": 5,
    "shared_seed.list": 50,
    "shared_seed.streamed": 5,
    "truncation": 16,
    "verification.interval": 5,
}
"""Instances in a batch of the claims whose id begins so; 200 of the others."""


def argument(claim: Claim, name: str) -> Argument:
    """Return what a name means in a claim."""
    for prefix, table in WITHIN.items():
        if claim.id.startswith(prefix) and name in table:
            return table[name]
    return ARGUMENTS[name]


def example(claim: Claim) -> Instance:
    """Return the recorded instance of a claim: where it is tight, or where it is false."""
    if claim.refuted is not None:
        return claim.refuted
    if claim.attained is None:
        raise ValueError(f"{claim.id} must record an instance: give attained= or refuted=.")
    return claim.attained.instance


def instance(claim: Claim, rng: Rng, batch: Shape | None = None) -> Instance:
    """Return a batch of instances of a claim, drawn from the table."""
    if batch is not None:
        return _drawn(claim, rng, batch)
    count = next((count for prefix, count in COUNTS.items() if claim.id.startswith(prefix)), 200)
    for _ in range(TRIES):
        values = _drawn(claim, rng, (count,))
        if claim.inside(values).any():
            break
    return values


def _drawn(claim: Claim, rng: Rng, batch: Shape) -> Instance:
    recorded = example(claim) if claim.attained or claim.refuted else {}
    fewer = next((sizes for prefix, sizes in FEWER.items() if claim.id.startswith(prefix)), {})

    def drawn(draw: Draw, name: str) -> Row:
        known = argument(claim, name)
        axes = known.axes_of(np.ndim(recorded[name])) if name in recorded else known.axes.split("|")[0]
        return known.values.draw(draw, draw.shape(axes))

    draw = Draw(rng, batch, {**SIZES, **fewer}, drawn, claim.takes)
    return {name: draw[name] for name in claim.takes}
