"""Read counts of accepted drafts from the files of each engine.

A reader takes the parsed content of a file and its name, and returns records. :func:`read_acceptance` chooses the
reader from the content.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from validation.acceptance.json_files import parse, read_lines, read_text
from validation.acceptance.record import AcceptanceRecord, LeftOut
from validation.errors import UserError

Read = AcceptanceRecord | LeftOut

SEVERAL = "it has several samples (n > 1), whose steps share a prompt"
NOTHING = "it has no acceptance: nothing was drafted, or n > 1"

START = 2**20
"""Number of first characters that show whether a file is a scrape of vLLM's metrics."""
GREATEST_COUNT = 2**53
"""Largest count that a double holds exactly."""
GREATEST_LENGTH = 4096
"""Longest draft that a record may have; a damaged number must not allocate a table."""


# ------------------------------------------------------------------------------------------------------- plain values


def _count(where: str, name: str, value: Any) -> int:
    """Return a count; it may be written as a float, as in Prometheus."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and 0 <= value <= GREATEST_COUNT and value == int(value):
        return int(value)
    raise UserError(f"{where}: {name} is {str(value)[:40]!r}; a whole number from 0 to 2^53 is needed.")


def _field(where: str, table: Mapping[str, Any], *names: str) -> int:
    """Return the count under the first of several names that the table has."""
    for name in names:
        if table.get(name) is not None:
            return _count(where, name, table[name])
    raise UserError(f"{where} has no {names[0]}; check that the file is complete.")


def _optional(where: str, table: Mapping[str, Any], *names: str) -> int | None:
    return _field(where, table, *names) if any(table.get(name) is not None for name in names) else None


def _list(where: str, name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        raise UserError(f"{where}: {name} is {type(value).__name__}; a list of counts is needed.")
    return tuple(_count(where, f"{name}[{i}]", one) for i, one in enumerate(value))


def _optional_list(where: str, table: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    return None if table.get(name) is None else _list(where, name, table[name])


def _word(where: str, table: Mapping[str, Any], name: str) -> str | None:
    value = table.get(name)
    if value is not None and (not isinstance(value, str) or not value or len(value) > 40):
        raise UserError(f"{where}: {name} is {str(value)[:40]!r}; a short word is needed.")
    return value


def _histogram(where: str, name: str, value: Any) -> dict[int, int]:
    """Return the positive counts of a histogram; it is a list, or a table with integer keys."""
    if isinstance(value, Mapping):
        found = {_length(where, name, key): _count(where, f"{name}[{key}]", one) for key, one in value.items()}
    else:
        found = dict(enumerate(_list(where, name, value)))
    return {i: count for i, count in found.items() if count}


def _length(where: str, name: str, key: Any) -> int:
    """Return the key of a histogram as an integer."""
    text = str(key)
    if not text.isdecimal() or int(text[:10]) > GREATEST_LENGTH or len(text) > 5:
        raise UserError(f"{where}: {name} has the key {key!r}; a draft length from 0 to {GREATEST_LENGTH:,} is needed.")
    return int(text)


# ------------------------------------------------------------------------------------------------------------- vLLM

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(\{(?P<labels>[^}]*)\})?\s+(?P<value>\S+)(\s+\d+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_VLLM = "vllm:spec_decode_num_"


def _scrape(path: str, text: str) -> tuple[dict[str, int], dict[int, int], set[str]]:
    """Return totals, accepted drafts by position and the models of a scrape of vLLM's ``/metrics``."""
    totals: Counter[str] = Counter()
    places: Counter[int] = Counter()
    models = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith(_VLLM):
            continue
        where, found = f"{path}, line {number}", _SAMPLE.match(line.strip())
        if found is None:
            raise UserError(f"{where} is not a Prometheus sample: {line[:60]!r}.")
        name = found["name"].removeprefix(_VLLM).removesuffix("_total")
        if name.endswith("_created"):
            continue
        labels = dict(_LABEL.findall(found["labels"] or ""))
        models |= {labels["model_name"]} if "model_name" in labels else set()
        try:
            value = _count(where, found["name"], float(found["value"]))
        except ValueError as error:
            raise UserError(f"{where}: {found['value']!r} is not a number.") from error
        if name == "accepted_tokens_per_pos":
            places[_length(where, "position", labels.get("position", ""))] += value
        else:
            totals[name] += value
    return dict(totals), dict(places), models


