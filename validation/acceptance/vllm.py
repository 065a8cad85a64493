"""Read counts of accepted drafts from the files of vLLM: scrapes of its metrics, ``get_metrics``, answers, bench.

llama.cpp's server has metrics of the same names behind another prefix.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from validation.acceptance import counts as counting
from validation.acceptance.record import NOTHING, AcceptanceRecord, LeftOut, Read, of_totals
from validation.errors import UserError

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(\{(?P<labels>[^}]*)\})?\s+(?P<value>\S+)(\s+\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_PREDICTED = re.compile(r"^llamacpp:tokens_predicted_total (\S+)", re.M)
PREFIX = "vllm:spec_decode_num_"
TENSORRT = "trtllm_spec_decode_"
SCRAPED = {PREFIX: "vllm", "llamacpp:spec_decode_num_": "llama.cpp", TENSORRT: "tensorrt-llm"}
"""The engines whose ``/metrics`` are read, by the prefix of their counters."""


def is_scrape(text: str) -> bool:
    """Return whether the start of a file is that of a scrape with counters of drafts."""
    return any(prefix in text for prefix in SCRAPED) and not text.lstrip().startswith(("{", "["))


def without_counters(where: str, text: str) -> UserError:
    """Return the error for an answer or a file without counters of drafts; it says what the text is."""
    known = " or ".join(f"{prefix}drafts_total" for prefix in SCRAPED)
    reason = f"has no counters of drafts ({known}): it serves without speculative decoding, or has other names"
    if text.lstrip()[:1] == "<":
        reason = "is a web page; give the address of the server's /metrics, or what it answers"
    elif "sglang:" in text:
        reason = "is SGLang's, which counts no accepted drafts; store the answers, whose meta_info has the counts"
    return UserError(f"{where} {reason}.")


def _engine(path: str, text: str) -> str:
    prefixes = [prefix for prefix in SCRAPED if prefix in text]
    if len(prefixes) > 1:
        raise UserError(f"{path} has counters of {len(prefixes)} engines; scrape one server at a time.")
    return prefixes[0]


@dataclass(frozen=True, slots=True)
class _Scrape:
    """What a scrape of ``/metrics`` counts."""

    totals: dict[str, int]  # over all engines of a server
    places: dict[int, int]  # accepted drafts by position, over all engines
    models: set[str]
    began: dict[str, str]
    series: dict[str, int]  # each sample, by its name and labels


def _scrape(path: str, text: str, prefix: str) -> _Scrape:
    totals: Counter[str] = Counter()
    places: Counter[int] = Counter()
    models, began, series = set(), {}, {}
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if not line.startswith(prefix):
            continue
        where, sample = f"{path}, line {number}", _SAMPLE.match(line.strip())
        if number == len(lines) and not text.endswith("\n"):
            raise UserError(f"{where} ends without a line break, so the scrape may be cut off; save it again.")
        if sample is None:
            raise UserError(f"{where} is not a Prometheus sample: {line[:60]!r}.")
        name = sample["name"].removeprefix(prefix).removesuffix("_total")
        if name.endswith("_created"):
            began[f"{sample['name']} {sample['labels']}"] = sample["value"]
            continue
        if "e" in sample["value"] and SCRAPED[prefix] == "llama.cpp":
            raise UserError(
                f"{where} has {sample['value']}: from a million on llama.cpp prints six digits of a count; restart the "
                "server before your load, or give its log."
            )
        labels = dict(_LABEL.findall(sample["labels"] or ""))
        models |= {labels["model_name"]} if "model_name" in labels else set()
        try:
            value = counting.read_count(where, sample["name"], float(sample["value"]))
        except ValueError as error:
            raise UserError(f"{where}: {sample['value']!r} is not a number.") from error
        series[f"{sample['name']}{{{sample['labels'] or ''}}}"] = value
        if name == "accepted_tokens_per_pos":
            places[counting.read_length(where, "position", labels.get("position", ""))] += value
        elif "token_position" in labels and name in ("drafted_tokens", "accepted_tokens"):  # of TensorRT-LLM
            position = counting.read_length(where, "token_position", labels["token_position"])
            totals["accepted_tokens" if name == "accepted_tokens" else "draft_tokens"] += value
            totals["accepted_tokens"] += 0
            totals["drafts"] += value if name == "drafted_tokens" and position == 0 else 0
            places[position] += value if name == "accepted_tokens" else 0
        else:
            totals[name] += value
    return _Scrape(dict(totals), dict(places), models, began, series)


def of_scrapes(paths: list[str], texts: list[str]) -> Sequence[Read]:
    """Return the counts between two scrapes, or since the server's start if one scrape is given."""
    prefixes = [_engine(path, text) for path, text in zip(paths, texts, strict=True)]
    if len(set(prefixes)) > 1:
        raise UserError(f"{' and '.join(paths)} are of two engines; give two scrapes of one server.")
    scrapes = [_scrape(path, text, prefixes[0]) for path, text in zip(paths, texts, strict=True)]
    if len(models := set().union(*(scrape.models for scrape in scrapes))) > 1:
        records = list[AcceptanceRecord]()
        for model in sorted(models):
            lines = [[line for line in text.splitlines() if f'model_name="{model}"' in line] for text in texts]
            if [] in lines:
                raise UserError(f"{paths[lines.index([])]} lacks {model}; give two scrapes of one server.")
            model_record = next(iter(of_scrapes(paths, ["\n".join((*rows, "")) for rows in lines])))
            assert isinstance(model_record, AcceptanceRecord)
            records.append(replace(model_record, engine=f"{model_record.engine} {model}"))
        return records
    before, after = (scrapes[0], scrapes[-1]) if len(scrapes) > 1 else (_Scrape({}, {}, set(), {}, {}), scrapes[0])
    where = " to ".join(paths)
    _refuse_restart(where, before, after)
    totals = {name: value - before.totals.get(name, 0) for name, value in after.totals.items()}
    last = max((*after.places, *before.places), default=-1)
    places = [after.places.get(i, 0) - before.places.get(i, 0) for i in range(last + 1)]
    record = _record(SCRAPED[prefixes[0]], where, totals, places)
    return [record, *_undrafted(record, [_PREDICTED.search(text) for text in texts])]


