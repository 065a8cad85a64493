"""What writers of a trace in a store meet, whatever the store: a second writer, and an answer that is lost."""

from __future__ import annotations

from typing import Any

from tests.validation.stored_traces import VOCABULARY, random_fields, stored
from tests.validation.trace.store_stand_in import Bucket
from validation.trace.journal import JOURNAL
from validation.trace.reader import TraceWriter


def second_writer(place: Any) -> None:
    """Write a trace while another writer of the same trace is open and has written; the first then writes again."""
    rows = {name: array[:4] for name, array in random_fields(4).items()}

    def write(writer: TraceWriter) -> None:
        writer.append(**rows)
        writer.commit()
        writer.flush()

    with TraceWriter(place, VOCABULARY, settings={}) as first:
        write(first)
        with TraceWriter(place, VOCABULARY, settings={}) as second:
            assert second.positions == 4
        write(first)


def lost_answer(served: Bucket, place: Any) -> Any:
    """Return a trace that is stored while the answer to one writing of its journal is lost."""
    lost = iter(["lost"])
    served.fault = lambda method, key: next(lost, None) if (method, key[-13:]) == ("PUT", JOURNAL) else None
    found = stored(place)
    assert next(lost, None) is None
    return found
