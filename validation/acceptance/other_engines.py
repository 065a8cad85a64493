"""Read counts of accepted drafts from the files of SGLang, llama.cpp and three benchmarks."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from validation.acceptance.counts import read_counts, read_field, read_histogram, read_optional, read_seconds
from validation.acceptance.record import NOTHING, AcceptanceRecord, LeftOut, of_totals, whole_length
from validation.errors import UserError


def sglang_meta(content: Mapping[str, Any]) -> Mapping[str, Any]:
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
    counts = None if histogram is None else read_histogram(where, "spec_correct_drafts_histogram", histogram)
    accepted = read_optional(where, meta, *names)
    if accepted is None and counts is not None:
        accepted = sum(i * count for i, count in counts.items())
    proposed = read_optional(where, meta, "spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
    more: dict[str, Any] = {"num_spec_tokens": whole_length(proposed, steps), "acceptance_histogram": counts}
    more["completion_tokens"] = read_optional(where, meta, "completion_tokens")
    more["seconds_per_token"] = read_seconds(meta, rate="decode_throughput")
    return [of_totals("sglang", where, (steps, None, read_field(where, {names[0]: accepted}, names[0])), **more)]


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
    steps, drafted = max(0, predicted - accepted - 1), read_field(where, timings, "draft_n")
    seconds = read_seconds(timings, milliseconds="predicted_ms", count=predicted)
    more: dict[str, Any] = {"completion_tokens": predicted, "seconds_per_token": seconds}
    return [of_totals("llama.cpp", where, (steps, drafted, accepted), **more)]


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
    steps, accepted = sum(histogram.values()), sum(i * count for i, count in histogram.items())
    return of_totals(engine, where, (steps, None, accepted), acceptance_histogram=histogram)
