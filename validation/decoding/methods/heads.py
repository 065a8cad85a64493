"""Methods that draft from the target model's last hidden states: Medusa-1 and EAGLE.

The heads stand on the device, as flexspec says of its "synced" baselines. So the server's answer carries the hidden
states that the next drafts need, in 16 bits a number; those of the prompt are counted with the first answer. With
``on_server`` the heads stand on the server, and the texts are the same.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.arrays import Array
from validation.decoding.kv_cache import TreeModel
from validation.decoding.methods.registry import Family, entry, register
from validation.decoding.methods.trees import LevelTree, TreeMethod
from validation.decoding.session import Session
from validation.decoding.trees import DraftTree, TreeOutcome, TreeRequest
from validation.models.heads import EAGLE, MEDUSA, load_heads, read_settings, weights_mark


class _FromFeatures(TreeMethod):
    kind = ""
    wants_features = True

    def _open(self, folder: str | Path, any_base: bool, on_server: bool) -> None:
        self.folder, self.any_base, self.on_server = Path(folder), any_base, on_server
        self.settings = read_settings(self.folder, self.kind)
        self.weights = weights_mark(self.folder)
        self._parts: dict[int, Any] = {}

    def begin(self, session: Session) -> None:
        super().begin(session)
        target = session.pair.target
        if id(target) not in self._parts:
            self._parts = {id(target): load_heads(self.folder, self.kind, target, any_base=self.any_base)}
        self.part = self._parts[id(target)]
        self.features: dict[int, Any] = {}  # by sequence: those that the next drafts need
        self._prompt_bytes: dict[int, int] = {}

    def _sent(self, features: Any) -> Any:
        return features.half().to(features.dtype)

    def _feature_bytes(self, count: int) -> int:
        return 2 * int(self.settings["hidden"]) * count

    def tree_reply(self, outcome: TreeOutcome) -> int:
        size = super().tree_reply(outcome)
        if self.on_server:
            return size
        wanted = 1 if self.kind == MEDUSA else 1 + len(outcome.path)
        return size + self._feature_bytes(wanted) + self._prompt_bytes.pop(outcome.sequence, 0)

    def read_prompt(self, sequence: int, tokens: Array, features: Any) -> None:
        if features is None or not len(features):
            return
        self.features[sequence] = self._sent(features if self.kind == EAGLE else features[-1:])
        self._prompt_bytes[sequence] = self._feature_bytes(len(self.features[sequence]))

    def learn_tree(self, outcome: TreeOutcome) -> None:
        self.features[outcome.sequence] = self._sent(outcome.features[-1:] if self.kind == MEDUSA else outcome.features)


def best_ranks(hits: Sequence[Sequence[float]], nodes: int) -> tuple[tuple[int, ...], ...]:
    """Return the tree of Medusa with this many nodes and the most expected accepted drafts, parents first."""
    chosen: list[tuple[int, ...]] = []
    chances: dict[tuple[int, ...], float] = {(i,): share for i, share in enumerate(hits[0])}
    while len(chosen) < nodes and chances:
        best = max(chances, key=lambda ranks: (chances[ranks], -len(ranks), [-rank for rank in ranks]))
        chosen.append(best)
        chance = chances.pop(best)
        if len(best) < len(hits):
            chances |= {(*best, i): chance * share for i, share in enumerate(hits[len(best)])}
    return tuple(sorted(chosen, key=lambda ranks: (len(ranks), ranks)))


@register(entry("Medusa-1", Family.SPECULATIVE, "rival light", "s", "dashed"))
class Medusa(_FromFeatures):
    """Medusa-1 (cai2024medusa): heads on the frozen target model predict the tokens 2, 3, … places on."""

    source = "cai2024medusa"
    kind = MEDUSA

    def __init__(self, folder: str | Path, *, nodes: int = 16, on_server: bool = False, any_base: bool = False) -> None:
        self._open(folder, any_base, on_server)
        self.ranks = best_ranks(self.settings["hits"], nodes)
        self.max_draft_length = max(map(len, self.ranks))
        self.tree_nodes = 1 + len(self.ranks)
        self.name = f"Medusa-1 (nodes = {nodes}{', server' if on_server else ''})"

    def grow(self, requests: Sequence[TreeRequest], model: TreeModel | None) -> list[DraftTree]:
        import torch

        trees = [DraftTree([int(request.tokens[-1])]) for request in requests]
        ready = [i for i, request in enumerate(requests) if request.sequence in self.features]
        if not ready:
            return trees
        began = time.perf_counter()
        features = torch.cat([self.features[requests[i].sequence] for i in ready])
        width = 1 + max(map(max, self.ranks))
        logits = self.part(features.to(next(self.part.parameters()).dtype))[..., : self.session.vocabulary]
        best = logits.topk(min(width, logits.shape[-1])).indices.cpu().numpy()  # (n, K, width)
        spent = time.perf_counter() - began
        for i, rows in zip(ready, best, strict=True):
            self._fill(trees[i], rows, requests[i].left)
            trees[i].seconds, trees[i].passes = spent / len(ready), 1
        return trees

    def _fill(self, tree: DraftTree, best: Array, left: int) -> None:
        ends = self.session.pair.end_tokens
        places: dict[tuple[int, ...], int] = {(): 0}
        for ranks in self.ranks:
            parent = places.get(ranks[:-1])
            if parent is None or len(ranks) > left or ranks[-1] >= best.shape[1]:
                continue
            if parent and tree.tokens[parent] in ends:
                continue
            places[ranks] = tree.add(parent, int(best[len(ranks) - 1, ranks[-1]]))


@register(entry("EAGLE-2", Family.SPECULATIVE, "rival", "s", "dashed"))
class Eagle2(_FromFeatures, LevelTree):
    """EAGLE-2 (li2024eagle2): a layer that extrapolates hidden states, and a tree that follows its confidence."""

    source = "li2024eagle2"
    kind = EAGLE

    def __init__(
        self,
        folder: str | Path,
        *,
        depth: int = 5,
        top_k: int = 4,
        nodes: int = 16,
        on_server: bool = False,
        any_base: bool = False,
    ) -> None:
        self._open(folder, any_base, on_server)
        self.max_draft_length, self.top_k, self.nodes = depth, top_k, nodes
        self.tree_nodes = 1 + top_k + (depth - 1) * top_k * top_k
        self.name = f"EAGLE-2 (depth = {depth}, k = {top_k}, nodes = {nodes}{', server' if on_server else ''})"

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.values: dict[int, list[float]] = {}

    def expand(self, request: TreeRequest, tree: DraftTree, nodes: list[int], rows: Any, depth: int) -> list[int]:
        values = self.values.setdefault(request.sequence, [])
        if depth == 0:
            values[:] = [1.0]
        fresh = []
        if nodes:
            best = rows.float().softmax(dim=-1).topk(min(self.top_k, rows.shape[-1]))
            for node, shares, tokens in zip(nodes, best.values.tolist(), best.indices.tolist(), strict=True):
                for share, token in zip(shares, tokens, strict=True):
                    fresh.append(tree.add(node, int(token)))
                    values.append(values[node] * share)
        going_on = [node for node in fresh if tree.tokens[node] not in self.session.pair.end_tokens]
        return sorted(going_on, key=lambda node: -values[node])[: self.top_k]

    def finish(self, request: TreeRequest, tree: DraftTree) -> DraftTree:
        """Return the tree of the nodes of largest value; a parent's value is at least its child's."""
        values = self.values[request.sequence]
        order = sorted(range(1, len(tree.tokens)), key=lambda node: (-values[node], node))[: self.nodes]
        kept, places = DraftTree(tree.tokens[:1], seconds=tree.seconds, passes=tree.passes), {0: 0}
        for node in sorted(order):
            places[node] = kept.add(places[tree.parents[node]], tree.tokens[node])
        return kept

    def own_model(self, slots: int, capacity: int) -> TreeModel:
        pair = self.session.pair
        return TreeModel(self.part, self.session.vocabulary, pair.device, slots, capacity, pair.context)

    def read_kept(self, requests: Sequence[TreeRequest], trees: list[DraftTree], model: TreeModel) -> list[Any]:
        fresh = []
        self.states: dict[tuple[int, int], Any] = {}  # by sequence and node: the predicted hidden state
        for request, first in zip(requests, model.cached.tolist(), strict=True):
            fresh.append(
                request.tokens[first + 1 :].copy() if request.sequence in self.features else request.tokens[:0]
            )
        return self._read_chain(requests, trees, fresh, model)

    def inputs(
        self, requests: Sequence[TreeRequest], trees: list[DraftTree], frontier: list[list[int]]
    ) -> dict[str, Any]:
        """Return the hidden states before these nodes: the target's for kept tokens, else the layer's own."""
        import torch

        if not frontier:
            rows = [self.features.get(request.sequence) for request in requests]
        else:
            rows = []
            for request, tree, nodes in zip(requests, trees, frontier, strict=True):
                known = [self.states[request.sequence, tree.parents[node]] for node in nodes]
                rows.append(torch.stack(known) if known else None)
        dtype, hidden = next(self.part.parameters()).dtype, int(self.settings["hidden"])
        width = max([1, *(len(row) for row in rows if row is not None)])
        previous = torch.zeros((len(requests), width, hidden), dtype=dtype, device=self.session.pair.device)
        for i, row in enumerate(rows):
            if row is not None:
                previous[i, : len(row)] = row
        return {"previous": previous}

    def note_states(
        self, requests: Sequence[TreeRequest], nodes: list[list[int]], states: Any, places: list[list[int]]
    ) -> None:
        for slot, (request, some, where) in enumerate(zip(requests, nodes, places, strict=True)):
            for node, place in zip(some, where, strict=False):
                self.states[request.sequence, node] = states[slot, place]
