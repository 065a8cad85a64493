"""Claims of :mod:`hlmtheory.conformal` and their proofs."""

from __future__ import annotations

from hlmtheory.claims import Assumption, Attained, Claim, Origin, Relation, Source
from hlmtheory.conformal import _sides as sides

#
# Proofs. Let d_n be the dropped mass of position n and τ_{n+1} = τ_n - η(d_n - ε).
#
# telescope. Sum the updates: Σ (d_n - ε) = (τ_1 - τ_{T+1})/η.
# telescope_printed. False: the left side is negative where the threshold rises; the absolute value is a misprint.
# iterates. If τ_n ≥ 0, then τ_{n+1} ≥ -η(1 - ε), as d_n ≤ 1. If τ_n < 0, every token is kept, d_n = 0 and τ rises.
#   So τ_n ≥ -η(1 - ε) for all n if it is for the first.
# iterates_upper. False: τ has no upper bound. Once only the top token is left, d_n = 1 - max q_n. While that is below
#   ε, the threshold keeps rising.
# regret_sharp. Insert the lower bound in the telescope: Σ d_n ≤ εT + (τ_1 + η(1 - ε))/η. No smaller bound holds for
#   all V.
# regret, regret_small_step. (|τ_1| + 1 + ηε) - (τ_1 + η(1 - ε)) ≥ 1 - η(1 - 2ε), which is 0 or more for η(1 - 2ε) ≤ 1:
#   the published bound follows for these η. For larger η one step overshoots by more than 1, which the bound assumes.
# regret_proof. (|τ_1| + 1 + η) - (τ_1 + η(1 - ε)) ≥ 1 + ηε: only the lower half of Lemma 4 is needed.
# rate. regret_sharp with ε = d/√T and η = c/√T, times T.
# update, kept. The controller rolls back to the state after the accepted drafts and the update of the rejected draft.
#   This is its state if it had seen these positions only, so regret_sharp holds for them.
# accepted, resampled. The text says: "Once feedback is received from the cloud, the value of the threshold is returned
#   to the value of the last accepted token, and a further iteration is done for the new, (T^t + 1)-th token", and line
#   12: "Apply the update (8) on the new token as τ_{T+1} = τ_T - η(d_T - ε)" for T accepted drafts. The words "a
#   further iteration" and "on the new token" favour the new position's own d_{T+1}, as in update, kept. The formula
#   favours d_T: read literally, it repeats, from the last accepted token's τ_T, the step with which line 8 set τ_{T+1}.
#   By the formula the controller has the state that it would have if it had seen the accepted positions only. So
#   regret_sharp holds for the mean over the tokens that the proof of Theorem 2 counts. The rejected position's d enters
#   the sum of Theorem 1, but no update uses it. (If d_T were subtracted a second time, from τ_{T+1}, the bound on the
#   mean over accepted positions would fail too: easy positions before a rejection would count twice.)
# budget. With the allowance a_n = b_{n-1} + ε, d_n ≤ a_n and b_n = a_n - d_n, b_n ≥ 0 for all n. Sum over n ≤ T:
#   Σ d_n = εT - b_T ≤ εT. Only d_n ≤ a_n is used.
#   So it holds for every sequence of rows, even if it is chosen with knowledge of the controller, and also if τ keeps
#   more tokens. It is c-sqs (9) without the regret. A support always exists: a_n > 0, and the whole row drops 0.
# hindsight. Let B be the tokens with q < τ and A those that the supports drop, over all positions. Tokens of A outside
#   B have q ≥ τ, and tokens of B outside A have q < τ. So |A| - |B| = |A∖B| - |B∖A| ≤ (mass(A∖B) - mass(B∖A))/τ =
#   (Σ d_n - mass(B))/τ. So no supports that drop the same mass as a fixed threshold have a smaller total. Which
#   threshold uses up the budget is known only afterwards.


_CSQS = "bhattacharjee2025csqs"
_FIRST = Assumption("τ₁ ≥ −η(1 − ε)", sides.high_enough)
_SMALL = Assumption("η(1 − 2ε) ≤ 1", sides.small_step)
_NEARLY_FLAT = [[2 / 257] + [1 / 257] * 255]
"""One row that drops 255/257 at a threshold of 2/257."""
_TWO_DROPS = {"drafts": _NEARLY_FLAT * 5, "epsilon": 0.25, "learning_rate": 4.0, "threshold": 2 / 257}
"""The threshold falls below 0 at the first and the last position, and recovers between."""
_DROPPED = 2 * 255 / 257 / 5
_TIGHT = _DROPPED / (0.25 + (2 / 257 + 3) / 20)
_PEAKED = [[1.0, 0.0]]
_TWO_BATCHES = {
    "drafts": [[[0.5, 0.25, 0.25], [0.5, 0.5, 0.0]], [[0.75, 0.25, 0.0], [0.25, 0.25, 0.5]]],
    "accepted": [0, 2],
    "epsilon": 0.25,
    "learning_rate": 0.5,
    "threshold": 0.5,
}
_EASY_THEN_FLAT = [[[1.0] + [0.0] * 127, [1 / 128] * 128]] * 100

