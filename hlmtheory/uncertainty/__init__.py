"""Uncertainty by temperature perturbation: sampled as the papers do, and exact.

Papers: cu-hlm (oh2025cuhlm) (7)-(9), u-hlm (oh2024uhlm) (5)-(7); the measure is that of gao2024spuq.

========== ==================================================== ========= ===========
symbol     name                                                 unit      shape
========== ==================================================== ========= ===========
z          ``logits`` of the draft model                        1         (..., V)
d          ``token``, the draft token                             1         (...)
θ, θmax    a temperature, and its largest, ``max_temperature``  1         (), number
M          ``draws``, perturbed samples                         tokens    (...)
u          uncertainty, share of samples that differ from d     1         (...)
E[u]       ``expected``, its mean given z and d                 1         (...)
u_th       ``threshold``: skip where u ≤ u_th                   1         (...)
β          ``rejection_by_token``, that d is rejected           1         (n,)
a, b       slope and intercept of β = a u + b                   1         number
========== ==================================================== ========= ===========

M tokens are drawn, each at its own temperature θ ~ U[0, θmax]; u is the share that differs from the draft. θmax = 0
means the limit, uniform over the largest logits. A logit of -inf is a masked entry, of probability 0 at every θ.
"""

from hlmtheory.uncertainty.perturbation import expected_uncertainty, sample_uncertainty
from hlmtheory.uncertainty.regression import fit_linear

__all__ = ["expected_uncertainty", "fit_linear", "sample_uncertainty"]
