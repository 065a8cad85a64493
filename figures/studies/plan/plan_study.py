"""Plan over many links, decode held-out prompts by what was planned, and compare: tokens per second, regret, risk."""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plan_options import method_of, twin_of
from plan_sessions import Links, Rounds, session_seconds, streamed_seconds

from hlmtheory.channel import Rayleigh, TraceLink
from hlmtheory.skipping import calibrate_threshold, text_risk
from validation.collection.prompts import builtin_prompts, read_prompts
from validation.decoding.loop import decode
from validation.decoding.recorded_links import load_links
from validation.decoding.records import GenerationRecord
from validation.decoding.streamed import matches_of
from validation.decoding.wire import index_bits
from validation.models.pair import load_pair
from validation.planning import profile
from validation.planning.measure import planner_of_trace
from validation.planning.menu import COLOCATED, DEVICE, FAMILIES, NO_RIVALS, OURS, SERVER, STREAM, STREAMED, WITHOUT_DEVICE, Option
from validation.planning.plan import Planner
from validation.planning.request import Request
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting, constant_link, recorded_link
from validation.trace.reader import open_trace

Array = NDArray[Any]
TIMES, ROUND_TRIP_S, NEW_TOKENS, SEED = (0.012, 0.030), 0.020, 64, 1
LIMITS = {"lossless": ("text", 0.0), "text .3": ("text", 0.3), "token .05": ("token", 0.05)}
SPLITS, CLASS_LINKS = 200, 20
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
    number = {id(one): place for place, one in enumerate(planner.options)} | {"streamed": len(planner.options) - 1}
    found = []
    for name, source in links.items():
        setting = replace(
            planner.setting,
            link=recorded_link(source, ROUND_TRIP_S, down_bps, name),
            risk_kind=limit[0],
            risk_limit=limit[1],
        )
        option, predicted = {}, {}
        for family in FAMILIES:
            best = planner.ours(setting) if family == OURS else planner.best(family, setting)
            if best is None or best[1]:  # it does not apply on this link, or breaks a limit
                continue
            chosen = best[0]
            option[family] = number.get(id(chosen), number["streamed"])
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
                method_of(option, planner.line),
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


def text_seconds(accepted: Array, length: Array, lengths: Sequence[int], costs: Costs) -> float:
    """Return the expected seconds of texts, in total, where each round takes the best of some draft lengths.

    The choice knows the acceptance along the text before it drafts, so no rule of a device is faster in the mean.
    """
    slots = accepted.shape[1]
    rest = np.zeros((len(accepted), slots + max(lengths) + 2))
    for t in range(slots - 1, -1, -1):
        left = np.maximum(length - t, 0)
        values = []
        for k in lengths:
            drafts = np.minimum(k, left)
            alive, value = np.ones(len(accepted)), costs.fixed_s + drafts * costs.draft_s
            for j in range(k):
                active = j < drafts
                lost = np.where(active, alive * (1.0 - accepted[:, min(t + j, slots - 1)]), 0.0)
                value = value + lost * (rest[:, t + j + 1] + costs.rejection_s)
                alive = alive - lost
            values.append(value + alive * np.take_along_axis(rest, (t + drafts + 1)[:, None], 1)[:, 0])
        rest[:, t] = np.where(t < length, np.min(values, axis=0), 0.0)
    return float(rest[:, 0].sum())


@dataclass(frozen=True)
class Costs:
    """Seconds of a round, of each draft in it, and of a rejection."""

    fixed_s: float
    draft_s: float
    rejection_s: float


def class_error(known: profile.Profile, texts: Array, option: Option, setting: Setting) -> float:
    """Return the speed with the best K of every round, known beforehand, over the speed with the option's K, less 1."""
    rates = setting.link.rates
    per_bit = float(np.mean(1.0 / rates[rates > 0]))
    table = known.planned[int(option.draft_length) - 1, 0, option.codec or 0, texts].sum(axis=0)
    c = dict(zip(COUNTS, table.tolist(), strict=True))
    bits = (c["up_bits"] / c["exchanges"] - 16.0) / option.draft_length
    reply = 0.0 if option.codec else (16.0 + 32.0 * known.vocabulary) / setting.link.down_bps
    fixed = setting.verify_s + setting.link.round_trip_s + 16.0 * per_bit
    costs = Costs(fixed, setting.draft_s + bits * per_bit, reply)
    rows = (known.accepted[texts], known.lengths[texts])
    return text_seconds(*rows, [int(option.draft_length)], costs) / text_seconds(*rows, range(9), costs) - 1.0


