"""Drafts by a shared seed: device and server draw from one stream, and only token ids are sent, up and down."""

from typing import Any

from hlmtheory.shared_seed import race_list, race_winner
from validation.arrays import Array
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.registry import BY_LENGTH, PLAIN, Family, entry, register
from validation.decoding.methods.rows import OURS, SEED_TREE, STREAMED, Format
from validation.decoding.methods.trees import SampledTree
from validation.decoding.random_streams import Chance
from validation.decoding.sampling import distributions_of
from validation.decoding.session import Draft, Message
from validation.decoding.trees import ROOT, DraftTree, TreeRequest
from validation.decoding.wire import index_bits, pack


@register(entry("shared seed", Family.SHARED_SEED, "ours", "d", default=BY_LENGTH))
class SharedSeed(FixedLength):
    """K drafts, each the winner of the draft model's race in a stream that the server has too (daliri2025coupling).

    The server emits the winners of the target's race, so the text is that of the target model alone with this seed.
    """

    source, format, row = "daliri2025coupling", Format.TOKENS, OURS
    shared_seed = True
    label = "shared seed (K = {})"


@register(entry("shared seed streamed", Family.SHARED_SEED, "ours", "d", "dotted", default=PLAIN, studies=()))
class SharedSeedStreamed(SharedSeed):
    """Drafts by a shared seed that never stop: the device drafts on while the server verifies."""

    row = STREAMED
    streamed, bonus = True, False  # without a token of the server alone, every position has a draft
    label = "shared seed streamed"

    def __init__(self) -> None:
        super().__init__()

    def message(self, drafts: list[Draft]) -> Message:
        """Return a message for each draft: the token, and a bit that changes when the device starts again."""
        width = index_bits(self.session.vocabulary)
        messages = [pack([(0, 1), (draft.token, width)]) for draft in drafts]
        return Message((1.0 + width) * len(drafts), b"".join(messages))

    def reply(self, drafts: list[Draft], accepted: int) -> int:
        """Return the bytes of the answer to a pass: accepted drafts in 16 bits, a mismatch or none, and its token."""
        return -(-(17 + index_bits(self.session.vocabulary)) // 8)


@register(entry("shared seed tree", Family.SHARED_SEED, "ours", "d", "dashed", default=PLAIN, studies=()))
class SharedSeedTree(SampledTree):
    """Lists of candidates by a shared seed: the children of a node are the first tokens of the draft model's race."""

    label, source, row = "shared seed tree", "rowan2025list", SEED_TREE
    runs_draft = shared_seed = True

    def __init__(self, widths: tuple[int, ...] = (2, 2, 1, 1)) -> None:
        super().__init__(widths)

    def expand(self, request: TreeRequest, tree: DraftTree, nodes: list[int], rows: Any, depth: int) -> list[int]:
        key, first = int(self.session.stream_keys[request.sequence]), len(request.tokens)
        tree.note, children = (key, first), list[int]()
        for node, logits in zip(nodes, rows, strict=False):
            q = distributions_of(logits[None], self.session.temperature, self.session.top_p)[0].double().cpu().numpy()
            candidates = race_list(q, key, first + depth, size=min(self.widths[depth], len(q)))
            children += [tree.add(node, int(token)) for token in candidates if q[token] > 0]
        return [node for node in children if tree.tokens[node] not in self.session.pair.end_tokens]

    def walk(
        self, tree: DraftTree, target: Array, chance: Chance, left: int, end_tokens: frozenset[int]
    ) -> tuple[list[int], int, bool]:
        """Return what :func:`~validation.decoding.trees.exact_walk` does, on the path of the stream's winners."""
        key, first = tree.note
        children, node, path = tree.children(), ROOT, list[int]()
        while len(path) < left and not (path and tree.tokens[node] in end_tokens):
            token = int(race_winner(target[node], key, first + len(path)))
            matches = [child for child in children[node] if tree.tokens[child] == token]
            if not matches:
                return path, token, bool(children[node])
            node = matches[0]
            path.append(node)
        return path, -1, False
