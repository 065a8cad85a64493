"""Tokens per second against the link's rate: a token alone, streamed or not, beside every other method.

PYTHONPATH=. python3 figures/studies/shared_seed/rates.py TRACE WORK rates.json

Every method is counted along texts of the target model, with the times of ``figures/studies/plan``. A third of the
prompts chooses the parameters for each link (drafts, lattice, budget, threshold), another third is counted. Given the
server's token y at a position, the device's draft is it with probability t_y/p_y, t_y = P(a = b = y), as it is
accepted with probability min(1, q_y/p_y) by rejection sampling. So the counts of rounds are exact means. Streamed
drafts are simulated: matches are drawn with these probabilities, and :mod:`validation.decoding.streamed` replays them.
As a check the counted prompts are also decoded by a shared seed, over 1 Mbit/s; no other method is decoded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.shared_seed import streamed_rate
from validation.decoding.links import FadingLink, Way
from validation.decoding.random_streams import Noise
from validation.decoding.records import Round
from validation.decoding.streamed import Sizes, replay
from validation.decoding.wire import index_bits
from validation.planning.measure import planner_of_trace
from validation.planning.menu import COLOCATED, CU_HLM, FIXED, FLEXSPEC, HLM, SERVER, SQS, STREAM, U_HLM, Option
from validation.planning.plan import Planner
from validation.planning.request import Request
from validation.planning.rounds import COUNTS, Wire, expected_counts
from validation.planning.setting import Setting, constant_link
from validation.plots.common.record import plain
from validation.trace.reader import Trace, open_trace, probabilities

Array = NDArray[Any]
TIMES = (0.012, 0.030)
RATES = np.geomspace(1e4, 1e8, 9)
ROUND_TRIPS = (0.005, 0.02, 0.1)
HEADERS = {"no header": 0, "28 bytes a message": 28}
"""Bytes of IPv4 and UDP that each message has besides its payload."""
LOSSLESS = (COLOCATED, STREAM, SERVER, SQS, FLEXSPEC, FIXED, HLM)
TOKEN_LIMIT = ("token", 0.05)
MOST_DRAFTS, REPLICATES, RESAMPLES, ROWS, SEED = 32, 4, 2_000, 256, 1
DECODED_RATE, DECODED_LENGTHS = 1e6, (1, 2, 4)
SHARED, STREAMED = "shared seed", "shared seed, streamed"
COLUMN = {name: place for place, name in enumerate(COUNTS)}


def matches_along(trace: Trace) -> list[Array]:
    """Return t_y/p_y at each position of each text: the probability that the device's draft is the text's token."""
    index, place, tokens = (np.asarray(trace.arrays[name][:]) for name in ("prompt_index", "position", "tokens"))
    found = np.empty(trace.positions)
    for start in range(0, trace.positions, ROWS):
        part = slice(start, start + ROWS)
        q, p = (probabilities(np.asarray(trace.arrays[f"{side}_logits"][part])) for side in ("draft", "target"))
        at, y = np.arange(len(q)), tokens[part]
        q_y, p_y = q[at, y][:, None], p[at, y][:, None]
        with np.errstate(divide="ignore", over="ignore"):
            slower = np.maximum(q * (p_y / q_y), p).sum(axis=-1)  # p_y Σ max(q/q_y, p/p_y); infinite where q_y is 0
        found[part] = 1.0 / slower
    first = np.flatnonzero((place == 0) | (np.diff(index, prepend=index[0] - 1) != 0))
    return np.split(found, first[1:])


def rounds_of(matches: list[Array], vocabulary: int) -> list[Option]:
    """Return rounds of K drafts by a shared seed; header and reply are those of the other methods."""
    length, width = np.array([len(one) for one in matches]), index_bits(vocabulary)
    table = np.zeros((int(length.max()), len(length)))
    for column, one in enumerate(matches):
        table[: len(one), column] = one
    wire, none = Wire(header=16.0, reply=8.0 * -(-(4 + width) // 8)), np.zeros(len(length))
    return [
        Option(SHARED, f"K = {k}", counts.table(), k, -np.inf, none, none, (0, 0))
        for k in range(1, MOST_DRAFTS + 1)
        for counts in [expected_counts(table, np.full_like(table, float(width)), length, k, wire=wire)]
    ]


def with_headers(counts: Array, size: int) -> Array:
    """Return the counts with ``size`` more bytes in each uplink message, and in the answer to each pass."""
    found = counts.copy()
    found[..., COLUMN["up_bits"]] += 8.0 * size * counts[..., COLUMN["exchanges"]]
    found[..., COLUMN["down_bits"]] += 8.0 * size * counts[..., COLUMN["passes"]]
    return found


def best(options: list[Option], texts: Array, test: Array, setting: Setting, header: int) -> tuple[Option, Array]:
    """Return the option that is the fastest on some texts, and its seconds on the others."""
    totals = with_headers(np.stack([one.counts[texts].sum(axis=0) for one in options]), header)
    chosen = options[int(np.argmax(setting.value(totals)))]
    return chosen, setting.seconds(with_headers(chosen.counts[test], header), setting.link.rates[0])


def sizes_of(vocabulary: int, header: int) -> tuple[int, int]:
    """Return the bytes of a draft's message and of an answer, as ``SharedSeedStreamed`` sends them."""
    width = index_bits(vocabulary)
    return -(-(1 + width) // 8) + header, -(-(17 + width) // 8) + header


def streamed_texts(matches: list[Array], rate: float, trip_s: float, vocabulary: int, header: int) -> dict[str, Array]:
    """Return the seconds, passes and drafts sent of each text, in the mean over replicates."""
    way = Way(trip_s / 2, rate)
    rng, (up, down) = np.random.default_rng(SEED), sizes_of(vocabulary, header)
    found = np.zeros((3, len(matches)))
    for text, chances in enumerate(matches):
        channel = FadingLink("constant", rate, 1.0, way).open(Noise(SEED, ["text"], 0))
        for _ in range(REPLICATES):
            rounds = replay(
                (rng.random(len(chances)) < chances).tolist(), Sizes(*TIMES, bytes=up, down_bytes=down), 0, channel
            )
            found[:, text] += (seconds_of(rounds), len(rounds), sum(one.drafted for one in rounds))
    return dict(zip(("seconds", "passes", "sent"), found / REPLICATES, strict=True))


def seconds_of(rounds: list[Round]) -> float:
    """Return the time that passed."""
    return sum(one.draft_s + one.target_s + one.link_s - one.overlap_s for one in rounds)


def interval(tokens: Array, seconds: Array, picks: Array) -> list[float]:
    """Return tokens per second with a 95% interval over texts."""
    drawn = tokens[picks].sum(axis=1) / seconds[picks].sum(axis=1)
    return plain([tokens.sum() / seconds.sum(), *np.quantile(drawn, [0.025, 0.975])], 5)


def at_link(
    planner: Planner, own: list[Option], matches: list[Array], setting: Setting, vocabulary: int, header: int
) -> dict[str, Any]:
    """Return the speed of each method over one link, with its parameters."""
    train, test = planner.split.train, planner.split.test
    tokens = np.array([float(len(matches[text])) for text in test])
    picks = np.random.default_rng(SEED).integers(0, len(test), (RESAMPLES, len(test)))
    limited = replace(setting, risk_kind=TOKEN_LIMIT[0], risk_limit=TOKEN_LIMIT[1])
    menus = {family: [one for one in planner.options if one.family == family] for family in LOSSLESS}
    menus[SHARED] = own
    for family in (U_HLM, CU_HLM):
        menus[f"{family}, paper's threshold"] = planner.candidates(family, setting, lossless=True)
        menus[f"{family}, token .05"] = [
            one for one in planner.options if one.family == family and planner.safe(one, limited)
        ]
    found: dict[str, Any] = {}
    spent: dict[str, Array] = {}
    for name, menu in menus.items():
        if not menu:
            continue
        chosen, spent[name] = best(menu, train, test, setting, header)
        found[name] = {"tokens_per_s": interval(tokens, spent[name], picks), "option": chosen.label}
        if chosen.threshold > -np.inf:
            found[name]["token_loss"] = plain(float(chosen.token_loss[test].mean()), 4)
    rate, trip = float(setting.link.rates[0]), setting.link.round_trip_s
    own_matches = [matches[text] for text in test]
    streamed = streamed_texts(own_matches, rate, trip, vocabulary, header)
    for name, seconds in spent.items():
        ratio = seconds[picks].sum(axis=1) / streamed["seconds"][picks].sum(axis=1)
        middle = seconds.sum() / streamed["seconds"].sum()
        found[name]["streamed_over_it"] = plain([middle, *np.quantile(ratio, [0.025, 0.975])], 4)
    up, down = sizes_of(vocabulary, header)
    delay = trip + 8.0 * (up + down) / rate
    formula = streamed_rate(float(np.concatenate(own_matches).mean()), TIMES[0], delay, TIMES[1]).rate
    found[STREAMED] = {
        "tokens_per_s": interval(tokens, streamed["seconds"], picks),
        "passes_per_token": plain(streamed["passes"].sum() / tokens.sum(), 4),
        "sent_per_token": plain(streamed["sent"].sum() / tokens.sum(), 4),
        "formula_for_constant_acceptance": plain(float(formula), 5),
    }
    return found


def decoded(prompts: list[str], new_tokens: int) -> dict[str, Any]:
    """Return the speed of decoded texts over links of 1 Mbit/s, to compare with the counted ones."""
    from validation.collection.prompts import builtin_prompts
    from validation.decoding.loop import decode
    from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
    from validation.decoding.retiming import retime
    from validation.models.pair import load_pair

    pair, chosen = load_pair("builtin"), [one for one in builtin_prompts() if one.id in set(prompts)]
    picks = np.random.default_rng(SEED).integers(0, len(chosen), (RESAMPLES, len(chosen)))
    found: dict[str, Any] = {}
    methods = [SharedSeedStreamed(), *(SharedSeed(k) for k in DECODED_LENGTHS)]
    all_rows = [decode(pair, chosen, method, new_tokens=new_tokens, times=TIMES, seed=SEED) for method in methods]
    if any([row.tokens for row in rows] != [row.tokens for row in all_rows[0]] for rows in all_rows):
        raise SystemExit("the texts differ")
    tokens = np.array([float(len(row.tokens)) for row in all_rows[0]])
    for trip in ROUND_TRIPS:
        link = FadingLink("constant", DECODED_RATE, 1.0, Way(trip / 2, DECODED_RATE))
        for method, rows in zip(methods, all_rows, strict=True):
            seconds = np.array([row.seconds for row in retime(rows, link, [method])])
            found.setdefault(f"{1e3 * trip:g} ms", {})[method.name] = interval(tokens, seconds, picks)
    return {"texts": len(chosen), "tokens": int(tokens.sum()), "tokens_per_s": found}


def main() -> None:
    """Count and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("work", type=Path, help="folder for the profile of the trace")
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    planner, about = planner_of_trace(asked.trace, Setting(constant_link(1e7, 0.02), *TIMES), cache=asked.work)
    own_draft = Request(draft_s=TIMES[0], verify_s=TIMES[1]).with_server_draft(about["evidence"]["parameter_ratio"])
    trace = open_trace(asked.trace)
    matches = matches_along(trace)
    if [len(one) for one in matches] != planner.options[0].counts[:, COLUMN["tokens"]].astype(int).tolist():
        raise SystemExit("the texts of the trace are not those of the profile")
    own = rounds_of(matches, trace.vocabulary)
    found: dict[str, Any] = {}
    for header, size in HEADERS.items():
        for trip in ROUND_TRIPS:
            for rate in RATES.tolist():
                setting = replace(
                    planner.setting, link=constant_link(rate, trip), server_draft_s=own_draft.server_draft_s
                )
                speeds = at_link(planner, own, matches, setting, trace.vocabulary, size)
                found.setdefault(header, {}).setdefault(f"{1e3 * trip:g} ms", {})[f"{rate:.0f}"] = speeds
            print(header, trip, flush=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    head: dict[str, Any] = {
        "kind": "measured acceptance × assumed times",
        "command": f"rates.py TRACE WORK {asked.out.name}",
        "commit": commit,
        "trace": {"pair": trace.manifest.get("pair", {}).get("name"), "positions": trace.positions},
        "prompts": planner.split.prompts,
        "times_s": TIMES,
        "server_draft_s": plain(own_draft.server_draft_s, 5),
        "acceptance": plain(float(np.concatenate(matches).mean()), 5),
        "bootstrap": "95% over the counted prompts",
    }
    head["decoded"] = decoded(about["split"]["test"], max(map(len, matches)))
    asked.out.write_text(json.dumps(head | {"speeds": found}, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