def _of_scrapes(paths: list[str], texts: list[str]) -> list[AcceptanceRecord]:
    """Return the counts between two scrapes, or since the server's start if one scrape is given."""
    found = [_scrape(path, text) for path, text in zip(paths, texts, strict=True)]
    models = set().union(*(one[2] for one in found))
    if len(models) > 1:
        raise UserError(f"{paths[-1]} holds {len(models)} models ({', '.join(sorted(models))}); scrape one at a time.")
    before, after = (found[0], found[-1]) if len(found) > 1 else (({}, {}, set()), found[0])
    where = " to ".join(paths)
    totals = {name: value - before[0].get(name, 0) for name, value in after[0].items()}
    places = [after[1].get(i, 0) - before[1].get(i, 0) for i in range(max(after[1], default=-1) + 1)]
    if any(value < 0 for value in (*totals.values(), *places)):
        raise UserError(
            f"{where}: a counter falls. Give the earlier scrape first, and no restart of the server between the two."
        )
    return [
        AcceptanceRecord(
            engine="vllm",
            source=where,
            num_spec_steps=_field(where, totals, "drafts"),
            num_draft_tokens=_field(where, totals, "draft_tokens"),
            num_accepted_draft_tokens=_field(where, totals, "accepted_tokens"),
            accepted_per_position=tuple(places) or None,
        )
    ]


def _vllm_metrics_list(path: str, content: list[Any]) -> list[AcceptanceRecord]:
    """Return the record of ``llm.get_metrics()``, stored as a list of ``{name, value}`` and ``{name, values}``."""
    totals: Counter[str] = Counter()
    places: list[int] = []
    for number, metric in enumerate(content):
        name = str(metric.get("name", "")) if isinstance(metric, Mapping) else ""
        if not name.startswith(_VLLM):
            continue
        where, short = f"{path}[{number}]", name.removeprefix(_VLLM).removesuffix("_total")
        if short == "accepted_tokens_per_pos":
            values = _list(where, "values", metric.get("values"))
            places = [a + b for a, b in zip(values, places or [0] * len(values), strict=False)]
        else:
            totals[short] += _field(where, metric, "value")
    return [
        AcceptanceRecord(
            engine="vllm",
            source=path,
            num_spec_steps=_field(path, totals, "drafts"),
            num_draft_tokens=_field(path, totals, "draft_tokens"),
            num_accepted_draft_tokens=_field(path, totals, "accepted_tokens"),
            accepted_per_position=tuple(places) or None,
        )
    ]


def _vllm_request(where: str, content: Mapping[str, Any]) -> Sequence[Read]:
    """Return the record of one answer of vLLM or AIPerf; both use the same names."""
    metrics = content.get("metrics")
    found = (metrics or {}).get("speculative_decoding") if isinstance(metrics, Mapping) else None
    usage = content.get("usage") or {}
    if found is None and "spec_decode_acceptance" in content:
        found, usage = content["spec_decode_acceptance"], content["spec_decode_acceptance"] or {}
    if found is None:
        return [LeftOut(where, NOTHING)]
    by_length = found.get("acceptance_histogram_by_draft_length")
    return [
        AcceptanceRecord(
            engine=str(found.get("engine", "vllm")),
            source=where,
            num_spec_steps=_field(where, found, "num_spec_steps"),
            num_accepted_draft_tokens=_field(where, found, "num_accepted_draft_tokens"),
            num_draft_tokens=_optional(where, found, "num_draft_tokens"),
            num_spec_tokens=_optional(where, found, "num_spec_tokens"),
            completion_tokens=_optional(where, usage, "completion_tokens"),
            acceptance_histogram=_histogram(where, "acceptance_histogram", found["acceptance_histogram"])
            if found.get("acceptance_histogram") is not None
            else None,
            by_draft_length=None
            if by_length is None
            else {
                _length(where, "acceptance_histogram_by_draft_length", k): _list(where, f"draft length {k}", row)
                for k, row in by_length.items()
            },
            per_step_accepted=_optional_list(where, found, "per_step_accepted"),
            per_step_drafted=_optional_list(where, found, "per_step_drafted"),
            draft_sampling=_word(where, found, "draft_sampling"),
            verification=_word(where, found, "verification"),
        )
    ]


