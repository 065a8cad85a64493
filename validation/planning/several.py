"""Several drafts of a position: lists by a shared seed from a device, and a tree of the server's own draft model.

Both are trees with w_j children of each node at depth j. Along a text with the next token y, n children have y with
1 - (1 - t_y/p_y)^n at least (a list by a shared seed: ``shared_seed.list_bound``), or with 1 if y is one of the n - 1
likeliest, else min(1, q'_y/p_y) (a sure tree: ``verification.top_drafts_tried``).
"""

from collections.abc import Iterator, Sequence

import numpy as np

from validation.arrays import Array
from validation.decoding.methods.rows import OWN_TREE, SEED_TREE
from validation.decoding.wire import index_bits
from validation.planning.option import Option, at_server, exact
from validation.planning.profile import SEEDED, Profile
from validation.planning.rounds import Wire, expected_counts

WIDTHS = (
    *((n,) for n in (2, 3, 4)),
    *((n, 1) for n in (2, 3, 4)),
    *((2, 2), (2, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 1), (3, 3)),
    *((2, 1, 1, 1), (2, 2, 1, 1), (3, 2, 1, 1), (4, 2, 1, 1), (2, 2, 2, 1), (2, 2, 2, 2), (4, 4)),
    *((2, 2, 1, 1, 1, 1), (3, 2, 2, 1, 1, 1)),
)
"""Children of each node, by depth."""


def list_options(profile: Profile) -> Iterator[Option]:
    """Yield the option of every tree of a device's lists by a shared seed."""
    matched = profile.chances[..., SEEDED].T
    for widths in WIDTHS:
        counts = _counts([1.0 - (1.0 - matched) ** n for n in widths], widths, profile)
        yield exact(SEED_TREE, f"tree {'-'.join(map(str, widths))}", counts, len(widths))


def own_tree_options(profile: Profile) -> Iterator[Option]:
    sure = profile.sure.transpose(2, 1, 0)
    for widths in WIDTHS:
        counts = _counts([sure[n - 1] for n in widths], widths, profile)
        yield exact(OWN_TREE, f"tree {'-'.join(map(str, widths))}", at_server(counts, profile), len(widths))


def _counts(by_depth: Sequence[Array], widths: Sequence[int], profile: Profile) -> Array:
    """Return the counts of rounds whose trees are sent as tokens with their parents; ``by_depth``: (T, texts) each."""
    nodes = np.append(0, np.cumsum(np.cumprod(widths)))  # drafts of a tree that ends at depth 0, 1, ..., K
    width = index_bits(profile.vocabulary)
    up = int(nodes[-1]).bit_length()
    left = np.maximum(profile.lengths - np.arange(len(by_depth[0]))[:, None], 0)
    drafts = nodes[np.minimum(left, len(widths))]
    message = 8.0 * -(-(16 + drafts * (width + up)) // 8)
    wire = Wire(header=message, reply=8.0 * -(-(up + width) // 8))
    zero = np.zeros_like(by_depth[0])
    return expected_counts(
        by_depth[0], zero, profile.lengths, len(widths), wire=wire, by_depth=by_depth, read=drafts + 1.0
    )
