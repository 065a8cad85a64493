"""Read counts of accepted drafts from TensorRT-LLM: answers, iteration statistics as JSON or as text, evaluation logs.

An iteration's ``specDecodingStats`` are those of all its requests, one step each. A log has them as JSON or as a Python
dictionary, behind a prefix or alone on a line.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from validation.acceptance.counts import read_field
from validation.acceptance.record import CUT, AcceptanceRecord, LeftOut, Read, of_totals, whole_length
from validation.acceptance.vllm import of_answer
from validation.errors import UserError

TENSORRT_LOG = re.compile(r"specDecodingStats|Spec-dec stats: A[LR] |\biter = \d+, .*\bstates = \{'num_ctx_requests'")
_STATISTICS = re.compile(r"""["']specDecodingStats["']\s*:\s*(?:\{([^{}]*)\}|null|None)""")
_COUNT = re.compile(r"""["'](\w+)["']\s*:\s*(-?\d[\d.]*(?:[eE][+-]?\d+)?)""")
_EVALUATED = re.compile(r"stats: AL \([^)]*\) ([\d.]+).*(?:\n.*stats: AR \([^)]*\) (\d+)/(\d+))?")
NAMES = ("numRequestsWithDraftTokens", "numDraftTokens", "numAcceptedTokens")
NO_COUNTS = (
    "of TensorRT-LLM has no accepted drafts: give what trtllm-bench --iteration_log writes, or /prometheus/metrics"
)


def tensorrt_request(content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return TensorRT-LLM's counts of one answer, of its first choice or its performance metrics, in vLLM's names."""
    choices = content.get("choices")
    for table in (choices[0] if isinstance(choices, list) and choices else None, content.get("request_perf_metrics")):
        counts = table.get("speculative_decoding") if isinstance(table, Mapping) else None
        if isinstance(counts, Mapping) and "total_accepted_draft_tokens" in counts:
            accepted, drafted = counts["total_accepted_draft_tokens"], counts.get("total_draft_tokens")
            named = {"num_accepted_draft_tokens": accepted, "num_draft_tokens": drafted, "engine": "tensorrt-llm"}
            return {"usage": content.get("usage"), "metrics": {"speculative_decoding": {**counts, **named}}}
    return None


def is_iteration(content: Any) -> bool:
    """Return whether a JSON object is of one iteration; the first ones of a run may have no drafts."""
    return isinstance(content, Mapping) and ("specDecodingStats" in content or "iterLatencyMS" in content)


def tensorrt(path: str, content: Any) -> Sequence[Read]:
    """Return the sum over the iterations of TensorRT-LLM's statistics, or the record of one request."""
    if isinstance(content, Mapping) and (answer := tensorrt_request(content)) is not None:
        return of_answer(path, answer)
    return _sum(path, [row for row in (content if isinstance(content, list) else [content]) if is_iteration(row)])


def _sum(path: str, rows: Sequence[Mapping[str, Any]]) -> list[Read]:
    """Return the sum of iterations. Ranks of attention data parallelism may repeat the counts of the first one."""
    by_rank: dict[Any, list[tuple[int, ...]]] = defaultdict(list)
    for number, row in enumerate(rows):
        stats = row.get("specDecodingStats") or {}
        if not isinstance(stats, Mapping):
            raise UserError(f"{path}[{number}]: specDecodingStats is {str(stats)[:40]!r}; a table of counts is needed.")
        if any(stats.values()):
            counts = tuple(read_field(f"{path}[{number}]", stats, name) for name in NAMES)
            by_rank[row.get("attentionDpRank")].append(counts)
    ranks = sorted(by_rank.values(), key=len, reverse=True)  # of a log that is cut, ranks may lack a row
    repeat = len(ranks) > 1 and all(rank == ranks[0][: len(rank)] and len(ranks[0]) - len(rank) < 2 for rank in ranks)
    table = np.array([(0, 0, 0), *(counts for rank in ranks[: 1 if repeat else None] for counts in rank)])
    how = "repeat one another's counts, which are counted once" if repeat else "are added"
    notes = [f"{path}: {len(ranks)} ranks {how}."] if len(ranks) > 1 else []
    return [_record(path, table.sum(axis=0).tolist()), *notes]


def _record(where: str, totals: Sequence[int]) -> AcceptanceRecord:
    return of_totals("tensorrt-llm", where, totals, num_spec_tokens=whole_length(totals[1], totals[0]))


def tensorrt_log(path: str, text: str) -> list[Read]:
    """Return the sum of the iterations of a log, and a record of each evaluation (TLLM_EVAL_SPEC_STATS)."""
    rows, read, lines = list[dict[str, Any]](), list[Read](), text.splitlines()
    for number, line in enumerate(lines, start=1):
        if (match := _STATISTICS.search(line)) is not None:
            about, counts = (dict(_COUNT.findall(part)) for part in (line, match[1] or ""))
            rows.append(about | {"specDecodingStats": {name: float(value) for name, value in counts.items()}})
        elif "specDecodingStats" in line and number == len(lines) and not text.endswith("\n"):
            read.append(LeftOut(f"{path}, line {number}", CUT))
        elif "specDecodingStats" in line:
            raise UserError(f"{path}, line {number}: specDecodingStats has no counts in braces; the line is damaged.")
    read = [*(_sum(path, rows) if rows else ()), *read]
    for number, (mean, *counts) in enumerate(_EVALUATED.findall(text), start=1):
        where, accepted = f"{path}, evaluation {number}", float(mean) - 1.0
        if not all(counts) or accepted < 0.001:
            raise UserError(f"{where} {NO_COUNTS}.")
        taken, drafted = map(int, counts)
        fewest, most = (taken / (accepted + half) for half in (0.0005, -0.0005))
        whole = [steps for steps in range(math.ceil(fewest), int(most) + 1) if steps and drafted % steps == 0]
        read.append(_record(where, (whole[0] if len(whole) == 1 else round(taken / accepted), drafted, taken)))
        read.append(f"{where}: steps are accepted drafts over AL - 1, {fewest:,.0f} to {most:,.0f} by its digits.")
    if not read:
        raise UserError(f"{path} {NO_COUNTS}.")
    return read
