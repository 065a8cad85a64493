"""Sparse quantize-and-sample: a few tokens of the draft distribution on a lattice, its cost in bits and in distance.

Paper: c-sqs (bhattacharjee2025csqs) (1)-(5), Theorem 1, Algorithm 2, Appendix A; the lattice is in reznik2011.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q          ``draft``, draft model's distribution           1         (..., V)
p          ``target``, target model's distribution         1         (..., V)
X          ``support``, which tokens are kept              bool      (..., V)
K          ``k``, number of kept tokens                    tokens    (...)
ℓ          ``resolution``, units that 1 is divided into    1         (...)
b          counts, whole numbers that sum to ℓ             1         (..., V)
q̄          kept part of q, normalised                      1         (..., V)
q̂          quantised row b/ℓ, which drafts are drawn from  1         (..., V)
D          bound i(K - i)/(Kℓ), i = min(ℓ, ⌊K/2⌋)          1         (...)
B          ``budget_bits``, payload                        bit       (...)
========== =============================================== ========= ===========

The device draws its draft from q̂ and the server verifies with q̂, so the emitted token has the target model's
distribution whatever q̂ is. Rounding costs acceptance rate, at most TV(q, q̂). Of equal entries, those with the lowest
index are kept, and rounded up. q_n, p_n, K_n and ℓ_n are those of position n.
Types and normalisation are those of :mod:`hlmtheory.verification`.
"""

from hlmtheory.lattice.payload import allocate, payload_bits
from hlmtheory.lattice.quantization import quantize, top_support

__all__ = ["allocate", "payload_bits", "quantize", "top_support"]