def main() -> None:
    """Run the study for one pair and write its JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("links", type=Path, help="folder with CSV files of recorded links")
    parser.add_argument("work", type=Path, help="folder for the profile and the decoded texts")
    parser.add_argument("out", type=Path, help="JSON file to write")
    parser.add_argument("--draft", help="the draft model; the built-in pair if left out")
    parser.add_argument("--target")
    parser.add_argument("--prompts", type=Path)
    parser.add_argument("--texts", type=int, default=profile.MOST_TEXTS, help="texts of the trace, evenly spaced")
    parser.add_argument("--plans", action="store_true", help="only plan, and say what would be decoded")
    parser.add_argument("--most", type=int, default=40, help="options that are decoded, the most often planned first")
    asked = parser.parse_args()
    profile.MOST_TEXTS = asked.texts
    setting = Setting(constant_link(1e7, ROUND_TRIP_S), *TIMES)
    planner, about = planner_of_trace(asked.trace, setting, cache=asked.work)
    times = Request(draft_s=TIMES[0], verify_s=TIMES[1]).with_server_draft(about["evidence"]["parameter_ratio"])
    planner.setting = replace(setting, server_draft_s=times.server_draft_s)
    links = links_of(asked.links)
    # the device that drafts on has the same counts on every link where it applies: the last option
    planner.options = [*planner.options, *planner.candidates(STREAMED, planner.setting)]
    chosen = {
        (name, down): plans(planner, links, limit, bps)
        for name, limit in LIMITS.items()
        for down, bps in DOWN_BPS.items()
    }
    counted: dict[int, int] = {}
    for per_link in chosen.values():
        for one in per_link:
            for family, number in one.option.items():
                if family == COLOCATED:
                    number = twin_of(planner.options[number], planner.options)
                if family not in (SERVER, STREAM, DEVICE):
                    counted[number] = counted.get(number, 0) + 1
    ordered = sorted(counted, key=lambda number: -counted[number])
    for number in ordered:
        print(f"{counted[number]:5d}  {planner.options[number].family} {planner.options[number].label}", flush=True)
    if asked.plans:
        return
    ordered = ordered[: asked.most]
    pair = load_pair(None if asked.draft else "builtin", draft=asked.draft, target=asked.target, device="cpu")
    prompts = builtin_prompts() if asked.prompts is None else read_prompts(asked.prompts)
    test = [prompt for prompt in prompts if prompt.id in set(about["split"]["test"])]
    records = decoded([(n, planner.options[n]) for n in ordered], planner, pair, test, asked.work / "decoded")
    found = score(planner, links, chosen, records)
    known = profile.profile_of(open_trace(asked.trace), asked.work / "profile.npz")
    for down, bps in DOWN_BPS.items():
        errors = [
            class_error(
                known, planner.split.test, planner.options[one.option[OURS]], _setting(planner, links, name, bps)
            )
            for one, name in list(zip(chosen["lossless", down], links, strict=True))[:: len(links) // CLASS_LINKS]
            if planner.options[one.option[OURS]].family == OURS
        ]
        key = f"class: foresight of each round's K over the plan, minus 1, {len(errors)} links"
        found[down]["lossless"]["error"][key] = _spread(np.array(errors))
    command = f"plan_study.py TRACE LINKS WORK {asked.out.name} --most {asked.most}" + (
        f" --draft DRAFT --target TARGET --prompts PROMPTS --texts {asked.texts}" if asked.draft else ""
    )
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    head = {
        "command": command,
        "commit": commit,
        "seed": SEED,
        "evidence": {**about["evidence"], "trace": asked.trace.name},
        "prompts": planner.split.prompts,
        "times_s": TIMES,
        "server_draft_s": times.server_draft_s,
        "round_trip_s": ROUND_TRIP_S,
        "new_tokens": NEW_TOKENS,
        "links": {"recorded": len(links) - len(SNR_DB), "fading": len(SNR_DB)},
    }
    asked.out.write_text(json.dumps(head | found, ensure_ascii=False) + "\n", encoding="utf-8")


def _label(option: Option) -> str:
    return option.label or option.family


def _setting(planner: Planner, links: dict[str, TraceLink], name: str, down_bps: float | None) -> Setting:
    return replace(planner.setting, link=recorded_link(links[name], ROUND_TRIP_S, down_bps, name))


def score(
    planner: Planner,
    links: dict[str, TraceLink],
    chosen: dict[tuple[str, str], list[Choice]],
    records: dict[int, list[GenerationRecord]],
) -> dict[str, Any]:
    """Return predicted against decoded speeds, regret and risk."""
    side = Links(links)
    number = {id(one): place for place, one in enumerate(planner.options)}
    tokens = np.array([float(len(one.tokens)) for one in next(iter(records.values()))])
    width = index_bits(int(planner_vocabulary(planner)))
    every: dict[int, Rounds] = {}
    for family in (SERVER, STREAM, DEVICE):
        place = next(number[id(one)] for one in planner.options if one.family == family)
        alone = Rounds.alone(tokens, server=family != DEVICE, width=width)
        every[place] = alone.streamed(1.0, width) if family == STREAM else alone
    streams = {n: own for n, own in records.items() if planner.options[n].family == STREAMED}
    for place, own in records.items():
        if place in streams:
            continue
        every[place] = Rounds.of(own, real_bytes=method_of(planner.options[place], planner.line).real_bytes)
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
            sizes = (known.message_bits, known.reply_bits)
            texts = [matches_of(one) for one in own]
            seconds, passes = streamed_seconds(texts, side, TIMES, ROUND_TRIP_S, sizes, down)
            speeds[place], busy[place] = tokens.sum() / seconds, passes * TIMES[1]
        found[word] = {
            name: _limit(planner, links, chosen[name, word], speeds, records, LIMITS[name], bps) for name in LIMITS
        }
        for name, part in found[word].items():
            part["server_ms_per_token"] = {
                family: _spread(np.array([1e3 * busy[place] for place in places]))
                for family in FAMILIES
                if (places := [one.option[family] for one in chosen[name, word] if one.option.get(family) in busy])
            }
    return found


def _server_seconds(rounds: Rounds) -> float:
    """Return the seconds of the server for each token; drafts of its own are scaled to the device's pass."""
    drafts = rounds.drafts.sum() * TIMES[0] if rounds.streams else 0.0
    return float((rounds.passes.sum() * TIMES[1] + drafts) / rounds.tokens.sum())


