"""The server's side of a round: which drafts of each sequence are accepted, and which token follows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hlmtheory import verification
from validation.arrays import Array
from validation.decoding.random_streams import ACCEPT, REPLACE
from validation.decoding.sampling import distributions_of, draw, levels, probabilities_at, residual, without_token
from validation.decoding.session import Draft, Session

if TYPE_CHECKING:
    import torch

    from validation.decoding.methods.base import Method


@dataclass(slots=True)
class VerifiedDrafts:
    accepted: Array  # (n,), accepted drafts
    rejected: Array  # (n,) bool, whether a draft was rejected and replaced
    token: Array  # (n,), the server's own token; -1 if there is none
    mass: Array  # (n,), sum of the distribution that token was drawn from: 0 or not finite if the logits were NaN
    target: torch.Tensor  # (rows of all sequences, V), p at the positions that were read
    last: Array  # (n,), index in ``target`` of each sequence's last row, p of the token after the last draft
    counts: Array  # (n,), drafts sent

    def rows(self, i: int) -> torch.Tensor:
        return self.target[int(self.last[i - 1]) + 1 if i else 0 : int(self.last[i]) + 1]


@dataclass(frozen=True, slots=True)
class _Read:
    """The drafts in flight of n sequences, and the target model's distributions after its pass."""

    session: Session
    sequences: Array
    in_flight: list[list[Draft]]
    target: torch.Tensor
    first: Array  # (n,), the row of ``target`` of a sequence's first draft
    position: Array
    counts: Array


def verify(
    method: Method,
    session: Session,
    sequences: Array,
    in_flight: list[list[Draft]],
    logits: torch.Tensor | list[torch.Tensor],
    sizes: Array,
    position: Array,
    left: Array,
) -> VerifiedDrafts:
    """Verify each sequence's drafts up to the first rejected one, and draw the token that follows."""
    import torch

    # accept: the drafts of each sequence up to the first that fails the test
    target = distributions_of(logits, session.temperature, session.top_p)
    counts = np.array([len(drafts) for drafts in in_flight])
    last = np.cumsum(sizes) - 1
    read, weight = _Read(session, sequences, in_flight, target, last - counts, position, counts), None
    if method.shared_seed:
        accepted, token, mass = _matches(read)
    elif method.by_block and session.temperature > 0:  # at 0 the two rules are one, and no distribution is sent
        accepted, weight = _longest_blocks(read)
    else:
        accepted = _count_accepted(method, read)
    rejected = accepted < counts

    # choose which sequences get a token from the server: after a rejection always, else a bonus token if it still fits
    ended = np.zeros(len(sequences), dtype=bool)
    for i, drafts in enumerate(in_flight):
        if accepted[i] and drafts[accepted[i] - 1].token in session.pair.end_tokens:  # no earlier draft can be one
            ended[i] = True
    gets_token = rejected | ((accepted == counts) & (left > accepted) & ~ended & (method.bonus | (counts == 0)))

    # replace: from p at that position, or from the residual where a draft was rejected; a shared seed has drawn already
    if not method.shared_seed:
        following = target
        if len(target) > len(sequences):
            following = target.index_select(0, torch.from_numpy(last - counts + accepted).to(target.device))
        if rejected.any() and not method.samples_target:
            following = _with_residuals(method, following, in_flight, accepted, np.flatnonzero(rejected), weight)
        places = np.minimum(position + accepted, session.new_tokens)
        token, mass = draw(following, session.noise.uniforms(REPLACE, sequences, places, levels(target.shape[-1])))
    return VerifiedDrafts(accepted, rejected, np.where(gets_token, token, -1), mass, target, last, counts)


def _count_accepted(method: Method, read: _Read) -> Array:
    import torch

    target, most = read.target, int(read.counts.max())
    if not most:
        return np.zeros(len(read.sequences), dtype=np.int64)
    number = np.arange(most)
    sent = number < read.counts[:, None]
    tokens, q = np.zeros(sent.shape, dtype=np.int64), np.ones(sent.shape)
    tokens[sent] = [draft.token for drafts in read.in_flight for draft in drafts]
    q[sent] = [draft.probability for drafts in read.in_flight for draft in drafts]
    row = torch.from_numpy(np.minimum(read.first[:, None] + number, len(target) - 1)).to(target.device)
    if method.by_argmax:
        passes = target.argmax(dim=-1)[row].cpu().numpy() == tokens
    else:
        p = target[row, torch.from_numpy(tokens).to(target.device)].double().cpu().numpy()
        places = np.minimum(read.position[:, None] + number, read.session.new_tokens)
        uniform = read.session.noise.uniform(ACCEPT, read.sequences[:, None], places)
        passes = uniform * q < p  # u < p/q, computed without the quotient, which may overflow
    passes &= sent
    return np.asarray(np.cumprod(passes, axis=1).sum(axis=1))


def block_passes(weights: Array, spare: Array) -> Array:
    """Return h of each block (K,), from w (K,) and S (K - 1,)."""
    rest = spare + 1.0 - weights[:-1]
    return np.append(np.divide(spare, rest, out=np.ones_like(rest), where=rest > 0), weights[-1])


