"""Links with recorded throughput, from CSV files: ``trace_id``, ``time_s`` and ``throughput_mbps``, one sample a line.

A file, plain or gzipped, is a family of traces. Traces are not redistributed here: their publishers' licences apply.
Recordings are often of a downlink, without round-trip times; a study of an uplink must scale them, and say so.
"""

import math
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from hlmtheory.channel import TraceLink
from validation.errors import UserError
from validation.input_files import read_csv, read_number

COLUMNS = ("trace_id", "time_s", "throughput_mbps")
SUFFIXES = (".csv", ".csv.gz")


def load_links(place: str | Path) -> dict[str, TraceLink]:
    """Load all traces of a CSV file, or of the CSV files of a folder, in bit/s, by ``family/trace_id``."""
    place = Path(place)
    files = [place]
    if place.is_dir():
        files = sorted(file for file in place.iterdir() if file.is_file() and file.name.endswith(SUFFIXES))
        if not files:
            raise UserError(f"The folder {place} holds no .csv or .csv.gz file; name the one that holds the traces.")
    elif not place.is_file():
        raise UserError(f"There is no file or folder {place}; give a CSV with {', '.join(COLUMNS)}, or a folder.")
    links: dict[str, TraceLink] = {}
    for file in files:
        links |= _links_of(file)
    if not links:
        raise UserError(f"{place} holds no samples; give a CSV with {', '.join(COLUMNS)}, or a folder of them.")
    return links


def find_link(place: str | Path, name: str | None = None) -> tuple[str, TraceLink]:
    """Return a recorded link of a CSV file, or of a folder of them, after its name; the first if no name is given."""
    links = load_links(place)
    named = [key for key in links if name in (None, key)] or [key for key in links if key.partition("/")[2] == name]
    if not named:
        raise UserError(f"{place} holds no link {name!r}; it has {len(links):,}, such as {next(iter(links))!r}.")
    if name is not None and len(named) > 1:
        raise UserError(f"{place} holds {len(named)} links {name!r}; give one of {', '.join(named[:5])}.")
    return named[0], links[named[0]]


def _links_of(file: Path) -> dict[str, TraceLink]:
    family = file.name.removesuffix(".gz").removesuffix(".csv")
    links: dict[str, TraceLink] = {}
    for name, samples in groupby(_samples(file), key=itemgetter(0)):
        if f"{family}/{name}" in links:
            raise UserError(f"{file}: the trace {name} occurs twice; keep its samples one after the other.")
        _, times, rates = zip(*samples, strict=True)
        try:
            links[f"{family}/{name}"] = TraceLink(list(times), [1e6 * rate for rate in rates])
        except ValueError as error:
            raise UserError(f"{file}: the trace {name} is not a valid link: {error}.") from error
    return links


def _samples(file: Path) -> Iterator[tuple[str, float, float]]:
    for where, row in read_csv(file, COLUMNS):
        time, rate = read_number(where, "time_s", row["time_s"], -math.inf), row["throughput_mbps"]
        yield row["trace_id"], time, read_number(where, "throughput_mbps", rate, 0.0)
