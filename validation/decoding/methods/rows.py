"""What a method says of itself: its message on a link, the law of its texts, and the row of a plan that decides so."""

from dataclasses import dataclass
from enum import StrEnum


class Format(StrEnum):
    """What the message of a draft holds beside its token; :mod:`validation.link.formats` reads it."""

    ROWS = "rows"  # its distribution in float32
    TOKENS = "tokens"
    PROBABILITIES = "probabilities"  # q_d
    LATTICE = "lattice"  # its quantised distribution
    TRUNCATED = "truncated"  # its top-k probabilities
    POLICY = "policy"  # what a policy.json says


class Absent(str):
    """Why a method has no message on a link, or no row in a plan."""


class Law(StrEnum):
    """Whether texts have the target model's law, for every pair of models."""

    KEPT = "yes"
    TOKEN = "a token within ε"
    LIMIT = "as your limit says"
    LOST = "no"


@dataclass(frozen=True, slots=True)
class RowInfo:
    """A row of a plan; a method of the loop whose decisions and counts it has names it, as :attr:`Method.row`."""

    name: str
    device: bool = True  # whether it needs a device that drafts
    ours: bool = False
    calibrated: bool = False  # whether its threshold of the uncertainty is calibrated
    file: bool = False  # whether a device runs it from a policy.json
    no_method: str = ""  # why no method of the loop has its counts


SERVER, STREAM, COLOCATED = "server alone", "server alone, streaming", "server with its own draft"
OWN_TREE, DEVICE, FIXED = "server with its own tree", "device alone", "fixed K, full rows"
OWN_GREEDY, GREEDY, KEEPING = "server with greedy drafts", "greedy drafts", "server keeping sure drafts"
OWN_DRAFTS = (COLOCATED, OWN_GREEDY)  # a server that drafts for itself, drawn from q or the likeliest token
UNRUN = (KEEPING, OWN_TREE)  # by no engine that ran here
HLM, U_HLM, CU_HLM, SQS, FLEXSPEC = "HLM", "U-HLM", "CU-HLM", "SQS", "FlexSpec"
SEED_TREE, CERTIFIED, STREAMED, OURS = "shared seed tree", "DSSD certified", "shared seed, streamed", "ours"
TREES = (OWN_TREE, SEED_TREE)
ROWS = {
    row.name: row
    for row in (
        RowInfo(SERVER, device=False, file=True),
        RowInfo(STREAM, device=False, no_method="the texts of the server alone, without waits"),
        RowInfo(COLOCATED, device=False, no_method="the rounds of a device with the same drafts, without messages"),
        RowInfo(OWN_GREEDY, device=False, no_method="the same"),
        RowInfo(KEEPING, device=False, calibrated=True, no_method="the same; no engine is known to do it"),
        RowInfo(OWN_TREE, device=False),
        RowInfo(DEVICE, calibrated=True, file=True),
        RowInfo(FIXED),
        RowInfo(GREEDY),
        RowInfo(HLM),
        RowInfo(U_HLM, calibrated=True),
        RowInfo(CU_HLM, calibrated=True),
        RowInfo(SQS),
        RowInfo(FLEXSPEC),
        RowInfo(SEED_TREE),
        RowInfo(CERTIFIED, ours=True, file=True),
        RowInfo(STREAMED, ours=True, file=True),
        RowInfo(OURS, ours=True, calibrated=True, file=True),
    )
}
"""Every row by name, in the order of the table."""
