"""The generation loop, one for all decoding methods: draft, send, verify, replace, roll back.

A method makes the decisions; the loop runs the models, keeps the sequences and their caches, draws, asks the link how
long a message takes, and writes a record. The sequences of a batch are independent, each with its own random numbers,
so a batch changes a sequence only by the rounding of the models' matrix products.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.arrays import Array
from validation.collection.collect import encode_prompts, up_to_end
from validation.decoding.batch_state import DRAFT, NOT_BEGUN, TARGET, BatchState, DecodingError
from validation.decoding.kv_cache import TreeModel
from validation.decoding.random_streams import Noise
from validation.decoding.records import GenerationRecord, Round
from validation.decoding.sampling import distributions_of, draw, levels, probabilities_at
from validation.decoding.session import Draft, Message, Outcome, Session, Step
from validation.decoding.streamed import stream
from validation.decoding.trees import BrokenLogitsError, DraftTree, TreeOutcome, TreeRequest
from validation.decoding.verification import VerifiedDrafts, raced_skip_risk, skip_risk, step_risks, verify
from validation.errors import UserError
from validation.models.versions import VersionedTarget

if TYPE_CHECKING:
    import torch

    from validation.collection.prompts import Prompt
    from validation.decoding.links import Channel, FadingLink
    from validation.decoding.methods.base import Method
    from validation.decoding.methods.trees import TreeMethod
    from validation.models.pair import Pair

DEFAULT_NEW_TOKENS, DEFAULT_BATCH, DEFAULT_SEED = 160, 16, 1
PAPER_TIMES = (0.0256, 0.1046)  # seconds of a forward pass of TinyLlama-1.1B and Llama-2-13B: cu-hlm Section V


def decode(
    pair: Pair,
    prompts: Sequence[Prompt],
    method: Method,
    *,
    link: FadingLink | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    new_tokens: int = DEFAULT_NEW_TOKENS,
    batch: int = DEFAULT_BATCH,
    seed: int = DEFAULT_SEED,
    times: tuple[float, float] | None = None,
    risk: bool = False,
    noise: Callable[[int, Sequence[str], int], Noise] = Noise,
    on_finished: Callable[[GenerationRecord], None] | None = None,
) -> list[GenerationRecord]:
    """Continue prompts by a decoding method, and return one record for each, in their order.

    The seed and a prompt's id determine its sequence, for any other prompts in the batch. ``times`` are seconds of a
    forward pass of the draft and the target model, such as ``PAPER_TIMES``; measured otherwise. With ``risk`` the
    fields ``mismatch``, ``risk`` and ``skip_risk`` are computed too. ``on_finished`` is called with each finished
    record. A :class:`DecodingError` for logits that are not finite holds the records that were finished.
    """
    for name, value, right, words in (
        ("temperature", temperature, 0 <= temperature < np.inf, "0 (greedy) or more"),
        ("top_p", top_p, 0 < top_p <= 1, "in (0, 1], where 1 keeps the whole vocabulary"),
        ("new_tokens", new_tokens, new_tokens >= 0, "0 or more"),
        ("batch", batch, batch >= 1, "at least 1"),
        ("times", times, times is None or all(0 <= each < np.inf for each in times), "seconds, 0 or more"),
    ):
        if not right:
            raise UserError(f"{name} is {value}; it must be {words}.")
    if risk and method.tree_nodes:
        raise UserError(f"{method.name} sends trees of drafts, for which no risk is computed; leave it out.")
    if isinstance(pair.target, VersionedTarget) and (risk or method.tree_nodes):
        what = "the risk is that of one target model" if risk else f"{method.name} sends trees of drafts"
        raise UserError(f"A target with several versions verifies chains of drafts, and {what}; use one version.")
    if method.shared_seed:
        _check_stream(prompts, seed)
    encoded = encode_prompts(pair, prompts, new_tokens)
    if empty := [prompt.id for prompt, ids in zip(prompts, encoded, strict=True) if not ids]:
        raise UserError(f"The prompt {empty[0]!r} has no tokens, so there is nothing to continue; write a prompt.")
    records: list[GenerationRecord] = []
    order = sorted(range(len(prompts)), key=lambda i: len(encoded[i]))  # similar lengths together need less padding
    for start in range(0, len(prompts), batch):
        members = order[start : start + batch]
        names = [prompts[i].id for i in members]
        numbers = noise(seed, names, new_tokens)
        channel = link.open(numbers) if link else None
        lengths = np.array([len(encoded[i]) for i in members], dtype=np.int64)
        used = None if method.streamed else channel
        session = Session(pair, len(names), numbers, used, temperature, top_p, new_tokens, lengths)
        label = link.name if link else "none"
        fresh = [
            GenerationRecord(method.name, name, label, seed, temperature, top_p, risk_computed=risk) for name in names
        ]
        kind = TreeLoop if method.tree_nodes else Loop
        on_text = _streaming(names, channel, on_finished) if method.streamed else on_finished
        loop = kind(session, method, [encoded[i] for i in members], fresh, times, risk, on_text)
        try:
            loop.run()
        except DecodingError as error:
            error.records = records + loop.done
            raise
        records += fresh
    return [record for _, record in sorted(zip(order, records, strict=True), key=lambda pair: pair[0])]


def _streaming(
    names: Sequence[str], channel: Channel | None, on_finished: Callable[[GenerationRecord], None] | None
) -> Callable[[GenerationRecord], None]:

    def finish(record: GenerationRecord) -> None:
        record.rounds, record.last = stream(record, names.index(record.prompt), channel)
        if on_finished:
            on_finished(record)

    return finish


def _check_stream(prompts: Sequence[Prompt], seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise UserError(f"The seed is {seed}; the seed of a shared stream must be in 0..2^63 - 1.")
    if repeated := [name for name, count in Counter(prompt.id for prompt in prompts).items() if count > 1]:
        raise UserError(
            f"The prompt id {repeated[0]!r} occurs twice, and would repeat its stream; give each its own id."
        )


class Loop(BatchState):
    def run(self) -> None:
        self.read()
        while len(self.sequences):
            self.step()

    def read(self) -> None:
        import torch

        with torch.inference_mode():
            self._retire(self.kept_end - self.prompt_end >= self.session.new_tokens)
            for which in (DRAFT, TARGET):
                self.read_prompts(which)

    def step(self) -> None:
        import torch

        with torch.inference_mode():
            self._step()
            self._retire(self.finished)

    def _step(self) -> None:
        self._begin_rounds()
        if np.count_nonzero(self.waiting) < len(self.sequences):
            self._draft()
        if 2 * np.count_nonzero(self.waiting) >= len(self.sequences):
            self._verify()

    def _begin_rounds(self) -> None:
        (slots,) = (self.draft_length == NOT_BEGUN).nonzero()  # no sequence waits yet
        if not len(slots):
            return
        self.begin_rates(slots)
        rates = [self.rate[slot] for slot in slots]
        left = self.left(slots)
        self.draft_length[slots] = np.minimum(self.method.lengths(self.sequences[slots], rates), left)
        if self.method.runs_draft:
            self.waiting[slots] |= self.draft_length[slots] == 0
            return
        self.waiting[slots] = True
        self._guess(slots[self.draft_length[slots] > 0])

    def _guess(self, slots: Array) -> None:
        ends, end_tokens = self.kept_end[slots].tolist(), self.session.pair.end_tokens
        known = [self.tokens[slot, :end] for slot, end in zip(slots.tolist(), ends, strict=True)]
        asked = zip(self.sequences[slots].tolist(), known, self.draft_length[slots].tolist(), strict=True)
        proposed = [self.method.guess(sequence, tokens)[:most] for sequence, tokens, most in asked]
        for slot, end, guesses in zip(slots.tolist(), ends, proposed, strict=True):
            tokens = up_to_end([int(token) for token in guesses], end_tokens)
            self.in_flight[slot] = [Draft(token) for token in tokens]
            self.draft_end[slot] = end + len(tokens)
            self.tokens[slot, end : self.draft_end[slot]] = tokens

    def _draft(self) -> None:
        # 1. forward pass of the draft model
        (slots,) = (~self.waiting).nonzero()
        logits = self.forward(DRAFT, slots, 1)
        positions = self.draft_end[slots] - self.prompt_end[slots]
        ahead = self.draft_end[slots] - self.kept_end[slots]  # drafts in flight
        q = distributions_of(logits, self.session.temperature, self.session.top_p)
        self.require_finite(DRAFT, slots, q.sum(dim=-1).cpu().numpy())
        step = Step(self.sequences[slots], positions, logits, q, ahead == 0)

        # 2. draw from the distributions that the method proposes
        proposal = self.method.propose(step)
        if self.method.shared_seed:
            tokens, _ = self.session.race(proposal.distributions, step.sequences, positions)
        else:
            numbers = self.noise.drafts(step.sequences, positions, ahead, levels(q.shape[-1]))
            tokens, _ = draw(proposal.distributions, numbers)
        known = proposal.distributions if proposal.server_distributions is None else proposal.server_distributions
        probabilities = probabilities_at(known, tokens)

        # 3. ask the method which drafts skip verification, and which distribution the server receives for each other
        skip = step.first_of_round & self.method.skip(step, tokens)
        stated = self.method.server_distributions(step, tokens, skip)
        each_q = q.unbind()
        held, notes = stated or (each_q if known is q else known, proposal.notes)
        columns = (tokens.tolist(), probabilities.tolist(), each_q, held, notes or [None] * len(slots))
        drafts = [Draft(*parts) for parts in zip(*columns, strict=True)]

        # 4. keep drafts that skip verification, put the others in flight; a full round waits for verification
        full = np.False_ if proposal.ends_round is None else np.asarray(proposal.ends_round)
        (kept,), (sent,) = (skip & ~full).nonzero(), (~(skip | full)).nonzero()
        if len(kept):
            self.keep_skipped(slots[kept], tokens[kept], [drafts[i] for i in kept.tolist()])
        if len(sent):
            self.add_drafts(slots[sent], tokens[sent], [drafts[i] for i in sent.tolist()])
        complete = self.is_end(tokens) | (ahead + 1 >= self.draft_length[slots])
        complete |= np.False_ if proposal.last_of_round is None else np.asarray(proposal.last_of_round)
        self.waiting[slots] = full | (~skip & complete)

    def _verify(self) -> None:
        # 1. send
        (slots,) = (self.waiting & ~self.finished).nonzero()
        in_flight = [self.in_flight[slot] for slot in slots.tolist()]
        messages = [self.method.message(drafts) for drafts in in_flight]

        # 2. verify
        results = self._verified(slots, in_flight, messages)

        # 3. replace and roll back
        ends = self.draft_end[slots]
        rounds = self._write_round(slots, in_flight, messages, results)

        # 4. tell the method what happened
        accepted, rejected = results.accepted.tolist(), results.rejected.tolist()
        for i, (slot, now) in enumerate(zip(slots.tolist(), rounds, strict=True)):
            sequence = int(self.sequences[slot])
            outcome = Outcome(sequence, in_flight[i], accepted[i], rejected[i], self.rate[slot])
            if self.method.wants_likeliest:
                outcome.likeliest = results.rows(i)[-len(in_flight[i]) - 1 :].argmax(dim=-1).cpu().numpy()
            now.threshold = self.method.learn(outcome)
        if self.risk:
            for i, slot in enumerate(slots.tolist()):
                now, target = rounds[i], results.rows(i)
                self._add_skip_risks(slot, now, target, int(ends[i]))
                verified = in_flight[i][: now.accepted + now.resampled]
                first = len(target) - 1 - len(in_flight[i])
                now.mismatch, cut = step_risks(self.method, verified, target[first : first + len(verified)])
                now.risk = now.skip_risk + cut
        self.close_rounds(slots, rounds)

    def _verified(self, slots: Array, in_flight: list[list[Draft]], messages: list[Message]) -> VerifiedDrafts:
        sizes = self.draft_end[slots] - self.kept_end[slots] + 1
        for i, slot in enumerate(slots.tolist() if self.risk else ()):
            sizes[i] = max(
                [int(sizes[i]), *(int(self.draft_end[slot]) + 1 - place for place, _ in self.unverified[slot])]
            )
        logits = self.forward(TARGET, slots, sizes)
        position = self.kept_end[slots] - self.prompt_end[slots]
        left = self.left(slots)
        results = verify(self.method, self.session, self.sequences[slots], in_flight, logits, sizes, position, left)
        self.require_finite(TARGET, slots, results.mass)
        return results

    def _write_round(
        self, slots: Array, in_flight: list[list[Draft]], messages: list[Message], results: VerifiedDrafts
    ) -> list[Round]:
        position = (self.kept_end - self.prompt_end)[slots] - self.skipped[slots]

        # replace: the server's token follows the accepted drafts; later drafts are dropped
        has_token = results.token >= 0
        place = self.kept_end[slots] + results.accepted
        self.tokens[slots[has_token], place[has_token]] = results.token[has_token]
        self.kept_end[slots] = self.draft_end[slots] = place + has_token

        # roll back: remove the dropped drafts from the caches, and the last token, since its logits may be needed again
        for model in self.models.values():
            if model:
                model.cached[slots] = np.minimum(model.cached[slots], self.kept_end[slots] - 1)
        self.mark_finished(slots)

        # describe the round
        rounds = []
        for i, slot in enumerate(slots.tolist()):
            drafts, accepted, resampled = in_flight[i], int(results.accepted[i]), int(results.rejected[i])
            dropped, rounding = self.method.distortion(drafts[: accepted + resampled])
            now = Round(
                position=int(position[i]),
                drafted=len(drafts),
                accepted=accepted,
                resampled=resampled,
                bonus=int(has_token[i] and not resampled),
                skipped=int(self.skipped[slot]),
                bits=messages[i].bits,
                bytes=len(messages[i].payload),
                down_bytes=self.method.reply(drafts, accepted),
                dropped=dropped,
                rounding=rounding,
                **self.spent(slot),
            )
            rounds.append(now)
        return rounds

    def _add_skip_risks(self, slot: int, now: Round, target: torch.Tensor, end: int) -> None:
        risk_of = raced_skip_risk if self.method.shared_seed else skip_risk
        for place, draft in self.unverified[slot]:
            now.skip_risk += risk_of(draft, target[len(target) - 1 - (end - place)])
        self.unverified[slot].clear()
        self.require_finite(TARGET, np.array([slot]), np.array([1.0 + now.skip_risk]))

    def _retire(self, finished: Array) -> None:
        (slots,) = finished.nonzero()
        if not len(slots):
            return
        for slot, count in zip(slots.tolist(), self.skipped[slots].tolist(), strict=True):
            record = self.records[self.sequences[slot]]
            record.tokens = self.tokens[slot, self.prompt_end[slot] : self.kept_end[slot]].tolist()
            record.last = Round(len(record.tokens) - count, skipped=count, **self.spent(slot))
        if self.risk:
            self._add_last_risks(slots)
        for sequence in self.sequences[slots].tolist():
            self.done.append(self.records[sequence])
            self.on_finished(self.records[sequence])
        self.close_slots(~finished)

    def _add_last_risks(self, slots: Array) -> None:
        left = np.array([slot for slot in slots if self.unverified[slot]], dtype=np.int64)
        model = self.models[TARGET]
        if not len(left) or model is None:
            return
        first = [min(place for place, _ in self.unverified[slot]) for slot in left]
        sizes = self.kept_end[left] - np.array(first) + 1
        logits = model.part(left).read(self.tokens[left], self.kept_end[left], rows=sizes)
        target = distributions_of(logits, self.session.temperature, self.session.top_p).split(sizes.tolist())
        for rows, slot in zip(target, left.tolist(), strict=True):
            last = self.records[self.sequences[slot]].last
            self._add_skip_risks(slot, last, rows, int(self.kept_end[slot]))
            last.risk = last.skip_risk


class TreeLoop(Loop):
    """The rounds of methods whose drafts are trees: grow, send, verify in one pass, keep one path."""

    model_class = TreeModel
    method: TreeMethod

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._own = self.method.own_model(len(self.sequences), self.tokens.shape[1])
        if self._own is not None:
            self.models[DRAFT] = self._own

    def read_prompts(self, which: str) -> None:
        if which == TARGET and self.method.wants_features:
            self._read_prompts_with_features()
        elif which == TARGET or self._own is None:
            super().read_prompts(which)

    def _read_prompts_with_features(self) -> None:
        model, counts = self.models[TARGET], self.prompt_end - 1
        if model is None or not len(self.sequences):
            return
        states: Any = None
        if counts.max() > 0:
            chains = [np.arange(count) for count in counts]
            tokens = [row[:count] for row, count in zip(self.tokens, counts, strict=True)]
            sees = [np.tri(count, dtype=bool) for count in counts]
            _, states = model.read_nodes(tokens, chains, sees, features=True)
            for slot, count in enumerate(counts.tolist()):
                model.commit(slot, range(count))
        for slot, sequence in enumerate(self.sequences.tolist()):
            known = self.tokens[slot, : self.prompt_end[slot]]
            features = None if states is None else states[slot, : counts[slot]]
            self.method.read_prompt(sequence, known, features)

    def _step(self) -> None:
        slots = np.arange(len(self.sequences))
        position = self.kept_end - self.prompt_end
        self.begin_rates(slots)

        # 1. grow the trees
        requests = [
            TreeRequest(
                sequence=sequence,
                tokens=self.tokens[slot, : self.kept_end[slot]],
                left=int(self.session.new_tokens - position[slot]),
                chance=self.noise.chance(sequence, int(position[slot])),
                slot=slot,
            )
            for slot, sequence in enumerate(self.sequences.tolist())
        ]
        try:
            trees = self.method.grow(requests, self.models[DRAFT])
        except BrokenLogitsError as error:
            self.require_finite(DRAFT, np.array(error.args), np.array([np.nan]))
            raise
        for slot, tree in enumerate(trees):
            self.seconds[DRAFT][slot] += tree.seconds if self.times is None else self.times[DRAFT] * tree.passes
            self.passes[DRAFT][slot] += tree.passes
        messages = [self.method.tree_message(tree) for tree in trees]

        # 2. one pass of the target model over each tree
        rows, likeliest, features = self._verify_pass(trees)
        self.require_finite(TARGET, slots, np.array([float(row.sum()) / len(row) for row in rows]))

        # 3. walk through the trees
        ends, walked = frozenset(self.session.pair.end_tokens), []
        for request, tree, row in zip(requests, trees, rows, strict=True):
            walked.append(self.method.walk(tree, row, request.chance, request.left, ends))

        # 4. keep the paths, and describe the rounds
        rounds = []
        for slot, (tree, (path, token, replaced)) in enumerate(zip(trees, walked, strict=True)):
            self._keep_path(slot, tree, path, token)
            now = Round(position=int(position[slot]), drafted=len(tree), accepted=len(path), **self.spent(slot))
            now.resampled, now.bonus = int(replaced), int(token >= 0 and not replaced)
            now.bits, now.bytes = messages[slot].bits, len(messages[slot].payload)
            outcome = TreeOutcome(int(self.sequences[slot]), tree, path, token, likeliest[slot])
            if features is not None:
                outcome.features = features[slot, [0, *path]]
            now.down_bytes = self.method.tree_reply(outcome)
            rounds.append(now)
            self.method.learn_tree(outcome)
        self.mark_finished(slots)
        self.close_rounds(slots, rounds)

    def _verify_pass(self, trees: list[DraftTree]) -> tuple[list[Array], list[Array], Any]:
        model = self.models[TARGET]
        parts = ([tree.pass_tokens() for tree in trees], [tree.pass_offsets() for tree in trees])
        logits, features = model.read_nodes(
            *parts, [tree.pass_sees() for tree in trees], features=self.method.wants_features
        )
        self.count_pass(TARGET, np.arange(len(trees)), model.seconds)
        rows, likeliest = [], []
        for slot, tree in enumerate(trees):
            scores = logits[slot, : len(parts[0][slot])]
            distributions = distributions_of(scores[: len(tree) + 1], self.session.temperature, self.session.top_p)
            rows.append(distributions.double().cpu().numpy())
            likeliest.append(scores.argmax(dim=-1).cpu().numpy())
        return rows, likeliest, features

    def _keep_path(self, slot: int, tree: DraftTree, path: list[int], token: int) -> None:
        new = [*(tree.tokens[node] for node in path), *([token] if token >= 0 else [])]
        end = int(self.kept_end[slot])
        self.tokens[slot, end : end + len(new)] = new
        self.kept_end[slot] = self.draft_end[slot] = end + len(new)
        target, draft = self.models[TARGET], self.models[DRAFT]
        target.commit(slot, [0, *path])
        if draft is not None:
            draft.stored[slot] = 0
            draft.cached[slot] = min(int(draft.cached[slot]), int(self.kept_end[slot]) - 1)
