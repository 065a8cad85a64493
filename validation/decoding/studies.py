"""The studies that are decoded for the papers' figures: named sweeps and their files.

``RUN/decoded/NAME`` holds the journal of the records and, in ``own``, that of the target model alone with another seed;
when all records are there, also ``study.json`` (settings, fitted values) and ``scores.json``. An interrupted study
continues; damaged or missing files are made again.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from validation.collection.prompts import Prompt
from validation.decoding.fitting import fitted_to
from validation.decoding.links import FadingLink, Way
from validation.decoding.loop import DEFAULT_BATCH, DEFAULT_SEED
from validation.decoding.methods.base import Method
from validation.decoding.methods.catalogue import default_methods, info_of
from validation.decoding.methods.multi_draft import FixedLength, PromptLookup
from validation.decoding.methods.registry import Family, Fitted
from validation.decoding.methods.shared_seed import SharedSeed
from validation.decoding.methods.single_draft import CHOSEN_THRESHOLD, CuHlmOffline, TargetOnly, UHlm
from validation.decoding.records import GenerationRecord
from validation.decoding.scoring import Scores, score, score_key, text_of
from validation.decoding.sweep import read_records, sweep
from validation.errors import UserError, nearest
from validation.models.pair import Pair
from validation.trace.journal import JOURNAL, write_atomically
from validation.trace.reader import Trace, fingerprint
from validation.trace.sealed import read_sealed, write_sealed

TEXTS = "texts.jsonl"
ANSWER_TOKENS = 512  # r_max of cu-hlm Section V-A

CLOUD_S = 0.1046  # seconds of a pass of the target model: cu-hlm's value, since flexspec prints none

CLOUD_ONLY_S = {"5G": 0.432, "4G": 0.595, "WiFi": 1.220}
"""Seconds of a token by Cloud-Only on GSM8K: flexspec Table III."""

RATES_BPS = {"5G": 300e6, "4G": 50e6, "WiFi": 10e6}  # flexspec Table I


def flexspec_links() -> list[FadingLink]:
    """Return the three networks of flexspec: the rates of its Table I, with a delay derived from Cloud-Only's time."""
    return [
        FadingLink(name, rate, 1.0, Way(propagation_s=(CLOUD_ONLY_S[name] - CLOUD_S) / 2.0))  # W log₂(1 + 1) = W
        for name, rate in RATES_BPS.items()
    ]


@dataclass(frozen=True, slots=True)
class Study:
    """Methods at one temperature and top-p, as a function of the fitted values; ``fits`` says whether they need any."""

    name: str
    methods: Callable[..., list[Method]]
    temperature: float = 1.0
    top_p: float = 1.0
    fits: bool = True


U_PRONE = 0.431  # the risk-prone threshold of u-hlm (Section IV-A), whatever the pair
THRESHOLDS = tuple(i / 10 for i in range(11))
SIZES = (1, 3, 10, 30, 100, 300, 1000, 4096)
HLM_FAMILIES = (Family.ONE_MODEL, Family.HLM, Family.RAND_HLM, Family.U_HLM, Family.CU_HLM)


def _hlm(fitted: Fitted, **given: Any) -> list[Method]:
    own = UHlm(U_PRONE, f"U-HLM, u_th = {U_PRONE:g}")
    return [*default_methods(fitted, families=HLM_FAMILIES, study="hlm", **given), own]


def _design(fitted: Fitted, *, delay_s: float = 0.0) -> list[Method]:
    thresholds = [UHlm(limit, f"U-HLM, u_th = {limit:g}") for limit in THRESHOLDS]
    asks = fitted.risk_prone < 1.0  # otherwise no uncertainty is above the threshold, and k has no effect
    limit, suffix = (fitted.risk_prone, "") if asks else (CHOSEN_THRESHOLD, f" at {CHOSEN_THRESHOLD:g}")
    sizes = [CuHlmOffline(limit, k, name=f"CU-HLM offline (k = {k}){suffix}") for k in SIZES]
    return [TargetOnly(), *thresholds, *sizes]


