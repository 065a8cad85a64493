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


ROWS = {
    row.name: row
    for row in (
        RowInfo("server alone", device=False, file=True),
        RowInfo("server alone, streaming", device=False, no_method="the texts of the server alone, without waits"),
        RowInfo(
            "server with its own draft",
            device=False,
            calibrated=True,
            no_method="the rounds of a device with the same drafts, without messages",
        ),
        RowInfo("server with its own tree", device=False),
        RowInfo("device alone", calibrated=True, file=True),
        RowInfo("fixed K, full rows"),
        RowInfo("HLM"),
        RowInfo("U-HLM", calibrated=True),
        RowInfo("CU-HLM", calibrated=True),
        RowInfo("SQS"),
        RowInfo("FlexSpec"),
        RowInfo("shared seed tree"),
        RowInfo("DSSD certified", ours=True, file=True),
        RowInfo("shared seed, streamed", ours=True, file=True),
        RowInfo("ours", ours=True, calibrated=True, file=True),
    )
}
"""Every row by name, in the order of the table."""
SERVER, STREAM, COLOCATED, OWN_TREE, DEVICE, FIXED, HLM, U_HLM, CU_HLM, SQS, FLEXSPEC, *_OURS = ROWS
SEED_TREE, CERTIFIED, STREAMED, OURS = _OURS
