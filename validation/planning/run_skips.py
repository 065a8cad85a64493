"""What the record of a run tells of its skips: the risk of those that it made, from the ones that it audited.

With the probability π a draft that would be kept is sent; its loss is 1 if the server rejects it. So
``skipping.audit_bound`` bounds the mean risk of the tokens so far, at all times together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hlmtheory.skipping import audit_bound
from validation.errors import UserError
from validation.planning.run_record import RecordedText, RunRecord

ERROR = 0.05


def skips_of(record: RunRecord, source: str) -> dict[str, Any] | None:
    """Return the counts of a run's skips and the bounds on their risk; None if it skipped and audited nothing."""
    rounds = [one for text in record.texts for one in text.rounds]
    audited = [one for one in rounds if one["audited"]]
    skipped = sum(one["skipped"] for one in rounds)
    if not skipped and not audited:
        return None
    probability = float(record.run["audit"])
    if not probability:
        raise UserError(
            f"{source}: its device kept drafts without verification and audited none, so nobody knows how many of them "
            "the server would have accepted; record with --audit 0.1."
        )
    tokens = sum(map(_tokens, record.texts))
    rejected = sum(not one["accepted"] for one in audited)
    losses = np.zeros(max(tokens, 1))
    losses[:rejected] = 1.0
    bound = float(audit_bound(losses, probability, ERROR)[-1])
    found = {"texts": len(record.texts), "tokens": tokens, "skipped": skipped, "audit_probability": probability}
    found |= {"audited": len(audited), "rejected": rejected, "confidence": 1.0 - ERROR, "mean_risk_bound": bound}
    return found | {"text_bound": min(1.0, bound * tokens / max(len(record.texts), 1))}


def _tokens(text: RecordedText) -> int:
    """Return the tokens of a text whose audits are in the record; of one that was killed, those of its rounds."""
    if text.end is not None:
        return int(text.end["tokens"])
    last = text.rounds[-1] if text.rounds else None
    return 0 if last is None else int(last["position"] + last["accepted"])


def said_of_skips(found: dict[str, Any]) -> str:
    """Return a sentence on what :func:`skips_of` returns."""
    return (
        f"Measured: of {found['tokens']:,} tokens {found['skipped']:,} were kept without verification, and of "
        f"{found['audited']:,} that would have been and were sent, the server rejected {found['rejected']:,}. So the "
        f"mean risk of a token is at most {found['mean_risk_bound']:.3g}, and the mean total variation of a text at "
        f"most {found['text_bound']:.3g}, at {found['confidence']:.0%}, whenever the run was stopped."
    )
