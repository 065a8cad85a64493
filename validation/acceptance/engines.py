"""Read counts of accepted drafts from the files of each engine.

A reader takes the parsed content of a file and its name, and returns records. :func:`read_acceptance` chooses the
reader from the content. The readers are in :mod:`validation.acceptance.vllm` and
:mod:`validation.acceptance.other_engines`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib import error, request

from validation.acceptance import logs, other_engines, tensorrt, vllm
from validation.acceptance.counts import read_word
from validation.acceptance.means import read_means
from validation.acceptance.record import CUT, NOTHING, AcceptanceRecord, LeftOut, Read
from validation.errors import UserError
from validation.input_files import parse, read_text, text_lines

SEVERAL = "it has several samples (n > 1), whose steps share a prompt"

START = 2**20
"""Number of first characters that show whether a file is a scrape of an engine's metrics."""
LARGEST_SCRAPE, ANSWER_SECONDS = 2**26, 30.0
"""Most bytes that a server's metrics may have, and longest wait for them."""


def _choice(row: Any) -> Any:
    return (row.get("choices") or [{}])[0]


_REQUESTS: tuple[tuple[Callable[[Any], bool], Callable[[str, Any], Sequence[Read]]], ...] = (
    (lambda row: "spec_decode_acceptance" in row or "speculative_decoding_stats" in _choice(row), vllm.of_answer),
    (lambda row: isinstance(row.get("metrics"), Mapping) and "speculative_decoding" in row["metrics"], vllm.of_answer),
    (lambda row: "spec_decode_num_drafts" in row, vllm.of_bench),
    (lambda row: "spec_verify_ct" in other_engines.sglang_meta(row), other_engines.sglang),
    (lambda row: tensorrt.is_iteration(row) or tensorrt.tensorrt_request(row) is not None, tensorrt.tensorrt),
    (lambda row: "predicted_n" in (row.get("timings") or ()), other_engines.llama_timings),
    (lambda row: "Acceptance_Length_Histogram" in row, other_engines.specdec_bench),
    (lambda row: "accept_lengths" in _choice(row), other_engines.spec_bench),
)
"""A test of the content, and the reader for content that passes it."""

_TEXTS: tuple[tuple[re.Pattern[str], Callable[[str, str], Sequence[Read]]], ...] = (
    (logs.VLLM_LOG, logs.vllm_log),
    (logs.VLLM_OLD_LOG, logs.vllm_old_log),
    (logs.LLAMA_STATISTICS, logs.llama_statistics),
    (logs.LLAMA_LOG, logs.llama_log),
    (logs.LLAMA_EXAMPLE, logs.llama_example),
    (tensorrt.TENSORRT_LOG, tensorrt.tensorrt_log),
)
"""What a line of a log has, and the reader for logs that have such a line."""

