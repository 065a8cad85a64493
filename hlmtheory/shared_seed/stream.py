"""The shared stream: an exponential number for each (seed, position, token), with the same bits on every machine.

Step by step, all integers unsigned and of 32 bits unless said otherwise:

1. Philox4x32-10 (salmon2011parallel) with the key (seed mod 2^32, ⌊seed / 2^32⌋) and the counter (⌊token / 2⌋,
   position mod 2^32, ⌊position / 2^32⌋, 0). An even token takes the words x₀, x₁ of the block, an odd one x₂, x₃.
2. n = 2^20 x₀ + ⌊x₁ / 2^12⌋ has 52 bits, and u = (2n + 1) 2^-53 is exact in float64, never 0 or 1.
3. E = -ln u by :func:`_negative_log`: only comparisons, products with powers of 2, +, -, ×, ÷ in a stated order. IEEE
   754 fixes the bits of each, as long as no product is fused with a sum. Libraries' logarithms differ in the last bit.
4. Token v's time is E_v / p_v in float64, infinite where p_v ≤ 2^-1000 E_v. Of equal times the lowest token wins.
"""

from typing import Any

from hlmtheory._array import Array, arrays, in_kind
from hlmtheory._domains import SIMPLEX, Domain, broadcast, number
from hlmtheory._simplex import quotient

STREAM = "philox4x32-10 race 1"
"""Name of the stream and its version: it changes with any step above."""

STREAM_ID = 0  # last word of the counter: exponentials
KEY_ID = 1  # keys of prompts
ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
WORD = 0xFFFFFFFF
LN2 = 0.6931471805599453
ROOT_HALF = 0.7071067811865476
LARGEST_VOCABULARY = 2**20
SERIES = tuple(1.0 / (2 * k + 1) for k in range(12))  # atanh(s)/s in powers of s²; the rest is below 2^-60 for s ≤ .172

_WHOLE = "a whole number in 0..2^63 - 1"
SEED = Domain(_WHOLE, lambda xp, value: value >= 0, "give an integer, such as one of secrets.randbits(63)", "integer")
POSITION = Domain(
    _WHOLE, lambda xp, value: value >= 0, "count the tokens of the text from 0, prompt included", "integer"
)
VOCABULARY = Domain(
    f"a whole number in 1..{LARGEST_VOCABULARY}",
    lambda xp, value: (value >= 1) & (value <= LARGEST_VOCABULARY),
    "V counts the tokens of a row",
    "integer",
)
PROMPT = Domain(_WHOLE, lambda xp, value: value >= 0, "give the prompt's number", "integer")


def stream_key(seed: Array, prompt: Array) -> Array:
    """Return the seed of one prompt's stream, 63 bits: words 0 and 1 of Philox4x32-10 with key ``seed``.

    The counter is (prompt mod 2^32, ⌊prompt / 2^32⌋, 0, 1). Of n prompts two share a key with about n²/2^64.

    Both arguments are integers of shape (...) in 0..2^63 - 1; others raise a ValueError.
    """
    xp, seed, prompt = arrays(seed=seed, prompt=prompt)
    seed, prompt = SEED.check(xp, "seed", seed), PROMPT.check(xp, "prompt", prompt)
    broadcast(seed=tuple(seed.shape), prompt=tuple(prompt.shape))
    seed, prompt = xp.broadcast_arrays(seed[..., None], prompt[..., None])  # one axis, because numpy warns of scalars
    zero = xp.zeros_like(prompt)
    low, high, _, _ = _philox(seed, (prompt & WORD, prompt >> 32, zero, zero + KEY_ID))
    return (((high & 0x7FFFFFFF) << 32) | low)[..., 0]


def exponentials(seed: Array, position: Array, vocabulary: int) -> Array:
    """Return E_v (..., V) of a position, float64 in [2^-54, 36.8]; seed and position are in 0..2^63 - 1."""
    xp, seed, position = arrays(seed=seed, position=position)
    vocabulary = int(number(VOCABULARY, "vocabulary", vocabulary))
    seed, position = SEED.check(xp, "seed", seed), POSITION.check(xp, "position", position)
    broadcast(seed=tuple(seed.shape), position=tuple(position.shape))
    return _exponentials(xp, seed, position, vocabulary)


def race(probabilities: Array, seed: Array, position: Array) -> Array:
    """Return the times E_v / p_v of the tokens of each row, infinite where p_v = 0; the least is a draw from the row.

    Rows are not divided by their sum, which depends on the order of summation; the winner's law is the row over its
    sum.
    """
    xp, rows, seed, position = arrays(probabilities=probabilities, seed=seed, position=position)
    p = in_kind(xp, SIMPLEX.check(xp, "probabilities", rows), xp.float64)
    seed, position = SEED.check(xp, "seed", seed), POSITION.check(xp, "position", position)
    batch = tuple(p.shape[:-1])
    broadcast(probabilities=batch, seed=tuple(seed.shape), position=tuple(position.shape))
    return quotient(xp, _exponentials(xp, seed, position, p.shape[-1]), p)


