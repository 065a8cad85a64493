"""Tokens per second of a device that never stops drafting, while the server verifies what has arrived."""

from dataclasses import dataclass

from hlmtheory._array import Array, in_kind, widest
from hlmtheory._domains import Domain, checked, finite_answer
from hlmtheory._quantities import not_negative, positive

LARGEST_ACCEPTANCE = 0.999  # the sum over passes has 42 / (1 - α) terms
SAME = 1e-12  # relative: times in decimals, such as 0.012, are no quotients of whole numbers in binary
DOMAINS = {
    "acceptance": Domain(
        f"in [0, {LARGEST_ACCEPTANCE}]",
        lambda xp, value: (value >= 0) & (value <= LARGEST_ACCEPTANCE),
        "nearer to 1 the rate is that of the device, 1 / draft_time",
    ),
    "draft_time": positive("give seconds for one draft"),
    "round_trip": not_negative("give seconds on the link, up and down"),
    "verify_time": not_negative("give seconds of one pass of the server"),
}


@dataclass(frozen=True, slots=True)
class StreamedRate:
    """Tokens per second, the mean wait in seconds of the draft that fails, and passes per token of the text."""

    rate: Array
    wait: Array
    passes: Array


@finite_answer
def streamed_rate(acceptance: Array, draft_time: Array, round_trip: Array, verify_time: Array) -> StreamedRate:
    """Return the tokens per second if the device never stops drafting.

    The device sends each draft when it is made, and starts again behind a mismatch when it learns of it. The server
    starts a pass over all drafts that have arrived as soon as it is free. Between two mismatches are m = 1/(1 - α)
    tokens on average, in the time m·t_d + R + V + W. The wait W is exact: draft j ≥ 1 is in the pass ⌊j t_d/V⌋ + 1
    after the first, so W = V (α + Σ_{i≥1} α^⌈i V/t_d⌉) - t_d α/(1 - α) where t_d < V, else 0.

    The rate jumps where V/t_d is a quotient of small whole numbers, such as 30 and 12 ms: some drafts then arrive just
    as a pass begins, and one that misses it waits for the next. Returned is the lower side, which a device that is
    slower by any little has. Moments within 1e-12 of their time are one.

    Parameters
    ----------
    acceptance : array, shape (...)
        α: probability that a draft is accepted, each independently, in [0, 0.999].
    draft_time : array, shape (...)
        t_d: seconds of one draft.
    round_trip : array, shape (...)
        R: seconds on the link, up and down together.
    verify_time : array, shape (...)
        V: seconds of one pass of the server, whatever it holds.

    Returns
    -------
    StreamedRate

    Raises
    ------
    ValueError
        If α is outside [0, 0.999], or a time is negative or infinite, or t_d is 0.

    Examples
    --------
    >>> found = streamed_rate(0.5, 1.0, 3.0, 1.0)
    >>> float(found.rate), float(found.wait), float(found.passes)
    (0.3333333333333333, 0.0, 1.0)
    """
    xp, *given = checked(
        DOMAINS, acceptance=acceptance, draft_time=draft_time, round_trip=round_trip, verify_time=verify_time
    )
    kind = widest(xp, *given)
    alpha, draft, trip, verify = xp.broadcast_arrays(*(in_kind(xp, value, xp.float64) for value in given))
    shared = draft < verify * (1.0 - SAME)  # passes of several drafts
    later = xp.where(shared, alpha, 0.0)  # mean number of passes after the first
    step, term = 1, xp.ones_like(alpha)
    while bool(xp.any(term > 1e-18)):
        made = step * verify / draft
        term = xp.where(shared, alpha ** xp.ceil(made * (1.0 - SAME)), 0.0)
        later, step = later + term, step + 1
    ahead = alpha / (1.0 - alpha)
    wait = xp.where(shared, xp.clip(verify * later - draft * ahead, min=0.0), 0.0)
    tokens = 1.0 + ahead
    seconds = tokens * draft + trip + verify + wait
    passes = xp.where(shared, (1.0 + later) / tokens, 1.0)
    return StreamedRate(*(in_kind(xp, value, kind) for value in (tokens / seconds, wait, passes)))
