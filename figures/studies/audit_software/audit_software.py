"""Audit speculative sampling that other people wrote, and store each verdict in a JSON file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from figures.studies.audit_software import samplers
from figures.studies.audit_software.samplers import Case, Models, version_of
from figures.studies.audit_software.tiny_models import PROMPTS, write_tiny_models
from figures.studies.kit import given, read
from validation.audit import ModelLaw, Processors, audit_sampler

BUILTIN = Path("validation/pairs/builtin")
REPEATING = ("Question: Tom has two apples and two", "It was the best of times, it was the")
"""They repeat themselves, so that prompt lookup finds drafts."""
LEVEL, EPSILON, SEED = 0.001, 0.05, 1
CASE = ("package", "version", "call", "pair", "setting", "depth")


def cases(work: Path, gguf: Path | None, other: Path | None) -> Iterator[tuple[Case, Models]]:
    """Yield every case whose package is installed, with the models it runs on."""
    if not (work / "tiny").exists():
        write_tiny_models(work / "tiny")
    tiny = samplers.load_models(
        work / "tiny" / "target", work / "tiny" / "draft", PROMPTS, other=work / "tiny" / "other"
    )
    builtin = samplers.load_models(BUILTIN / "large", BUILTIN / "small", REPEATING, other=other)
    made = [(samplers.transformers_cases(tiny, "tiny", 2_000), tiny)]
    for package, cases_of in (
        ("sequential-speculative-decoding", samplers.seqspecdecod_cases),
        ("flashspec", samplers.flashspec_cases),
        ("rotalabs-accel", samplers.rotalabs_cases),
    ):
        if version_of(package):
            made.append((cases_of(tiny, "tiny", 2_000), tiny))
    if version_of("llama-cpp-python") and gguf:
        made.append((samplers.llama_cpp_cases(builtin, "built-in", 2_000, gguf), builtin))
    made.append((samplers.transformers_cases(builtin, "built-in", 800), builtin))
    for several, models in made:
        for one in several:
            yield one, models


def audited(case: Case, models: Models, seed: int) -> dict[str, Any]:
    """Return what an audit says of a case, as plain values."""
    options = samplers.SETTINGS[case.setting]
    processors = Processors(
        temperature=options.get("temperature", 1.0),
        top_k=int(options.get("top_k", 0)),
        top_p=options.get("top_p", 1.0),
        rounding=case.rounding,
    )
    law, draft = (ModelLaw(model, models.prompts, processors) for model in (models.target, models.draft))
    start = time.process_time()
    report = audit_sampler(
        law, case.sampler, draws=case.draws, depth=case.depth, level=LEVEL, epsilon=EPSILON, seed=seed, draft=draft
    )
    found: dict[str, Any] = {}
    found |= {"package": case.package, "version": version_of(case.package), "call": case.call, "pair": case.pair}
    found |= {
        "setting": case.setting,
        "depth": case.depth,
        "seed": seed,
        "cpu_s": round(time.process_time() - start, 1),
    }
    return found | {"report": report.as_json(), "words": report.sentences()}


def row(first: dict[str, Any], again: dict[str, Any] | None) -> dict[str, Any]:
    """Return one case: what it is, and what the audits with one and with another seed said."""
    found = {key: first[key] for key in CASE}
    keys = ("verdict", "draws", "found_after", "at_least", "at_most_on_cells", "cells", "smallest_found", "level")
    for name, answer in (("audit", first), ("again", again)):
        if answer is not None:
            found[name] = {key: answer["report"][key] for key in keys} | {key: answer[key] for key in ("seed", "cpu_s")}
    return found


def main() -> None:
    """Run the cases that are not stored in WORK yet, a file for each, and put their rows into OUT."""
    asked = given(__doc__, "work", "out", gguf=Path, other=Path, only="", seed=SEED)
    torch.set_num_threads(1)
    for number, (case, models) in enumerate(cases(asked.work, asked.gguf, asked.other)):
        place = asked.work / f"seed{asked.seed}" / f"{number:02d}.json"
        if asked.only not in case.name or place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            answer = audited(case, models, asked.seed)
        except Exception as error:  # other people's code: what it raises is the answer
            answer = {"package": case.package, "version": version_of(case.package), "call": case.call}
            answer |= {"pair": case.pair, "setting": case.setting, "raised": f"{type(error).__name__}: {error}"}
        place.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
        print(case.name, answer.get("raised") or answer["words"][0], flush=True)
    found = read(asked.out)
    rows = {tuple(one[key] for key in CASE): one for one in found["audits"]}
    for place in sorted((asked.work / "seed1").glob("*.json")):
        other = asked.work / "seed2" / place.name
        first = read(place)
        if "report" in first:
            rows[tuple(first[key] for key in CASE)] = row(first, read(other) if other.exists() else None)
    asked.out.write_text(json.dumps(found | {"audits": list(rows.values())}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
