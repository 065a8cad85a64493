"""Arguments that must fit others: a token of a row, counts on a support, a competitor within a budget, a schedule."""

import math
from typing import Any

import numpy as np

from hlmtheory._samplers import (
    ROW,
    UNIT,
    Draw,
    Row,
    Shape,
    Values,
    derived,
    entries,
    grid,
    inner,
    near,
    normalised,
    pick,
    rows,
    spread,
    unit,
)


def first_of(draw: Draw, *names: str) -> Row:
    """Return the first of these arguments that the claim takes."""
    return draw[next(name for name in names if name in draw.takes)]


def token(draw: Draw, shape: Shape) -> Row:
    """Return a token of each row: any, the most likely, or one that is drawn from the row."""
    row = first_of(draw, "draft", "logits")
    any_token = draw.rng.integers(0, row.shape[-1], shape)
    law = np.where(np.isfinite(row), np.exp(np.minimum(row, 0.0)), 0.0) if "logits" in draw.takes else row
    total = np.cumsum(law, axis=-1)
    drawn = np.argmax(total > (draw.rng.random(shape) * total[..., -1])[..., None], axis=-1)
    return pick(draw.rng, shape, any_token, np.argmax(row, axis=-1), drawn)


def k_of(draw: Draw, shape: Shape) -> Row:
    """Return how many entries of each row are sent: any number, and often few."""
    if "vocabulary" in draw.takes:
        any_k = 1 + np.floor(2000.0 ** draw.rng.random(shape)).astype(np.int64)
        return np.asarray(np.minimum(draw["vocabulary"], any_k))
    size = first_of(draw, "draft", "drafts").shape[-1]
    few = np.floor((size + 1.0) ** draw.rng.random(shape)).astype(np.int64) - 1
    return pick(draw.rng, shape, few, draw.rng.integers(0, size + 1, shape))


def k_on_support(draw: Draw, shape: Shape) -> Row:
    """Return k for each row of drafts: of its non-zero entries, or in a tenth of the instances one fewer."""
    k = draw.rng.integers(1, np.count_nonzero(draw["drafts"], axis=-1) + 1)
    return np.asarray(np.where(draw.rng.random((*shape[:-1], 1)) < 0.1, k - 1, k))


def top_k(draw: Draw, shape: Shape) -> Row:
    """Return k for each draft of a row, or for each row; at most three values where rows are wide."""
    draft = first_of(draw, "draft", "drafts")
    size = draft.shape[-1]
    if shape == draft.shape and size > 12:
        return np.asarray(draw.rng.integers(0, size + 1, 3)[np.digitize(draft, [1e-3, 0.1])])
    return draw.rng.integers(0, size + 1, shape)


def holds_the_largest(draw: Draw, shape: Shape) -> Row:
    """Return which sizes a competitor pads to: the largest, and some others."""
    sizes = draw["sizes"]
    return np.asarray((draw.rng.random(shape) < 0.3) | (sizes == sizes.max(axis=-1, keepdims=True)))


def list_size(draw: Draw, shape: Shape) -> Row:
    """Return how many candidates of each row are sent."""
    return draw.rng.integers(1, draw.size("V") + 1, shape)


def joint_law(draw: Draw, shape: Shape) -> Row:
    """Return the law of a pair of tokens: of any two, or of two that are drawn apart."""
    *batch, size, _ = shape
    any_two = rows(draw.rng, (*batch, size * size)).reshape(shape)
    first, second = rows(draw.rng, (2, *batch, size))
    apart = first[..., :, None] * second[..., None, :]
    return np.where(draw.rng.random((*batch, 1, 1)) < 0.5, any_two, apart)


def half_or_twice_a_draft(draw: Draw, shape: Shape) -> Row:
    """Return the time of a pass beside that of a draft."""
    return np.asarray(draw["draft_time"] * draw.rng.choice([0.5, 2.0], shape))


def skips(draw: Draw, shape: Shape) -> Row:
    """Return the probability that a draft is kept without verification: none, all, those above a level, any."""
    level = unit(draw.rng, (*shape[:-1], 1))
    above = np.where(draw.rng.random(shape) < 0.5, level, 0.0)
    kind = draw.rng.integers(0, 4, (*shape[:-1], 1))
    return np.select([kind == 0, kind == 1, kind == 2], [np.zeros(shape), np.ones(shape), above], unit(draw.rng, shape))