FORMATS = (
    "vLLM's log, /metrics (one scrape, or two), get_metrics, answers, bench JSON; SGLang's meta_info; TensorRT-LLM's "
    "iterations, log, answers; llama.cpp's /metrics, answers, log; specdec_bench's acceptance_rate.json; Spec-Bench's "
    "JSONL; AIPerf's profile_export.jsonl"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """Records of all files, answers without a record, and the remarks of the readers."""

    records: tuple[AcceptanceRecord, ...]
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()


def read_acceptance(*paths: str | Path) -> Reading:
    """Return the records of files, or of servers' ``/metrics``; two scrapes give one record of their difference."""
    texts, others = {}, []
    for given in paths:
        if str(given).startswith(("http://", "https://")):
            texts[str(given)] = _scraped(str(given))
            continue
        path = Path(given)
        file = path / "acceptance_rate.json" if path.is_dir() else path
        if path.is_dir() and not file.is_file():
            raise UserError(
                f"{path} is a folder without acceptance_rate.json of specdec_bench; name the engine's file."
            )
        if file in others or str(file) in texts:
            raise UserError(f"{file} is given twice; its counts would count twice.")
        start = read_text(file, START)
        if not start.strip():
            raise UserError(f"{file} is empty; give a file that the engine has written.")
        if vllm.is_scrape(start):
            texts[str(file)] = read_text(file)
        else:
            others.append(file)
    if len(texts) > 2:
        raise UserError(f"{len(texts)} scrapes of metrics are given; give two, the earlier first.")
    read: list[Read] = list(vllm.of_scrapes(list(texts), list(texts.values()))) if texts else []
    for path in others:
        read += _of_file(path)
    recorded = [item for item in read if isinstance(item, AcceptanceRecord)]
    records = [record for record in recorded if record.num_spec_steps]
    left_out = [item for item in read if isinstance(item, LeftOut)]
    left_out += [LeftOut(record.source, NOTHING) for record in recorded if not record.num_spec_steps]
    if not records:
        first = f"{left_out[0].source}: {left_out[0].reason}" if left_out else "nothing was drafted"
        raise UserError(f"{', '.join(map(str, paths))}: there is no acceptance to read ({first}).")
    return Reading(tuple(records), tuple(left_out), tuple(item for item in read if isinstance(item, str)))


def _scraped(address: str) -> str:
    try:
        with request.build_opener(request.ProxyHandler({})).open(address, timeout=ANSWER_SECONDS) as answer:
            text: str = answer.read(LARGEST_SCRAPE).decode(errors="replace")
    except (OSError, HTTPException, ValueError) as failed:
        if isinstance(failed, error.HTTPError):
            failed.close()
        why = str(getattr(getattr(failed, "reason", None), "strerror", None) or failed).lower()
        raise UserError(f"{address} gave no answer ({why}); start the server, or correct the address.") from failed
    if not vllm.is_scrape(text):
        raise vllm.without_counters(address, text)
    return text


def _of_file(path: Path) -> Sequence[Read]:
    named_lines = path.name.endswith((".jsonl", ".jsonl.gz"))
    text = read_text(path, START if named_lines else None)
    first = text.lstrip()[:2]
    lines = named_lines or (first.startswith("{") and ("\n{" in text or first == "{'"))
    plain = re.match(r"\s*(\{|\[\s*[{\]])", text) is None  # a line of a log may begin with [
    if lines or plain:
        for pattern, read in _TEXTS:
            if pattern.search(text):
                return read(str(path), read_text(path) if named_lines else text)
    if lines:
        return _of_lines(path)
    if not plain:
        content = parse(str(path), text)
        if not isinstance(content, list):
            return _of_request(str(path), content)
        if any(isinstance(row, Mapping) and str(row.get("name", "")).startswith(vllm.PREFIX) for row in content):
            return vllm.of_metrics_list(str(path), content)
        if any(isinstance(row, Mapping) and "specDecodingStats" in row for row in content):
            return tensorrt.tensorrt(str(path), content)
        return [record for number, row in enumerate(content) for record in _of_request(f"{path}[{number}]", row)]
    if read_means(path) is not None:
        raise UserError(f"{path} has means without counts; `hlm acceptance` alone reads them, and shows them as such.")
    if text.lstrip().startswith(("<", "# HELP", "# TYPE")) or re.search("^(vllm|sglang|llamacpp):", text, re.MULTILINE):
        raise vllm.without_counters(str(path), text)
    if re.search("Avg prompt throughput|Decode batch|eval time =", text):
        cure = "vLLM needs --speculative-config, and no --disable-log-stats"
        raise UserError(f"{path} is a log without lines of drafts: nothing was drafted, or statistics are off; {cure}.")
    raise UserError(f"{path} has an unknown format; the known formats are {FORMATS}.")


def _of_lines(path: Path) -> list[Read]:
    """Return the records of JSON lines; a last line that is cut off is left out, as of a run that was stopped."""
    records, cut = list[Read](), list[UserError]()
    for where, line in text_lines(path):
        if cut:
            raise cut[0]
        if line.strip():
            try:
                content = parse(where, line)
            except UserError as error:
                cut.append(error)
            else:
                records += _of_request(where, content)
    return [*records, *(LeftOut(where, CUT) for _ in cut)]


def _of_request(where: str, content: Any) -> Sequence[Read]:
    for is_of, read in _REQUESTS if isinstance(content, Mapping) else ():
        try:
            if not is_of(content):
                continue
            choices = content.get("choices")
            if read is not other_engines.spec_bench and isinstance(choices, list) and len(choices) > 1:
                return [LeftOut(where, SEVERAL)]
            marks = _marks(where, content)
            records = read(where, content)
            return [replace(record, **marks) if isinstance(record, AcceptanceRecord) else record for record in records]
        except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
            raise UserError(f"{where} is damaged: {error!r}; check that it is complete.") from error
    raise UserError(f"{where} has an unknown format; the known formats are {FORMATS}.")


_SAMPLING = {"greedy": "greedy", "probabilistic": "sampled"}
"""The ways of drafting, by vLLM's ``draft_sample_method``."""

_COPYING = ("ngram", "ngram_gpu", "suffix")
"""Methods of vLLM whose drafts are copied from the text."""


def _marks(where: str, content: Mapping[str, Any]) -> dict[str, Any]:
    marks: dict[str, Any] = {}
    config, about = content.get("speculative_config"), content.get("metadata")
    kinds = content.get("category"), about.get("source_kind") if isinstance(about, Mapping) else None
    if named := [kind for kind in kinds if isinstance(kind, str) and kind]:
        marks["category"] = named[-1][:40]
    if isinstance(config, Mapping):
        sampling = read_word(where, config, "draft_sample_method") or "greedy"  # vLLM's default
        marks["draft_sampling"] = _SAMPLING.get(sampling, sampling)
        marks["verification"] = read_word(where, config, "rejection_sample_method") or "standard"
        if read_word(where, config, "method") in _COPYING:
            marks["copied"] = True
    names = ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")
    for table in (content, other_engines.sglang_meta(content)):
        if given := [float(table[name]) for name in names if name in table]:
            marks["verification"] = "standard" if min(given) >= 1.0 else "threshold"
    return marks