_SPENT = {"drafts": [[0.75, 0.25]] * 4, "epsilon": 0.25}
_TWO_ROWS = [[0.75, 0.25, 0.0, 0.0, 0.0], [0.5, 0.125, 0.125, 0.125, 0.125]]
_SPARED = [[True, True, False, False, False], [True, False, False, False, False]]

CLAIMS = (
    Claim(
        id="conformal.update",
        source=Source(_CSQS, "(8) and Algorithm 1, line 12 with the rejected position's own dropped mass"),
        origin=Origin.CORRECTED,
        statement="drafting ahead and rolling back gives the threshold of the accepted and rejected positions alone",
        relation=Relation.EQ,
        lhs=sides.rolled_back,
        rhs=sides.kept_threshold,
        assumptions=(_FIRST,),
        attained=Attained(_TWO_BATCHES),
    ),
    Claim(
        id="conformal.telescope",
        source=Source(_CSQS, "Lemma 2 without the absolute value"),
        origin=Origin.CORRECTED,
        statement="Σ (d_n − ε) = (τ₁ − τ_{T+1})/η",
        relation=Relation.EQ,
        lhs=sides.excess,
        rhs=sides.movement,
        assumptions=(_FIRST,),
        attained=Attained(_TWO_DROPS),
        condition=sides.roundings,
    ),
    Claim(
        id="conformal.telescope_printed",
        source=Source(_CSQS, "Lemma 2, (25)"),
        origin=Origin.MISPRINT,
        statement="Σ (d_n − ε) = |τ₁ − τ_{T+1}|/η",
        relation=Relation.EQ,
        lhs=sides.excess,
        rhs=sides.absolute_movement,
        assumptions=(_FIRST,),
        refuted={"drafts": _PEAKED, "epsilon": 0.25, "learning_rate": 1.0, "threshold": 0.0},
        condition=sides.roundings,
    ),
    Claim(
        id="conformal.resampled",
        source=Source(_CSQS, "Algorithm 1, line 12 by its formula, for the sum of Theorem 1; its words say the repair"),
        origin=Origin.MISPRINT,
        statement="with the last accepted position's d in line 12, mean d over accepted and rejected ≤ the sharp bound",
        lhs=sides.kept_mean_printed,
        rhs=sides.kept_bound,
        assumptions=(_FIRST,),
        refuted={
            "drafts": _EASY_THEN_FLAT,
            "accepted": [1] * 100,
            "epsilon": 0.005,
            "learning_rate": 1.0,
            "threshold": 0.0,
        },
    ),
    Claim(
        id="conformal.accepted",
        source=Source(_CSQS, "Theorem 2 with Algorithm 1, line 12 as printed"),
        statement="with the last accepted position's d in line 12, mean d over accepted ≤ the sharp bound",
        lhs=sides.accepted_mean_printed,
        rhs=sides.accepted_bound,
        assumptions=(_FIRST,),
        attained=Attained({**_TWO_DROPS, "drafts": [_NEARLY_FLAT * 5], "accepted": [5]}, ratio=_TIGHT),
        ceiling=1.0,
    ),
    Claim(
        id="conformal.kept",
        source=Source(_CSQS, "Algorithm 1, line 12 with the rejected position's own dropped mass"),
        origin=Origin.CORRECTED,
        statement="with the rejected position's own d, mean d over accepted and rejected ≤ the sharp bound",
        lhs=sides.kept_mean,
        rhs=sides.kept_bound,
        assumptions=(_FIRST,),
        attained=Attained({**_TWO_DROPS, "drafts": [_NEARLY_FLAT] * 5, "accepted": [0] * 5}, ratio=_TIGHT),
        ceiling=1.0,
    ),
    Claim(
        id="conformal.regret",
        source=Source(_CSQS, "Theorem 2, (9), for any η > 0, as printed"),
        origin=Origin.PUBLISHED,
        statement=(
            "mean d_n ≤ ε + (|τ₁| + 1 + ηε)/(ηT) for any η > 0; it fails only where η(1 − 2ε) > 1, and (28) of "
            "its proof always holds"
        ),
        lhs=sides.mean_dropped,
        rhs=sides.published,
        assumptions=(_FIRST,),
        refuted={"drafts": [[1 / 200] * 200] * 2, "epsilon": 0.001, "learning_rate": 10.0, "threshold": 0.0},
    ),
    Claim(
        id="conformal.regret_proof",
        source=Source(_CSQS, "(28), in the proof of Theorem 2"),
        origin=Origin.PUBLISHED,
        statement="mean d_n ≤ ε + (|τ₁| + 1 + η)/(ηT) for any η > 0: (9) has ηε for this η",
        lhs=sides.mean_dropped,
        rhs=sides.published_in_proof,
        assumptions=(_FIRST,),
        attained=Attained(_TWO_DROPS, ratio=_DROPPED / (0.25 + (2 / 257 + 5) / 20)),
        ceiling=1.0,
    ),
    Claim(
        id="conformal.regret_small_step",
        source=Source(_CSQS, "Theorem 2, (9)"),
        origin=Origin.CORRECTED,
        statement="mean d_n ≤ ε + (|τ₁| + 1 + ηε)/(ηT) where η(1 − 2ε) ≤ 1",
        lhs=sides.mean_dropped,
        rhs=sides.published,
        assumptions=(_FIRST, _SMALL),
        attained=Attained({**_TWO_DROPS, "learning_rate": 2.0}, ratio=_DROPPED / (0.25 + (2 / 257 + 1.5) / 10)),
        ceiling=1.0,
    ),
    Claim(
        id="conformal.regret_sharp",
        source=Source(_CSQS, "Theorem 2, (9)"),
        statement="mean d_n ≤ ε + (τ₁ + η(1 − ε))/(ηT) for every η and V; at τ₁ = 0, Σ d_n ≤ εT + 1 − ε",
        lhs=sides.mean_dropped,
        rhs=sides.sharp,
        assumptions=(_FIRST,),
        attained=Attained(_TWO_DROPS, ratio=_TIGHT),
        ceiling=1.0,
    ),
    Claim(
        id="conformal.iterates",
        source=Source(_CSQS, "Lemma 4, lower half"),
        origin=Origin.PUBLISHED,
        statement="−τ_n ≤ η(1 − ε) for all n",
        lhs=sides.lowest,
        rhs=sides.undershoot,
        assumptions=(_FIRST,),
        attained=Attained(_TWO_DROPS, ratio=(4 * (255 / 257 - 0.25) - 2 / 257) / 3),
    ),
    Claim(
        id="conformal.iterates_upper",
        source=Source(_CSQS, "Lemma 4, upper half"),
        origin=Origin.PUBLISHED,
        statement="τ_n ≤ 1 + ηε for all n > 1",
        lhs=sides.highest,
        rhs=sides.overshoot,
        assumptions=(_FIRST,),
        refuted={"drafts": _PEAKED * 8, "epsilon": 0.5, "learning_rate": 0.5, "threshold": 0.0},
    ),
    Claim(
        id="conformal.rate",
        source=Source(_CSQS, "(30)"),
        origin=Origin.PUBLISHED,
        statement="for ε = d/√T, η = c/√T: Σ d_n ≤ (d + τ₁/c)√T + 1 − d/√T = O(√T)",
        lhs=sides.summed,
        rhs=sides.rate_bound,
        assumptions=(Assumption("τ₁ ≥ −(c/√T)(1 − d/√T)", sides.first_high_enough),),
        attained=Attained(
            {
                "drafts": _NEARLY_FLAT * 5,
                "target_scale": 0.25 * 5**0.5,
                "learning_scale": 4.0 * 5**0.5,
                "threshold": 2 / 257,
            },
            ratio=_TIGHT,
        ),
    ),
    Claim(
        id="conformal.budget",
        source=Source(_CSQS, "(9), with a budget of dropped mass in place of the threshold"),
        statement="(1/n) Σ_{i≤n} d_i ≤ ε at every n ≤ T, for every sequence of rows: no regret and no learning rate",
        lhs=sides.largest_mean,
        rhs=sides.target,
        attained=Attained(_SPENT),
        ceiling=1.0,
    ),
    Claim(
        id="conformal.hindsight",
        source=Source(_CSQS, "(6), with the threshold chosen afterwards"),
        statement="any supports have Σ K_n ≥ Σ |{q ≥ τ}| − (Σ d_n − Σ_{q<τ} q)/τ, for every τ > 0: a fixed τ is best",
        lhs=sides.price,
        rhs=sides.others_total,
        assumptions=(Assumption("τ > 0", sides.is_positive),),
        attained=Attained({"drafts": _TWO_ROWS, "supports": _SPARED, "threshold": 0.25}),
        condition=sides.price_roundings,
    ),
)
