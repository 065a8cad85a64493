"""Sides of the theorems on learning the number of drafts."""

from collections.abc import Callable

import numpy as np

from hlmtheory._array import NUMPY, Array
from hlmtheory._domains import UNIT_INTERVAL
from hlmtheory._quantities import positive
from hlmtheory.draft_length.online import ERROR, online_regret_bound, optimistic, radius
from hlmtheory.draft_length.rates import FACTOR
from hlmtheory.sides.host import Values, host_side


def _costs(one: Values) -> tuple[Array, float, Array]:
    """Return K = 0, 1, .., the range of the delay in seconds, and T(K) at its mean."""
    lengths, extent = np.arange(len(one["acceptances"]) + 1.0), one["verify_s"] * (one["rise"] - 1.0)
    return lengths, float(extent), one["verify_s"] + one["expected"] * extent + lengths * one["draft_s"]


def played(hopeful: bool, one: Values) -> tuple[float, Array, bool]:
    """Play the rounds; return the tokens lost, the examined rounds N_d, and whether all intervals held."""
    alpha, delta, (lengths, extent, seconds) = one["acceptances"], one["error"], _costs(one)
    chances, means = np.cumprod(alpha), len(alpha) + 1
    tokens = _tokens(chances)
    best = float(np.max(tokens / seconds))
    seen, kept, waited, lost, held = 0.0 * alpha, 0.0 * alpha, 0.0, 0.0, True
    for t, wait in enumerate(one["waits"].tolist()):
        late = float(radius(NUMPY, np.asarray(float(t)), delta, means))
        share = np.where(seen > 0, kept / np.where(seen > 0, seen, 1.0), 1.0)
        wrong = np.where(seen > 0, np.abs(share - chances), 0.0) > radius(NUMPY, seen, delta, means)
        held = held and not wrong.any() and abs(waited / max(t, 1) - one["expected"]) <= late
        if hopeful:
            low = one["verify_s"] + extent * max(waited / max(t, 1) - late, 0.0)
            length = int(optimistic(NUMPY, seen, kept, low, one["draft_s"], delta)[0])
        else:
            length = int(np.argmax(_tokens(share) / seconds))
        lost += best * seconds[length] - tokens[length]
        tried = (lengths[1:] <= length).astype(np.float64)
        seen, waited = seen + tried, waited + wait
        kept = kept + tried * np.cumprod(one["luck"][t] < alpha)
    return float(lost), seen, bool(held)


def _tokens(chances: Array) -> Array:
    return 1.0 + np.concatenate([[0.0], np.cumsum(chances)])


def bound_side(hopeful: bool, one: Values) -> float:
    seen = played(hopeful, one)[1].astype(np.int64)
    lengths, extent, _ = _costs(one)
    fastest = np.max((lengths + 1.0) / (one["verify_s"] + lengths * one["draft_s"]))
    options = {"rounds": len(one["waits"]), "range_tokens": float(extent * fastest)}
    return float(online_regret_bound(seen, error=float(one["error"]), **options))


_NAMES = ("acceptances", "draft_s", "verify_s", "rise", "expected", "luck", "waits", "error")
_DOMAINS = {
    **dict.fromkeys(("acceptances", "expected", "luck", "waits"), UNIT_INTERVAL),
    **dict.fromkeys(("draft_s", "verify_s"), positive("give the seconds of a draft or a round")),
    "rise": FACTOR,
    "error": ERROR,
}
_RANK = {"acceptances": 1, "luck": 2, "waits": 1}


def side(of: Callable[[Values], float], *, test: bool = False) -> Callable[..., Array]:
    return host_side(_DOMAINS, _RANK, of, *_NAMES, test=test)
