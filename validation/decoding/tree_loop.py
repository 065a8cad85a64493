"""The generation loop of methods whose drafts are trees: grow, send, verify in one pass, keep one path.

All sequences of a batch take every round together. A round of a sequence takes its random decisions from a stream of
its own (:meth:`validation.decoding.random_streams.Noise.chance`), so a batch changes a sequence only by rounding.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from validation.decoding.batch_state import DRAFT, TARGET, BatchState
from validation.decoding.records import Round
from validation.decoding.sampling import distributions_of
from validation.decoding.tree_cache import TreeModel
from validation.decoding.trees import DraftTree, TreeOutcome, TreeRequest

if TYPE_CHECKING:
    from validation.decoding.methods.trees import TreeMethod

Array = NDArray[Any]


class TreeLoop(BatchState):
    """Rounds of grow, send, verify and keep, until every sequence is finished."""

    model_class = TreeModel

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._own = self._method.own_model(len(self.sequences), self.tokens.shape[1])
        if self._own is not None:
            self.models[DRAFT] = self._own

    @property
    def _method(self) -> TreeMethod:
        return cast("TreeMethod", self.method)

    def run(self) -> None:
        """Generate until every sequence is finished."""
        import torch

        with torch.inference_mode():
            self._retire(self.kept_end - self.prompt_end >= self.session.new_tokens)
            if self._own is None:
                self.read_prompts(DRAFT)
            if self._method.wants_features:
                self._read_prompts_with_features()
            else:
                self.read_prompts(TARGET)
            while len(self.sequences):
                self._round()
                self._retire(self.finished)

    def _model(self, which: str) -> TreeModel | None:
        return cast("TreeModel | None", self.models[which])

    def _read_prompts_with_features(self) -> None:
        """Let the target model read the prompts without their last tokens, and give the method its hidden states."""
        model, counts = self._model(TARGET), self.prompt_end - 1
        if model is None or not len(self.sequences):
            return
        began = time.perf_counter()
        found: Any = None
        if counts.max() > 0:
            chains = [np.arange(count) for count in counts]
            tokens = [row[:count] for row, count in zip(self.tokens, counts, strict=True)]
            sees = [np.tri(count, dtype=bool) for count in counts]
            _, found = model.read_nodes(tokens, chains, sees, features=True)
            for slot, count in enumerate(counts.tolist()):
                model.commit(slot, range(count))
        spent = time.perf_counter() - began
        self.clock.prefill += spent
        for slot, sequence in enumerate(self.sequences.tolist()):
            self.records[sequence].prefill_s += spent / len(self.sequences)
            known = self.tokens[slot, : self.prompt_end[slot]]
            features = None if found is None else found[slot, : counts[slot]]
            self._method.read_prompt(sequence, known, features)

    # ----------------------------------------------------------------------------------------------------- a round

    def _round(self) -> None:
        """Take one round of every sequence."""
        slots = np.arange(len(self.sequences))
        position = self.kept_end - self.prompt_end
        if self.session.channel:
            for slot, sequence in enumerate(self.sequences.tolist()):
                self.rate[slot] = self.session.channel.rate(sequence, float(self.elapsed[slot]))

        # 1. grow the trees
        began = time.perf_counter()
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
        trees = self._method.grow(requests, self._model(DRAFT))
        spent = sum(tree.seconds for tree in trees)
        self.clock.draft += spent
        for slot, tree in enumerate(trees):
            self.seconds[DRAFT][slot] += tree.seconds if self.times is None else self.times[DRAFT] * tree.passes
            self.passes[DRAFT][slot] += tree.passes
        messages = [self._method.tree_message(tree) for tree in trees]
        self.clock.method += time.perf_counter() - began - spent

        # 2. one pass of the target model over each tree
        rows, likeliest, features = self._verify_pass(trees)
        self.require_finite(TARGET, slots, np.array([float(row.sum()) / len(row) for row in rows]))

        # 3. walk through the trees
        began = time.perf_counter()
        ends, walked = frozenset(self.session.pair.end_tokens), []
        for request, tree, row in zip(requests, trees, rows, strict=True):
            walked.append(self._method.walk(tree, row, request.chance, request.left, ends))
        self.clock.sampling += time.perf_counter() - began

        # 4. keep the paths, and describe the rounds
        rounds = []
        for slot, (tree, (path, token, replaced)) in enumerate(zip(trees, walked, strict=True)):
            self._keep_path(slot, tree, path, token)
            now = Round(position=int(position[slot]), drafted=len(tree), accepted=len(path))
            now.resampled, now.bonus = int(replaced), int(token >= 0 and not replaced)
            now.bits, now.bytes = messages[slot].bits, len(messages[slot].payload)
            sequence = int(self.sequences[slot])
            outcome = TreeOutcome(sequence, tree, path, token, likeliest[slot])
            if features is not None:
                outcome.features = features[slot, [0, *path]]
            now.down_bytes = self._method.tree_reply(outcome)
            now.draft_s, now.target_s = self.seconds[DRAFT][slot], self.seconds[TARGET][slot]
            now.draft_passes, now.target_passes = self.passes[DRAFT][slot], self.passes[TARGET][slot]
            rounds.append(now)
            began = time.perf_counter()
            self._method.learn_tree(outcome)
            self.clock.method += time.perf_counter() - began
        self.mark_finished(slots)
        self.time_messages(slots, rounds)
        self.close_rounds(slots, rounds)

    def _verify_pass(self, trees: list[DraftTree]) -> tuple[list[Array], list[Array], Any]:
        """Return p after each node, the likeliest tokens of the whole pass, and the hidden states if wanted."""
        model = self._model(TARGET)
        assert model is not None
        parts = ([tree.pass_tokens() for tree in trees], [tree.pass_offsets() for tree in trees])
        logits, features = model.read_nodes(
            *parts, [tree.pass_sees() for tree in trees], features=self._method.wants_features
        )
        self.clock.target += model.seconds
        share = model.seconds / len(trees) if self.times is None else self.times[TARGET]
        rows, likeliest = [], []
        for slot, tree in enumerate(trees):
            self.seconds[TARGET][slot] += share
            self.passes[TARGET][slot] += 1
            own = logits[slot, : len(parts[0][slot])]
            found = distributions_of(own[: len(tree) + 1], self.session.temperature, self.session.top_p)
            rows.append(found.double().cpu().numpy())
            likeliest.append(own.argmax(dim=-1).cpu().numpy())
        return rows, likeliest, features

    def _keep_path(self, slot: int, tree: DraftTree, path: list[int], token: int) -> None:
        """Write accepted drafts and the server's token into a sequence, and keep the path in the caches."""
        new = [*(tree.tokens[node] for node in path), *([token] if token >= 0 else [])]
        end = int(self.kept_end[slot])
        self.tokens[slot, end : end + len(new)] = new
        self.kept_end[slot] = self.draft_end[slot] = end + len(new)
        target, draft = self._model(TARGET), self._model(DRAFT)
        assert target is not None
        target.commit(slot, [0, *path])
        if draft is not None:
            draft.stored[slot] = 0
            draft.cached[slot] = min(int(draft.cached[slot]), int(self.kept_end[slot]) - 1)

    def _retire(self, finished: Array) -> None:
        """Complete the records of finished sequences and close their slots."""
        (slots,) = finished.nonzero()
        if not len(slots):
            return
        for slot in slots.tolist():
            record = self.records[self.sequences[slot]]
            record.tokens = self.tokens[slot, self.prompt_end[slot] : self.kept_end[slot]].tolist()
            record.last = Round(len(record.tokens))
            self.done.append(record)
            self.on_finished(record)
        self.close_slots(~finished)
