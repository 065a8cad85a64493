"""A planned policy in the generation loop: the decisions and the bytes of :class:`hlmtheory.wire.DevicePolicy`."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory import wire
from hlmtheory.policy.answers import answer_length
from hlmtheory.policy.device_parts import DeviceDraft
from validation.arrays import Array
from validation.collection.fingerprint import fingerprints
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import cut
from validation.decoding.methods.registry import Family, entry, register
from validation.decoding.methods.rows import OURS, Format, Law
from validation.decoding.random_streams import SKIP, Columns
from validation.decoding.session import Draft, Message, Proposal, Session, Step
from validation.errors import UserError
from validation.trace.journal import write_atomically

if TYPE_CHECKING:
    import torch

    from validation.models.pair import Pair

FILE = "policy.json"


@register(entry("Planned", Family.PLANNED, "ours", "*", width=2.0, order=5))
class Planned(Method):
    """A policy of ``hlm plan``: what a device that reads ``policy.json`` decides and sends."""

    source, law, format, row = "policy", Law.LIMIT, Format.POLICY, OURS

    def __init__(self, policy: wire.DevicePolicy) -> None:
        self.policy, self.text = policy, policy.to_json()
        self.name = f"Planned ({zlib.crc32(self.text.encode()):08x})"
        self.max_draft_length, self.bonus = policy.rule.draft_length, policy.bonus
        self.truncates = isinstance(policy.messages, wire.CertifiedRows)
        self.runs_draft = policy.rule.draft_length > 0
        self.shared_seed = isinstance(policy.messages, wire.SeededTokens)
        self.streamed = isinstance(policy.messages, wire.StreamedTokens)
        self.by_block = policy.block
        self.cuts_answer = isinstance(policy.messages, wire.CertifiedAnswers)

    def begin(self, session: Session) -> None:
        policy = self.policy
        if session.vocabulary != policy.vocabulary:
            raise UserError(
                f"The policy is for {policy.vocabulary:,} tokens, and the models have {session.vocabulary:,}; plan for "
                "these models."
            )
        refuse_other_sampling(policy, session.temperature, session.top_p)
        self.places: dict[int, int] = {}
        super().begin(session)

    def propose(self, step: Step) -> Proposal:
        import torch

        self.logits = step.logits.double().cpu().numpy()
        rows = np.stack([self.policy.distribution(row) for row in self.logits])
        return Proposal(torch.from_numpy(rows).to(step.distributions.device))

    def skip(self, step: Step, tokens: Array) -> Array:
        for sequence, first in zip(step.sequences.tolist(), step.first_of_round.tolist(), strict=True):
            self.places[sequence] = 1 if first else self.places[sequence] + 1
        rows = zip(self.logits, tokens.tolist(), step.sequences.tolist(), strict=True)
        self.decided = [
            self.policy.decide(row, token, place=self.places[sequence], rng=self._numbers(step, n))
            for n, (row, token, sequence) in enumerate(rows)
        ]
        return np.array([draft.skip for draft in self.decided], dtype=bool)

    def server_distributions(
        self, step: Step, tokens: Array, skip: Array
    ) -> tuple[Sequence[Any], Sequence[DeviceDraft]]:
        """Return the distributions that the server decodes, and the drafts for the message."""
        import torch

        device, rows = step.distributions.device, [self.policy.server_row(draft) for draft in self.decided]
        return [None if row is None else torch.from_numpy(row).to(device) for row in rows], self.decided

    def message(self, drafts: list[Draft]) -> Message:
        """Return the bytes that the device sends; of a device that drafts on also the number of starts, below 128."""
        payload = bytes(self.streamed) + self.policy.message([draft.note for draft in drafts])
        return Message(8.0 * len(payload), payload)

    def answered(self, draft: Draft, target: torch.Tensor) -> torch.Tensor:
        messages = self.policy.messages
        if not isinstance(messages, wire.CertifiedAnswers) or not bool(target.isfinite().all()):
            return target
        return cut(draft, target, messages.limit)

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Return the bytes of the answer: the count and a token, or after a rejection p, if the device draws."""
        if self.policy.message_sizes:
            return answer_length(self.policy, len(drafts))
        if accepted == len(drafts) or not isinstance(self.policy.messages, wire.DraftProbabilities):
            return super().reply(drafts, accepted) + self.streamed
        return 2 + (len(drafts[accepted].answer) if self.cuts_answer else 4 * self.policy.vocabulary)

    def _numbers(self, step: Step, place: int) -> np.random.Generator:
        line = self.policy.line
        if line is None or line.draws is None:
            return Columns(np.empty((0, 1)))
        row = slice(place, place + 1)
        return Columns(self.session.noise.several(step.sequences[row], step.positions[row], 2 * line.draws))