def planner_vocabulary(planner: Planner) -> float:
    """Return V."""
    return next(one.top_k[0] for one in planner.options if one.family == "HLM")


def _limit(
    planner: Planner,
    links: dict[str, TraceLink],
    chosen: list[Choice],
    speeds: dict[int, Array],
    records: dict[int, list[GenerationRecord]],
    limit: tuple[str, float],
    down_bps: float | None,
) -> dict[str, Any]:
    """Return the comparison under one limit."""
    names = list(links)
    setting = replace(planner.setting, risk_kind=limit[0], risk_limit=limit[1])
    allowed = [place for place in speeds if planner.safe(planner.options[place], setting)]
    allowed = [place for place in allowed if planner.options[place].family not in (STREAM, COLOCATED)]
    hindsight = np.max([speeds[place] for place in allowed], axis=0)
    rows: dict[str, Any] = {}
    ours = np.array([speeds.get(one.option[OURS], np.full(len(names), np.nan))[i] for i, one in enumerate(chosen)])
    for family in FAMILIES:
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
    regret = 1.0 - ours / hindsight
    test = planner.split.test
    pool = [place for place in allowed if planner.options[place].family in (*NO_RIVALS, SERVER, DEVICE)]
    totals = np.stack([planner.options[place].counts[test].sum(axis=0) for place in pool])
    model, estimation, grid = [], [], []
    for i, (name, source) in enumerate(links.items()):
        here = replace(setting, link=recorded_link(source, ROUND_TRIP_S, down_bps, name))
        values = here.value(totals)
        mine = chosen[i].option[OURS]
        if mine not in speeds:
            continue
        predicted_test = float(here.value(planner.options[mine].counts[test].sum(axis=0)))
        model.append(predicted_test / float(speeds[mine][i]) - 1.0)
        estimation.append(1.0 - predicted_test / max(float(values.max()), predicted_test))
        grid.append(float(chosen[i].predicted[OURS]) / predicted_test - 1.0)
    found = {
        "limit": {"kind": limit[0], "value": limit[1]},
        "policies": rows,
        "strongest_rival": _rivals(chosen, speeds, ours),
        "regret_to_best_in_hindsight": _spread(regret[np.isfinite(regret)]),
        "error": {
            "model: predicted on the test texts over decoded, minus 1": _spread(np.array(model)),
            "estimation: best on the test texts over the plan, both predicted": _spread(np.array(estimation)),
            "texts: predicted on the training texts over the test texts, minus 1": _spread(np.array(grid)),
        },
        "quality": _quality(planner, chosen, records, limit),
        "by_link": {
            "name": names,
            "planned": [
                planner.options[one.option[OURS]].label or planner.options[one.option[OURS]].family for one in chosen
            ],
            "predicted": [round(one.predicted[OURS], 4) for one in chosen],
            "decoded": [None if not np.isfinite(value) else round(float(value), 4) for value in ours],
            "best_in_hindsight": [round(float(value), 4) for value in hindsight],
        },
    }
    return found