def often_falling(draw: Draw, shape: Shape) -> Row:
    """Return probabilities that never rise from depth to depth, in most batches."""
    drawn = unit(draw.rng, shape)
    return -np.sort(-drawn, axis=-1) if draw.rng.random() < 0.8 else drawn


def decoded(name: str, shared: float = 0.5) -> Values:
    """Return what the server decodes: for each draft, or one for all; near q, truncated, quantised, or q itself."""

    def drawn(draw: Draw, shape: Shape) -> Row:
        draft = draw[name]
        size = draft.shape[-1]
        count = 1 if draw.rng.random() < shared else size
        base = np.broadcast_to(draft[..., None, :], (*draft.shape[:-1], count, size))
        level = np.floor(8 * base) / 8
        quantised = level + (1.0 - np.sum(level, axis=-1, keepdims=True)) / size
        return np.where(draw.rng.random((*base.shape[:-1], 1)) < 0.2, quantised, near(draw.rng, base))

    return derived(ROW, drawn)


def kept(draft: Row, k: Row) -> Row:
    """Return the mask of the k largest entries of each row."""
    rank = np.argsort(np.argsort(-draft, axis=-1, kind="stable"), axis=-1, kind="stable")
    return rank < np.asarray(k)[..., None]


def counts_on_top(draw: Draw, shape: Shape) -> Row:
    """Return competing counts, half of them on the K largest entries alone."""
    counts = draw.rng.integers(0, 5, shape)
    counts[..., 0] += 1
    inside = np.where(kept(draw["draft"], draw["k"]), counts, 0)
    return np.where(draw.rng.random((*shape[:-1], 1)) < 0.5, counts, inside)


def support(draw: Draw, shape: Shape) -> Row:
    """Return a mask of at least one token."""
    mask = draw.rng.random(shape) < 0.7
    mask[..., 0] = True
    return mask


def counts_on_support(draw: Draw, shape: Shape) -> Row:
    """Return counts on a support, of one unit or of many."""
    units = draw.rng.choice([1, 5, 5000], (*shape[:-1], 1))
    counts = np.where(draw["support"], np.floor(draw.rng.random(shape) * units).astype(np.int64), 0)
    counts[..., 0] += 1
    return counts


def counted_token(draw: Draw, shape: Shape) -> Row:
    """Return a token with a positive count."""
    return np.asarray(np.argmax((draw["counts"] > 0) * draw.rng.random(draw["counts"].shape), axis=-1))


def stream(draw: Draw, shape: Shape) -> Row:
    """Return the rows of a text; a third of the texts repeat one row."""
    drafts = rows(draw.rng, shape)
    same = draw.rng.random((*draw.batch, *(1,) * (len(shape) - len(draw.batch)))) < 1 / 3
    return np.where(same, drafts[..., :1, :], drafts)


def dropping(draw: Draw, shape: Shape) -> Row:
    """Return supports that drop tokens in a random order, while the dropped mass is within a share of ε."""
    drafts = draw["drafts"][..., -1, :] if len(shape) < draw["drafts"].ndim else draw["drafts"]
    share = draw.rng.choice([0.5, 0.99, 1.0, 3.0], draw.batch) * (draw["epsilon"] if "epsilon" in draw.takes else 0.3)
    share = share.reshape(*share.shape, *(1,) * (len(shape) - len(draw.batch)))
    order = np.argsort(draw.rng.random(shape), axis=-1)
    mass = np.cumsum(np.take_along_axis(drafts, order, axis=-1), axis=-1)
    stays = (mass > share) | (np.arange(shape[-1]) == shape[-1] - 1)
    mask = np.empty(shape, dtype=bool)
    np.put_along_axis(mask, order, stays, axis=-1)
    return mask


def levels(most: int) -> Any:
    """Return a sampler of multiples of a unit, the same for bias and budget, so that ties occur."""

    def drawn(draw: Draw, shape: Shape) -> Row:
        return draw.rng.integers(0, most + 1, shape) * (1.0, 0.25, 1 / 3)[draw.size("U")]

    return drawn


def of_expected_mean(draw: Draw, shape: Shape) -> Row:
    """Return numbers that are 0 or 1, whose mean is ``expected``; in a few rows all are 1, which no interval allows."""
    fair = (draw.rng.random(shape) < draw["expected"][..., None]).astype(np.float64)
    return np.where(draw.rng.random((*shape[:-1], 1)) < 0.2, 1.0, fair)


