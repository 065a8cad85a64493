"""Which tasks to batch for the two-stage pipeline, in which order, and how many tokens to draft.

Paper: edge-sd (zhu2025edgesd) Section III-B, (28)-(33) and Algorithm 1; the baselines of Section IV; Johnson's rule for
two machines (johnson1954).

========== =============================================== ========= ===========
symbol     name                                            unit      shape
========== =============================================== ========= ===========
K          number of tasks                                 1         scalar
l          ``draft_length``                                tokens    scalar
N          decoding steps until the last batch is done     1         scalar
d, v       ``draft_times``, ``verify_times`` at one step   s         (..., M)
F, C       finish of the first and the second stage        s         (N,)
========== =============================================== ========= ===========

============================ =====================================================================
method                       what it does
============================ =====================================================================
``dp``                       Algorithm 1 with its faults repaired: one state (F, C) per prefix of the tasks
``dp-printed-objective``     the same with (29) as printed: it minimises a latency without overlap
``dp-printed``               Algorithm 1 exactly as printed: its batches overlap, see :class:`Plan`
``pareto``                   all undominated states per prefix: exact among runs of the sorted tasks, in order
``improved``                 the one to use: the better of ``dp`` by prompt and by output length, in Johnson's order,
                             after moves of tasks between batches; its gap is to a closer bound
``exact``                    all partitions and all orders, at most 12 tasks; where waves are needed, all divisions
                             into waves, at most 8 tasks; for the barrier alone
``balanced``                 waves of equal size, each in batches of equal size, which are runs of the sorted tasks;
                             their numbers are chosen by the bound on their free schedules
``none``                     one task at a time
``static``                   a fixed number of tasks in a batch, in order of arrival
``max``                      as many as the memory holds of the longest task, in order of arrival
``heuristic``                batches of 2, 3, ... tasks, until the latency rises, in order of arrival
``sequential``               the plan of ``dp``, without overlap ("SD w/o pipeline")
``fixed-length``             ``dp`` with 7 drafts
``autoregressive``           no drafts: the verify model alone, batches by ``heuristic`` without the memory limit
============================ =====================================================================

A plan has a *schedule*. "barrier" is the paper's (22): every step ends when all batches have ended it. "free": a batch
drafts again as soon as its own drafts are verified and the draft stage, which holds one batch at a time, is free. Every
method but ``balanced`` and ``exact`` chooses its batches for the barrier, whatever the schedule. A bound for
"barrier" holds for plans with the barrier, one for "free" for any schedule.

A plan also has a *memory rule*. "together": the largest caches of all batches that run at the same time must fit,
Γ_p + Σ_m Γ_kv,m ≤ Γ_s. Batches that do not fit run in waves, one wave after another. Swapping caches out is not
modelled. "each": the paper's (24b) with (10) as printed, a limit for each batch alone.

``dp`` and ``pareto`` are the paper's program and its repair; the figures of edge-sd draw them. With few tasks and
answers of different lengths their plans took up to 1.6 times as long as the fastest; those of ``improved`` were within
5% of it in 300 cases.

Tasks hold their output lengths. The paper plans with O_max for all tasks: give such tasks to :func:`plan`, and the real
tasks with the plan to :func:`plan_latency`. A latency is the inference latency (22). Uploading the prompts, (15), adds
the same time to every plan.
"""

from __future__ import annotations

from hlmtheory.batching.claims import CLAIMS
from hlmtheory.batching.planner import METHODS, Plan, lower_bound, plan, plan_latency

__all__ = [
    "CLAIMS",
    "METHODS",
    "Plan",
    "lower_bound",
    "plan",
    "plan_latency",
]
