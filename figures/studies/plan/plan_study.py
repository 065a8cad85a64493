"""Plan over many links, decode held-out prompts by what was planned, and compare: tokens per second, regret, risk."""

import json
import time
from collections import Counter
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.studies.kit import given, picture, read, store
from figures.studies.plan.plan_options import method_of, twin_of, vocabulary_of
from figures.studies.plan.plan_sessions import Links, Rounds, session_seconds, streamed_seconds
from hlmtheory.channel import Rayleigh, TraceLink
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.rows import COLOCATED, DEVICE, OURS, ROWS, SERVER, STREAM, STREAMED
from validation.decoding.recorded_links import load_links
from validation.decoding.records import GenerationRecord
from validation.decoding.streamed import matches_of
from validation.decoding.wire import index_bits
from validation.models.pair import load_pair
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.plan_for import prepared
from validation.planning.planners import planner_of_trace
from validation.planning.request import Request
from validation.planning.setting import recorded_link
from validation.plots.common.style import DARK, PAGE, PALE, axis, name_axes

Array = NDArray[Any]
TIMES, ROUND_TRIP_S, NEW_TOKENS, SEED = (0.012, 0.030), 0.020, 64, 1
LIMITS = {"lossless": ("text", 0.0), "text .3": ("text", 0.3), "token .05": ("token", 0.05)}
SNR_DB, BANDWIDTH_HZ, COHERENCE_S, SECONDS = (-5, 0, 5, 10, 15, 20), 1e6, 0.1, 300
DOWN_BPS = {"downlink as the uplink's median": None, "downlink 1 Gbit/s": 1e9}


def links_of(folder: Path) -> dict[str, TraceLink]:
    """Return the recorded links, and Rayleigh fading at -5 to 20 dB in blocks of 100 ms for 300 s."""
    links = dict(load_links(folder))
    rng = np.random.default_rng(SEED)
    for snr_db in SNR_DB:
        snr = Rayleigh(10.0 ** (snr_db / 10.0)).sample(rng, round(SECONDS / COHERENCE_S))
        rates = BANDWIDTH_HZ * np.log2(1.0 + snr)
        links[f"rayleigh/{snr_db} dB"] = TraceLink(np.arange(len(rates)) * COHERENCE_S, rates)
    return links


@dataclass(frozen=True)
class Choice:
    """What was planned for a link under a limit: the option of each policy, and its predicted speed."""

    option: dict[str, int]
    predicted: dict[str, float]


def plans(
    planner: Planner, links: dict[str, TraceLink], limit: tuple[str, float], down_bps: float | None
) -> list[Choice]:
    """Return the choices for every link, made on the training and calibration prompts alone."""
    number = {one: place for place, one in enumerate(planner.options)}  # the device that drafts on is made anew
    found = []
    for name, source in links.items():
        setting = replace(
            planner.setting,
            link=recorded_link(source, ROUND_TRIP_S, down_bps, name),
            risk_kind=limit[0],
            risk_limit=limit[1],
        )
        option, predicted = {}, {}
        for family in ROWS:
            chosen = planner.ours(setting) if family == OURS else planner.best([family], setting)
            if chosen is None:  # it does not apply on this link, or breaks a limit
                continue
            option[family] = number.get(chosen, len(planner.options) - 1)
            predicted[family] = planner.value_of(chosen, setting)
        found.append(Choice(option, predicted))
    return found


