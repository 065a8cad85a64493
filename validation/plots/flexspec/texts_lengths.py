"""Compute the draft lengths of flexspec's policies on decoded texts, and the latency of every fixed length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from validation.decoding.intervals import IntervalEstimate
from validation.decoding.methods.multi_draft import FlexSpec
from validation.decoding.studies import Decoded, flexspec_links
from validation.plots.common.record import Table, plain
from validation.plots.flexspec import texts_lines as lines
from validation.plots.flexspec.printed import NETWORKS
from validation.plots.flexspec.texts_lines import Column, Timed

Networks = Mapping[str, Mapping[str, Timed]]
"""Timed texts by network, then by line of the table."""


def with_interval(found: IntervalEstimate, form: str) -> str:
    """Format value and interval as a cell.

    >>> with_interval(IntervalEstimate(1.0, 0.5, 2.0), ".1f")
    '1.0 [0.5, 2.0]'
    """
    if found.value is None:
        return "–"
    if found.low is None or found.high is None:
        return format(found.value, form)
    return f"{found.value:{form}} [{found.low:{form}}, {found.high:{form}}]"


def ends(found: IntervalEstimate) -> list[float | None]:
    """Return value, low and high as JSON holds them."""
    return [None if value is None else plain(value, 6) for value in (found.value, found.low, found.high)]


ALONE, ROWS, CHANCES = "tokens alone", "tokens and rows of q", "tokens and q_d"
"""Contents of the uplink message of a round."""
LLAMA_VOCABULARY = 32_000
"""Vocabulary size of the paper's Llama-2."""

# ---------------------------------------------------------------------------------------------- what policies choose


def _chosen(one: Timed, new_tokens: int) -> Counter[int]:
    """Return the draft lengths of the rounds that no end of text cut short."""
    longest = one.method.max_draft_length
    return Counter(now.drafted for row in one.rows for now in row.rounds[:-1] if now.position + longest <= new_tokens)


def choices(study: Decoded, found: Networks) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a table of the lengths that FlexSpec's lines chose, and the shares of K_max and of 1."""
    statistics: dict[str, Any] = {}
    rows = []
    for network, by_line in found.items():
        for name, one in by_line.items():
            if not isinstance(one.method, FlexSpec):
                continue
            counts, longest = _chosen(one, int(study.about["new_tokens"])), one.method.max_draft_length
            rounds = max(1, counts.total())
            shares = {"longest": counts[longest] / rounds, "one": counts[1] / rounds, "rounds": counts.total()}
            statistics.setdefault(name, {})[network] = shares
            common = ", ".join(f"{k}: {count / rounds:.0%}" for k, count in counts.most_common(4))
            words = (f"{one.summary[key].value or 0.0:.2f}" for key in ("drafts_per_round", "tokens_per_round"))
            rows.append(
                (network, name, common or "–", *words, with_interval(one.summary["acceptance_looked_at"], ".2f"))
            )
    heads = ("network", "policy", "lengths chosen", "drafts a round", "tokens a round", "acceptance")
    title = (
        "Draft lengths that the policies choose; rounds that the end of a text cuts short are left out of the shares"
    )
    return Table(title, heads, tuple(rows)).plain(), statistics


def exact_over_linear(found: Networks, seed: int) -> dict[str, dict[str, list[float | None]]]:
    """Return the time per token with K* over that with the printed length, by acceptance, then network."""
    pairs = {"printed": (lines.EXACT_PRINTED, lines.PRINTED), "lossless": (lines.EXACT, lines.LINEAR)}
    return {
        name: {network: ends(lines.quotient(by[one].columns, by[other].columns, seed)) for network, by in found.items()}
        for name, (one, other) in pairs.items()
        if all(one in by and other in by for by in found.values())
    }


# -------------------------------------------------------------------------------------------------- any fixed length


Replays = Mapping[str, Mapping[int, tuple[Column, Column]]]
"""Seconds and tokens of each text, by network and length."""


