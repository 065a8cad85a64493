"""The bill of decoded texts: what skipping, truncation and the rule of acceptance add to the distance from the target.

``risk`` of a record is one number for each draft that was drawn: β_d if it was skipped, β_d TV(r, r̂⁽ᵈ⁾) if it was sent.
Its mean over the drafts at a position is the position's bill (:func:`hlmtheory.skipping.position_bill`), so the risk of
one text may be above or below its bill. Here the bill itself is measured. At each position that the system drafted, the
method decides again for many drafts, with the same random numbers as in the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.skipping import bill_bound, position_bill
from hlmtheory.verification import total_variation
from validation.collection.collect import encode_prompts
from validation.decoding.kv_cache import CachedModel
from validation.decoding.random_streams import Noise
from validation.decoding.sampling import distributions_of
from validation.decoding.session import Session, Step
from validation.errors import UserError

if TYPE_CHECKING:
    import torch

    from validation.collection.prompts import Prompt
    from validation.decoding.methods.base import Method
    from validation.decoding.records import GenerationRecord
    from validation.models.pair import Pair

Array = NDArray[Any]
DRAFTS = 8


@dataclass(frozen=True, slots=True)
class TextBill:
    """The bill of one text.

    Attributes
    ----------
    tokens, billed : int
        New tokens, and those that were drafted: a bonus token costs nothing.
    bill : float
        Σ of the bills of the positions.
    bound : float
        The same with min(1, Δ⁽ᵈ⁾/T) in place of TV(r, r̂⁽ᵈ⁾).
    """

    tokens: int
    billed: int
    bill: float
    bound: float


def billed_positions(record: GenerationRecord) -> Array:
    """Return the positions of the new tokens that were drafted, int array: all but the bonus tokens.

    A round has its skipped tokens, then the accepted ones, then the replacement of a rejected one or a bonus token.
    """
    parts = [
        np.arange(one.position, one.position + one.skipped + one.accepted + one.resampled)
        for one in (*record.rounds, record.last)
    ]
    return np.concatenate(parts)


def bills_of(
    pair: Pair,
    prompts: Sequence[Prompt],
    method: Method,
    records: Sequence[GenerationRecord],
    *,
    new_tokens: int,
    drafts: int = DRAFTS,
    seed: int = 1,
    noise: Noise | None = None,
) -> list[TextBill]:
    """Return the bill of each text that a method decoded.

    The bill of a position is Σ_d q_d β_d c_d, with c_d = 1 for a skipped draft and TV(r, r̂⁽ᵈ⁾) for a sent one. It is
    estimated without bias from ``drafts`` tokens, drawn in proportion to q_d β_d.

    Parameters
    ----------
    pair, prompts, method
        As the texts were decoded. The method must draft from the draft model, and verify by q or by the argmax.
    records : sequence of GenerationRecord
        One for each prompt, in that order, of one seed, temperature and top-p.
    new_tokens : int
        Of the run.
    drafts : int
        Drafts for which the method decides at each position.
    seed : int
        Of those drafts.
    noise : Noise, optional
        The random numbers of the run, if they are not those of its seed.

    Returns
    -------
    list of TextBill

    Raises
    ------
    UserError
        If the method runs no draft model, or drafts by a shared seed.
    """
    import torch

    if not method.runs_draft:
        raise UserError(f"{method.name} drafts no token from the draft model, so its texts have no bill.")
    if method.shared_seed:
        raise UserError(f"{method.name} replaces no token from a residual, so the bill is not its loss; use its risk.")
    first = records[0]
    numbers = noise or Noise(first.seed, [prompt.id for prompt in prompts], new_tokens)
    session = Session(pair, len(prompts), numbers, None, first.temperature, first.top_p, new_tokens)
    method.begin(session)
    rng = np.random.default_rng(seed)
    found = []
    with torch.inference_mode():
        for i, (ids, record) in enumerate(zip(encode_prompts(pair, prompts, new_tokens), records, strict=True)):
            at = billed_positions(record)
            if not len(at):
                found.append(TextBill(len(record.tokens), 0, 0.0, 0.0))
                continue
            logits, target = (_logits(pair, model, ids, record.tokens)[at] for model in (pair.draft, pair.target))
            bill, bound = _position_bills(method, session, i, at, logits, target, drafts, rng)
            found.append(TextBill(len(record.tokens), len(at), float(bill.sum()), float(bound.sum())))
    return found


def _logits(pair: Pair, model: Any, prompt: list[int], tokens: list[int]) -> torch.Tensor:
    """Return the logits (n, V) from which each new token of a text was drawn."""
    import torch

    text = np.array([[*prompt, *tokens, 0]], dtype=np.int64)
    reader = CachedModel(model, pair.vocabulary, pair.device, 1, text.shape[1], pair.context)
    return torch.cat(reader.read(text, np.array([text.shape[1] - 2]), rows=len(tokens)))


def _position_bills(
    method: Method,
    session: Session,
    sequence: int,
    positions: Array,
    logits: torch.Tensor,
    target: torch.Tensor,
    drafts: int,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """Return the bills of n positions of a text, and the bounds by Δ; logits and target logits are (n, V)."""
    q = distributions_of(logits, session.temperature, session.top_p)
    p = distributions_of(target, session.temperature, session.top_p).double()
    if method.by_argmax:  # verification.greedy: exactly q_a (1 - p_a)
        top = p.argmax(dim=-1, keepdim=True)
        bill = (q.double().gather(-1, top) * (1.0 - p.gather(-1, top)))[:, 0].cpu().numpy()
        return bill, bill
    tokens = _tokens(p, q.double(), drafts, rng)
    flat, count = tokens.reshape(-1), len(positions) * drafts
    step = Step(
        np.full(count, sequence),
        np.repeat(positions, drafts),
        logits.repeat_interleave(drafts, dim=0),
        q.repeat_interleave(drafts, dim=0),
        np.ones(count, dtype=bool),
    )
    skip = np.asarray(method.skip(step, flat), dtype=bool)
    own = method.server_distributions(step, flat, skip)
    if own is None and not skip.any():
        return np.zeros(len(positions)), np.zeros(len(positions))  # nothing is left out, nothing distorted
    return _mean_bills(p, q.double(), skip, own[0] if own else None, drafts)


def _tokens(p: torch.Tensor, q: torch.Tensor, drafts: int, rng: np.random.Generator) -> Array:
    """Return drafts (n, m) in proportion to q_d β_d, one in each m-th part of its mass; the likeliest if that is 0."""
    import torch

    edges = (q - p).clamp_min(0.0).cumsum(dim=-1)
    aim = torch.from_numpy((np.arange(drafts) + rng.random((len(p), 1))) / drafts).to(p.device) * edges[:, -1:]
    chosen = torch.searchsorted(edges, torch.minimum(aim, edges[:, -1:] * (1 - 2.0**-52)), right=True)
    likeliest = q.argmax(dim=-1, keepdim=True)
    return np.asarray(torch.where(edges[:, -1:] > 0, chosen.clamp_max(p.shape[-1] - 1), likeliest).cpu())


def _mean_bills(
    p: torch.Tensor, q: torch.Tensor, skip: Array, known: Sequence[Any] | None, drafts: int
) -> tuple[Array, Array]:
    """Return the mean over a position's drafts of what it would cost if all drafts were treated as this one.

    For drafts in proportion to q_d β_d this is the bill: T for a skipped draft, T TV(r, r̂⁽ᵈ⁾) for a sent one.
    """
    import torch

    bills, bounds = np.zeros((2, len(p), drafts))
    for i in range(len(p)):
        skipped = torch.from_numpy(skip[i * drafts : (i + 1) * drafts, None].astype(np.float64)).to(p.device)
        sent = [None if known is None else known[i * drafts + j] for j in range(drafts)]
        decoded = torch.stack([q[i] if one is None else one.double() for one in sent])
        bills[i] = position_bill(p[i], q[i], skipped, decoded[:, None, :]).cpu().numpy()
        bounds[i] = bill_bound(p[i], q[i], skipped, total_variation(q[i], decoded)[:, None]).cpu().numpy()
    return bills.mean(axis=-1), bounds.mean(axis=-1)
