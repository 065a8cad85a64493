"""Read counts of accepted drafts from the files of SGLang, TensorRT-LLM, llama.cpp and three benchmarks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from validation.acceptance.counts import (
    read_counts,
    read_field,
    read_histogram,
    read_optional,
)
from validation.acceptance.record import AcceptanceRecord
from validation.errors import UserError


def sglang_meta(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the ``meta_info`` of an answer of ``/generate``, or of the first choice of an OpenAI-compatible answer."""
    choices = content.get("choices")
    if "meta_info" not in content and isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        content = choices[0]
    meta = content.get("meta_info", content)
    return meta if isinstance(meta, Mapping) else {}


def sglang(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of SGLang's ``meta_info``.

    Its number of proposed drafts is the number of steps times the configured length, even if fewer were drafted. Its
    acceptance length counts the token of the prefill. Both are left out.
    """
    meta = sglang_meta(content)
    histogram = meta.get("spec_correct_drafts_histogram") or meta.get("spec_accept_histogram")
    names = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
    steps = read_field(where, meta, "spec_verify_ct")
    found = None if histogram is None else read_histogram(where, "spec_correct_drafts_histogram", histogram)
    accepted = read_optional(where, meta, *names)
    if accepted is None and found is not None:
        accepted = sum(i * count for i, count in found.items())
    return [
        AcceptanceRecord(
            engine="sglang",
            source=where,
            num_spec_steps=steps,
            num_accepted_draft_tokens=read_field(where, {names[0]: accepted}, names[0]),
            completion_tokens=read_optional(where, meta, "completion_tokens"),
            acceptance_histogram=found,
        )
    ]


def tensorrt(path: str, content: Any) -> list[AcceptanceRecord]:
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
            totals[name] += read_field(f"{path}[{number}]", found, name) if found else 0
    return [
        AcceptanceRecord(
            engine="tensorrt-llm",
            source=path,
            num_spec_steps=totals["numRequestsWithDraftTokens"],
            num_draft_tokens=totals["numDraftTokens"],
            num_accepted_draft_tokens=totals["numAcceptedTokens"],
        )
    ]


def llama_timings(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of an answer of llama.cpp's server; a step emits its accepted drafts and one more token."""
    timings = content["timings"]
    accepted, predicted = read_field(where, timings, "draft_n_accepted"), read_field(where, timings, "predicted_n")
    if accepted > predicted:
        raise UserError(f"{where}: {accepted:,} accepted drafts in {predicted:,} tokens; the file is damaged.")
    return [
        AcceptanceRecord(
            engine="llama.cpp",
            source=where,
            num_spec_steps=predicted - accepted,
            num_draft_tokens=read_field(where, timings, "draft_n"),
            num_accepted_draft_tokens=accepted,
            completion_tokens=predicted,
        )
    ]


LLAMA_LOG = re.compile(
    r"draft acceptance\s*=\s*\S+\s*\(\s*(?P<accepted>\d+) accepted /\s*(?P<drafted>\d+) generated\)"
    r"(?:.*mean (?:acceptance length|len)\s*=\s*(?P<length>[\d.]+))?"
)
LLAMA_EXAMPLE = re.compile(r"^\s*n_(drafted|accept|predict)\s*=\s*(\d+)", re.MULTILINE)


def llama_log(path: str, text: str) -> list[AcceptanceRecord]:
    """Return the records of llama.cpp's log lines; the log rounds its rates, so only the integers are used."""
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        if (found := LLAMA_LOG.search(line)) is None:
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
        totals = {name: int(value) for name, value in LLAMA_EXAMPLE.findall(text)}
        accepted = read_field(path, totals, "accept")
        records.append(
            AcceptanceRecord(
                engine="llama.cpp",
                source=path,
                num_spec_steps=max(0, read_field(path, totals, "predict") - accepted),
                num_draft_tokens=read_field(path, totals, "drafted"),
                num_accepted_draft_tokens=accepted,
            )
        )
    return records


def specdec_bench(path: str, content: Any) -> list[AcceptanceRecord]:
    """Return the records of ``acceptance_rate.json``; its lengths count the target model's own token."""
    records = []
    for number, run in enumerate(content if isinstance(content, list) else [content]):
        where = f"{path}[{number}]"
        lengths = read_histogram(where, "Acceptance_Length_Histogram", run.get("Acceptance_Length_Histogram"))
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


def simulator(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return a record for each drafter of a request of SpecDecode-Bench's simulator.

    ``acc_len[i]`` is the number of tokens of a step that begins at token i; the next step begins where it ends.
    """
    records = []
    for key in sorted(name for name in content if name.startswith("acc_")):
        lengths = read_counts(where, f"{key}.acc_len", content[key].get("acc_len"))
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
                draft_sampling="greedy" if key == "acc_ngram" else None,
                copied=key == "acc_ngram",
            )
        )
    return records


def spec_bench(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of a question of Spec-Bench; ``accept_lengths`` counts the target model's own token."""
    steps: list[int] = []
    for choice in content["choices"]:
        lengths = read_counts(where, "accept_lengths", choice.get("accept_lengths"))
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