def falling_runs(draw: Draw, shape: Shape) -> Row:
    """Return accepted drafts at each token; in half of the texts at most one fewer at the next token."""
    runs = np.minimum(draw.rng.geometric(draw.rng.uniform(0.2, 0.9, (*shape[:-1], 1)), shape) - 1, 20)
    falls = draw.rng.random(shape[:-1]) < 0.5
    for t in range(1, shape[-1]):
        runs[..., t] = np.where(falls, np.maximum(runs[..., t], runs[..., t - 1] - 1), runs[..., t])
    return runs


def joint_rows(draw: Draw, shape: Shape) -> Row:
    """Return joint laws: the entries of a table sum to 1."""
    return grid(draw.rng, (*shape[:-2], shape[-1] * shape[-2])).reshape(shape)


def no_tables(value: Row) -> Any:
    """Yield tables that are no laws."""
    yield np.asarray(value) * 0.97
    yield from entries(math.nan, -0.25)(value)


def same_outputs(draw: Draw, shape: Shape) -> Row:
    """Return answer lengths; in half of the instances all tasks have one."""
    outputs = draw.rng.integers(1, 7, shape)
    return np.where(draw.rng.random((*shape[:-1], 1)) < 0.5, outputs[..., :1], outputs)


def devices(draw: Draw, shape: Shape) -> Row:
    """Return c₁ and c₂ of two machines: coarse numbers, so that ties occur."""
    slope = draw.rng.choice([0.0, 0.25, 0.5, 1.0, 3.0], shape[:-1])
    return np.stack([slope, draw.rng.integers(0, 41, shape[:-1]).astype(float)], axis=-1)


def memory(draw: Draw, shape: Shape) -> Row:
    """Return a memory that holds the weights and a few tokens, so that it may bind, or one without a limit."""
    layers, hidden, forward = np.moveaxis(draw["models"][..., 0, :], -1, 0)
    weights = layers * (8.0 * hidden**2 + 4.0 * hidden * forward)
    return np.asarray(weights + 4.0 * layers * hidden * draw.rng.choice([16.0, 20.0, 30.0, 60.0, np.inf], shape))


def labels(draw: Draw, shape: Shape) -> Row:
    """Return competing partitions: half of them any, half runs of the tasks sorted by prompt length."""
    inputs = draw["input_tokens"]
    place = np.argsort(np.argsort(inputs, axis=-1, kind="stable"), axis=-1)
    runs = np.take_along_axis(np.cumsum(draw.rng.integers(0, 2, shape), axis=-1), place, axis=-1)
    return np.where(draw.rng.random((*shape[:-1], 1)) < 0.5, runs, draw.rng.integers(0, 4, shape))


def times(rng: np.random.Generator, shape: Shape) -> Row:
    """Return seconds: small whole numbers, so that ties and zeros occur, and any."""
    return pick(rng, shape, rng.integers(0, 5, shape).astype(float), rng.uniform(0.0, 10.0, shape))


def order(draw: Draw, shape: Shape) -> Row:
    """Return a permutation."""
    return np.argsort(draw.rng.random(shape), axis=-1)


def safe_rows() -> Values:
    """Return rows of eighths; in half of the positions the first token is likely for both models."""

    def drawn(draw: Draw, shape: Shape) -> Row:
        counts = draw.rng.integers(0, 9, shape).astype(float)
        safe = (0.0, 0.5, 0.875, 1.0)[draw.size("U")]
        return np.asarray(safe * np.eye(1, shape[-1])[0] + (1.0 - safe) * normalised(counts))

    return derived(ROW, drawn)


def no_later_than(most: str, values: Values) -> Values:
    """Return numbers that are at least those of another argument, for most instances."""

    def drawn(draw: Draw, shape: Shape) -> Row:
        rises = draw.rng.random(shape) < 0.8
        return np.where(rises, draw[most] * draw.rng.uniform(1.0, 4.0, shape), values.draw(draw, shape))

    return derived(values, drawn)


def often_of_one_law(draw: Draw, shape: Shape) -> Row:
    """Return a law of draft lengths for each context; for most instances all contexts have one."""
    laws = grid(draw.rng, shape)
    return np.where(draw.rng.random((*shape[:-2], 1, 1)) < 0.7, laws[..., :1, :], laws)


def never_idle(draw: Draw, shape: Shape) -> Row:
    """Return times away that leave a full server busy, for most instances."""
    busy = (draw["users"] - 1) * (draw["pass_s"] + draw["token_s"] * (draw["draft_length"] + 1))
    return np.asarray(busy * draw.rng.uniform(0.0, 1.1, shape))