def decoded(
    options: list[tuple[int, Option]], planner: Planner, pair: Any, prompts: list[Any], folder: Path
) -> dict[int, list[GenerationRecord]]:
    """Return the records of each option on the test prompts; finished ones are kept in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for number, option in options:
        file = folder / f"{number}.json"
        if not file.exists():
            began = time.perf_counter()
            records = decode(
                pair,
                prompts,
                method_of(option, planner),
                new_tokens=NEW_TOKENS,
                batch=64,
                seed=SEED,
                times=TIMES,
                risk=True,
            )
            file.write_text(
                json.dumps({"label": f"{option.family} {option.label}", "records": [r.plain() for r in records]})
            )
            print(f"{option.family} {option.label}: {time.perf_counter() - began:.0f} s", flush=True)
        found[number] = [GenerationRecord.of(one) for one in json.loads(file.read_text())["records"]]
    return found


def main() -> None:
    """Run the study for the built-in pair, write its JSON and draw it."""
    asked = given(__doc__, "trace", "links", "work", "out", most=40)
    request = Request(rate_bps=1e7, round_trip_s=ROUND_TRIP_S, draft_s=TIMES[0], verify_s=TIMES[1])
    planner, about = planner_of_trace(asked.trace, request.setting(), cache=asked.work)
    request, planner = prepared(request, planner, about["evidence"])
    links = links_of(asked.links)
    # the device that drafts on has the same counts on every link where it applies: the last option
    planner = replace(planner, options=[*planner.options, *planner.candidates(STREAMED, planner.setting)])
    chosen = {
        (name, down): plans(planner, links, limit, bps)
        for name, limit in LIMITS.items()
        for down, bps in DOWN_BPS.items()
    }
    counted = Counter[int]()
    for one in chain.from_iterable(chosen.values()):
        for family, number in one.option.items():
            if family == COLOCATED:
                number = twin_of(planner.options[number], planner.options)
            if family not in (SERVER, STREAM, DEVICE):
                counted[number] += 1
    ordered = [number for number, _ in counted.most_common(asked.most)]
    test = [prompt for prompt in builtin_prompts() if prompt.id in set(about["split"]["test"])]
    pair = load_pair("builtin", device="cpu")
    records = decoded([(n, planner.options[n]) for n in ordered], planner, pair, test, asked.work / "decoded")
    head = {
        "seed": SEED,
        "evidence": {**about["evidence"], "trace": asked.trace.name},
        "prompts": planner.split.prompts,
        "times_s": TIMES,
        "server_draft_s": request.server_draft_s,
        "round_trip_s": ROUND_TRIP_S,
        "new_tokens": NEW_TOKENS,
        "links": {"recorded": len(links) - len(SNR_DB), "fading": len(SNR_DB)},
    }
    store(asked.out, head | score(planner, links, chosen, records), indent=None)
    draw(asked.out)


DOWN = "downlink as the uplink's median"
LOOKS = {"lossless": (DARK, "o"), "text .3": (PALE, "^"), "token .05": ("0.6", "s")}
TICKS = (0.5, 0.7, 1, 1.5, 2, 3, 5, 8)


def draw(stored: Path) -> None:
    """Draw one point a link, predicted and decoded; and the speed of the plan over that of each method."""
    found = read(stored)[DOWN]
    names = [name for name in found["lossless"]["policies"] if name != OURS]
    with picture(stored, PAGE, 2) as (_, (left, right)):
        shown = []
        for shift, (name, (color, mark)) in zip((-0.25, 0.0, 0.25), LOOKS.items(), strict=True):
            links = found[name]["by_link"]
            points = [(x, y) for x, y in zip(links["predicted"], links["decoded"], strict=True) if y is not None]
            look = {"color": color, "markersize": 2.5, "markerfacecolor": "none", "markeredgewidth": 0.6}
            left.plot(*zip(*points, strict=True), mark, label=name, **look)
            shown += list(chain.from_iterable(points))
            for place, method in enumerate(names):
                spread = (found[name]["policies"][method] or {}).get("ours_over_it")
                if spread:
                    right.plot([spread["p05"], spread["p95"]], [place + shift] * 2, color=color, linewidth=1.5)
                    right.plot([spread["median"]], [place + shift], mark, color=color, markersize=3)
        left.plot([min(shown), max(shown)], [min(shown), max(shown)], color="0.6", linewidth=0.8, label="equal")
        name_axes(left, {"x": axis("predicted", "tokens/s"), "y": axis("decoded", "tokens/s")})
        left.legend()
        right.axvline(1.0, color="0.6", linewidth=0.8)
        right.set_yticks(range(len(names)), names)
        right.set_xscale("log")
        right.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        right.minorticks_off()
        right.set_xlabel("plan over method, tokens/s")


def score(
    planner: Planner,
    links: dict[str, TraceLink],
    chosen: dict[tuple[str, str], list[Choice]],
    records: dict[int, list[GenerationRecord]],
) -> dict[str, Any]:
    """Return predicted against decoded speeds, regret and risk."""
    side = Links(links)
    number = {one: place for place, one in enumerate(planner.options)}
    tokens = np.array([float(len(one.tokens)) for one in next(iter(records.values()))])
    width = index_bits(vocabulary_of(planner))
    every: dict[int, Rounds] = {}
    for family in (SERVER, STREAM, DEVICE):
        place = next(number[one] for one in planner.options if one.family == family)
        alone = Rounds.alone(tokens, server=family != DEVICE, width=width)
        every[place] = alone.streamed(1.0, width) if family == STREAM else alone
    streams = {n: own for n, own in records.items() if planner.options[n].family == STREAMED}
    for place, own in records.items():
        if place in streams:
            continue
        every[place] = Rounds.of(own, real_bytes=method_of(planner.options[place], planner).real_bytes)
    share = planner.setting.own_draft_s / TIMES[0]
    for place in {one.option[COLOCATED] for per_link in chosen.values() for one in per_link}:
        twin = twin_of(planner.options[place], planner.options)
        if twin in every:
            every[place] = every[twin].streamed(share, width)
    busy = {place: _server_seconds(rounds) for place, rounds in every.items()}
    found: dict[str, Any] = {}
    for word, bps in DOWN_BPS.items():
        down = np.array([recorded_link(one, ROUND_TRIP_S, bps).down_bps for one in links.values()])
        speeds = {}
        for place, rounds in every.items():
            seconds, _ = session_seconds(rounds, side, TIMES, ROUND_TRIP_S, down)
            speeds[place] = rounds.tokens.sum() / seconds.sum(axis=1)
        for place, own in streams.items():
            known = planner.streamed
            assert known is not None, "a planner of a trace knows the streamed policies"
            sizes = (known.message_bits, known.reply_bits)
            texts = [matches_of(one) for one in own]
            seconds, passes = streamed_seconds(texts, side, TIMES, ROUND_TRIP_S, sizes, down)
            speeds[place], busy[place] = tokens.sum() / seconds, passes * TIMES[1]
        found[word] = {name: _limit(planner, links, chosen[name, word], speeds, LIMITS[name]) for name in LIMITS}
        for name, part in found[word].items():
            part["server_ms_per_token"] = {
                family: _spread(np.array([1e3 * busy[place] for place in places]))
                for family in ROWS
                if (places := [one.option[family] for one in chosen[name, word] if one.option.get(family) in busy])
            }
    return found


def _server_seconds(rounds: Rounds) -> float:
    """Return the seconds of the server for each token; drafts of its own are scaled to the device's pass."""
    drafts = rounds.drafts.sum() * TIMES[0] if rounds.streams else 0.0
    return float((rounds.passes.sum() * TIMES[1] + drafts) / rounds.tokens.sum())


