"""Operations and memory of a forward pass, and the times of the draft and verify stages."""

import numpy as np

from hlmtheory._array import Array
from hlmtheory._domains import COUNT, UNIT_INTERVAL, DomainError, broadcast, finite_answer, instance, number, numbers
from hlmtheory._quantities import whole_in
from hlmtheory.serving.shapes import BYTES, LENGTH, POSITIVE_COUNT, ModelShape, Service
from hlmtheory.verification import expected_tokens


@finite_answer
def peak_memory(
    model: ModelShape, input_tokens: Array, output_tokens: Array, batch_size: Array, draft_length: Array = 1
) -> Array:
    """Return the peak memory of a draft model and the cache of one batch, in bytes, over all acceptance patterns.

    Parameters
    ----------
    model : ModelShape
    input_tokens, output_tokens : array, shape (...)
        I_m and O_m, the largest of the batch, 0 or more.
    batch_size : integer array, shape (...)
        b, 0 or more.
    draft_length : integer array, shape (...), default 1
        l ≥ 0. Autoregressive decoding (l = 0) caches as many tokens as one draft per step (l = 1).

    Returns
    -------
    array, shape (...)
        Bytes: edge-sd (9) for the weights, and (10) with I_m + O_m + l - 2 cached tokens for each task instead of the
        printed I_m + O_m (``serving.memory_peak``). For O = 0 only the prompt is cached.

    Raises
    ------
    ValueError
        If a length is negative or not finite, or the batch size or the draft length is not an integer of 0 or more.

    Examples
    --------
    >>> peak_memory(ModelShape(1, 1, 1), 1, 1, 1, [1, 10]).tolist()
    [16.0, 52.0]
    """
    sizes = instance("model", model, ModelShape).sizes
    prompt, answer = numbers(LENGTH, "input_tokens", input_tokens), numbers(LENGTH, "output_tokens", output_tokens)
    length, batch = numbers(COUNT, "draft_length", draft_length), numbers(COUNT, "batch_size", batch_size)
    broadcast(input_tokens=prompt.shape, output_tokens=answer.shape, batch_size=batch.shape, draft_length=length.shape)
    return memory_bytes(*sizes, cached_tokens(prompt, answer, length), batch)


def decoding_steps(output_tokens: Array, acceptance: Array, draft_length: Array) -> Array:
    """Return the number of decoding steps n_m = ⌈O_m / L⌉ after which a batch has all its tokens: edge-sd (8), (7).

    A quotient within 1e-12 (relative) of a whole number counts as that number, so that rounding cannot add a step.
    """
    output = numbers(POSITIVE_COUNT, "output_tokens", output_tokens)
    tokens = tokens_per_step(acceptance, draft_length)
    broadcast(output_tokens=output.shape, **{"acceptance or draft_length": tokens.shape})
    quotient = output / tokens
    return np.ceil(quotient * (1.0 - 1e-12)).astype(np.int64)


@finite_answer
def stage_times(service: Service, draft_length: Array, input_tokens: Array, batch_size: Array) -> tuple[Array, Array]:
    """Return the draft and verify times of a batch, for every decoding step.

    Parameters
    ----------
    service : Service
    draft_length : integer array, shape (...)
        l ≥ 0.
    input_tokens, batch_size : integer array, shape (...)
        I_m ≥ 1 and b ≥ 1.

    Returns
    -------
    draft, verify : array, shape (..., 3)
        The stages (prefill, base, slope) in seconds; see :func:`step_times`. They are edge-sd (18), (19) with (13),
        (14), summed over the l passes in closed form.

    Raises
    ------
    ValueError
        If a value is outside its domain.

    Examples
    --------
    >>> from hlmtheory.serving import Device
    >>> model, device = ModelShape(1, 1, 1), Device(0.25, 1.0)
    >>> draft, verify = stage_times(Service(model, model, device, device, acceptance=1.0), 1, 2, 1)
    >>> draft.tolist(), verify.tolist()
    ([11.0, 6.0, 2.0], [19.0, 13.0, 4.0])
    """
    instance("service", service, Service)
    length = numbers(COUNT, "draft_length", draft_length)
    prompt = numbers(POSITIVE_COUNT, "input_tokens", input_tokens)
    size = numbers(POSITIVE_COUNT, "batch_size", batch_size)
    broadcast(draft_length=length.shape, input_tokens=prompt.shape, batch_size=size.shape)
    tokens, sides = tokens_per_step(service.acceptance, length), (service.draft.sizes, service.verify.sizes)
    (j, h, f), (jv, hv, fv), first, second = *sides, service.draft_device, service.verify_device
    k, i, b = (np.asarray(value, dtype=np.float64) for value in (length, prompt, size))
    work, workv, c2, c2v = 4.0 * first.c1 * j * h * b, 4.0 * second.c1 * jv * hv * b, first.c2, second.c2
    inner = k * (k - 1.0) / 2.0  # cached drafts before each pass of a step, summed
    drafts = np.where(k > 0, (i + k - 1.0) * (2.0 * h + f + i) + inner, 0.0)  # (13), n = 1
    draft = (work * drafts + c2 * k, work * (k * (2.0 * h + f + i) + inner) + c2 * k, work * k * tokens)  # (19)
    verify = (
        workv * (i + k) * (2.0 * hv + fv + i + k) + c2v,  # (14), n = 1; (18)
        workv * (1.0 + k) * (2.0 * hv + fv + i + k) + c2v,
        workv * (1.0 + k) * tokens,
    )
    return np.stack(np.broadcast_arrays(*draft), axis=-1), np.stack(np.broadcast_arrays(*verify), axis=-1)


