"""Time the counted rounds of SmolLM2 as in flexspec's Tables III and IV, beside the printed speed-ups.

    PYTHONPATH=. python3 figures/studies/smollm2_versions/tables.py

Reads ``rows.json`` of ``figures/studies/flexspec_tables/decode_rows.py --models smollm2`` and the pass times of
``figures/studies/smollm2_c_sqs/texts.json``, writes ``tables.json``, and prints the tables of the README.

A text over a network of rate R takes

    delay · rounds + draft time · draft passes + pass time · passes + token time · tokens read + 8 · bytes/R.

``assumed`` are the times of ``flexspec_tables``: 8.5 ms a draft, 104.6 ms a pass for any number of tokens. ``measured``
are those of these models on one core. Delays and rates are assumed in both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S
from validation.decoding.studies import CLOUD_S
from validation.decoding.wire import index_bits
from validation.plots.common.record import plain
from validation.plots.flexspec import counted as c
from validation.plots.flexspec import counted_lines as k
from validation.plots.flexspec.counted import Texts
from validation.plots.flexspec.counted_lines import Case
from validation.plots.flexspec.counted_tables import TEMPERATURES, printed_gain
from validation.plots.flexspec.printed import DATASETS, NETWORKS

HERE = Path(__file__).parent
ROWS, STORED = HERE / "rows.json", HERE / "tables.json"
TIMED = HERE.parent / "smollm2_c_sqs" / "texts.json"
SEED, FIXED = 1, 4
SIX, CODE = "six sets", "HumanEval"
STREAM, OPTIMUM = "server that streams", "small draft with K*"
LENGTHS = "FlexSpec's lengths, lossless"
COLUMNS = {k.CLOUD: k.CLOUD, "Lookahead": "Lookahead", k.STANDARD: k.STANDARD, k.DSSD: k.DSSD, k.FLEXSPEC: k.FLEXSPEC}
"""Column of flexspec's tables for each line that has one."""
WINDOW = {"Lookahead": 7}
"""Tokens of Lookahead's window that a pass reads beside the drafts: W(N - 1) - 1."""


@dataclass(frozen=True, slots=True)
class Times:
    """Hold seconds of a draft pass, of a target pass, and of each token that a target pass reads."""

    draft_s: float
    target_s: float
    token_s: float

    def seconds(self, texts: Texts, network: str, window: int = 0) -> NDArray[np.float64]:
        """Return the seconds of each text over a network."""
        read = texts.drafted + (1.0 + window) * texts.target_passes
        return texts.seconds(network, draft_s=self.draft_s, cloud_s=self.target_s) + self.token_s * read


ASSUMED = Times(FLEXSPEC_DRAFT_S, CLOUD_S, 0.0)