def race_winner(probabilities: Array, seed: Array, position: Array) -> Array:
    """Return the token with the least time of :func:`race`, of equal ones the lowest: a draw from the row.

    Parameters
    ----------
    probabilities : array, shape (..., V)
        Probability rows.
    seed, position : int or array of int, shape (...)
        In 0..2^63 - 1. The position is the token's index in the whole text.

    Returns
    -------
    array of int64, shape (...)

    Raises
    ------
    ValueError
        If a row is not a distribution, or a number is no integer or negative.

    Examples
    --------
    >>> int(race_winner([0.5, 0.5, 0.0], 1, 0))
    0
    """
    xp, times = arrays(times=race(probabilities, seed, position))
    tokens = xp.arange(times.shape[-1], device=times.device)
    fastest = times == xp.min(times, axis=-1, keepdims=True)
    return xp.min(xp.where(fastest, tokens, times.shape[-1]), axis=-1)


def race_list(probabilities: Array, seed: Array, position: Array, size: int) -> Array:
    """Return the L tokens (..., L) with the least times of :func:`race`, the fastest first, ties by lowest id.

    ``probabilities`` (..., V), ``seed`` and ``position`` are those of :func:`race_winner`; ``size`` is L. A ValueError
    is raised also if L is not in 1..V.
    """
    xp, times = arrays(times=race(probabilities, seed, position))
    size = list_size("size", size, times.shape[-1])
    return xp.argsort(times, axis=-1, stable=True)[..., :size]


def list_size(name: str, size: Any, vocabulary: int) -> int:
    """Return L; raise if it is not in 1..V."""
    domain = Domain(
        f"a whole number in 1..V with V = {vocabulary}",
        lambda xp, value: (value >= 1) & (value <= vocabulary),
        "L counts candidates of one position",
        kind="integer",
    )
    return int(number(domain, name, size))


def _exponentials(xp: Any, seed: Array, position: Array, vocabulary: int) -> Array:
    """Return E_v for each token (..., V): steps 1 to 3."""
    blocks = (vocabulary + 1) // 2
    position = position[..., None]
    pair = xp.arange(blocks, dtype=xp.int64, device=seed.device) + xp.zeros_like(position)
    counter = (pair, position & WORD, position >> 32, xp.zeros_like(pair) + STREAM_ID)
    words = _philox(seed[..., None], counter)
    shape = (*words[0].shape[:-1], 2 * blocks)
    low = xp.reshape(xp.stack([words[0], words[2]], axis=-1), shape)[..., :vocabulary]
    high = xp.reshape(xp.stack([words[1], words[3]], axis=-1), shape)[..., :vocabulary]
    odd = 2 * ((low << 20) | (high >> 12)) + 1
    return _negative_log(xp, xp.astype(odd, xp.float64) * 2.0**-53)


def _philox(key: Array, counter: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Return the four words of each block. int64 holds the words; a product of two wraps to its lowest 64 bits."""
    k0, k1 = key & WORD, key >> 32
    c0, c1, c2, c3 = counter
    for step in range(ROUNDS):
        first, second = c0 * MULTIPLIERS[0], c2 * MULTIPLIERS[1]
        round0, round1 = (k0 + step * WEYL[0]) & WORD, (k1 + step * WEYL[1]) & WORD
        c0, c1 = ((second >> 32) & WORD) ^ c1 ^ round0, second & WORD
        c2, c3 = ((first >> 32) & WORD) ^ c3 ^ round1, first & WORD
    return c0, c1, c2, c3


def _negative_log(xp: Any, u: Array) -> Array:
    """Return -ln u for u in (0, 1): u = 2^-h m with m in [√½, √2), ln m = 2 atanh((m - 1)/(m + 1))."""
    halvings = xp.zeros_like(u)
    for step in (32, 16, 8, 4, 2, 1):
        small = u < 2.0**-step
        u = xp.where(small, u * 2.0**step, u)
        halvings = xp.where(small, halvings + step, halvings)
    # Now u is in [½, 1).
    small = u < ROOT_HALF
    u = xp.where(small, u * 2.0, u)
    halvings = xp.where(small, halvings + 1.0, halvings)
    s = (1.0 - u) / (u + 1.0)
    square = s * s
    series = xp.zeros_like(u) + SERIES[-1]
    for coefficient in SERIES[-2::-1]:
        series = series * square
        series = series + coefficient
    tail = (2.0 * s) * series
    return halvings * LN2 + tail