def refuse_other_sampling(policy: wire.DevicePolicy, temperature: float, top_p: float) -> None:
    if temperature != policy.temperature or top_p != 1.0:
        raise UserError(
            f"The policy is for temperature {policy.temperature:g} and top-p 1, and the run has {temperature:g} and "
            f"{top_p:g}; plan for these, or decode at those."
        )


class Audited(Planned):
    """A policy that audits its skips: a draft that would be kept is sent with ``probability``, by a coin of its own.

    The server rejects it with the probability β_d, the risk of keeping it (:mod:`hlmtheory.skipping.audit`).
    """

    def __init__(
        self,
        policy: wire.DevicePolicy,
        probability: float,
        *,
        keeps: Callable[[float], bool] | None = None,
        on_kept: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(policy)
        _check_audit(policy, probability, has_threshold=keeps is not None)
        self.probability, self.keeps, self.on_kept = probability, keeps, on_kept
        self.sends = replace(policy, rule=replace(policy.rule, skips=False))
        self.name = f"{self.name}, audited ({probability:g})"

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.audits: set[int] = set()

    def skip(self, step: Step, tokens: NDArray[np.int64]) -> NDArray[np.bool_]:
        skips = super().skip(step, tokens)
        coins = self.session.noise.uniform(SKIP, step.sequences, step.positions) < self.probability
        for n, (sequence, first) in enumerate(zip(step.sequences.tolist(), step.first_of_round.tolist(), strict=True)):
            if not first:
                continue
            self.audits.discard(sequence)
            if self.keeps is not None:
                skips[n] = self.keeps(self.decided[n].rejection or 0.0)
            if skips[n] and coins[n]:
                self.audits.add(sequence)
                skips[n] = False
            if skips[n]:
                self.decided[n] = replace(self.decided[n], skip=True, coded=None, bias=None)
                if self.on_kept is not None:
                    self.on_kept()
            elif self.decided[n].skip:
                self.decided[n] = self.sends.decide(self.logits[n], int(tokens[n]), rng=self._numbers(step, n))
        return skips

    def audited(self, sequence: int) -> bool:
        return sequence in self.audits


def _check_audit(policy: wire.DevicePolicy, probability: float, *, has_threshold: bool) -> None:
    rule = policy.rule
    if not rule.skips:
        raise UserError("The policy skips no verification, so there is nothing to audit; leave the audit out.")
    if not 0 < probability <= 1:
        raise UserError(f"The audit's probability is {probability:g}; it must be above 0 and at most 1, such as 0.1.")
    if has_threshold and (isinstance(policy.messages, wire.CertifiedRows) or rule.bit_price or rule.skip_slope != 1):
        raise UserError("The policy's rule has prices, so it has no threshold that could change; leave that out.")


def write_policy(policy: wire.DevicePolicy, path: str | Path) -> Path:
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, policy.to_json())
    return file


def read_policy(path: str | Path) -> wire.DevicePolicy:
    file = Path(path)
    file = file / FILE if file.is_dir() else file
    try:
        return wire.DevicePolicy.from_json(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"There is no policy at {file}; make one with `python3 hlm plan`.") from error
    except ValueError as error:  # of the policy, or of UTF-8
        raise UserError(f"{file} holds no policy: {error}.") from error


def models_mark(settings: Mapping[str, Any] | None) -> str | None:
    """Return the mark of two models by which a policy knows them; None if their weights are not known."""
    names = ("vocabulary", "small_weights", "large_weights")
    if not settings or any(name not in settings for name in names):
        return None
    return " ".join(str(settings[name]) for name in names)


def planned_methods(path: str | Path | None, temperature: float, top_p: float) -> list[Planned]:
    """Return the decoding method of a policy's file, in a list; none without a file."""
    if path is None:
        return []
    method = Planned(read_policy(path))
    refuse_other_sampling(method.policy, temperature, top_p)
    return [method]


def refuse_other_models(methods: Sequence[Planned], pair: Pair) -> None:
    """Raise a UserError if a policy was planned for models of other weights; without its mark nothing is compared."""
    for policy in (method.policy for method in methods if method.policy.planned_for is not None):
        if (mark := models_mark(fingerprints(pair, [], []))) != policy.planned_for:
            raise UserError(
                f"The policy was planned for other models ({policy.planned_for!r}) than these ({mark!r}); plan for "
                "these models, or give those."
            )