def _rivals(chosen: list[Choice], speeds: dict[int, Array], ours: Array) -> dict[str, Any]:
    """Return which other policy was predicted to be the fastest on each link, with and without those of a server."""
    found = {}
    for name, without in {"of all": NO_RIVALS, "with a device": (*NO_RIVALS, *WITHOUT_DEVICE)}.items():
        ratio, used = np.full(len(chosen), np.nan), {}
        for i, one in enumerate(chosen):
            others = {family: speed for family, speed in one.predicted.items() if family not in without}
            best = max(others, key=lambda family: others[family])
            used[best] = used.get(best, 0) + 1
            if one.option[best] in speeds:
                ratio[i] = ours[i] / speeds[one.option[best]][i]
        known = ratio[np.isfinite(ratio)]
        wins = float(np.mean(known > 1 + 1e-9)) if len(known) else None
        found[name] = {"policies": used, "links": len(known), "ours_over_it": _spread(known), "ours_wins": wins}
    return found


def _quality(
    planner: Planner, chosen: list[Choice], records: dict[int, list[GenerationRecord]], limit: tuple[str, float]
) -> dict[str, Any]:
    """Return what was promised for the plans of ours, and what other prompts lost.

    The promise is about the mean over the calibration prompts and the next one. One split shows one draw of it, so the
    prompts are also split anew, and the threshold of the plan's codec is calibrated each time.
    """
    test = planner.split.test
    found = {}
    for place in sorted({one.option[OURS] for one in chosen}):
        option = planner.options[place]
        if option.lossless:
            continue
        loss = option.loss if limit[0] == "text" else option.token_loss
        bound = text_risk(np.clip(loss[test], 0.0, 1.0))
        entry: dict[str, Any] = {
            "promised": limit[1],
            "held_out_mean": round(float(bound.mean), 5),
            "low": round(float(bound.low), 5),
            "high": round(float(bound.high), 5),
            "texts": len(test),
            "share_of_texts_above": round(float(np.mean(loss[test] > limit[1])), 5),
            "links": sum(one.option[OURS] == place for one in chosen),
            f"over_{SPLITS}_splits": _resplit(planner, option, limit),
        }
        if place in records:
            tokens = sum(len(one.tokens) for one in records[place])
            lost = sum(one.total("skip_risk") for one in records[place])
            entry["decoded_risk_per_token"] = round(lost / tokens, 6)  # with q's β, also where q̂ was drawn from
        found[option.label or option.family] = entry
    above = sum(entry["links"] for entry in found.values() if entry["held_out_mean"] > limit[1])
    return {"options": found, "share_of_links_above_on_this_split": round(above / len(chosen), 5)}


def _resplit(planner: Planner, option: Option, limit: tuple[str, float]) -> dict[str, float]:
    """Return the mean loss of held-out prompts, and the share of splits above the limit, over many splits."""
    codec, means = option.codec or 0, []
    own = sorted(
        (
            one
            for one in planner.options
            if one.family == OURS and one.draft_length == 1 and one.codec == codec and one.threshold > -np.inf
        ),
        key=lambda one: one.threshold,
    )
    table = np.stack([one.loss if limit[0] == "text" else one.token_loss for one in own], axis=-1)
    table = np.maximum.accumulate(np.clip(table, 0.0, 1.0), axis=-1)
    grid = [one.threshold for one in own]
    rng = np.random.default_rng(SEED)
    part = len(planner.split.calibrate)
    for _ in range(SPLITS):
        order = rng.permutation(len(table))
        threshold = calibrate_threshold(table[order[:part]], grid, risk=limit[1], bound=1.0).threshold
        column = int(np.searchsorted(grid, threshold, side="right")) - 1
        means.append(0.0 if column < 0 else float(table[order[part:], column].mean()))
    return {
        "mean": round(float(np.mean(means)), 5),
        "share_above": round(float(np.mean(np.array(means) > limit[1])), 4),
    }


def _spread(values: Array) -> dict[str, float] | None:
    """Return median, quartiles and the 5th and 95th percentile."""
    if not len(values):
        return None
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    names = ("p05", "p25", "median", "p75", "p95")
    return {name: float(f"{value:.5g}") for name, value in zip(names, np.quantile(values, levels), strict=True)}


if __name__ == "__main__":
    main()