def cloud_only(tokens: NDArray[np.float64], vocabulary: int) -> Texts:
    """Return the counts of Cloud-Only: a round, a pass and a request of one byte for each token."""
    none, down = np.zeros(len(tokens)), -(-index_bits(vocabulary) // 8) * tokens
    return Texts(tokens, tokens, none, none, none, none, tokens, tokens, down)


def lines(case: Case, network: str) -> dict[str, Texts]:
    """Return the texts of each line over a network, the strongest rival first; lines that were not run are left out."""
    vocabulary, count = case.study.about["vocabulary"], len(case.study.about["prompts"])
    fates = case.study.flags[case.version, case.temperature, k.PLAIN]
    fixed = partial(c.replayed, fates, [c.fixed(FIXED)] * count, vocabulary=vocabulary, method=c.NO_AVERAGE)
    alone, lossless = fixed(lossless=False), bool(case.temperature)
    cloud = cloud_only(alone.tokens, vocabulary)
    found = {
        STREAM: replace(cloud, rounds=np.ones(count)),
        k.CLOUD: cloud,
        # at temperature 1 a draft of standard SD carries its distribution
        k.STANDARD: replace(alone, bytes=alone.bytes + 4.0 * vocabulary * lossless * alone.drafted),
        k.DSSD: fixed(lossless=lossless),
        OPTIMUM: case.replay(k.PLAIN, network, c.by_optimum),
    }
    # at temperature 0 an accepted draft is the likeliest token, as FlexSpec's rule of acceptance wants it
    name = LENGTHS if lossless else k.FLEXSPEC
    found[name] = case.replay(k.PLAIN, network, c.by_surrogate, method="ema_printed")
    decoded = {k.RULE_ALONE: k.FLEXSPEC}
    found |= {decoded.get(name, name): texts for name, texts in case.lines[network].items()}
    order = (STREAM, k.CLOUD, "Lookahead", "prompt lookup (PLD)", k.STANDARD, k.DSSD, k.FLEXSPEC, LENGTHS, OPTIMUM)
    return {name: found[name] for name in order if name in found}


def chosen(case: Case, source: str) -> NDArray[np.bool_]:
    """Return which prompts are of the six sets, or of one."""
    return k.chosen_prompts(case.study, None if source == SIX else source)


def speed_ups(case: Case, network: str, times: Times, source: str) -> dict[str, list[float]]:
    """Return the speed-up of each line over Cloud-Only with the ends of its interval over prompts."""
    kept, by_line = chosen(case, source), lines(case, network)
    cloud, found = by_line[k.CLOUD].of(kept), {}
    for name, texts in by_line.items():
        own = texts.of(kept)
        seconds = times.seconds(own, network, WINDOW.get(name, 0)), own.tokens
        one = k.quotient((times.seconds(cloud, network), cloud.tokens), seconds, SEED)
        found[name] = [plain(value or 0.0, 4) for value in (one.value, one.low, one.high)]
    return found


def printed_range(table: str, network: str, name: str) -> list[float] | None:
    """Return the smallest and the largest printed speed-up of the six sets."""
    values = [printed_gain(table, source, network, COLUMNS.get(name)) for source in DATASETS]
    numbers = [value for value in values if value is not None]
    return [min(numbers), max(numbers)] if numbers else None


def counts_of(texts: Texts) -> dict[str, float]:
    """Return what a line sends and reads, over all texts."""
    tokens = texts.tokens.sum()
    return {
        "tokens a round": plain(float(tokens / texts.rounds.sum()), 3),
        "bytes up a token": plain(float(texts.bytes.sum() / tokens), 3),
        "bytes down a token": plain(float(texts.down_bytes.sum() / tokens), 3),
    }


def measure() -> dict[str, Any]:
    """Return all speed-ups, the counts of each line, and the acceptance."""
    study = c.counted(ROWS)
    timed = json.loads(TIMED.read_text(encoding="utf-8"))["times"]
    kinds = {"assumed": ASSUMED, "measured": Times(**timed)}
    cells, counts = [], []
    for table, temperature in TEMPERATURES.items():
        for version in study.versions:
            case = Case(study, temperature, version)
            if not case.there(k.PLAIN):
                continue
            key = {"table": table, "version": version}
            accepted = case.acceptance(k.PLAIN)
            by_line = {name: counts_of(texts) for name, texts in lines(case, "4G").items()}
            ends = [plain(value or 0.0, 3) for value in (accepted.value, accepted.low, accepted.high)]
            counts.append(key | {"acceptance": ends, "lines": by_line})
            for network in NETWORKS:
                for source in (SIX, CODE):
                    gains = {name: speed_ups(case, network, times, source) for name, times in kinds.items()}
                    cells.append(key | {"network": network, "texts": source} | gains)
    printed = {
        f"{table}, {network}": {name: printed_range(table, network, name) for name in COLUMNS}
        for table in TEMPERATURES
        for network in NETWORKS
    }
    return {"times": timed, "about": study.about, "counts": counts, "cells": cells, "printed": printed}


def _shown(found: dict[str, Any], table: str, version: str, network: str, kind: str, texts: str, name: str) -> str:
    asked = {"table": table, "version": version, "network": network, "texts": texts}
    for one in found["cells"]:
        if all(one[key] == value for key, value in asked.items()) and name in one[kind]:
            value, low, high = one[kind][name]
            return f"{value:.2f} ({low:.2f} to {high:.2f})"
    return "not run"


def _names(found: dict[str, Any], table: str) -> list[str]:
    return list(dict.fromkeys(name for one in found["cells"] if one["table"] == table for name in one["assumed"]))


def markdown(found: dict[str, Any]) -> Iterator[str]:
    """Yield the rows of the README's tables: by network for version 0, then over 4G by version, for each kind of texts."""
    for table in TEMPERATURES:
        for name in _names(found, table):
            printed = [found["printed"][f"{table}, {network}"].get(name) for network in NETWORKS]
            own = [_shown(found, table, k.BASE, network, "assumed", SIX, name) for network in NETWORKS]
            cells = [
                f"{one}; {ends[0]:.2f} to {ends[1]:.2f}" if ends else one
                for one, ends in zip(own, printed, strict=True)
            ]
            yield f"| {table} | {name} | {' | '.join(cells)} |"
    versions = dict.fromkeys(one["version"] for one in found["cells"])
    for texts in (SIX, CODE):
        for table in TEMPERATURES:
            for name in _names(found, table):
                cells = [_shown(found, table, version, "4G", "measured", texts, name) for version in versions]
                yield f"| {table} | {name} | {' | '.join(cells)} |"


def main() -> None:
    """Write one JSON file and print the rows."""
    found = measure()
    STORED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(markdown(found)))


if __name__ == "__main__":
    main()
