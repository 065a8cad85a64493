"""Drafts by a shared seed: device and server draw from one stream of random numbers, and only tokens are sent.

Papers: daliri2025coupling (the scheme and its bounds), moulton2018maximally (the probability of a match), rowan2025list
(lists of candidates), salmon2011parallel (the generator), liu2024pearl and timor2024dsi (drafting while the server
verifies).

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
q          ``draft``, draft model's distribution           1         (..., V)
p          ``target``, target model's distribution         1         (..., V)
E_v        exponential number of token v at a position     1         (..., V)
a, b       winners of the races E/q and E/p                token     (...)
T          ``total_variation``, TV(q, p)                   1         (...)
s_v        ``skip``, probability that draft v is not sent  1         (..., V)
L          ``size``, candidates of one position            tokens    (...)
α          ``acceptance``, P(a = b) at each position       1         (...)
t_d        ``draft_time``                                  s         (...)
R          ``round_trip``                                  s         (...)
V          ``verify_time``; elsewhere the vocabulary       s         (...)
W          ``wait`` of a draft for the pass in progress    s         (...)
m          tokens between two mismatches, 1/(1 - α)        tokens    (...)
========== =============================================== ========= ===========

The device drafts a, the server draws b from the same E, and b is emitted whether a = b or not: the text depends on the
target model, the prompt and the seed alone. A device that keeps tokens without the server changes its law by at most
:func:`skip_mismatch`. The stream repeats bit for bit; a model whose logits differ in the last bits may change a winner.

The stream is defined in :mod:`hlmtheory.shared_seed.stream`. Of V tokens, its finite numbers move the law of a winner
by at most V 2^-50. Test vectors:

=============== ========== ======= =====================
seed            position   token   E_v in hexadecimal
=============== ========== ======= =====================
0               0          0       0x1.d65ce25e23c14p-1
0               0          1       0x1.3a480cdd2670bp-2
1               1          0       0x1.560dd81f80d58p-1
2^63 - 1        2^32 + 5   151935  0x1.2e604c01ef4e6p-1
123456789012345 1000       50000   0x1.d503e8b90dc83p-4
=============== ========== ======= =====================

Types and normalisation are those of :mod:`hlmtheory.verification`.
"""

from hlmtheory.shared_seed.match import match_probability, message_value, skip_mismatch
from hlmtheory.shared_seed.stream import race_list, race_winner, stream_key
from hlmtheory.shared_seed.streamed import streamed_rate

__all__ = [
    "match_probability",
    "message_value",
    "race_list",
    "race_winner",
    "skip_mismatch",
    "stream_key",
    "streamed_rate",
]