def _longest_blocks(read: _Read) -> tuple[Array, Array]:
    """Return the drafts of the longest block of each sequence that passes, and the block's weight, both (n,)."""
    import torch

    kept, weight = np.zeros(len(read.sequences), dtype=np.int64), np.ones(len(read.sequences))
    for i, drafts in enumerate(read.in_flight):
        if not drafts:
            continue
        p = read.target[int(read.first[i]) : int(read.first[i]) + len(drafts)].double()
        q = torch.stack([draft.server_distribution for draft in drafts if draft.server_distribution is not None]).to(p)
        p, q = p / p.sum(dim=-1, keepdim=True), q / q.sum(dim=-1, keepdim=True)
        tokens = np.array([draft.token for draft in drafts])
        weights = [1.0]
        for at_p, at_q in zip(probabilities_at(p, tokens), probabilities_at(q, tokens), strict=True):
            weights.append(1.0 if weights[-1] * at_p >= at_q else weights[-1] * at_p / at_q)
        before = torch.tensor(weights[1:-1], dtype=p.dtype, device=p.device)[:, None]
        spare = (before * p[1:]).sub_(q[1:]).clamp_min_(0.0).sum(dim=-1).cpu().numpy()
        passes = block_passes(np.array(weights[1:]), spare)
        uniforms = read.session.noise.blocks(int(read.sequences[i]), int(read.position[i]), len(drafts))
        kept[i] = (uniforms < passes).nonzero()[0].max(initial=-1) + 1
        weight[i] = weights[kept[i]]
    return kept, weight


def _matches(read: _Read) -> tuple[Array, Array, Array]:
    """Return the number of drafts that are the server's tokens, the server's next token, and its distribution's sum."""
    import torch

    number = np.arange(int(read.counts.max()) + 1)
    there = number <= read.counts[:, None]
    rows = read.target[torch.from_numpy((read.first[:, None] + number)[there]).to(read.target.device)]
    winner, mass = np.full(there.shape, -1), np.ones(there.shape)
    each = np.broadcast_to(read.sequences[:, None], there.shape)[there]
    winner[there], mass[there] = read.session.race(rows, each, (read.position[:, None] + number)[there])
    drafted = np.full(there.shape, -2)
    drafted[number < read.counts[:, None]] = [draft.token for drafts in read.in_flight for draft in drafts]
    accepted = np.cumprod(winner == drafted, axis=1).sum(axis=1)
    sequence = np.arange(len(read.counts))
    return accepted, winner[sequence, accepted], mass[sequence, accepted]


def _with_residuals(
    method: Method,
    following: torch.Tensor,
    in_flight: list[list[Draft]],
    accepted: Array,
    rejected: Array,
    weight: Array | None,
) -> Any:
    """Return ``following``, with unnormalised residuals in the rows of the sequences whose draft was rejected."""
    import torch

    first = [in_flight[i][accepted[i]] for i in rejected]
    known = [draft.server_distribution for draft in first if draft.server_distribution is not None]
    all_rejected = len(rejected) == len(following)
    index = torch.from_numpy(rejected).to(following.device)
    target = following if all_rejected else following[index]
    if method.cuts_answer:
        target = _answers(method, first, target)
    if known:  # the drafts of a method are either all certain or all drawn from a distribution
        rows = known[0][None] if len(known) == 1 else torch.stack(known)
        weights = () if weight is None else (torch.from_numpy(weight[rejected]).to(target.device)[:, None],)
        residuals = residual(target, rows, *weights)
    else:
        residuals = without_token(target, np.array([draft.token for draft in first]))
    return residuals if all_rejected else following.double().index_copy(0, index, residuals)


def _answers(method: Method, drafts: list[Draft], target: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.stack([method.answered(*pair) for pair in zip(drafts, target, strict=True)])


def step_risks(method: Method, drafts: list[Draft], target: torch.Tensor) -> tuple[float, float]:
    """Return Σ TV(q, p) over verified drafts with p in ``target`` (n, V), and the risk that their verification adds."""
    import torch

    if not drafts or drafts[0].draft_distribution is None:
        return 0.0, 0.0
    q, p = torch.stack([draft.distribution for draft in drafts]).double(), target.double()
    mismatch = float(verification.total_variation(p, q).sum())
    if method.by_argmax:
        top = p.argmax(dim=-1, keepdim=True)
        return mismatch, float((q.gather(-1, top) * (1.0 - p.gather(-1, top))).sum())
    if not method.truncates and not method.cuts_answer:
        return mismatch, 0.0
    tokens = torch.tensor([draft.token for draft in drafts], device=p.device)[:, None]
    beta = verification.rejection_probability(p, q).gather(-1, tokens)[:, 0]
    if method.cuts_answer:
        drawn = residual(_answers(method, drafts, p), q)
    else:
        known = torch.stack([draft.server_distribution for draft in drafts if draft.server_distribution is not None])
        drawn = residual(p, known)
    true, distorted = (part / part.sum(-1, keepdim=True) for part in (residual(p, q), drawn))
    return mismatch, float((beta * 0.5 * (true - distorted).abs().sum(dim=-1)).sum())


def skip_risk(draft: Draft, target: torch.Tensor) -> float:
    """Return β_d = (1 - p_d/q_d)⁺ of a draft that was kept without verification; ``target`` (V,) is p."""
    risk = 1.0 - float(target[draft.token]) / draft.probability
    return 0.0 if risk < 0 else risk  # NaN stays NaN, so that broken logits are noticed


def raced_skip_risk(draft: Draft, target: torch.Tensor) -> float:
    """Return P(b ≠ d | a = d) = 1 - t_d/q_d of a draft that was kept under a shared seed; ``target`` (V,) is p."""
    p, q = target.double(), draft.distribution.double()
    if p[draft.token] == 0:
        return 1.0
    mean = (q / q[draft.token]).maximum(p / p[draft.token]).sum()
    return float(1.0 - 1.0 / (mean * q[draft.token]))
