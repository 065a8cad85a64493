"""Read counts of accepted drafts from the files of SGLang, TensorRT-LLM, llama.cpp and three benchmarks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from validation.acceptance.counts import read_counts, read_field, read_histogram, read_optional, read_seconds
from validation.acceptance.record import NOTHING, AcceptanceRecord, LeftOut, Read
from validation.acceptance.vllm import of_answer
from validation.errors import UserError


def sglang_meta(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the counts of an answer of SGLang."""
    choices, extension = content.get("choices"), content.get("sglext")
    if isinstance(extension, Mapping) and isinstance(extension.get("spec_tokens_details"), Mapping):
        usage = content.get("usage")
        return {**(usage if isinstance(usage, Mapping) else {}), **extension["spec_tokens_details"]}
    if "meta_info" not in content and isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        content = choices[0]
    meta = content.get("meta_info", content)
    return meta if isinstance(meta, Mapping) else {}


def sglang(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of SGLang's ``meta_info``.

    Its number of proposed drafts is steps times the configured length, so that length alone is taken from it.
    """
    meta = sglang_meta(content)
    histogram = meta.get("spec_correct_drafts_histogram") or meta.get("spec_accept_histogram")
    names = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
    steps = read_field(where, meta, "spec_verify_ct")
    found = None if histogram is None else read_histogram(where, "spec_correct_drafts_histogram", histogram)
    accepted = read_optional(where, meta, *names)
    if accepted is None and found is not None:
        accepted = sum(i * count for i, count in found.items())
    proposed = read_optional(where, meta, "spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
    return [
        AcceptanceRecord(
            engine="sglang",
            source=where,
            num_spec_steps=steps,
            num_spec_tokens=_configured(proposed, steps),
            num_accepted_draft_tokens=read_field(where, {names[0]: accepted}, names[0]),
            completion_tokens=read_optional(where, meta, "completion_tokens"),
            acceptance_histogram=found,
            seconds_per_token=read_seconds(meta, rate="decode_throughput"),
        )
    ]


def _configured(drafted: int | None, steps: int) -> int | None:
    return drafted // steps if drafted and steps and drafted % steps == 0 else None


def tensorrt_request(content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return TensorRT-LLM's counts of one answer, of its first choice or its performance metrics, in vLLM's names."""
    choices = content.get("choices")
    for table in (choices[0] if isinstance(choices, list) and choices else None, content.get("request_perf_metrics")):
        found = table.get("speculative_decoding") if isinstance(table, Mapping) else None
        if isinstance(found, Mapping) and "total_accepted_draft_tokens" in found:
            accepted, drafted = found["total_accepted_draft_tokens"], found.get("total_draft_tokens")
            named = {"num_accepted_draft_tokens": accepted, "num_draft_tokens": drafted, "engine": "tensorrt-llm"}
            return {"usage": content.get("usage"), "metrics": {"speculative_decoding": {**found, **named}}}
    return None


def tensorrt(path: str, content: Any) -> Sequence[Read]:
    """Return the sum over the iterations of TensorRT-LLM's statistics, or the record of one request."""
    if isinstance(content, Mapping):
        if (found := tensorrt_request(content)) is not None:
            return of_answer(path, found)
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
            num_spec_tokens=_configured(totals["numDraftTokens"], totals["numRequestsWithDraftTokens"]),
            num_accepted_draft_tokens=totals["numAcceptedTokens"],
        )
    ]


def llama_timings(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord | LeftOut]:
    """Return the record of an answer of llama.cpp's server.

    The pass over the prompt emits the first token; each later step emits its accepted drafts and one more token.
    """
    timings = content["timings"]
    if "draft_n" not in timings:
        return [LeftOut(where, NOTHING)]
    accepted, predicted = read_field(where, timings, "draft_n_accepted"), read_field(where, timings, "predicted_n")
    if accepted > predicted:
        raise UserError(f"{where}: {accepted:,} accepted drafts in {predicted:,} tokens; the file is damaged.")
    if accepted >= predicted - 1 and accepted:
        return [LeftOut(where, f"{predicted:,} tokens with {accepted:,} accepted drafts leave no token for a step")]
    return [
        AcceptanceRecord(
            engine="llama.cpp",
            source=where,
            num_spec_steps=max(0, predicted - accepted - 1),
            num_draft_tokens=read_field(where, timings, "draft_n"),
            num_accepted_draft_tokens=accepted,
            completion_tokens=predicted,
            seconds_per_token=read_seconds(timings, milliseconds="predicted_ms", count=predicted),
        )
    ]


def specdec_bench(path: str, content: Any) -> list[AcceptanceRecord]:
    """Return the records of ``acceptance_rate.json``; its lengths count the target model's own token."""
    records = []
    for number, run in enumerate(content if isinstance(content, list) else [content]):
        where = f"{path}[{number}]"
        lengths = read_histogram(where, "Acceptance_Length_Histogram", run.get("Acceptance_Length_Histogram"))
        records.append(_of_lengths("specdec_bench", where, lengths))
    return records


def spec_bench(where: str, content: Mapping[str, Any]) -> list[AcceptanceRecord]:
    """Return the record of a question of Spec-Bench; ``accept_lengths`` counts the target model's own token."""
    choices = [read_counts(where, "accept_lengths", choice.get("accept_lengths")) for choice in content["choices"]]
    lengths = [length for steps in choices for length in steps]
    record = _of_lengths("spec-bench", where, Counter(lengths))
    return [replace(record, per_step_accepted=tuple(length - 1 for length in lengths))]


def _of_lengths(engine: str, where: str, lengths: Mapping[int, int]) -> AcceptanceRecord:
    if 0 in lengths:
        raise UserError(f"{where}: a step of length 0; every step emits a token at least.")
    histogram = {length - 1: count for length, count in lengths.items()}
    return AcceptanceRecord(
        engine=engine,
        source=where,
        num_spec_steps=sum(histogram.values()),
        num_accepted_draft_tokens=sum(i * count for i, count in histogram.items()),
        acceptance_histogram=histogram,
    )