def _replays(study: Decoded, fates: list[lines.Fate], bits: Mapping[str, int]) -> dict[str, Replays]:
    """Return seconds and tokens of each text, by uplink content, network and length."""
    tokens = np.array([float(len(fate.runs)) for fate in fates])
    vocabulary = int(study.about["pair"]["vocabulary"])
    drafts = {
        length: [np.array([drafted for drafted, _ in lines.replay(fate, length)], dtype=np.float64) for fate in fates]
        for length in lines.LENGTHS
    }
    return {
        name: {
            link.name: {
                k: (lines.replayed_seconds(counts, link, vocabulary=vocabulary, bits_per_draft=more), tokens)
                for k, counts in drafts.items()
            }
            for link in flexspec_links()
        }
        for name, more in bits.items()
    }


def _ms(columns: tuple[Column, Column]) -> float:
    return float(1e3 * columns[0].sum() / columns[1].sum())


def _messages(study: Decoded) -> dict[str, int]:
    """Return extra bits per draft, by content: standard SD's distributions, not needed at temperature 0, or q_d."""
    if study.about["temperature"] == 0:
        return {ALONE: 0}
    return {
        ROWS: 32 * int(study.about["pair"]["vocabulary"]),
        f"{ROWS} of {LLAMA_VOCABULARY:,}": 32 * LLAMA_VOCABULARY,
        CHANCES: 32,
    }


def _length_table(name: str, replays: Replays) -> dict[str, Any]:
    rows = [
        (str(length), *(f"{_ms(replays[network][length]):.0f}" for network in NETWORKS)) for length in lines.LENGTHS
    ]
    rows.append(("best", *(str(min(one, key=lambda k: _ms(one[k]))) for one in replays.values())))
    title = f"Lossless speculative decoding at a fixed K, {name} sent: ms a token, replayed on HLM's texts"
    return Table(title, ("K", *NETWORKS), tuple(rows)).plain()


def _against(found: Networks, best: Mapping[str, tuple[int, tuple[Column, Column]]], name: str, seed: int) -> Any:
    """Return FlexSpec's time over that of the best fixed length."""
    rows, statistics = [], {}
    for line in (lines.PRINTED, lines.LINEAR, lines.EXACT_PRINTED, lines.EXACT):
        if any(line not in by_line for by_line in found.values()):
            continue
        own = {k: lines.quotient(found[k][line].columns, best[k][1], seed) for k in NETWORKS}
        statistics[line] = {network: ends(value) for network, value in own.items()}
        rows.append((line, *(with_interval(value, ".3f") for value in own.values())))
    heads = ("policy", *(f"{network}, K = {best[network][0]}" for network in NETWORKS))
    title = f"Time of FlexSpec over that of the fixed K which is best in hindsight, {name} sent"
    return Table(title, heads, tuple(rows)).plain(), statistics


def _check(found: Networks, fates: list[lines.Fate]) -> dict[str, Any]:
    """Compare decoded standard SD to its replay: at temperature 0 both have the same rounds."""
    one = found[NETWORKS[0]].get(lines.STANDARD)
    if one is None:
        return {}
    length = one.method.max_draft_length
    played = [lines.replay(fate, length) for fate in fates]
    decoded = [[(now.drafted, now.accepted) for now in row.rounds] for row in one.rows]
    tokens = sum(len(fate.runs) for fate in fates)
    return {
        "length": length,
        "same_rounds": plain(np.mean([a == b for a, b in zip(played, decoded, strict=True)]), 4),
        "replayed_tokens_per_round": plain(tokens / sum(map(len, played)), 5),
        "decoded_tokens_per_round": ends(one.summary["tokens_per_round"]),
    }


def fixed_lengths(study: Decoded, found: Networks, seed: int) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return tables and numbers of every fixed length, and of FlexSpec against the best; nothing if HLM was not run."""
    fates = lines.fates(study)
    if fates is None:
        return [], {}
    tables, statistics = [], {"check": _check(found, fates)}
    for name, replays in _replays(study, fates, _messages(study)).items():
        best = {}
        for network, by_length in replays.items():
            length = min(by_length, key=lambda k: _ms(by_length[k]))
            best[network] = (length, by_length[length])
        table, against = _against(found, best, name, seed)
        tables += [_length_table(name, replays), table]
        statistics[name] = {
            "best": {network: [length, plain(_ms(columns), 5)] for network, (length, columns) in best.items()},
            "flexspec_over_best": against,
        }
    return tables, statistics
