"""Which tasks to batch for the two-stage pipeline, in which order, and how many tokens to draft.

Paper: edge-sd (zhu2025edgesd) Section III-B, (28)-(33), Algorithm 1, and the baselines of Section IV; Johnson's rule
(johnson1954). See :func:`plan` for the methods. The latency is (22); uploading, (15), adds the same time to every plan.
"""

from hlmtheory.batching.planner import lower_bound, plan, plan_latency

__all__ = ["lower_bound", "plan", "plan_latency"]