def _lossless(fitted: Fitted | None, *, delay_s: float = 0.0) -> list[Method]:
    return [FixedLength(), SharedSeed(), PromptLookup(), TargetOnly()]


COMMON = Study("common", _lossless, fits=False)
"""The study of a draft model with a tokenizer of its own, on the tokens of both; no figure is drawn from it."""
REFERENCE = Study("reference", _lossless, fits=False)
"""The study with which texts over a link are compared; no figure is drawn from it."""

STUDIES = {
    study.name: study
    for study in (
        Study("hlm", _hlm),  # cu-hlm Figs. 1 and 10, Tables I and II; u-hlm Fig. 6, Table I
        Study("design", _design),  # cu-hlm Fig. 9, u-hlm Fig. 4: thresholds and sizes
        Study("greedy", default_methods, 0.0),  # flexspec Table III, its length rule: all methods at temperature 0
        Study("nucleus", default_methods, 1.0, 0.9),  # flexspec Table IV, its length rule
    )
}


@dataclass(frozen=True)
class Decoded:
    name: str
    about: dict[str, Any]
    records: list[GenerationRecord]
    scores: dict[str, dict[str, Any]]

    @cached_property
    def by_method(self) -> dict[tuple[str, str], list[GenerationRecord]]:
        order = {prompt["id"]: i for i, prompt in enumerate(self.about["prompts"])}
        groups: dict[tuple[str, str], list[GenerationRecord]] = {}
        for record in sorted(self.records, key=lambda record: order[record.prompt]):
            groups.setdefault((record.method, record.link), []).append(record)
        return groups

    def of_source(self, source: str) -> Self:
        kept = [prompt for prompt in self.about["prompts"] if prompt["source"] == source]
        names = {prompt["id"] for prompt in kept}
        records = [record for record in self.records if record.prompt in names]
        return type(self)(self.name, {**self.about, "prompts": kept}, records, self.scores)

    @property
    def methods(self) -> list[Method]:
        every = STUDIES[self.name].methods(Fitted(**self.about["fitted"]))
        return [method for method in every if method.name in self.about["methods"]]

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(prompt["source"] for prompt in self.about["prompts"]))


def decode_study(
    study: Study,
    pair: Pair,
    prompts: Sequence[Prompt],
    trace: Trace | None,
    folder: Path,
    *,
    new_tokens: int = ANSWER_TOKENS,
    batch: int = DEFAULT_BATCH,
    seed: int = DEFAULT_SEED,
    only: Sequence[str] = (),
    more: Sequence[Method] = (),
    progress: Callable[[int, int, str], None] | None = None,
) -> Decoded:
    fitted = None if trace is None else fitted_to(trace, folder.parent / "fitted.json")
    methods = [*study.methods(fitted), *more]
    refuse_unknown(study, only, [method.name for method in methods])
    chosen = [method for method in methods if not only or method.name in only]
    settings: dict[str, Any] = {"new_tokens": new_tokens, "batch": batch, "seed": seed}
    settings |= {"temperature": study.temperature, "top_p": study.top_p}

    def run(group: list[Method], links: Sequence[FadingLink]) -> list[GenerationRecord]:
        return sweep(pair, prompts, group, folder, links=links, risk=True, progress=progress, **settings)

    began = time.perf_counter()
    run([method for method in chosen if not method.follows_rate], [])
    for link in flexspec_links() if any(method.follows_rate for method in chosen) else []:
        over = study.methods(fitted, delay_s=2.0 * link.way.propagation_s)
        run([m for m in over if m.follows_rate and (not only or m.name in only)], [link])
    there = [record for record in read_records(folder) if record.prompt in {prompt.id for prompt in prompts}]
    done, networks = Counter(record.method for record in there), len(flexspec_links())
    complete = [m for m in methods if done[m.name] == len(prompts) * (networks if m.follows_rate else 1)]
    records = [record for record in there if record.method in {method.name for method in complete}]
    settings["seed"] = seed + 1
    of_target = sweep(pair, prompts, [TargetOnly()], folder / "own", progress=progress, **settings)
    file = folder / "scores.json"
    scores = score(pair, prompts, records, of_target, known=_known_scores(file), progress=progress)
    settings["seed"] = seed
    about = {
        "study": study.name,
        "pair": pair.describe(),
        **settings,
        "seconds": round(time.perf_counter() - began, 1),
        "trace": None if trace is None else fingerprint(trace),
        "fitted": None if fitted is None else asdict(fitted),
        "methods": [method.name for method in complete],
        "rows": len(records),
        "prompts": [{"id": prompt.id, "source": prompt.source} for prompt in prompts],
    }
    write_sealed(file, scores, indent=0)
    write_sealed(folder / "study.json", about)
    return Decoded(study.name, about, records, scores)


