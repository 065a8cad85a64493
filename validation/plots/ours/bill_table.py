"""Compute our Table VI: the bill of each decoding method beside the risk that its records hold.

The table is made of the counts that ``figures/studies/bills`` stored, with the fit of the built-in pair's published
trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.decoding.bills import DRAFTS, TextBill, bills_of
from validation.decoding.intervals import IntervalEstimate, ratio
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods import default_methods
from validation.decoding.methods.base import Method
from validation.decoding.methods.multi_draft import FixedLength
from validation.decoding.methods.quantized import CSqs
from validation.decoding.methods.registry import Fitted
from validation.decoding.records import GenerationRecord
from validation.models.pair import load_pair
from validation.plots.c_sqs.runs import some_prompts
from validation.plots.common.record import Numbers, Table, plain
from validation.plots.common.stored import stored

Values = NDArray[np.float64]

EXPERIMENT = "bills"
FIELDS = ("tokens", "risk", "skipped", "bill", "bound")
SAME = 1e-4
"""Risk and bill of a text that differ by no more are equal but for the rounding of logits in float32."""
LOSSLESS = (FixedLength(), CSqs())
"""Two methods whose law is the target model's, with several drafts and a bonus token; one of them quantises."""
SHOWS = "Recorded risk, the bill, and the bill with Δ for the distortion."
METHOD = "Each is a mean over tokens or texts, with a 95% interval by a bootstrap over the prompts."


@dataclass(frozen=True, slots=True)
class Scale:
    """Set the number of prompts, of new tokens, and of drafts for which a method decides at each position."""

    prompts: int = 10
    new_tokens: int = 24
    drafts: int = DRAFTS


@dataclass(frozen=True, slots=True)
class Counts:
    """Hold the sums of a method's texts, arrays of shape (texts,)."""

    method: str
    tokens: Values
    risk: Values
    skipped: Values
    bill: Values
    bound: Values


@dataclass(frozen=True, slots=True)
class MethodTexts:
    """Hold the records of a method, and the bill of each text."""

    method: str
    records: list[GenerationRecord]
    bills: list[TextBill]

    @property
    def counts(self) -> Counts:
        """Return the sums of each text."""
        risk, skipped = ([one.total(name) for one in self.records] for name in ("risk", "skipped"))
        columns = (
            [one.tokens for one in self.bills],
            risk,
            skipped,
            [one.bill for one in self.bills],
            [one.bound for one in self.bills],
        )
        return Counts(self.method, *(np.asarray(column, dtype=np.float64) for column in columns))


def is_lossy(method: Method) -> bool:
    """Return whether a method with a draft model may leave the target model's law."""
    skips = type(method).skip is not Method.skip
    return method.runs_draft and (skips or method.truncates or method.by_argmax)


def methods(fitted: Fitted) -> list[Method]:
    """Return all registered methods that may leave the target model's law, and two that do not."""
    return [*(method for method in default_methods(fitted, study="hlm") if is_lossy(method)), *LOSSLESS]


def decoded(fitted: Fitted, seed: int, scale: Scale | None = None) -> tuple[str, int, tuple[MethodTexts, ...]]:
    """Return the pair's name, V, and the texts and bills of each method on the built-in pair."""
    scale = scale or Scale()
    pair, prompts = load_pair(), some_prompts(scale.prompts)
    found = []
    for method in methods(fitted):
        records = decode(
            pair,
            prompts,
            method,
            new_tokens=scale.new_tokens,
            batch=len(prompts),
            seed=seed,
            times=PAPER_TIMES,
            risk=True,
        )
        bills = bills_of(pair, prompts, method, records, new_tokens=scale.new_tokens, drafts=scale.drafts, seed=seed)
        found.append(MethodTexts(method.name, records, bills))
    return pair.name, pair.vocabulary, tuple(found)


def plain_counts(pair: str, vocabulary: int, scale: Scale, found: Sequence[Counts]) -> dict[str, Any]:
    """Return the counts as plain values for JSON."""
    return {
        "pair": pair,
        "vocabulary": vocabulary,
        "scale": asdict(scale),
        "fields": list(FIELDS),
        "methods": [
            {
                "method": one.method,
                "texts": np.stack([getattr(one, name) for name in FIELDS], axis=1).tolist(),
            }
            for one in found
        ],
    }


def read_counts(value: dict[str, Any]) -> tuple[str, int, Scale, list[Counts]]:
    """Return what :func:`plain_counts` made plain."""
    found = [
        Counts(one["method"], *np.asarray(one["texts"], dtype=np.float64).reshape(-1, len(FIELDS)).T)
        for one in value["methods"]
    ]
    return value["pair"], value["vocabulary"], Scale(**value["scale"]), found


def _plain(estimate: IntervalEstimate) -> dict[str, Any]:
    return {key: plain(getattr(estimate, key), 5) for key in ("value", "low", "high")}


