"""Return what the first screen of the report says: the outcome of each statement, and what to send."""

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hlmtheory.claims import FALSE, Claim, Status
from validation.acceptance.settings import tied_lengths
from validation.claims.check import Results
from validation.decoding.methods.rows import OWN_DRAFTS
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.rounds import named
from validation.planning.setting import Setting
from validation.planning.token_time import length_pays
from validation.report.tables import KINDS

NOT_RUN, NOT_CONFIRMED = "not checked", "not confirmed"
CLAIM_OUTCOMES = ("holds", "violated", "inconclusive", "out of scope", NOT_RUN)
FALSE_OUTCOMES = (*FALSE.values(), NOT_CONFIRMED)
DATA = ("measured", "simulated", NOT_RUN)
"""Data on which a statement was checked; the columns of the partition."""

MEANINGS = {
    "holds": "hold on every instance that is decided",
    "violated": "violated",
    "inconclusive": "undecided: the two sides are too close, or their intervals overlap",
    "out of scope": "out of scope: an assumption is met nowhere",
    NOT_RUN: "not checked in this run",
    **{kind: f"{kind}: {KINDS[kind]}" for kind in FALSE.values()},
    NOT_CONFIRMED: "refutations that the counterexample no longer shows",
}
"""Meaning of each outcome, in the order of the partition."""

Counts = Mapping[str, Mapping[str, int]]
FLOAT_BITS = 32
SMALLEST = "cheapest codec"  # rule of Table V with the smallest certified message of each position


def partition(claims: Mapping[str, Claim], results: Results) -> dict[str, dict[str, int]]:
    """Return how many statements have each outcome of :data:`MEANINGS`, by the data they were checked on."""
    counts = {outcome: dict.fromkeys(DATA, 0) for outcome in MEANINGS}
    for name, claim in claims.items():
        tally = results.tallies.get(name)
        if claim.refuted is None:
            outcome = tally.outcome if tally else NOT_RUN
        else:
            fails = claim.check(claim.refuted).count(Status.VIOLATED)
            outcome = claim.standing if fails else NOT_CONFIRMED
        counts[outcome][tally.kind if tally else NOT_RUN] += 1
    return counts


def partition_table(counts: Counts, parts: Counts) -> list[dict[str, Any]]:
    """Return the rows of the partition that are not empty, those of parts of the claims, and each total."""
    rows: list[dict[str, Any]] = []
    for title, outcomes in (("Claims", CLAIM_OUTCOMES), ("False statements", FALSE_OUTCOMES)):
        shown = [(outcome, counts[outcome]) for outcome in outcomes if any(counts[outcome].values())]
        rows.append(_row(title, [count for _, count in shown], head=True))
        rows += [_row(MEANINGS[outcome], [count], outcome=outcome) for outcome, count in shown]
        if title == "Claims":
            rows += [_row(f"of the claims, {part} on some instances", [parts[part]], part=True) for part in parts]
    return [*rows, _row("All statements", list(counts.values()), head=True)]


def _row(title: str, counts: Sequence[Mapping[str, int]], **kind: Any) -> dict[str, Any]:
    cells = [sum(count[data] for count in counts) for data in DATA]
    return {"title": title, "cells": cells, "total": sum(cells), "head": False, "outcome": "", "part": False} | kind


def deciding_options(setting: Setting, *, device: bool) -> str:
    """Return the options of ``hlm plan`` that decide for an answer with or without a device, and their values."""
    times = {"verify-time": setting.verify_s, "server-draft-time": setting.own_draft_s}
    if device:
        times = {"rtt": setting.link.round_trip_s, "draft-time": setting.draft_s, "verify-time": setting.verify_s}
    rate = f" --rate {setting.link.quantile(0.5) / 1e6:g}M" if device else ""
    return rate + "".join(f" --{name} {1e3 * seconds:g}ms" for name, seconds in times.items())


class Length(NamedTuple):
    """What a draft length gives on the held-out texts, if a server drafts."""

    drafts: float  # of a round
    tokens: float  # of a round
    speed: float  # tokens/s
    longest: float | None  # how many times as long a pass may take as over one token, until plain decoding is as fast


def draft_lengths(planner: Planner) -> list[tuple[int, list[Length]]]:
    """Return each K, and what it gives by the families of ``OWN_DRAFTS``: sampled drafts, greedy ones."""
    families = ({int(o.draft_length): o for o in planner.candidates(name, planner.setting)} for name in OWN_DRAFTS)
    sampled, greedy = families
    return [(k, [_length(planner, sampled[k]), _length(planner, greedy[k])]) for k in sorted(sampled)]


def told_apart(planner: Planner) -> list[tuple[str, str]]:
    """Return the fastest length, and those that prompts do not tell from it: of sampled drafts, of greedy ones."""
    menus = (planner.candidates(name, planner.setting) for name in OWN_DRAFTS)
    fastest = [max(menu, key=lambda one: _length(planner, one).speed) for menu in menus]
    return [(f"K = {one.draft_length:g}", tied_lengths(planner.alike(one))) for one in fastest]


def _length(planner: Planner, option: Option) -> Length:
    total = option.counts[planner.split.test].sum(axis=0)
    counts, speed = named(total), float(np.mean(planner.setting.speeds(total)))
    drafts, tokens = (float(counts[name] / counts["passes"]) for name in ("server_drafts", "tokens"))
    return Length(drafts, tokens, speed, length_pays(planner, planner.setting, option))


def what_to_send(results: Results, vocabulary: int | None, sidecars: Sequence[Path]) -> dict[str, Any]:
    """Return how many tokens certify each bias, and the bits of their message beside those of the whole distribution.

    Of Table V, if it is among the sidecars, the smallest certified message is added. What is not known is None.
    """
    name = "size_for_bias_"
    sizes = {float(key.removeprefix(name)): v for key, v in results.summary.items() if key.startswith(name)}
    smallest = _smallest_messages(sidecars)
    full = vocabulary * FLOAT_BITS if vocabulary else None
    each = (vocabulary - 1).bit_length() + FLOAT_BITS if vocabulary else None
    rows = []
    for bias in sorted(sizes.keys() | smallest.keys()):
        size = sizes.get(bias)
        bits = size * each if each and size is not None else None
        least, *ends = smallest.get(bias, [None])
        rows.append(
            {
                "bias": bias,
                "top_k": size,
                "share": results.summary.get(f"covered_for_bias_{bias}"),
                "bits": bits,
                "factor": full / bits if full and bits else None,
                "smallest": least,
                "smallest_factor": full / least if full and least else None,
                "smallest_ends": sorted(full / end for end in ends) if full else [],
            }
        )
    return {"full": full, "vocabulary": vocabulary, "rows": rows}


def _smallest_messages(sidecars: Sequence[Path]) -> dict[float, list[Any]]:
    """Return the bits of the smallest message by bias, with the ends of their interval where they are stored."""
    found: dict[float, list[Any]] = {}
    for about in (json.loads(one.read_text(encoding="utf-8")) for one in sidecars if one.stem == "ours-tableV"):
        known = about.get("statistics", {"epsilon": [], "bits": {}})
        bits, ends = (known.get(name, {}).get(SMALLEST, []) for name in ("bits", "ends"))
        found |= {bias: [bit, *(each or [])] for bias, bit, each in zip_longest(known["epsilon"], bits, ends)}
    return {bias: each for bias, each in found.items() if each[0]}
