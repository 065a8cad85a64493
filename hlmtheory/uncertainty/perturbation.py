"""Temperature perturbation: the uncertainty of a draft, sampled, and its expected value by quadrature."""

import numpy as np

from hlmtheory._array import Array, arrays, in_kind, widest
from hlmtheory._domains import Domain, check_logits, generator, leading_dimensions, number, token_of
from hlmtheory._quantities import not_negative, positive
from hlmtheory.uncertainty.binomial import DRAWS
from hlmtheory.uncertainty.quadrature import coldest, gap_of, mean_at, mean_rows, quick_rule, scaled_gaps

MAX_TEMPERATURE = 2.0

DOMAINS = {
    "max_temperature": not_negative("give the largest temperature; 0 means the limit, the argmax"),
    "draws": Domain(
        "a whole number, 1 to 100,000",
        lambda xp, value: (value >= 1) & (value <= 100_000),
        "an uncertainty is a share of at least one sample; for more draws use expected_uncertainty, their limit",
        kind="integer",
    ),
    "temperatures": positive("temperature 0 is a limit: omit it"),
}


def sample_uncertainty(
    logits: Array,
    token: Array,
    *,
    draws: int = DRAWS,
    max_temperature: float = MAX_TEMPERATURE,
    rng: np.random.Generator,
) -> Array:
    """Return the uncertainty as the papers measure it: the share of perturbed samples that differ from the draft.

    A sample at temperature θ differs from d with probability 1 - softmax(z/θ)_d. Only this event matters, so the
    function draws the event and not the token.

    Parameters
    ----------
    logits : array, shape (..., V)
        Finite, or -inf for a masked entry: a token of probability 0 at every temperature.
    token : integer array, shape (...) or broadcastable to it
        The draft d, 0..V-1.
    draws : int
        M, 20 in the papers; 1 to 100,000.
    max_temperature : float
        θmax, 2 in the papers. At 0 every sample is drawn evenly from the largest logits.
    rng : numpy Generator
        Draws the temperatures and the samples, on the host for every array library.

    Returns
    -------
    array, shape (...)
        Multiples of 1/M; cu-hlm (9), u-hlm (7). u-hlm (6) prints exp(z)/θ in place of exp(z/θ); as printed, θ cancels.

    Raises
    ------
    ValueError
        If a logit is NaN or +inf, a row is all -inf, a token is outside the vocabulary, M is not a whole number in
        1..100,000, or θmax is negative or infinite.

    Examples
    --------
    >>> float(sample_uncertainty([9.0, -9.0], 0, max_temperature=0.0, rng=np.random.default_rng(1)))
    0.0
    """
    xp, kind, z, token = _logits_and_token(logits, token)
    count, warmest = number(DOMAINS["draws"], "draws", draws), _warmest(max_temperature)
    rng = generator("rng", rng)
    shape = leading_dimensions(logits=tuple(z.shape[:-1]), token=tuple(token.shape))
    cold = gap_of(xp, 1.0 - coldest(xp, z), token)
    differing = xp.zeros_like(cold)
    gaps = scaled_gaps(xp, z, warmest) if warmest else z
    for _ in range(count):
        share, quantile = (xp.asarray(rng.random(shape), device=z.device) for _ in range(2))
        differs = cold
        if warmest:
            e = xp.exp(gaps * (-1.0 / (1.0 - share))[..., None])  # (8): 1 - share is in (0, 1]; the largest is 1
            differs = 1.0 - gap_of(xp, e, token) / xp.sum(e, axis=-1)
        differing = differing + xp.astype(quantile < differs, xp.float64)
    return in_kind(xp, differing / count, kind)  # (9)


def expected_uncertainty(logits: Array, token: Array, *, max_temperature: float = MAX_TEMPERATURE) -> Array:
    """Return the mean of the sampled uncertainty: 1 - (1/θmax) ∫₀^θmax softmax(z/θ)_d dθ.

    The integral is a Gauss-Legendre rule in (θ/θmax)^{1/3} with 40 softmax passes. On the logits of language models the
    error was at most 3e-9. No rule with 40 passes is safe for every row of logits. The worst known rows have one
    entry above V - 1 equal ones. Their error is 8e-8 at V = 2, 9e-5 at V = 4,096 and 3e-4 at V = 152,000.

    Parameters
    ----------
    logits : array, shape (..., V)
        Finite, or -inf for a masked entry: a token of probability 0 at every temperature.
    token : integer array, shape (...) or broadcastable to it
        The draft d, 0..V-1.
    max_temperature : float
        θmax. At 0 the result is the limit: 1 minus the probability of d if the largest logits share the mass evenly.

    Returns
    -------
    array, shape (...)
        In [0, 1].

    Raises
    ------
    ValueError
        If a logit is NaN or +inf, a row is all -inf, a token is outside the vocabulary, or θmax is negative or
        infinite.

    Examples
    --------
    >>> expected_uncertainty([0.0, 0.0, -1e4], [0, 2]).round(9).tolist()
    [0.5, 1.0]
    """
    xp, kind, z, token = _logits_and_token(logits, token)
    warmest = _warmest(max_temperature)
    leading_dimensions(logits=tuple(z.shape[:-1]), token=tuple(token.shape))
    if not warmest:
        return in_kind(xp, 1.0 - gap_of(xp, coldest(xp, z), token), kind)
    gaps = scaled_gaps(xp, z, warmest)
    own = gap_of(xp, gaps, token)
    rows = xp.broadcast_to(gaps, (*own.shape, gaps.shape[-1]))
    return in_kind(xp, xp.clip(1.0 - mean_at(xp, rows, own[..., None], quick_rule())[..., 0], min=0.0, max=1.0), kind)


def vocabulary_uncertainty(logits: Array, *, max_temperature: float = MAX_TEMPERATURE) -> Array:
    """Return the expected uncertainty (..., V) for every token of the vocabulary as the draft."""
    xp, z = arrays(logits=logits)
    check_logits(xp, z)
    warmest = _warmest(max_temperature)
    mean = mean_rows(xp, scaled_gaps(xp, z, warmest), quick_rule()) if warmest else coldest(xp, z)
    return in_kind(xp, xp.clip(1.0 - mean, min=0.0, max=1.0), widest(xp, z))


def _logits_and_token(logits: Array, token: Array) -> tuple[Array, Array, Array, Array]:
    """Check the logits and the draft token, and return the namespace, the result dtype, and both."""
    xp, z, token = arrays(logits=logits, token=token)
    check_logits(xp, z)
    return xp, widest(xp, z), z, token_of(z.shape[-1]).check(xp, "token", token)


def _warmest(max_temperature: float) -> float:
    return float(number(DOMAINS["max_temperature"], "max_temperature", max_temperature))
