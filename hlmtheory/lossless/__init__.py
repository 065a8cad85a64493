"""Whether a sampler keeps the target's law, from its draws: bounds on the total variation, and power.

Sources: waudbysmith2024betting (wealth and confidence sequences), maurer2009empirical (empirical Bernstein bounds).

========== ==================================================== ========= ===========
symbol     name                                                 unit      shape
========== ==================================================== ========= ===========
P, Q       the target's law and the sampler's, of a draw x      1
f          test function, fixed before the draw, in [0, 1]      1         (..., K, T)
f(x), P f  ``outcome``, ``expected``                            1         (..., K, T)
λ          ``bets``                                             1         (..., J)
W          wealth Π (1 + λ (f(x) - P f)), the mean over K, J    1         (..., T)
δ          ``error``, probability of a wrong statement          1         (...)
TV         total variation between Q and P                      1         (...)
a          ``event``, P f of an event                           1
τ, T       ``step_distance``, ``tokens`` of a text              1         (...)
========== ==================================================== ========= ===========

A wealth of 1/δ shows that the law is not kept (law_wealth), and gives a lower bound on the mean distance so far
(distance_bound), at all times at once and without independence; an upper bound needs independent draws and cells of
known probability (distance_ceiling).
"""

from hlmtheory.lossless.ceiling import distance_ceiling
from hlmtheory.lossless.evidence import LawTest
from hlmtheory.lossless.power import draws_to_find, text_distance

__all__ = ["LawTest", "distance_ceiling", "draws_to_find", "text_distance"]
