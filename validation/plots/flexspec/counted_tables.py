"""Make Tables III to VI of flexspec (li2025flexspec) from counted rounds, beside the printed numbers."""

from __future__ import annotations

from functools import partial

from validation.decoding.intervals import IntervalEstimate
from validation.plots.common.cells import cell
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.flexspec import counted as c
from validation.plots.flexspec import counted_lines as k
from validation.plots.flexspec.counted import Counted, Texts
from validation.plots.flexspec.counted_lines import Case
from validation.plots.flexspec.printed import DATASETS, DEVICE_DATASETS, DEVICES, LATENCIES, METHODS, NETWORKS, TARGETS

TEMPERATURES = {"III": 0.0, "IV": 1.0}
ALL = "all six"


def _cell(found: IntervalEstimate | None, printed: float | None = None, form: str = ".2f") -> str:
    """Return our speed-up with its interval, and the printed one in brackets."""
    own = "not run" if found is None else cell(found, form)
    return own if printed is None else f"{own} ({printed:.2f})"


def _value(found: IntervalEstimate | None) -> IntervalEstimate | None:
    return None if found is None else IntervalEstimate(found.value)


def basis(study: Counted) -> str:
    """Return the clause that names models and prompts."""
    per = len(study.about["prompts"]) // len(set(study.sources))
    return f"built-in target model, {per} prompts a set, {study.about['new_tokens']} tokens"


def drafts_shown(case: Case) -> list[str]:
    """Return the drafts that were run, the aligned one first."""
    return [draft for draft in (k.ALIGNED, k.PLAIN) if case.there(draft)]


def measure(table: str, seed: int) -> Numbers:
    """Time all counted rounds for Table III or IV."""
    study = c.counted()
    case = Case(study, TEMPERATURES[table])
    speed_ups, rows = {}, []
    for place, network in enumerate(NETWORKS):
        whole = k.speed_ups(case, network, None, seed)
        by_set = [k.speed_ups(case, network, source, seed) for source in DATASETS]
        speed_ups[network] = {
            name: [plain(end or 0.0, 5) for end in (one.value, one.low, one.high)] for name, one in whole.items()
        }
        for line in k.LINES[1:]:
            printed = (
                [float(one) for one in LATENCIES[table][1][:, place, METHODS.index(line.column)]]
                if line.column
                else [None] * len(DATASETS)
            )
            cells = [_cell(_value(own.get(line.name)), one) for own, one in zip(by_set, printed, strict=True)]
            rows.append((network, line.name, _cell(whole.get(line.name)), *cells))
    title = "Speed-up over Cloud-Only, target version 0; printed numbers in brackets"
    return {
        "statistics": {"speed_ups": speed_ups},
        "tables": [Table(title, ("network", "method", ALL, *DATASETS), tuple(rows)).plain()],
        "basis": basis(study),
        **study.record,
    }


def devices(seed: int) -> Numbers:
    """Time FlexSpec with each device's draft latency over 4G: Table V."""
    study = c.counted()
    case = Case(study, 0.0)
    draft = drafts_shown(case)[0]
    rows, statistics = [], {}
    for name, ms, theirs_by_set in DEVICES:
        draft_s = ms / 1e3
        replayed = {
            "Algorithm 2": case.replay(draft, "4G", c.by_surrogate, draft_s=draft_s, method="ema_printed"),
            "K*": case.replay(draft, "4G", c.by_optimum, draft_s=draft_s),
        }
        cells, own = [], {}
        for source, theirs in zip(DEVICE_DATASETS, theirs_by_set, strict=True):
            chosen = k.chosen_prompts(study, source)
            cloud = case.lines["4G"][k.CLOUD].of(chosen)
            gains = {
                rule: k.speed_up(texts.of(chosen), cloud, partial(Texts.seconds, network="4G", draft_s=draft_s), seed)
                for rule, texts in replayed.items()
            }
            own[source] = [plain(one.value or 0.0, 4) for one in gains.values()]
            cells += [_cell(gains["Algorithm 2"], theirs), _cell(_value(gains["K*"]))]
        statistics[name] = own
        rows.append((name, f"{ms:g} ms", *cells))
    heads = [head for source in DEVICE_DATASETS for head in (f"{source}, Algorithm 2 (printed)", f"{source}, K*")]
    title = f"Speed-up over Cloud-Only over 4G by device, {draft} draft, temperature 0"
    return {
        "statistics": {"devices": statistics},
        "tables": [Table(title, ("device", "a draft", *heads), tuple(rows)).plain()],
        "basis": basis(study),
        **study.record,
    }


def targets(seed: int) -> Numbers:
    """Time FlexSpec on MT-Bench with the printed latencies of other targets: Table VI."""
    study = c.counted()
    case = Case(study, 0.0)
    chosen = k.chosen_prompts(study, "MT-Bench")
    draft = drafts_shown(case)[0]
    cloud_line = case.lines["4G"][k.CLOUD].of(chosen)
    rows: list[tuple[str, ...]] = []
    statistics: dict[str, dict[str, float]] = {}
    for name, base, printed in TARGETS:
        cells = []
        for place, network in enumerate(("5G", "4G")):
            round_s = base[place] / 1e3
            times = partial(Texts.seconds, network=network, cloud_s=0.0, delay_s=round_s)
            for make, method in ((c.by_surrogate, "ema_printed"), (c.by_optimum, "consistent")):
                texts = case.replay(draft, network, make, round_s=round_s, method=method).of(chosen)
                gain = k.speed_up(texts, cloud_line, times, seed)
                ours = make is c.by_surrogate
                cells.append(_cell(gain, printed[place]) if ours else _cell(_value(gain)))
                statistics.setdefault(name, {})[f"{network}, {method}"] = plain(gain.value or 0.0, 4)
        rows.append((name, f"{base[0]:.0f}, {base[1]:.0f} ms", *cells))
    heads = [head for network in ("5G", "4G") for head in (f"{network}, Algorithm 2 (printed)", f"{network}, K*")]
    title = f"Speed-up over Cloud-Only on MT-Bench with each target's printed latency of a token, {draft} draft"
    return {
        "statistics": {"targets": statistics},
        "tables": [Table(title, ("target", "a token over 5G, 4G", *heads), tuple(rows)).plain()],
        "basis": basis(study),
        **study.record,
    }
