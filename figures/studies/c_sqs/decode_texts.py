"""Decode the texts of c-sqs's figures, and store their counts: ``decode_texts.py WORK``."""

import json
import pickle
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from figures.studies.kit import SHELF, given, record
from validation.collection.prompts import Prompt, builtin_prompts, read_prompts
from validation.decoding.kv_cache import CachedModel
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods import quantized
from validation.decoding.methods.quantized import Sqs
from validation.decoding.records import GenerationRecord
from validation.decoding.session import Outcome, Session, Step
from validation.errors import UserError
from validation.models.pair import Pair, load_pair
from validation.plots.c_sqs.texts import DRAFT_BITS, EXPERIMENT, MIDDLE_SIZE, MIDDLE_THRESHOLD, PATH, SIZES, SUMS
from validation.plots.c_sqs.texts import THRESHOLDS as TAUS
from validation.plots.common.stored import ROOT
from validation.provenance import commit_of_code

STORED = ROOT / "validation" / "plots" / "c_sqs" / "texts.json"
SEED, PROMPTS, NEW_TOKENS, LONG_TOKENS = 1, 20, 32, 160
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
FEW_PROMPTS, FEW_TOKENS, FEW_TEMPERATURES = 6, 16, (0.0, 1.0)  # of a named pair
WIDTHS, REPEATS, PREFIX = (1, 4, 8, 16, 32), 9, 64  # new tokens of the timed passes, repeats, prefix length


class Bounded(Sqs):
    """Record the published rounding term K/(4ℓ) of each verified draft; the records hold the sharp term."""

    def begin(self, session: Session) -> None:
        super().begin(session)
        self.rounding = np.zeros(session.sequences)
        self._drafted: list[list[float]] = [[] for _ in range(session.sequences)]

    def supports(self, step: Step) -> tuple[Any, Any]:
        support, resolution = super().supports(step)
        units = np.asarray(resolution if isinstance(resolution, int) else resolution.cpu(), dtype=np.float64)
        self._latest = support.sum(dim=-1).cpu().numpy() / (4.0 * units)  # c-sqs (20)
        return support, resolution

    def taken(self, step: Step, full: np.ndarray[Any, Any]) -> None:
        super().taken(step, full)
        for i in np.flatnonzero(~full):
            self._drafted[step.sequences[i]].append(float(self._latest[i]))

    def learn(self, outcome: Outcome) -> Any:
        looked_at = outcome.accepted + outcome.rejected
        self.rounding[outcome.sequence] += sum(self._drafted[outcome.sequence][:looked_at])
        self._drafted[outcome.sequence] = []
        return super().learn(outcome)


def bounded(kind: type[Sqs], *sizes: Any, **settings: Any) -> Any:
    """Return a maker of a method that records the published rounding term."""
    return partial(type(kind.__name__, (Bounded, kind), {}), *sizes, **settings)


DENSE, TOP_K, CONFORMAL, ALLOCATED, BUDGETED, GUARDED = (
    partial(bounded, getattr(quantized, name))
    for name in ("DenseQs", "KSqs", "CSqs", "AllocatedSqs", "BudgetedSqs", "BudgetedCSqs")
)
METHODS = (
    DENSE(),
    *(TOP_K(size) for size in SIZES),
    *(CONFORMAL(tau) for tau in TAUS),
    *(CONFORMAL(tau, learning_rate=0.0) for tau in TAUS),
    CONFORMAL(MIDDLE_THRESHOLD, printed=True),
    ALLOCATED(DRAFT_BITS),
    BUDGETED(),
    GUARDED(MIDDLE_THRESHOLD),
    DENSE(by_bytes=True),
    TOP_K(MIDDLE_SIZE, by_bytes=True),
    CONFORMAL(MIDDLE_THRESHOLD, by_bytes=True),
    ALLOCATED(DRAFT_BITS, by_bytes=True),
)
LONG = (
    CONFORMAL(MIDDLE_THRESHOLD),
    CONFORMAL(MIDDLE_THRESHOLD, printed=True),
    CONFORMAL(0.0),
    BUDGETED(),
    GUARDED(MIDDLE_THRESHOLD),
)
"""The methods whose regret is recorded, on longer texts of the highest temperature."""
FEW = (DENSE(), BUDGETED(), *(TOP_K(size) for size in SIZES[1:]), *(CONFORMAL(tau) for tau in TAUS[:-1]))
"""The methods of a named pair: of Figs. 2 and 4, without the smallest K, the largest τ₁ and variants."""


def pass_times(pair: Pair) -> dict[str, float]:
    """Return the minimum time of passes after a prefix; for the target model, a linear fit over the new tokens."""
    target = [quickest(pair, pair.target, width) for width in WIDTHS]
    slope, intercept = np.polyfit(WIDTHS, target, 1)
    return {"draft_s": quickest(pair, pair.draft, 1), "target_s": float(intercept), "token_s": float(slope)}


