"""A plan from the record of a run: acceptance, a draft, the rate, the round trip and a pass.

A train of n pings of b bytes takes 8 b (n - m) bits longer than one of m at the rate of the slower direction; of each
length the fastest counts. A pass is the wait without round trip and bits, so it has its time in the server's queue. A
round that opened its text waited for the prompt too, so its times do not count.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.draft_length import acceptance_by_depth
from validation.acceptance.record import AcceptanceRecord, tally
from validation.acceptance.summary import square
from validation.errors import UserError
from validation.estimates import Estimate
from validation.planning.engine_counts import options_of_counts
from validation.planning.option import Note, Option, sealed
from validation.planning.plan import Planner
from validation.planning.run_record import RunRecord, read_record
from validation.planning.setting import Setting
from validation.planning.split import split_prompts
from validation.printable import counted

WEBSOCKET = 6 + 2  # Bytes of the headers of a round's frame and of its answer, of at most 125 bytes each
OPTIONS = {"--rate": "rate_bps", "--rtt": "round_trip_s", "--draft-time": "draft_s", "--verify-time": "verify_s"}
"""The options whose values a record holds, and the fields of a request."""
FEWEST_TEXTS = 10
"""Smallest number of texts for intervals over texts. Of fewer, rounds count as independent. In simulations of 10 texts
that differ, 95% intervals over texts held 90% of the time or more, those of independent rounds 63% or more.
``FEWEST_CLUSTERS`` is larger, as fewer requests have wider intervals there: those at any stopping time."""


@dataclass(frozen=True, slots=True)
class Quartiles(Estimate):
    """A number of a run in SI units with its quartiles; ``why`` says why the record does not tell it."""

    why: str = ""


def measured_in(record: RunRecord, rate_bps: float | None = None) -> dict[str, Quartiles]:
    """Return the rate, the round trip, a draft and a pass of a record, by option."""
    rounds = [row for text in record.texts for row in text.rounds if not row["opened"]]
    drafts = [row["draft_s"] / (row["drafted"] + row["skipped"]) for row in rounds if row["drafted"] + row["skipped"]]
    measured = {"--draft-time": _quartiles(drafts, "no round but the first of a text drafted anything")}
    alone = [row for row in record.probes if row["frames"] == 1]
    if rate_bps is None:
        measured["--rate"] = _rate(record)
    rate = rate_bps or measured["--rate"].value or np.inf
    trips = [row["seconds"] - 8.0 * (row["up_bytes"] + row["down_bytes"]) / rate for row in alone]
    measured["--rtt"] = _quartiles(trips, "it has no pings")
    trip = measured["--rtt"].value or 0.0
    waits = [row["wait_s"] - trip - 8.0 * (row["up_bytes"] + row["down_bytes"] + WEBSOCKET) / rate for row in rounds]
    measured["--verify-time"] = _quartiles(waits, "each round waited no longer than its round trip and its bits take")
    return measured


def _quartiles(values: list[float], why: str) -> Quartiles:
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist() if values else (0.0, 0.0, 0.0)
    return Quartiles(median, low, high) if median > 0 else Quartiles(None, why=why)


def _rate(record: RunRecord) -> Quartiles:
    trains = [row for row in record.probes if row["frames"] > 1]
    lengths = sorted({row["frames"] for row in trains})
    if len(lengths) < 2:
        return Quartiles(None, why="it has no trains of pings of two lengths")
    ends = lengths[0], lengths[-1]
    short, long = ([row["seconds"] for row in trains if row["frames"] == length] for length in ends)
    bits = 8.0 * trains[0]["up_bytes"] * (ends[1] - ends[0])
    longer = min(long) - min(short), min(long) - max(short), max(long) - min(short)
    if longer[0] <= 0:
        return Quartiles(None, why="its longer trains of pings took no longer than its short ones")
    return Quartiles(bits / longer[0], bits / longer[2], bits / longer[1] if longer[1] > 0 else np.inf)


def records_of(record: RunRecord, source: str) -> list[AcceptanceRecord]:
    run = record.run
    again = "plan from a trace, or record `--method 'shared seed'`"
    if run["streamed"] or run["messages"] == "server":
        raise UserError(f"{source}: a {run['method']} run has no rounds of a draft length; {again}.")
    if any(row["skipped"] for text in record.texts for row in text.rounds):
        raise UserError(
            f"{source}: its device kept drafts without verification, and nobody knows which of them the server would "
            f"have accepted; {again}."
        )
    seeded = run["shared_seed"] and run["messages"] in ("tokens", "policy")
    if not run["lossless"] or not (seeded or run["messages"] in ("rows", "probabilities")):
        raise UserError(
            f"{source}: drafts of {run['method']} are accepted by another rule or drawn from other rows than those of "
            f"the models, so it tells this message alone; {again}."
        )
    records = []
    for number, text in enumerate(record.texts):
        counts = tally((row["drafted"], row["accepted"]) for row in text.rounds)
        if not counts:
            continue
        accepted, drafted = (sum(row[name] for row in text.rounds) for name in ("accepted", "drafted"))
        records.append(
            AcceptanceRecord(
                engine="hlm device",
                source=f"{source}, text {number + 1}",
                num_spec_steps=len(text.rounds),
                num_accepted_draft_tokens=accepted,
                num_draft_tokens=drafted,
                by_draft_length=counts,
                draft_sampling="sampled",
                verification="match" if seeded else "standard",
            )
        )
    if not records:
        raise UserError(f"{source} has no rounds; record a run that ends some.")
    return records


def planner_of_run(path: Path, setting: Setting) -> tuple[Planner, dict[str, Any]]:
    """Return the planner of a record, and what the plan says about its evidence; the setting is the caller's."""
    record = read_record(path)
    records = records_of(record, str(path))
    options, evidence = options_of_counts(records, int(record.run["vocabulary"]))
    seal = "hmac" if record.run["keyed"] else "checksum"
    evidence |= {"run": str(path), "method": record.run["method"], "texts": len(records)}
    evidence["depths"] = _depths(records, record.adapts)
    notes = [Note(text) for text in _limits(record, options)]
    planner = Planner(sealed(options, seal), setting, split_prompts(np.arange(len(records))))
    return planner, {"evidence": evidence, "notes": notes}


