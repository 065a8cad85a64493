"""Draw the sample behind the truncation figures: one draft at each random position, and each rule's k there.

Every device rule takes the smallest k with Δ_k below its own limit, so Δ_k is computed once for all rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hlmtheory
from hlmtheory import truncation, verification
from hlmtheory.truncation._search.pairs import SortedPair
from hlmtheory.truncation.rules import size_from_min_p, size_from_top_n_sigma, size_from_top_p
from hlmtheory.truncation.softplus import softplus_gap
from validation.arrays import Row
from validation.decoding.trace_drafts import offline_distortions, paper_line, tokens_of
from validation.plots.common.record import sampled, spread
from validation.trace.reader import Trace, probabilities

SAMPLE_VALUES = 12 * 10**6  # logits of a model in the sample: 2,929 positions at V = 4,096, 375 at V = 32,000
CHUNK_VALUES = 2**18  # probabilities held at a time, 2 MiB in float64
POINTS = 24  # number of k at which all quantities are computed for every position
DRAWS = 20  # perturbed samples of a draft, as in the paper
THETA = 0.1  # tolerance of cu-hlm V-B on TV(r, r̂)
SKIP_BELOW = 0.8  # u_th of cu-hlm V-B: a draft with a smaller u is not sent
EPSILON = 2 * THETA  # distortion tolerance on the Bias: TV(r, r̂) ≤ θ promises Bias ≤ 2θT, and T may be 1
SHARPNESSES = (0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0)  # η; the paper does not print its values
SHOWN = (1.0, 5.0, 20.0)
SWEPT = tuple(np.linspace(0.0, 1.0, 21).tolist())  # β that replaces β_d, with everything else unchanged
PARAMETERS: dict[str, tuple[float, ...]] = {
    "exact": (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01),  # ε; falling
    "certified": (2.0, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02),  # ε
    **{f"online {eta:g}": tuple(np.geomspace(30.0, 0.01, 9).tolist()) for eta in SHOWN},  # θ
    "top-p": (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99),
    "min-p": (0.9, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003),
    "top-nσ": (0.1, 0.3, 0.6, 1.0, 1.4, 1.8, 2.4, 3.0),
}
"""Parameters of each rule, ordered from the fewest to the most tokens sent."""

Sizes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Drafts:
    """Hold one draft d from q at each of n positions; all fields but the line a u + b have shape (n,).

    ``apart``: T = TV(q, p); ``estimate``: a u + b, clipped to [0, 1]. ``line`` is the line of the run
    (:func:`~validation.decoding.trace_drafts.paper_line`), None if u is constant: the estimate is then the mean of β_d.
    """

    token: Sizes
    drafted: Row
    rejection: Row
    uncertainty: Row
    apart: Row
    estimate: Row
    line: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Sample:
    """Hold the k of each rule and the true TV(r, r̂_k) at n positions.

    ``grid`` (S,): some k; ``deviation``, ``distortion``, ``rebuilt`` (n, S): Δ_k, TV(r, r̂_k) and TV(q̂, p) there.
    ``top_k``, ``met``: by rule, its k at its parameters and the distortion there (n, parameters); "online" and "online,
    true" (n, η) are the k of (24) at θ = 0.1 with the estimate and with β_d itself. ``least`` (n,): the k of (19) at θ
    = 0.1. ``swept`` (n, β): k of (24) at θ = 0.1 and the middle η, with β for β_d; ``safe`` (n, β): the smallest k with
    Δ_k ≤ θ q_d β; in the worst case, TV(r, r̂) ≤ θ needs this k. ``inverse`` (V + 1,): mean of Δ_k/T over all positions
    of the trace with T > 0; ``inverse_sent`` over the drawn ones with T > 0 and u > 0.8; NaN without such positions.
    """

    vocabulary: int
    drafts: Drafts
    grid: Sizes
    deviation: Row
    distortion: Row
    rebuilt: Row
    top_k: dict[str, Sizes]
    met: dict[str, Row]
    least: Sizes
    swept: Sizes
    safe: Sizes
    inverse: Row
    inverse_sent: Row

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """Mark positions with q ≠ p; at all others nothing is rejected, and (20) is 0/0."""
        return self.drafts.apart > 0

    def bias(self, distortion: Row) -> Row:
        apart = self.drafts.apart.reshape(-1, *[1] * (distortion.ndim - 1))
        return np.asarray(2.0 * apart * distortion)

    def online(self, eta: float, *, true: bool = False) -> Sizes:
        """Return the k of (24) at θ = 0.1 (n,), with the estimate of β_d or with β_d itself."""
        return np.asarray(self.top_k["online, true" if true else "online"][:, SHARPNESSES.index(eta)])

    @property
    def sent(self) -> NDArray[np.bool_]:
        """Mark positions that Algorithm 1 sends and where (20) is defined."""
        return self.rejected & (self.drafts.uncertainty > SKIP_BELOW)

    def offline(self, theta: float, *, sharp: bool = False, sent: bool = False) -> int | None:
        """Return k* of (21) over positions where (20) is defined, or over the sent ones; None without positions."""
        inverse = self.inverse_sent if sent else self.inverse
        return None if np.isnan(inverse[0]) else int(np.argmax((1.0 if sharp else 2.0) * inverse <= theta))


def sample_of(trace: Trace, seed: int) -> Sample:
    """Return the sample at random positions of a trace, measured once for all figures."""
    return _sample(trace, seed, SAMPLE_VALUES)


def denominator(drafted: Any, rejection: Any, sharpness: Any) -> Row:
    """Return D of (23); for z ≤ 0, softplus equals its gap to ReLU."""
    own, other = (np.asarray(softplus_gap(z, sharpness)) for z in (-np.asarray(rejection), -1.0))
    return np.asarray((1.0 - drafted) * other + drafted * own)


@lru_cache(maxsize=2)
def _sample(trace: Trace, seed: int, values: int) -> Sample:
    parts = sampled(trace, max(1, values // trace.vocabulary), seed)
    draft, target = (np.concatenate(side) for side in zip(*parts, strict=True))
    drafts = _drafts(draft, target, seed, paper_line(tokens_of(trace, seed)))
    vocabulary = trace.vocabulary
    grid = spread(max(1, vocabulary // 2), POINTS)
    found: dict[str, list[Any]] = {}
    rejected = drafts.apart > 0
    sent = rejected & (drafts.uncertainty > SKIP_BELOW)
    total = np.zeros(vocabulary + 1)
    for part, q, p in _pairs(draft, target):
        deviation = np.minimum.accumulate(
            np.asarray(truncation.tail_deviation(q)), axis=-1
        )  # rounding may make it rise
        total += (deviation[sent[part]] / drafts.apart[part][sent[part], None]).sum(axis=0)
        limits = _limits(drafts, part)
        sizes = {name: _first(deviation, limit) for name, limit in limits.items()} | _counted(q, draft[part])
        measured = _distortions(p, q, sizes, grid) | {"deviation": deviation[:, grid]}
        for name, value in measured.items():
            found.setdefault(name, []).append(value)
    whole = {name: np.concatenate(value) for name, value in found.items()}
    names = [*PARAMETERS, "online", "online, true"]
    return Sample(
        vocabulary=vocabulary,
        drafts=drafts,
        grid=grid,
        top_k={name: whole[f"k {name}"] for name in names},
        met={name: whole[f"met {name}"] for name in names},
        inverse=offline_distortions(trace),
        inverse_sent=total / sent.sum() if sent.any() else total * np.nan,
        **{name: whole[name] for name in ("deviation", "distortion", "rebuilt", "least")},
        **{name: whole[f"k {name}"] for name in ("swept", "safe")},
    )


def _pairs(draft: NDArray[Any], target: NDArray[Any]) -> Iterator[tuple[slice, Row, Row]]:
    step = max(1, CHUNK_VALUES // draft.shape[-1])
    for start in range(0, len(draft), step):
        part = slice(start, start + step)
        yield part, probabilities(draft[part]), probabilities(target[part])


def _drafts(draft: NDArray[Any], target: NDArray[Any], seed: int, line: tuple[float, float] | None) -> Drafts:
    quantile = np.random.default_rng([seed, 1]).random(len(draft))
    rng = np.random.default_rng([seed, 2])
    parts = []
    for part, q, p in _pairs(draft, target):
        cumulative = np.cumsum(q, axis=-1)
        token = np.argmax(cumulative > (quantile[part] * cumulative[:, -1])[:, None], axis=-1)
        one = np.arange(len(q)), token
        uncertainty = hlmtheory.uncertainty.sample_uncertainty(
            draft[part].astype(np.float64), token, draws=DRAWS, rng=rng
        )
        rejection = np.asarray(verification.rejection_probability(p, q))[one]
        apart = np.maximum(p - q, 0.0).sum(axis=-1)
        parts.append((token, q[one], rejection, uncertainty, apart))
    token, drafted, rejection, uncertainty, apart = (np.concatenate(one) for one in zip(*parts, strict=True))
    estimate = np.full(len(draft), rejection.mean())
    if line is not None:  # (7), on the means at 0, .05, ..., 1
        estimate = np.clip(line[0] * uncertainty + line[1], 0.0, 1.0)
    return Drafts(token, drafted, rejection, uncertainty, apart, estimate, line)


def _limits(drafts: Drafts, part: slice) -> dict[str, Row]:
    drafted, rejection, estimate = (one[part, None] for one in (drafts.drafted, drafts.rejection, drafts.estimate))
    beta = np.array(SWEPT)
    limits = {
        "certified": np.broadcast_to(
            np.array(PARAMETERS["certified"]) / 2.0, (len(drafted), len(PARAMETERS["certified"]))
        ),
        "online": 0.5 * THETA * denominator(drafted, estimate, np.array(SHARPNESSES)),  # (24)
        "online, true": 0.5 * THETA * denominator(drafted, rejection, np.array(SHARPNESSES)),
        "swept": 0.5 * THETA * denominator(drafted, beta, SHOWN[1]),
        "safe": THETA * drafted * beta,
    }
    for eta in SHOWN:
        name = f"online {eta:g}"
        limits[name] = 0.5 * np.array(PARAMETERS[name]) * denominator(drafted, estimate, eta)
    return limits


def _first(deviation: Row, limits: Row) -> Sizes:
    return np.array([np.searchsorted(-row, -limit) for row, limit in zip(deviation, limits, strict=True)])


def _counted(q: Row, logits: NDArray[Any]) -> dict[str, Sizes]:
    wide = q[:, None]
    return {
        "top-p": np.asarray(size_from_top_p(wide, np.array(PARAMETERS["top-p"]))),
        "min-p": np.asarray(size_from_min_p(wide, np.array(PARAMETERS["min-p"]))),
        "top-nσ": np.asarray(size_from_top_n_sigma(logits[:, None].astype(np.float64), np.array(PARAMETERS["top-nσ"]))),
    }


def _distortions(p: Row, q: Row, sizes: dict[str, Sizes], grid: Sizes) -> dict[str, Any]:
    rows: dict[str, list[Any]] = {}
    for i in range(len(q)):
        pair = SortedPair.of(p[i], q[i])
        own = {name: value[i] for name, value in sizes.items()}
        (least,) = pair.least([THETA])
        half = 0.5 / pair.apart if pair.apart > 0 else np.inf
        own["exact"] = np.array(pair.least([half * epsilon for epsilon in PARAMETERS["exact"]]))
        sought = np.unique(np.concatenate([grid, *(own[name] for name in own if name not in ("swept", "safe"))]))
        known = {int(k): pair.distortion(int(k)) for k in sought}
        at_grid = [known[int(k)] for k in grid]
        found: dict[str, Any] = {"least": least, "distortion": [one[0] for one in at_grid]}
        found["rebuilt"] = [one[1] for one in at_grid]
        for name, value in own.items():
            found[f"k {name}"] = value
            found[f"met {name}"] = [known[int(k)][0] if int(k) in known else 0.0 for k in value]
        for name, value in found.items():
            rows.setdefault(name, []).append(value)
    return {name: np.array(value) for name, value in rows.items()}
