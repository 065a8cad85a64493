"""The columns that :mod:`validation.decoding.metrics` sums: by name, one number for each generation record.

============== ==================================================================================================
column         meaning
============== ==================================================================================================
texts          1
risk_computed  1 where ``risk`` was computed
tokens         new tokens; accepted + resampled + bonus + skipped
seconds        draft_s + target_s + link_s - overlap_s
rounds         exchanges with the server, which c-sqs calls batches
sent           exchanges with an uplink message
turns          exchanges plus skipped tokens: the rounds of cu-hlm and u-hlm
looked_at      accepted + resampled: verified drafts; drafts after a rejected one are dropped
text_speed     tokens/seconds of the text; ``timed_texts`` is 1 if its seconds are positive
turn_speed     Σ over turns of tokens/seconds (cu-hlm (6)); ``timed_turns`` counts turns of positive time
============== ==================================================================================================

and the sums of the fields of a :class:`~validation.decoding.records.Round` by their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.records import SUMMED, GenerationRecord

Array = NDArray[Any]
_FIELDS = attrgetter(*SUMMED)
_PLACE = {name: column for column, name in enumerate(SUMMED)}


def columns_of(records: Sequence[GenerationRecord]) -> dict[str, Array]:
    """Return the columns of at least one record by name, each (records,)."""
    tables = [np.array([_FIELDS(one) for one in (*record.rounds, record.last)], dtype=np.float64) for record in records]
    sums = np.stack([table.sum(axis=0) for table in tables])
    found = {name: sums[:, column] for name, column in _PLACE.items()}
    found["texts"] = np.ones(len(records))
    found["risk_computed"] = np.array([float(record.risk_computed) for record in records])
    found["tokens"] = np.array([float(len(record.tokens)) for record in records])
    found["seconds"] = found["draft_s"] + found["target_s"] + found["link_s"] - found["overlap_s"]
    found["rounds"] = np.array([float(len(record.rounds)) for record in records])
    found["sent"] = np.array([float(np.count_nonzero(table[:, _PLACE["bytes"]])) for table in tables])
    found["turns"] = found["rounds"] + found["skipped"]
    found["looked_at"] = found["accepted"] + found["resampled"]
    timed = found["seconds"] > 0
    found["timed_texts"] = timed.astype(np.float64)
    found["text_speed"] = np.where(timed, found["tokens"] / np.where(timed, found["seconds"], 1.0), 0.0)
    found["turn_speed"], found["timed_turns"] = np.array([_turns(table) for table in tables]).T
    return found


def _turns(table: Array) -> tuple[float, float]:
    """Return Σ of tokens per second over the turns of a sequence that take time, and their number."""
    draft, passes, skipped = (table[:, _PLACE[name]] for name in ("draft_s", "draft_passes", "skipped"))
    each = draft / np.maximum(passes, 1.0)  # a skipped token takes one pass
    rest = np.maximum(passes - skipped, 0.0) * each + table[:, _PLACE["target_s"]] + table[:, _PLACE["link_s"]]
    rest -= table[:, _PLACE["overlap_s"]]
    new = table[:, _PLACE["accepted"]] + table[:, _PLACE["resampled"]] + table[:, _PLACE["bonus"]]
    asked = np.arange(len(table)) < len(table) - 1  # the last entry is not an exchange
    skips, turns = (skipped > 0) & (each > 0), asked & (rest > 0)
    speed = (skipped[skips] / each[skips]).sum() + (new[turns] / rest[turns]).sum()
    return float(speed), float(skipped[skips].sum() + np.count_nonzero(turns))
