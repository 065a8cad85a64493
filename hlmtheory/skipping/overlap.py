"""Loss of a whole text from the overlap of two distributions; it lies in [0, 1] for texts of every length."""

from __future__ import annotations

from hlmtheory._array import Array
from hlmtheory.claims import Attained, Claim, Source
from hlmtheory.skipping.chains import HORIZON, _chains, text_distance

# Proofs, by the last part of the id.
#
# overlap. Two laws have 1 - TV = Σ_x min(Π_t p_t, Π_t S_t) ≥ Σ_x Π_t min(p_t, S_t) = E_{x~p} Π_t min(1, S_t/p_t).


def _overlap_bound(target_chain: Array, draft_chain: Array, skip_chain: Array) -> Array:
    """Return 1 - Σ_x Π_t min(p_t, S_t) over all texts of a chain, token by token."""
    xp, p, _, _, law = _chains(target_chain, draft_chain, skip_chain)
    rows = xp.minimum(p, law)
    mass = rows[..., 0, :]
    for _ in range(HORIZON - 1):
        mass = xp.sum(mass[..., None] * rows, axis=-2)
    return 1.0 - xp.sum(mass, axis=-1)


_PAPER = Source("oh2025cuhlm", "(10)")
_BRANCH = {
    "target_chain": [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "draft_chain": [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
    "skip_chain": [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
}
"""Every text that begins with token 2 is lost at its second token: the TV is 1/2, the sum over tokens is 1."""

CLAIMS = (
    Claim(
        id="skipping.overlap",
        source=_PAPER,
        statement="TV(law of the text, target model's) ≤ 1 − E_x Π_t min(1, S_t(x_t)/p_t(x_t)), x ~ the target model",
        lhs=text_distance,
        rhs=_overlap_bound,
        attained=Attained(_BRANCH),
        ceiling=1.0,
    ),
)
