"""Make Tables III to VI of flexspec (li2025flexspec) from counted rounds, beside the printed numbers."""

from collections.abc import Sequence
from typing import Any

from validation.estimates import Estimate
from validation.plots.common.printed import DATASETS, DEVICE_DATASETS, DEVICES, LATENCIES, METHODS, NETWORKS, TARGETS
from validation.plots.common.record import Numbers, cell, plain, table
from validation.plots.flexspec import counted as c
from validation.plots.flexspec.counted import Case, Counted

TEMPERATURES = {"III": 0.0, "IV": 1.0}


def _cell(found: Estimate, printed: float | None = None, *, alone: bool = False) -> str:
    """Return our speed-up with its interval, unless it stands alone, and the printed one in brackets."""
    own = cell(Estimate(found.value) if alone else found, ".2f")
    return own if printed is None else f"{own} ({printed:.2f})"


def basis(study: Counted) -> str:
    per = len(study.about["prompts"]) // len(set(study.sources))
    target = study.about.get("target", "built-in target model")
    return f"{target}, {per} prompts a set, {study.about['new_tokens']} tokens"


def _exhibit(
    study: Counted, statistics: dict[str, Any], title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> Numbers:
    return {"statistics": statistics, "tables": [table(title, heads, rows)], "basis": basis(study), **study.record}


def measure(number: str, seed: int, pair: str | None = None) -> Numbers:
    case = Case(c.counted(pair), TEMPERATURES[number])
    speed_ups, rows = {}, []
    for place, network in enumerate(NETWORKS):
        whole = c.speed_ups(case, network, None, seed)
        by_set = [c.speed_ups(case, network, source, seed) for source in DATASETS]
        speed_ups[network] = {name: list(one.plain(digits=5).values()) for name, one in whole.items()}
        for line in (line for line in c.LINES[1:] if line.name in whole):
            printed = [None] * len(DATASETS)
            if line.column:
                printed = LATENCIES[number][1][:, place, METHODS.index(line.column)].tolist()
            cells = [_cell(own[line.name], one, alone=True) for own, one in zip(by_set, printed, strict=True)]
            rows.append((network, line.name, _cell(whole[line.name]), *cells))
    title = "Speed-up over Cloud-Only, target version 0; printed numbers in brackets"
    statistics = {"speed_ups": speed_ups, "flexspec": {"name": case.rule, "times": speed_ups["4G"][case.rule][0]}}
    return _exhibit(case.study, statistics, title, ("network", "method", "all six", *DATASETS), rows)


def devices(seed: int) -> Numbers:
    case, draft = Case(c.counted(), 0.0), c.ALIGNED
    rows, statistics = [], {}
    for name, ms, theirs_by_set in DEVICES:
        draft_s = ms / 1e3
        replayed = {
            "Algorithm 2": case.replay(draft, "4G", c.by_surrogate, draft_s=draft_s, method="ema_printed"),
            "K*": case.replay(draft, "4G", c.by_optimum, draft_s=draft_s),
        }
        cells, own = [], {}
        for source, theirs in zip(DEVICE_DATASETS, theirs_by_set, strict=True):
            chosen = c.chosen_prompts(case.study, source)
            cloud = case.lines["4G"][c.CLOUD].of(chosen)
            gains = {
                rule: c.speed_up(texts.of(chosen), cloud, c.over("4G", draft_s=draft_s), seed)
                for rule, texts in replayed.items()
            }
            own[source] = [plain(one.value or 0.0, 4) for one in gains.values()]
            cells += [_cell(gains["Algorithm 2"], theirs), _cell(gains["K*"], alone=True)]
        statistics[name] = own
        rows.append((name, f"{ms:g} ms", *cells))
    heads = [head for source in DEVICE_DATASETS for head in (f"{source}, Algorithm 2 (printed)", f"{source}, K*")]
    title = f"Speed-up over Cloud-Only over 4G by device, {draft} draft, temperature 0"
    return _exhibit(case.study, {"devices": statistics}, title, ("device", "a draft", *heads), rows)


def targets(seed: int) -> Numbers:
    """Time FlexSpec on MT-Bench with the printed latencies of other targets: Table VI."""
    case, draft = Case(c.counted(), 0.0), c.ALIGNED
    chosen = c.chosen_prompts(case.study, "MT-Bench")
    cloud_line = case.lines["4G"][c.CLOUD].of(chosen)
    rows: list[tuple[str, ...]] = []
    statistics: dict[str, dict[str, float]] = {}
    for name, base, printed in TARGETS:
        cells = []
        for place, network in enumerate(("5G", "4G")):
            round_s = base[place] / 1e3
            times = c.over(network, cloud_s=0.0, delay_s=round_s)
            for make, method in ((c.by_surrogate, "ema_printed"), (c.by_optimum, "consistent")):
                texts = case.replay(draft, network, make, round_s=round_s, method=method).of(chosen)
                gain = c.speed_up(texts, cloud_line, times, seed)
                cells.append(_cell(gain, printed[place]) if make is c.by_surrogate else _cell(gain, alone=True))
                statistics.setdefault(name, {})[f"{network}, {method}"] = plain(gain.value or 0.0, 4)
        rows.append((name, f"{base[0]:.0f}, {base[1]:.0f} ms", *cells))
    heads = [head for network in ("5G", "4G") for head in (f"{network}, Algorithm 2 (printed)", f"{network}, K*")]
    title = f"Speed-up over Cloud-Only on MT-Bench with each target's printed latency of a token, {draft} draft"
    return _exhibit(case.study, {"targets": statistics}, title, ("target", "a token over 5G, 4G", *heads), rows)