def refuse_unknown(study: Study, only: Sequence[str], names: Sequence[str]) -> None:
    if unknown := [name for name in only if name not in names]:
        near = nearest(unknown[0], names)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UserError(f"The study {study.name!r} has no method {unknown[0]!r}; choose of: {', '.join(names)}.{hint}")


def open_study(folder: Path) -> Decoded:
    again = f"`python3 hlm decode {folder.name}`"
    try:
        about = read_sealed(folder / "study.json")
        scores = read_sealed(folder / "scores.json")
    except FileNotFoundError as error:
        raise UserError(f"There is no finished study at {folder}; make it with {again}.") from error
    except UserError as error:
        raise UserError(f"{error} Make it anew with {again}; texts that are there are kept.") from error
    try:
        asked = {prompt["id"] for prompt in about["prompts"]}
        records = [
            record for record in read_records(folder) if record.method in about["methods"] and record.prompt in asked
        ]
        missing = about["rows"] - len(records)
        unscored = sum(score_key(record) not in scores for record in records)
        decoded = Decoded(about["study"], about, records, scores)
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / 'study.json'} is damaged: it lacks fields. Make it anew with {again}.") from error
    if missing:
        raise UserError(
            f"{folder / JOURNAL} is cut: {missing:,} of {about['rows']:,} texts are missing; decode them again with "
            f"{again}, which keeps the others."
        )
    if unscored:
        raise UserError(f"{folder / 'scores.json'} has no scores of {unscored:,} texts; add them with {again}.")
    return decoded


def _known_scores(file: Path) -> Scores:
    try:
        scores = read_sealed(file)
    except (FileNotFoundError, UserError):
        return {}
    return scores if all(isinstance(values, dict) for values in scores.values()) else {}


def write_texts(decoded: Decoded, prompts: Sequence[Prompt], tokenizer: Any, folder: Path) -> Path:
    asked = {prompt.id: prompt.text for prompt in prompts}
    lines = []
    for record in (record for records in decoded.by_method.values() for record in records):
        line: dict[str, Any] = {"method": record.method, "link": record.link, "id": record.prompt}
        line |= {"prompt": asked[record.prompt], "text": text_of(record, tokenizer)}
        line |= {"tokens": len(record.tokens), "ended": record.ended}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_atomically(folder / TEXTS, "".join(lines))
    return folder / TEXTS


def sample_of(decoded: Decoded, prompts: Sequence[Prompt], tokenizer: Any) -> tuple[str, str, str] | None:
    """Return method, prompt and text of a sample: the first text of a method that runs both models, if there is one."""
    groups = [records for records in decoded.by_method.values() if records]
    if not groups:
        return None
    kinds = [(info_of(records[0].method).method, records) for records in groups]
    both = [records for method, records in kinds if method and method.runs_draft and method.runs_target]
    record = (both or groups)[0][0]
    prompt = next(prompt.text for prompt in prompts if prompt.id == record.prompt)
    return record.method, prompt, text_of(record, tokenizer)