def _vllm_bench(path: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of ``vllm bench serve --save-result``; its rate is in per cent and is not used."""
    steps = _field(path, content, "spec_decode_num_drafts")
    rates = content.get("spec_decode_per_position_acceptance_rates") or []
    places = tuple(round(float(rate) * steps) for rate in rates)
    accepted = _field(path, content, "spec_decode_accepted_tokens", "spec_decode_num_accepted_tokens")
    if places and sum(places) != accepted:
        raise UserError(
            f"{path}: the rates by position give {sum(places):,} accepted drafts, the total is {accepted:,}; the rates "
            "are rounded or damaged."
        )
    return [
        AcceptanceRecord(
            engine="vllm",
            source=path,
            num_spec_steps=steps,
            num_draft_tokens=_field(path, content, "spec_decode_draft_tokens", "spec_decode_num_draft_tokens"),
            num_accepted_draft_tokens=accepted,
            accepted_per_position=places or None,
        )
    ]


# ----------------------------------------------------------------------------------------------------- other engines


def _sglang(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of SGLang's ``meta_info``.

    Its number of proposed drafts is the number of steps times the configured length, even if fewer were drafted. Its
    acceptance length counts the token of the prefill. Both are left out.
    """
    meta = content.get("meta_info", content)
    histogram = meta.get("spec_correct_drafts_histogram") or meta.get("spec_accept_histogram")
    names = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
    steps = _field(where, meta, "spec_verify_ct")
    found = None if histogram is None else _histogram(where, "spec_correct_drafts_histogram", histogram)
    accepted = _optional(where, meta, *names)
    if accepted is None and found is not None:
        accepted = sum(i * count for i, count in found.items())
    return [
        AcceptanceRecord(
            engine="sglang",
            source=where,
            num_spec_steps=steps,
            num_accepted_draft_tokens=_field(where, {names[0]: accepted}, names[0]),
            completion_tokens=_optional(where, meta, "completion_tokens"),
            acceptance_histogram=found,
        )
    ]


def _tensorrt(path: str, content: Any) -> list[AcceptanceRecord]:
    """Return the sum over the iterations of TensorRT-LLM's statistics, or the record of one request."""
    if isinstance(content, Mapping):
        metrics = content.get("request_perf_metrics")
        if isinstance(metrics, Mapping):
            found = metrics.get("speculative_decoding") or {}
            raise UserError(
                f"{path} has {found.get('total_accepted_draft_tokens')} accepted of "
                f"{found.get('total_draft_tokens')} drafts of a request, but not its number of steps; give the "
                "statistics of the iterations."
            )
        content = [content]
    totals: Counter[str] = Counter()
    for number, iteration in enumerate(content):
        found = iteration.get("specDecodingStats") if isinstance(iteration, Mapping) else None
        for name in ("numDraftTokens", "numAcceptedTokens", "numRequestsWithDraftTokens"):
            totals[name] += _field(f"{path}[{number}]", found, name) if found else 0
    return [
        AcceptanceRecord(
            engine="tensorrt-llm",
            source=path,
            num_spec_steps=totals["numRequestsWithDraftTokens"],
            num_draft_tokens=totals["numDraftTokens"],
            num_accepted_draft_tokens=totals["numAcceptedTokens"],
        )
    ]


def _llama_timings(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of an answer of llama.cpp's server; a step emits its accepted drafts and one more token."""
    timings = content["timings"]
    accepted, predicted = _field(where, timings, "draft_n_accepted"), _field(where, timings, "predicted_n")
    if accepted > predicted:
        raise UserError(f"{where}: {accepted:,} accepted drafts in {predicted:,} tokens; the file is damaged.")
    return [
        AcceptanceRecord(
            engine="llama.cpp",
            source=where,
            num_spec_steps=predicted - accepted,
            num_draft_tokens=_field(where, timings, "draft_n"),
            num_accepted_draft_tokens=accepted,
            completion_tokens=predicted,
        )
    ]


_LLAMA_LOG = re.compile(
    r"draft acceptance\s*=\s*\S+\s*\(\s*(?P<accepted>\d+) accepted /\s*(?P<drafted>\d+) generated\)"
    r"(?:.*mean (?:acceptance length|len)\s*=\s*(?P<length>[\d.]+))?"
)
_LLAMA_EXAMPLE = re.compile(r"^\s*n_(drafted|accept|predict)\s*=\s*(\d+)", re.MULTILINE)


def _llama_log(path: str, text: str) -> list[AcceptanceRecord]:
    """Return the records of llama.cpp's log lines; the log rounds its rates, so only the integers are used."""
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        if (found := _LLAMA_LOG.search(line)) is None:
            continue
        where, accepted = f"{path}, line {number}", int(found["accepted"])
        length = float(found["length"] or 0)
        if length <= 1.0 and accepted:
            raise UserError(f"{where} has no mean acceptance length, so its number of steps is not known.")
        steps = round(accepted / (length - 1.0)) if accepted else 0
        records.append(
            AcceptanceRecord(
                engine="llama.cpp",
                source=where,
                num_spec_steps=steps,
                num_draft_tokens=int(found["drafted"]),
                num_accepted_draft_tokens=accepted,
            )
        )
    if not records:
        totals = {name: int(value) for name, value in _LLAMA_EXAMPLE.findall(text)}
        accepted = _field(path, totals, "accept")
        records.append(
            AcceptanceRecord(
                engine="llama.cpp",
                source=path,
                num_spec_steps=max(0, _field(path, totals, "predict") - accepted),
                num_draft_tokens=_field(path, totals, "drafted"),
                num_accepted_draft_tokens=accepted,
            )
        )
    return records


def _specdec_bench(path: str, content: Any) -> list[AcceptanceRecord]:
    """Return the records of ``acceptance_rate.json``; its lengths count the target model's own token."""
    records = []
    for number, run in enumerate(content if isinstance(content, list) else [content]):
        where = f"{path}[{number}]"
        lengths = _histogram(where, "Acceptance_Length_Histogram", run.get("Acceptance_Length_Histogram"))
        if 0 in lengths:
            raise UserError(f"{where}: a step of length 0; every step emits a token at least.")
        histogram = {length - 1: count for length, count in lengths.items()}
        records.append(
            AcceptanceRecord(
                engine="specdec_bench",
                source=where,
                num_spec_steps=sum(histogram.values()),
                num_accepted_draft_tokens=sum(i * count for i, count in histogram.items()),
                acceptance_histogram=histogram,
            )
        )
    return records


def _simulator(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return a record for each drafter of a request of SpecDecode-Bench's simulator.

    ``acc_len[i]`` is the number of tokens of a step that begins at token i; the next step begins where it ends.
    """
    records = []
    for key in sorted(name for name in content if name.startswith("acc_")):
        lengths = _list(where, f"{key}.acc_len", content[key].get("acc_len"))
        if 0 in lengths:
            raise UserError(f"{where}: {key}.acc_len has a step of length 0; every step emits a token at least.")
        steps, place = [], 0
        while place < len(lengths):
            steps.append(lengths[place] - 1)
            place += lengths[place]
        records.append(
            AcceptanceRecord(
                engine=f"simulator, {key.removeprefix('acc_')}",
                source=f"{where}, {key}",
                num_spec_steps=len(steps),
                num_accepted_draft_tokens=sum(steps),
                completion_tokens=len(lengths),
                acceptance_histogram=dict(Counter(steps)),
                per_step_accepted=tuple(steps),
            )
        )
    return records


def _spec_bench(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of a question of Spec-Bench; ``accept_lengths`` counts the target model's own token."""
    steps: list[int] = []
    for choice in content["choices"]:
        lengths = _list(where, "accept_lengths", choice.get("accept_lengths"))
        if 0 in lengths:
            raise UserError(f"{where}: a step of length 0; every step emits a token at least.")
        steps += [length - 1 for length in lengths]
    return [
        AcceptanceRecord(
            engine="spec-bench",
            source=where,
            num_spec_steps=len(steps),
            num_accepted_draft_tokens=sum(steps),
            acceptance_histogram=dict(Counter(steps)),
            per_step_accepted=tuple(steps),
        )
    ]


# ---------------------------------------------------------------------------------------------------------- detection

_REQUESTS: tuple[tuple[Callable[[Any], bool], Callable[[str, Any], Sequence[Read]]], ...] = (
    (lambda one: "spec_decode_acceptance" in one, _vllm_request),
    (lambda one: isinstance(one.get("metrics"), Mapping) and "speculative_decoding" in one["metrics"], _vllm_request),
    (lambda one: "spec_decode_num_drafts" in one, _vllm_bench),
    (lambda one: "spec_verify_ct" in one.get("meta_info", one), _sglang),
    (lambda one: "specDecodingStats" in one or "request_perf_metrics" in one, _tensorrt),
    (lambda one: isinstance(one.get("timings"), Mapping) and "draft_n" in one["timings"], _llama_timings),
    (lambda one: "Acceptance_Length_Histogram" in one, _specdec_bench),
    (lambda one: any(isinstance(one[name], Mapping) and "acc_len" in one[name] for name in one), _simulator),
    (
        lambda one: (
            isinstance(one.get("choices"), list)
            and bool(one["choices"])
            and isinstance(one["choices"][0], Mapping)
            and "accept_lengths" in one["choices"][0]
        ),
        _spec_bench,
    ),
)
"""A test of the content, and the reader for content that passes it."""

FORMATS = (
    "vLLM's /metrics (one scrape, or two), get_metrics, answers, bench JSON; SGLang's meta_info; TensorRT-LLM's "
    "iteration statistics; llama.cpp's answers and log; specdec_bench's acceptance_rate.json; Spec-Bench's JSONL; "
    "AIPerf's profile_export.jsonl; SpecDecode-Bench's simulator"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The records of some files, and the answers that are not among them."""

    records: tuple[AcceptanceRecord, ...]
    left_out: tuple[LeftOut, ...] = ()


def read_acceptance(*paths: str | Path) -> Reading:
    """Return the records of the files; two scrapes of vLLM's ``/metrics`` give one record of their difference.

    Parameters
    ----------
    *paths : str or Path
        Files, or folders of specdec_bench; ``.gz`` is decompressed.

    Returns
    -------
    Reading
        The records in the order of the files; at least one, each with at least one step. An answer with several
        samples (n > 1) or without a step is left out and listed.

    Raises
    ------
    UserError
        A file is missing, unreadable, contradicts itself or has an unknown format, or nothing was drafted.
    """
    texts, others = {}, []
    for path in map(Path, paths):
        found = path / "acceptance_rate.json" if path.is_dir() else path
        if path.is_dir() and not found.is_file():
            raise UserError(
                f"{path} is a folder without acceptance_rate.json of specdec_bench; name the engine's file."
            )
        start = read_text(found, START)
        if not start.strip():
            raise UserError(f"{found} is empty; give a file that the engine has written.")
        if _VLLM in start and not start.lstrip().startswith(("{", "[")):
            texts[str(found)] = read_text(found)
        else:
            others.append(found)
    if len(texts) > 2:
        raise UserError(f"{len(texts)} scrapes of vLLM's metrics are given; give two, the earlier first.")
    read: list[Read] = list(_of_scrapes(list(texts), list(texts.values()))) if texts else []
    for path in others:
        read += _of_file(path)
    records = [one for one in read if isinstance(one, AcceptanceRecord) and one.num_spec_steps]
    left_out = [one for one in read if isinstance(one, LeftOut)]
    left_out += [
        LeftOut(one.source, NOTHING) for one in read if isinstance(one, AcceptanceRecord) and not one.num_spec_steps
    ]
    if not records:
        why = f" ({left_out[0].source}: {left_out[0].reason})" if left_out else ""
        raise UserError(f"{', '.join(map(str, paths))}: nothing was drafted, so there is no acceptance to read{why}.")
    return Reading(tuple(records), tuple(left_out))


def _of_file(path: Path) -> Sequence[Read]:
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return [record for where, content in read_lines(path) for record in _of_request(where, content)]
    text = read_text(path)
    if text.lstrip().startswith(("{", "[")):
        content = parse(str(path), text)
        if isinstance(content, list) and any(
            isinstance(one, Mapping) and str(one.get("name", "")).startswith(_VLLM) for one in content
        ):
            return _vllm_metrics_list(str(path), content)
        if isinstance(content, list) and any(
            isinstance(one, Mapping) and "specDecodingStats" in one for one in content
        ):
            return _tensorrt(str(path), content)
        each = content if isinstance(content, list) else [content]
        labels = [f"{path}[{number}]" for number in range(len(each))] if isinstance(content, list) else [str(path)]
        return [record for label, one in zip(labels, each, strict=True) for record in _of_request(label, one)]
    if _LLAMA_LOG.search(text) or _LLAMA_EXAMPLE.search(text):
        return _llama_log(str(path), text)
    raise UserError(f"{path} has an unknown format; the known formats are {FORMATS}.")


def _of_request(where: str, content: Any) -> Sequence[Read]:
    """Return the records of one JSON object."""
    if isinstance(content, Mapping):
        for is_of, read in _REQUESTS:
            try:
                if not is_of(content):
                    continue
                choices = content.get("choices")
                if read is not _spec_bench and isinstance(choices, list) and len(choices) > 1:
                    return [LeftOut(where, SEVERAL)]
                marks = _marks(where, content)
                found = read(where, content)
                return [replace(one, **marks) if isinstance(one, AcceptanceRecord) else one for one in found]
            except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
                raise UserError(f"{where} is damaged: {error!r}; check that it is complete.") from error
    raise UserError(f"{where} has an unknown format; the known formats are {FORMATS}.")


_SAMPLING = {"greedy": "greedy", "probabilistic": "sampled"}
"""The ways of drafting, by vLLM's ``draft_sample_method``."""


def _marks(where: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the way of drafting and the acceptance rule that an answer states.

    Engines do not write them into an answer; a user may add vLLM's ``speculative_config`` or SGLang's thresholds.
    """
    marks: dict[str, Any] = {}
    config = content.get("speculative_config")
    if isinstance(config, Mapping):
        sampling = _word(where, config, "draft_sample_method") or "greedy"  # vLLM's default
        marks["draft_sampling"] = _SAMPLING.get(sampling, sampling)
        marks["verification"] = _word(where, config, "rejection_sample_method") or "standard"
    meta = content.get("meta_info")
    names = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
    for table in (content, meta if isinstance(meta, Mapping) else {}):
        given = [float(table[name]) for name in names if name in table]
        if given:
            marks["verification"] = "standard" if min(given) >= 1.0 else "threshold"
    return marks
