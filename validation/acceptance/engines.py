"""Read counts of accepted drafts from the files of each engine.

A reader takes the parsed content of a file and its name, and returns records. :func:`read_acceptance` chooses the
reader from the content. The readers are in :mod:`validation.acceptance.vllm` and
:mod:`validation.acceptance.other_engines`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from validation.acceptance.counts import read_word
from validation.acceptance.logs import LLAMA_LOG, LLAMA_STATISTICS, VLLM_LOG, llama_log, llama_statistics, vllm_log
from validation.acceptance.means import read_means
from validation.acceptance.other_engines import (
    llama_timings,
    sglang,
    sglang_meta,
    spec_bench,
    specdec_bench,
    tensorrt,
    tensorrt_request,
)
from validation.acceptance.record import NOTHING, AcceptanceRecord, LeftOut, Read
from validation.acceptance.vllm import (
    PREFIX,
    is_scrape,
    looks_like_metrics,
    of_answer,
    of_bench,
    of_metrics_list,
    of_scrapes,
    without_counters,
)
from validation.errors import UserError
from validation.input_files import parse, read_lines, read_text

SEVERAL = "it has several samples (n > 1), whose steps share a prompt"

START = 2**20
"""Number of first characters that show whether a file is a scrape of an engine's metrics."""

_REQUESTS: tuple[tuple[Callable[[Any], bool], Callable[[str, Any], Sequence[Read]]], ...] = (
    (lambda one: "spec_decode_acceptance" in one, of_answer),
    (lambda one: isinstance(one.get("metrics"), Mapping) and "speculative_decoding" in one["metrics"], of_answer),
    (lambda one: "spec_decode_num_drafts" in one, of_bench),
    (lambda one: "spec_verify_ct" in sglang_meta(one), sglang),
    (lambda one: "specDecodingStats" in one or tensorrt_request(one) is not None, tensorrt),
    (lambda one: isinstance(one.get("timings"), Mapping) and "predicted_n" in one["timings"], llama_timings),
    (lambda one: "Acceptance_Length_Histogram" in one, specdec_bench),
    (
        lambda one: (
            isinstance(one.get("choices"), list)
            and bool(one["choices"])
            and isinstance(one["choices"][0], Mapping)
            and "accept_lengths" in one["choices"][0]
        ),
        spec_bench,
    ),
)
"""A test of the content, and the reader for content that passes it."""

_TEXTS: tuple[tuple[re.Pattern[str], Callable[[str, str], Sequence[Read]]], ...] = (
    (VLLM_LOG, vllm_log),
    (LLAMA_STATISTICS, llama_statistics),
    (LLAMA_LOG, llama_log),
)
"""What a line of a log has, and the reader for logs that have such a line."""

FORMATS = (
    "vLLM's log, /metrics (one scrape, or two), get_metrics, answers, bench JSON; SGLang's meta_info; TensorRT-LLM's "
    "iteration statistics; llama.cpp's /metrics, answers, log; specdec_bench's acceptance_rate.json; Spec-Bench's "
    "JSONL; AIPerf's profile_export.jsonl"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Records of all files, answers without a record, and the remarks of the readers."""

    records: tuple[AcceptanceRecord, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()


def read_acceptance(*paths: str | Path) -> Reading:
    """Return the records of the files; two scrapes of ``/metrics`` give one record of their difference."""
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
        if is_scrape(start):
            texts[str(found)] = read_text(found)
        else:
            others.append(found)
    if len(texts) > 2:
        raise UserError(f"{len(texts)} scrapes of metrics are given; give two, the earlier first.")
    read: list[Read] = list(of_scrapes(list(texts), list(texts.values()))) if texts else []
    for path in others:
        read += _of_file(path)
    records = [one for one in read if isinstance(one, AcceptanceRecord) and one.num_spec_steps]
    left_out = [one for one in read if isinstance(one, LeftOut)]
    left_out += [
        LeftOut(one.source, NOTHING) for one in read if isinstance(one, AcceptanceRecord) and not one.num_spec_steps
    ]
    if not records:
        first = f"{left_out[0].source}: {left_out[0].reason}" if left_out else "nothing was drafted"
        raise UserError(f"{', '.join(map(str, paths))}: there is no acceptance to read ({first}).")
    return Reading(tuple(records), tuple(left_out), tuple(one for one in read if isinstance(one, str)))


def _of_file(path: Path) -> Sequence[Read]:
    named_lines = path.name.endswith((".jsonl", ".jsonl.gz"))
    text = "" if named_lines else read_text(path)
    lines = named_lines or (text.lstrip().startswith("{") and "\n{" in text)
    if lines or not text.lstrip().startswith(("{", "[")):
        for pattern, read in _TEXTS:
            if pattern.search(text):
                return read(str(path), text)
    if lines:
        return [record for where, content in read_lines(path) for record in _of_request(where, content)]
    if text.lstrip().startswith(("{", "[")):
        content = parse(str(path), text)
        if isinstance(content, list) and any(
            isinstance(one, Mapping) and str(one.get("name", "")).startswith(PREFIX) for one in content
        ):
            return of_metrics_list(str(path), content)
        if isinstance(content, list) and any(
            isinstance(one, Mapping) and "specDecodingStats" in one for one in content
        ):
            return tensorrt(str(path), content)
        each = content if isinstance(content, list) else [content]
        labels = [f"{path}[{number}]" for number in range(len(each))] if isinstance(content, list) else [str(path)]
        return [record for label, one in zip(labels, each, strict=True) for record in _of_request(label, one)]
    if read_means(path) is not None:
        raise UserError(f"{path} has means without counts; `hlm acceptance` alone reads them, and shows them as such.")
    if looks_like_metrics(text):
        raise without_counters(str(path), text)
    raise UserError(f"{path} has an unknown format; the known formats are {FORMATS}.")


def _of_request(where: str, content: Any) -> Sequence[Read]:
    if isinstance(content, Mapping):
        for is_of, read in _REQUESTS:
            try:
                if not is_of(content):
                    continue
                choices = content.get("choices")
                if read is not spec_bench and isinstance(choices, list) and len(choices) > 1:
                    return [LeftOut(where, SEVERAL)]
                marks = _marks(where, content)
                found = read(where, content)
                return [replace(one, **marks) if isinstance(one, AcceptanceRecord) else one for one in found]
            except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
                raise UserError(f"{where} is damaged: {error!r}; check that it is complete.") from error
    raise UserError(f"{where} has an unknown format; the known formats are {FORMATS}.")


_SAMPLING = {"greedy": "greedy", "probabilistic": "sampled"}
"""The ways of drafting, by vLLM's ``draft_sample_method``."""

_COPYING = ("ngram", "ngram_gpu", "suffix")
"""Methods of vLLM whose drafts are copied from the text."""


def _marks(where: str, content: Mapping[str, Any]) -> dict[str, Any]:
    marks: dict[str, Any] = {}
    config = content.get("speculative_config")
    if isinstance(config, Mapping):
        sampling = read_word(where, config, "draft_sample_method") or "greedy"  # vLLM's default
        marks["draft_sampling"] = _SAMPLING.get(sampling, sampling)
        marks["verification"] = read_word(where, config, "rejection_sample_method") or "standard"
        if read_word(where, config, "method") in _COPYING:
            marks["copied"] = True
    names = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
    for table in (content, sglang_meta(content)):
        given = [float(table[name]) for name in names if name in table]
        if given:
            marks["verification"] = "standard" if min(given) >= 1.0 else "threshold"
    return marks
