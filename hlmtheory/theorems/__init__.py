"""The theorems: a file for each of the five papers in its order, one for other papers, and ours by subject."""

from hlmtheory.claims import Claim
from hlmtheory.theorems import (
    c_sqs,
    cu_hlm,
    edge_sd,
    field,
    flexspec,
    ours_guarantees,
    ours_messages,
    ours_plans,
    ours_rounds,
    u_hlm,
)

THEOREMS = {
    value.id: value
    for file in (
        c_sqs,
        cu_hlm,
        edge_sd,
        field,
        flexspec,
        ours_guarantees,
        ours_messages,
        ours_plans,
        ours_rounds,
        u_hlm,
    )
    for value in vars(file).values()
    if isinstance(value, Claim)
}
"""Every claim by id."""