def _depths(records: list[AcceptanceRecord], adapts: bool) -> dict[str, Any]:
    deepest = max(max(record.by_draft_length or {}) for record in records)
    squares = np.stack([square(record.by_draft_length or {}, deepest) for record in records])
    method = "anytime" if adapts else "clustered" if len(records) >= FEWEST_TEXTS else "exact"
    rates = acceptance_by_depth(squares if method == "clustered" else squares.sum(axis=0), method=method)
    columns = {name: np.asarray(getattr(rates, name)).tolist() for name in ("examined", "acceptances", "low", "high")}
    seen = [index for index, count in enumerate(columns["examined"]) if count]
    return {"intervals": method} | {name: [values[i] for i in seen] for name, values in columns.items()}


def _limits(record: RunRecord, options: list[Option]) -> list[str]:
    longest = max(int(option.draft_length) for option in options)
    sentences = [
        f"Not in the record: drafts of another model, longer than {longest} a round, skipped, or in another message. "
        "What is not listed is not compared."
    ]
    if record.run["shared_seed"]:
        sentences.append(
            "Drafts were compared with the server's own tokens. Drafts that are accepted by their probabilities are "
            "accepted more often, so a server with its own draft may be faster than it is shown here."
        )
    killed = sum(text.end is None for text in record.texts)
    return sentences + ([f"{counted(killed, 'text')} did not end in the record; the rounds count."] if killed else [])


def said_of_times(numbers: dict[str, Quartiles], given: set[str]) -> list[str]:
    measured = []
    for option, number in numbers.items():
        factor, unit = (1e-6, "Mbit/s") if option == "--rate" else (1e3, "ms")
        if option not in given and number.value is not None:
            scaled = number * factor
            measured.append(f"{option} {scaled.value:.4g} {unit} ({scaled.low:.3g}–{scaled.high:.3g})")
    return [f"Measured in the run, with quartiles: {', '.join(measured)}."] if measured else []


def with_run(request: Any, path: Path, given: set[str], rate_known: bool) -> tuple[Any, list[str]]:
    """Return a request with the numbers of a record, and sentences on them; options that were given stay."""
    record = read_record(path)
    measured = measured_in(record, request.rate_bps if rate_known else None)
    changed = {}
    for option, number in measured.items():
        if option in given:
            continue
        if number.value is None:
            raise UserError(f"{path} does not tell {option}: {number.why}; give it.")
        changed[OPTIONS[option]] = float(f"{number.value:.4g}")
    return replace(request, **changed, vocabulary=int(record.run["vocabulary"])), said_of_times(measured, given)
