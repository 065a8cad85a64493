"""Drafts on a part of the vocabulary: two tokenizers that share some tokens, or the top K tokens alone.

Papers: two tokenizers in timor2025heterogeneous (its token-level method), the top K in zheng2025tslt. Both keep q on a
set A of tokens, renormalise it, and draw drafts from it. The server verifies with the renormalised q.

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q          ``draft``, draft model's distribution           1         (..., V)
p          ``target``, target model's distribution         1         (..., V)
A          ``support``, tokens that may be drafted         bool      (..., V)
q(A)       mass of q on A                                  1         (...)
q_A        q on A, divided by q(A)                         1         (..., V)
α_A        acceptance rate Σ_A min(p, q_A)                 1         (...)
========== =============================================== ========= ===========

Both rows are over the vocabulary of the target model. A token that only the draft model has is outside of A.
Types and normalisation are those of :mod:`hlmtheory.verification`.
"""

from hlmtheory.vocabulary.intersection import common_acceptance

__all__ = ["common_acceptance"]