def _undrafted(record: AcceptanceRecord, matches: Sequence[re.Match[str] | None]) -> list[str]:
    """Return a sentence if llama.cpp emitted many tokens in rounds without drafts, which it does not count."""
    if not all(matches):
        return []
    numbers = [float(match[1]) for match in matches if match]
    emitted = numbers[-1] - sum(numbers[:-1])
    alone = emitted - record.num_spec_steps - record.num_accepted_draft_tokens
    if alone <= record.num_spec_steps / 2:
        return []
    return [
        f"{record.source}: {alone:,.0f} of {emitted:,.0f} tokens are first tokens of answers, or of rounds without "
        "drafts. The acceptance is of the drafts that were made: with p_min the sure ones. A round whose draft was "
        "given up costs draft passes too, which no speed here counts."
    ]


def _refuse_restart(where: str, before: _Scrape, after: _Scrape) -> None:
    for name, earlier in before.series.items():
        later = after.series.get(name)
        if later is None:
            raise UserError(f"{where}: the later scrape has no {name}, so it is cut off, or of another server.")
        if later < earlier:
            raise UserError(
                f"{where}: a counter falls, {name} from {earlier:,} to {later:,}. Give the earlier scrape "
                "first, and no restart of the server between the two."
            )
    if any(after.began.get(name, value) != value for name, value in before.began.items()):
        raise UserError(
            f"{where}: the counters began anew between the two scrapes, so the server was restarted; take both from "
            "one run of it."
        )


def of_metrics_list(path: str, content: list[Any]) -> list[AcceptanceRecord]:
    """Return the record of ``llm.get_metrics()``, stored as a list of ``{name, value}`` and ``{name, values}``."""
    totals: Counter[str] = Counter()
    places: list[int] = []
    for number, metric in enumerate(content):
        name = str(metric.get("name", "")) if isinstance(metric, Mapping) else ""
        if not name.startswith(PREFIX):
            continue
        where, short = f"{path}[{number}]", name.removeprefix(PREFIX).removesuffix("_total")
        if short == "accepted_tokens_per_pos":
            values = counting.read_counts(where, "values", metric.get("values"))
            places = [a + b for a, b in zip(values, places or [0] * len(values), strict=False)]
        else:
            totals[short] += counting.read_field(where, metric, "value")
    return [_record("vllm", path, totals, places)]


