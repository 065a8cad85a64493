"""The server's side of a round: which drafts of each text are accepted, and what follows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory import verification
from validation.decoding.random_streams import ACCEPT, REPLACE
from validation.decoding.sampling import draw, levels, replacement, rows_of, without
from validation.decoding.session import Draft, Session

if TYPE_CHECKING:
    import torch

    from validation.decoding.methods.base import Method

Array = NDArray[Any]


@dataclass(slots=True)
class VerifiedDrafts:
    """What became of the drafts of n texts."""

    accepted: Array  # (n,), drafts
    rejected: Array  # (n,) bool, whether one was replaced
    token: Array  # (n,), the server's own, -1 if there is none
    mass: Array  # (n,), sum of the row it was drawn from: not finite or 0 if that is none
    target: torch.Tensor  # (rows of all texts, V), the target model's
    last: Array  # (n,), each text's last row in them; it follows the last draft
    counts: Array  # (n,), drafts sent

    def rows(self, i: int) -> torch.Tensor:
        """All rows of a text."""
        return self.target[int(self.last[i - 1]) + 1 if i else 0 : int(self.last[i]) + 1]


def verify(
    method: Method,
    session: Session,
    rows: Array,
    flights: list[list[Draft]],
    logits: torch.Tensor | list[torch.Tensor],
    sizes: Array,
    position: Array,
    left: Array,
) -> VerifiedDrafts:
    """Accept, reject, replace.

    Parameters
    ----------
    method, session
    rows : int array, shape (n,)
        The texts.
    flights : list of n lists of Draft
    logits : tensor, shape (sum of sizes, V), or list of its parts
        Of the target model, text after text: the last row of each is the law of the token after its last draft.
    sizes : int array, shape (n,)
        Rows of each text; at least one more than its drafts.
    position, left : int array, shape (n,)
        New tokens so far, and how many more there may be.

    Returns
    -------
    VerifiedDrafts
    """
    import torch

    target = rows_of(logits, session.temperature, session.top_p)
    counts = np.array([len(flight) for flight in flights])
    last = np.cumsum(sizes) - 1
    kept = _accepted(method, session, rows, flights, target, last - counts, position, counts)
    ends = np.zeros(len(rows), dtype=bool)
    for i, flight in enumerate(flights):
        if kept[i] and flight[kept[i] - 1].token in session.pair.end_tokens:  # only the last draft can end a text
            ends[i] = True
    rejected = kept < counts
    own = rejected | ((kept == counts) & (left > kept) & ~ends & (method.bonus | (counts == 0)))
    following = target
    if len(target) > len(rows):
        following = target.index_select(0, torch.from_numpy(last - counts + kept).to(target.device))
    if rejected.any() and not method.samples_target:
        following = _replaced(following, flights, kept, np.flatnonzero(rejected))
    places = np.minimum(position + kept, session.new_tokens)
    token, mass = draw(following, session.noise.uniforms(REPLACE, rows, places, levels(target.shape[-1])))
    return VerifiedDrafts(kept, rejected, np.where(own, token, -1), mass, target, last, counts)


def _accepted(
    method: Method,
    session: Session,
    rows: Array,
    flights: list[list[Draft]],
    target: torch.Tensor,
    first: Array,
    position: Array,
    counts: Array,
) -> Array:
    """How many drafts of each text are accepted before the first that is not; ``first`` are their rows' indices."""
    import torch

    most = int(counts.max())
    if not most:
        return np.zeros(len(rows), dtype=np.int64)
    number = np.arange(most)
    sent = number < counts[:, None]
    tokens, chance = np.zeros(sent.shape, dtype=np.int64), np.ones(sent.shape)
    tokens[sent] = [draft.token for flight in flights for draft in flight]
    chance[sent] = [draft.chance for flight in flights for draft in flight]
    place = np.minimum(first[:, None] + number, len(target) - 1)
    row = torch.from_numpy(place).to(target.device)
    if method.by_argmax:
        good = target.argmax(dim=-1)[row].cpu().numpy() == tokens
    else:
        found = target[row, torch.from_numpy(tokens).to(target.device)].double().cpu().numpy()
        places = np.minimum(position[:, None] + number, session.new_tokens)
        uniform = session.noise.uniform(ACCEPT, rows[:, None], places)
        good = uniform * chance < found  # u < p_d/q_d without the quotient, so q_d may be as small as it likes
    good &= sent
    return np.asarray(np.cumprod(good, axis=1).sum(axis=1))


def _replaced(following: torch.Tensor, flights: list[list[Draft]], kept: Array, rejected: Array) -> torch.Tensor:
    """The rows with the residuals of the texts whose draft was rejected; a row need not sum to 1."""
    import torch

    first = [flights[i][kept[i]] for i in rejected]
    known = [draft.known for draft in first if draft.known is not None]
    everyone = len(rejected) == len(following)
    index = torch.from_numpy(rejected).to(following.device)
    target = following if everyone else following[index]
    if known:  # a method's drafts are all certain, or none is
        left = replacement(target, known[0][None] if len(known) == 1 else torch.stack(known))
    else:
        left = without(target, np.array([draft.token for draft in first]))
    return left if everyone else following.double().index_copy(0, index, left)


def step_risks(method: Method, drafts: list[Draft], target: torch.Tensor) -> tuple[float, float]:
    """Σ TV(q, p) over drafts that were looked at, and what bounds the total variation that these steps add.

    That is Σ β_d TV(r, r̂) of truncated drafts, and Σ q_a (1 - p_a), a the argmax of p, of those accepted by the argmax
    (:func:`hlmtheory.verification.greedy_output_distribution`); 0 where the rule is lossless. ``target`` (len(drafts),
    V) are p.
    """
    import torch

    if not drafts or drafts[0].own is None:
        return 0.0, 0.0
    own, target = torch.stack([draft.row for draft in drafts]).double(), target.double()
    mismatch = float(verification.total_variation(target, own).sum())
    if method.by_argmax:
        top = target.argmax(dim=-1, keepdim=True)
        return mismatch, float((own.gather(-1, top) * (1.0 - target.gather(-1, top))).sum())
    if not method.truncates:
        return mismatch, 0.0
    known = torch.stack([draft.known for draft in drafts if draft.known is not None])
    tokens = torch.tensor([draft.token for draft in drafts], device=target.device)[:, None]
    beta = verification.rejection_probability(target, own).gather(-1, tokens)[:, 0]
    true, distorted = (
        part / part.sum(-1, keepdim=True) for part in (replacement(target, own), replacement(target, known))
    )
    return mismatch, float((beta * 0.5 * (true - distorted).abs().sum(dim=-1)).sum())


def skip_risk(draft: Draft, target: torch.Tensor) -> float:
    """β_d of a draft that was kept unseen, from the target model's row (V,)."""
    risk = 1.0 - float(target[draft.token]) / draft.chance
    return 0.0 if risk < 0 else risk  # a NaN stays one, so that it shows