def quickest(pair: Pair, model: Any, width: int) -> float:
    """Return the minimum seconds of a pass over a number of new tokens."""
    import torch

    reader = CachedModel(model, pair.vocabulary, pair.device, 1, PREFIX + width + 1, pair.context)
    text = np.arange(PREFIX + width + 1)[None] % pair.vocabulary
    best = float("inf")
    with torch.inference_mode():
        for _ in range(REPEATS + 1):  # the first pass also reads the prefix
            began = time.perf_counter()
            reader.read(text, np.array([PREFIX + width]), rows=width)
            best = min(best, time.perf_counter() - began)
            reader.cached[:] = PREFIX
    return best


def counts(
    pair: Pair, prompts: list[Prompt], method: Bounded, temperature: float, new_tokens: int, *, long: bool = False
) -> dict[str, Any]:
    """Return the counts of the texts of a method; passes of the draft model are counted, not timed."""
    rows = decode(
        pair,
        prompts,
        method,
        temperature=temperature,
        new_tokens=new_tokens,
        batch=len(prompts),
        seed=SEED,
        times=(1.0, 0.0),
        risk=True,
    )
    about = {"method": method.name} if long else {"method": method.name, "temperature": temperature}
    texts = [plain(row, long) for row in rows]
    return about | {"by_bytes": method.real_bytes, "rounding": method.rounding.tolist(), "texts": texts}


def plain(row: GenerationRecord, long: bool) -> dict[str, Any]:
    """Return the sums of a text; of a longer one, what its path needs of each round."""
    about = {"prompt": row.prompt, "tokens": len(row.tokens)}
    if long:
        rounds = [[*(getattr(one, name) for name in PATH), one.threshold] for one in row.rounds]
        return about | {"rounds": rounds, "sums": [row.total(name) for name in SUMS[len(PATH) :]]}
    last = row.rounds[-1].threshold if row.rounds else None
    return about | {"rounds": len(row.rounds), "threshold": last, "sums": [row.total(name) for name in SUMS]}


def kept(file: Path, make: Any) -> Any:
    """Return what a file holds; it is made if it is missing."""
    if not file.exists():
        file.with_suffix(".part").write_bytes(pickle.dumps(make()))
        file.with_suffix(".part").replace(file)
        print(file.stem, flush=True)
    return pickle.loads(file.read_bytes())  # written by this script alone


def main() -> None:
    """Decode what is missing in WORK, and write all counts."""
    asked = given(__doc__, "work", pair="builtin", prompts=Path())
    commit = commit_of_code()
    if commit is None or commit.endswith("changes"):
        raise UserError("What is stored names its commit; commit the changes of hlmtheory and validation first.")
    work = asked.work / asked.pair / commit[:12]  # texts of other code are not mixed
    work.mkdir(parents=True, exist_ok=True)
    whole = asked.pair == "builtin"
    pair = load_pair(asked.pair, chat=not whole)
    known = builtin_prompts() if whole else read_prompts(asked.prompts)
    prompts = known[:: len(known) // PROMPTS][:PROMPTS] if whole else known[:FEW_PROMPTS]  # all sources take part
    tokens, temperatures = (NEW_TOKENS, TEMPERATURES) if whole else (FEW_TOKENS, FEW_TEMPERATURES)
    scale = {"prompts": len(prompts), "new_tokens": tokens, "long_tokens": LONG_TOKENS, "temperatures": temperatures}
    times = pass_times(pair) if whole else dict(zip(("draft_s", "target_s"), PAPER_TIMES, strict=True))
    head = {"pair": pair.name, "vocabulary": pair.vocabulary, "scale": scale, "times": times}
    lists = {
        "cells": [
            kept(work / f"c{number}-{t:g}.pickle", partial(counts, pair, prompts, make(), t, tokens))
            for number, make in enumerate(METHODS if whole else FEW)
            for t in temperatures
        ],
        "long": [
            kept(work / f"l{number}.pickle", partial(counts, pair, prompts, make(), 1.0, LONG_TOKENS, long=True))
            for number, make in enumerate(LONG if whole else ())
        ],
    }
    parts = [f'"{key}": [\n' + ",\n".join(json.dumps(one) for one in found) + "\n]" for key, found in lists.items()]
    text = "{" + ",\n".join([json.dumps(head, ensure_ascii=False)[1:-1], *parts]) + "}\n"
    out = STORED if whole else SHELF / EXPERIMENT / f"{asked.pair}.json"
    out.write_text(text, encoding="utf-8")
    record(
        EXPERIMENT if whole else f"{EXPERIMENT} {asked.pair}",
        out,
        command="python3 figures/studies/c_sqs/decode_texts.py WORK"
        + ("" if whole else f" --pair {asked.pair} --prompts FILE"),
        models="the built-in pair" if whole else f"the pair {asked.pair}",
        data="evenly spaced prompts of the built-in pair" if whole else "HumanEval, GSM8K, MT-Bench",
        commit=commit,
    )


if __name__ == "__main__":
    main()