def of_answer(where: str, content: Mapping[str, Any]) -> Sequence[Read]:
    """Return the record of one answer of vLLM or AIPerf; both use the same names."""
    metrics, about, usage = content.get("metrics"), content.get("metadata"), content.get("usage") or {}
    counts = metrics.get("speculative_decoding") if isinstance(metrics, Mapping) else None
    counts = counts or (content.get("choices") or [{}])[0].get("speculative_decoding_stats")
    if counts is None and "spec_decode_acceptance" in content:
        counts, usage = content["spec_decode_acceptance"], content["spec_decode_acceptance"] or {}
    warm = isinstance(about, Mapping) and "warmup" in map(about.get, ("benchmark_phase", "phase_kind", "credit_phase"))
    if counts is None or content.get("error") is not None or warm:
        return [LeftOut(where, NOTHING if counts is None else "AIPerf marks it as a warm-up or as failed")]
    name = "acceptance_histogram"
    histogram, by_length = counts.get(name), counts.get(f"{name}_by_draft_length")
    fields: dict[str, Any] = {
        name: counting.read_optional(where, counts, name) for name in ("num_draft_tokens", "num_spec_tokens")
    }
    listed = [part for part in ("per_step_accepted", "per_step_drafted") if counts.get(part) is not None]
    fields |= {part: counting.read_counts(where, part, counts[part]) for part in listed}
    fields |= {mark: counting.read_word(where, counts, mark) for mark in ("draft_sampling", "verification")}
    if by_length is not None:
        keys = ((counting.read_length(where, f"{name}_by_draft_length", k), k) for k in by_length)
        fields["by_draft_length"] = {n: counting.read_counts(where, f"draft length {k}", by_length[k]) for n, k in keys}
    latency = metrics.get("inter_token_latency") if isinstance(metrics, Mapping) else None
    seconds = counts.get("seconds_per_token")
    if not seconds and isinstance(latency, Mapping):
        seconds = counting.read_seconds(latency, milliseconds="value")
    return [
        AcceptanceRecord(
            engine=str(counts.get("engine", "vllm")).replace("_", "-"),
            source=where,
            num_spec_steps=counting.read_field(where, counts, "num_spec_steps"),
            num_accepted_draft_tokens=counting.read_field(where, counts, "num_accepted_draft_tokens"),
            completion_tokens=counting.read_optional(where, usage, "completion_tokens"),
            acceptance_histogram=None if histogram is None else counting.read_histogram(where, name, histogram),
            copied=counts.get("copied") is True,
            seconds_per_token=seconds,
            **fields,
        )
    ]


def of_bench(path: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of ``vllm bench serve --save-result``; its rate is in per cent and is not used."""
    steps = counting.read_field(path, content, "spec_decode_num_drafts")
    rates = content.get("spec_decode_per_position_acceptance_rates") or []
    places = tuple(round(float(rate) * steps) for rate in rates)
    accepted = counting.read_field(path, content, "spec_decode_accepted_tokens", "spec_decode_num_accepted_tokens")
    if places and sum(places) != accepted:
        raise UserError(
            f"{path}: the rates by position give {sum(places):,} accepted drafts, the total is {accepted:,}; the rates "
            "are rounded or damaged."
        )
    drafted = counting.read_field(path, content, "spec_decode_draft_tokens", "spec_decode_num_draft_tokens")
    record = _record("vllm", path, {"drafts": steps, "draft_tokens": drafted, "accepted_tokens": accepted}, places)
    return [replace(record, seconds_per_token=counting.read_seconds(content, rate="output_throughput"))]


def _record(engine: str, source: str, totals: Mapping[str, int], places: Sequence[int]) -> AcceptanceRecord:
    names = (("drafts",), ("verified_draft_tokens", "draft_tokens"), ("accepted_tokens",))
    counts = [counting.read_field(source, totals, *each) for each in names]
    more: dict[str, Any] = {"num_spec_tokens": len(places) or None, "accepted_per_position": tuple(places) or None}
    return of_totals(engine, source, counts, **more)