def logits(draw: Draw, shape: Shape) -> Row:
    """Return rows of logits: ties, large margins, a broad bulk with a few ahead, and masked entries."""
    rng = draw.rng
    bulk = np.round(128 * (rng.normal(0.0, 2.5, shape) + 20.0 * (rng.random(shape) < 0.05))) / 128
    value = pick(rng, shape, rng.integers(-8, 9, shape) / 2, bulk, bulk, rng.uniform(-30.0, 30.0, shape))
    value = np.where(rng.random(shape) < 0.02, rng.choice([-1e4, 1e4, 1e-6, 60.0], shape), value)
    masked = (rng.random(shape) < 0.3) & (rng.random((*shape[:-1], 1)) < 0.3)
    masked[..., 0] = False
    return np.where(masked, -np.inf, value)


def apart(draw: Draw, shape: Shape) -> Row:
    """Return thresholds at least a thousandth from the expectation where a number of draws is asked for."""
    threshold = draw.rng.uniform(-0.25, 1.25, shape)
    if "error" not in draw.takes:
        return threshold
    close = np.abs(draw["expected"] - threshold) < 0.02
    return np.where(close, np.where(draw["expected"] < 0.5, 0.75, 0.25), threshold)


def first_threshold(draw: Draw, shape: Shape) -> Row:
    """Return τ₁: any, or, of every third run, as low as two steps, from where a few positions can raise it above 0."""
    step = draw["learning_rate" if "learning_rate" in draw.takes else "learning_scale"]
    low = draw.rng.random(shape) < 1 / 3
    return np.where(low, -step * draw.rng.uniform(0.0, 2.0, shape), apart(draw, shape))


def rising_losses(draw: Draw, shape: Shape) -> Row:
    """Return losses up to the bound that rise along the thresholds."""
    return draw["bound"][..., None, None] * np.maximum.accumulate(unit(draw.rng, shape), axis=-1)


def risks(draw: Draw, shape: Shape) -> Row:
    """Return risks for each past: any, all at the limit ε, at least ε."""
    value = unit(draw.rng, shape)
    level = draw["risk"][..., None] if "risk" in draw.takes else inner(draw.rng, shape[:-1])[..., None]
    kind = draw.rng.integers(0, 4, (*shape[:-1], 1))
    return np.select([kind == 0, kind == 1], [np.broadcast_to(level, shape), np.maximum(value, level)], value)


def away_from(name: str) -> Values:
    """Return probabilities for each past, often those of another argument."""

    def drawn(draw: Draw, shape: Shape) -> Row:
        same = draw.rng.random((*shape[:-1], 1)) < 0.3
        return np.where(same, draw[name], unit(draw.rng, shape))

    return derived(UNIT, drawn)


def mixed(name: str) -> Values:
    """Return rows that are those of another argument with a share of others."""

    def drawn(draw: Draw, shape: Shape) -> Row:
        share = unit(draw.rng, (*shape[:-1], 1))
        return normalised((1.0 - share) * draw[name] + share * rows(draw.rng, shape))

    return derived(ROW, drawn)


def error_of_intervals(draw: Draw, shape: Shape) -> Row:
    """Return half-widths: 0, tiny, large."""
    return pick(draw.rng, shape, draw.rng.choice([0.0, 1e-12, 1e-3, 0.25, 3.0], shape), draw.rng.random(shape))


def tolerance(draw: Draw, shape: Shape) -> Row:
    """Return tolerances: 0, subnormal, tiny, of a half, and beyond the largest distance."""
    few = draw.rng.choice([0.0, 5e-324, 1e-12, 0.1, 0.5, 1.0, 3.0], shape)
    return pick(draw.rng, shape, few, draw.rng.uniform(0.0, 1.5, shape), spread(draw.rng, 1e-3, 1.0, shape))


def storms(draw: Draw, shape: Shape) -> Row:
    """Return sizes of an update near the printed one, and near the one that its time stands for."""
    return pick(draw.rng, shape, draw.rng.uniform(3.1e9, 3.3e9, shape), draw.rng.uniform(3.5e9, 3.6e9, shape))


def few_or_too_many(draw: Draw, shape: Shape) -> Row:
    """Return draft lengths, some longer than those that are summed term by term."""
    return np.where(draw.rng.random(shape) < 0.05, 4097, draw.rng.integers(0, 61, shape))