def _row(texts: Counts) -> dict[str, Any]:
    """Return the numbers of a method: means over tokens, and over texts."""
    tokens, risk, bill = texts.tokens, texts.risk, texts.bill
    ones = np.ones_like(tokens)
    return {
        "method": texts.method,
        "texts": len(tokens),
        "tokens": int(tokens.sum()),
        "skipped": plain(texts.skipped.sum() / tokens.sum(), 5),
        "risk": _plain(ratio(risk, tokens)),
        "bill": _plain(ratio(bill, tokens)),
        "difference": _plain(ratio(risk - bill, tokens)),
        "bound": _plain(ratio(texts.bound, tokens)),
        "risk_text": _plain(ratio(risk, ones)),
        "bill_text": _plain(ratio(bill, ones)),
        "risk_below": int(np.count_nonzero(risk < bill - SAME)),
    }


def _shown(value: dict[str, float], form: str) -> str:
    digits = int(form[-2])
    rounded = {key: round(number, digits) + 0.0 for key, number in value.items()}  # + 0.0: no -0
    ends = " to ".join(format(rounded[end], form) for end in ("low", "high"))
    return f"{rounded['value']:{form}} ({ends})" if value["low"] < value["high"] else f"{rounded['value']:{form}}"


def simulate(seed: int) -> Numbers:
    """Return risk and bill of each method, from the stored counts; the seed is that of the experiment."""
    value, record = stored(EXPERIMENT)
    return {**table(*read_counts(value)), **record}


def table(name: str, vocabulary: int, scale: Scale, found: Sequence[Counts]) -> Numbers:
    """Return risk and bill of each method from its counts."""
    rows = [_row(one) for one in found]
    heads = (
        "method",
        "tokens",
        "skipped",
        "risk recorded, a token",
        "bill, a token",
        "risk less bill, a token",
        "bill with Δ, a token",
        "bill, Σ of a text",
        "texts with risk below bill",
    )
    cells = tuple(
        (
            row["method"],
            f"{row['tokens']:,}",
            f"{row['skipped']:.1%}",
            _shown(row["risk"], ".4f"),
            _shown(row["bill"], ".4f"),
            _shown(row["difference"], "+.4f"),
            _shown(row["bound"], ".4f"),
            _shown(row["bill_text"], ".2f"),
            f"{row['risk_below']} of {row['texts']}",
        )
        for row in rows
    )
    return {
        "statistics": {"methods": rows, "drafts": scale.drafts, "new_tokens": scale.new_tokens},
        "tables": [Table("Risk as recorded and the bill", heads, cells).plain()],
        "basis": (
            f"on the pair {name}, V = {vocabulary:,}, {scale.prompts} prompts of {scale.new_tokens} new tokens for "
            "each method at temperature 1, with thresholds, line and k* fitted to the pair's trace"
        ),
    }


def message(numbers: Numbers) -> str:
    """Say how many texts record less than their bill."""
    rows = _costly(numbers)
    below, texts = (sum(row[key] for row in rows) for key in ("risk_below", "texts"))
    return (
        f"The risk that a text records equals its bill on average only: {below} of {texts} texts record less than "
        "their bill."
    )


def _costly(numbers: Numbers) -> list[dict[str, Any]]:
    """Return the rows of the methods whose bill is not 0."""
    return [row for row in numbers["statistics"]["methods"] if row["bill"]["value"] > 0]


def caption(numbers: Numbers) -> str:
    """Say what the recorded risk is, how the bill was measured, and for how many methods its sum is vacuous."""
    statistics = numbers["statistics"]
    rows = statistics["methods"]
    vacuous = sum(row["bill_text"]["value"] >= 1.0 for row in rows)
    names = [row["method"] for row in rows if row["bill"]["value"] == 0.0]
    free = " and ".join([", ".join(names[:-1]), *names[-1:]] if len(names) > 2 else names)
    costly = _costly(numbers)
    agree = sum(row["difference"]["low"] <= SAME and row["difference"]["high"] >= -SAME for row in costly)
    return (
        f"The interval of the mean difference between risk and bill holds 0 for {agree} of {len(costly)} methods. "
        "A record's risk is β_d of each skipped draft d and β_d TV(r, r̂⁽ᵈ⁾) of each sent one, for the one draft that "
        "was drawn. Its mean over the drafts of a position is the bill, so the risk of one text is no upper bound of "
        "its bill. The printed acceptance of flexspec records q_a (1 − p_a), which is the bill itself. The bill is "
        f"estimated without bias: at each position the method decides for {statistics['drafts']} drafts in proportion "
        "to q_d β_d, with the random numbers of the run. A bonus token costs nothing. Of 95% intervals, one in "
        "twenty misses 0 by chance; over all random numbers of small tabular models the two means are equal. "
        f"The bill is 0 for {free}. Its sum bounds the total variation of whole texts; for {vacuous} of {len(rows)} "
        f"methods it is 1 or more already at {statistics['new_tokens']} tokens, and so says nothing."
    )