@finite_answer
def upload_bits(draft: ModelShape, verify: ModelShape, input_tokens: Array) -> Array:
    """Return the bits 16 (h₁ + h₁') I_k that upload a prompt's embeddings for both models: edge-sd below (15)."""
    instance("draft", draft, ModelShape)
    instance("verify", verify, ModelShape)
    return 8.0 * BYTES * (draft.hidden + verify.hidden) * numbers(LENGTH, "input_tokens", input_tokens)


def tokens_per_step(acceptance: Array, draft_length: Array) -> Array:
    """Return L, the expected tokens per step, by (7)."""
    alpha, length = numbers(UNIT_INTERVAL, "acceptance", acceptance), numbers(COUNT, "draft_length", draft_length)
    return np.asarray(expected_tokens(alpha, length))


def operations(layers: Array, hidden: Array, feed_forward: Array, new: Array, cached: Array) -> Array:
    """Return 4 J h₁ t (2 h₁ + h₂ + c + t), (11)-(14)."""
    return 4.0 * layers * hidden * new * (2.0 * hidden + feed_forward + cached + new)


def cached_tokens(prompt: Array, answer: Array, length: Array) -> Array:
    """Return the largest number of tokens of one task in the draft model's cache; see :func:`peak_memory`."""
    return np.where(answer > 0, prompt + answer + np.maximum(length, 1) - 2.0, prompt)


def memory_bytes(layers: Array, hidden: Array, feed_forward: Array, cached: Array, size: Array) -> Array:
    """Return the bytes of the weights and of the cache of one batch, (9) and (10)."""
    weights = layers * (8.0 * hidden**2 + 4.0 * hidden * feed_forward)  # (9)
    return weights + 4.0 * layers * hidden * cached * size  # (10)


_OUTPUT = whole_in(1, 2**14, "the time grows with its square, and the ratio of the means nears O/L")


def steps_distribution(output_tokens: int, acceptance: float, draft_length: int) -> Array:
    """P(N ≤ n), shape (O + 1,): a sequence has its O tokens after n steps, each draft accepted with probability α."""
    output = number(_OUTPUT, "output_tokens", output_tokens)
    alpha = number(UNIT_INTERVAL, "acceptance", acceptance)
    length = min(number(COUNT, "draft_length", draft_length), output)  # more drafts than tokens change nothing
    tokens = alpha ** np.arange(length + 1)
    tokens[:-1] -= tokens[1:]  # P(1 + i tokens), i = 0..l
    made = np.zeros(output)  # P(g tokens made so far), g < O
    made[0], reached = 1.0, np.zeros(output + 1)
    for n in range(1, output + 1):
        made = np.concatenate([[0.0], np.convolve(made, tokens)[: output - 1]])  # a step makes at least one
        reached[n] = 1.0 - made.sum() if n < output else 1.0
    return np.clip(reached, 0.0, 1.0)  # rounding of a sum of probabilities


def expected_steps(output_tokens: Array, acceptance: float, draft_length: int) -> float:
    """Expected number of decoding steps of a batch, which runs until its slowest sequence is done."""
    outputs = np.atleast_1d(numbers(_OUTPUT, "output_tokens", output_tokens))
    if outputs.ndim != 1 or not outputs.size:
        raise DomainError(f"output_tokens must be a row of lengths; got shape {outputs.shape}; give one a sequence")
    below = np.ones(int(outputs.max()) + 1)
    for output, count in zip(*np.unique(outputs, return_counts=True), strict=True):
        below[: output + 1] *= steps_distribution(int(output), acceptance, draft_length) ** int(count)
    return float((1.0 - below).sum())