def _limit(
    planner: Planner,
    links: dict[str, TraceLink],
    chosen: list[Choice],
    speeds: dict[int, Array],
    limit: tuple[str, float],
) -> dict[str, Any]:
    names = list(links)
    rows: dict[str, Any] = {}
    ours = np.array([speeds.get(one.option[OURS], np.full(len(names), np.nan))[i] for i, one in enumerate(chosen)])
    for family in ROWS:
        own = np.full(len(names), np.nan)
        said = np.full(len(names), np.nan)
        for i, one in enumerate(chosen):
            place = one.option.get(family)
            if place is not None and place in speeds:
                own[i], said[i] = speeds[place][i], one.predicted[family]
        known = np.isfinite(own)
        if not known.any():
            rows[family] = None
            continue
        error = said[known] / own[known] - 1.0
        used: dict[str, int] = {}
        for one in chosen:
            if family in one.option:
                label = planner.options[one.option[family]]
                text = label.label if label.family == family else f"{label.family} {label.label}"
                used[text] = used.get(text, 0) + 1
        both = known & np.isfinite(ours)
        rows[family] = {
            "links": int(known.sum()),
            "options": dict(sorted(used.items(), key=lambda item: -item[1])),
            "decoded_tokens_per_s": _spread(own[known]),
            "predicted_over_decoded_minus_1": _spread(error),
            "ours_over_it": _spread(ours[both] / own[both]),
            "ours_wins": float(np.mean(ours[both] > own[both] * (1 + 1e-9))) if both.any() else None,
        }
    found = {
        "limit": {"kind": limit[0], "value": limit[1]},
        "policies": rows,
        "by_link": {
            "name": names,
            "planned": [
                planner.options[one.option[OURS]].label or planner.options[one.option[OURS]].family for one in chosen
            ],
            "predicted": [round(one.predicted[OURS], 4) for one in chosen],
            "decoded": [None if not np.isfinite(value) else round(float(value), 4) for value in ours],
        },
    }
    return found


def _spread(values: Array) -> dict[str, float] | None:
    if not len(values):
        return None
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    names = ("p05", "p25", "median", "p75", "p95")
    return {name: float(f"{value:.5g}") for name, value in zip(names, np.quantile(values, levels), strict=True)}


if __name__ == "__main__":
    main()
