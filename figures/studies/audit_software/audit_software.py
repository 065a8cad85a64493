"""Audit speculative sampling that other people wrote, and store each verdict in a JSON file."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import samplers
import torch
from llama_examples import llama_example_cases
from samplers import Case, Models, version_of
from tiny_models import PROMPTS, write_tiny_models

from validation.audit import ModelLaw, Processors, audit_sampler

BUILTIN = Path("validation/pairs/builtin")
REPEATING = ("Question: Tom has two apples and two", "It was the best of times, it was the")
"""They repeat themselves, so that prompt lookup finds drafts."""
LEVEL, EPSILON, SEED = 0.001, 0.05, 1


def real_cases(draft: Path, draws: int) -> Iterator[tuple[Case, Models]]:
    """Yield the cases of SmolLM2-135M-Instruct with a draft, at temperature 1 and 0.7."""
    models = samplers.smollm2_models(draft, REPEATING)
    made = [samplers.transformers_cases(models, "SmolLM2", draws)]
    if version_of("llama-cpp-python"):
        made.append(samplers.llama_cpp_cases(models, "SmolLM2", draws, models.folder))
    for several in made:
        for one in several:
            if one.setting.startswith("temperature"):
                yield one, models


def example_cases(work: Path, target: Path, draft: Path, draws: int) -> Iterator[tuple[Case, Models]]:
    """Yield llama.cpp's example programs on the built-in pair, whose GGUF files are given."""
    models = samplers.load_models(BUILTIN / "large", BUILTIN / "small", REPEATING, other=None)
    for one in llama_example_cases(models, "built-in", draws, work, (target, draft)):
        yield one, models


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
        ("specdec", samplers.specdec_cases),
        ("flashspec", samplers.flashspec_cases),
        ("economize", samplers.economize_cases),
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
    ends = None if case.ends else ()
    law, draft = (
        ModelLaw(model, models.prompts, processors, end_tokens=ends) for model in (models.target, models.draft)
    )
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


def main() -> None:
    """Run the cases that are not stored yet; a file for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, help="folder for the tiny models and the answers")
    parser.add_argument("--gguf", type=Path, help="the built-in target as an F32 GGUF file, for llama-cpp-python")
    parser.add_argument("--other", type=Path, help="an assistant with another tokenizer, for the built-in target")
    parser.add_argument("--smollm2", type=Path, help="a draft's folder: audit SmolLM2 with it, and nothing else")
    parser.add_argument("--examples", type=Path, help="what llama_cpp.sh made: audit llama.cpp's examples, with --gguf")
    parser.add_argument("--gguf-draft", type=Path, help="the built-in draft as an F32 GGUF file, for --examples")
    parser.add_argument("--draws", type=int, default=2_000, help="of each case of SmolLM2 and of the examples")
    parser.add_argument("--only", default="", help="a part of the case's name")
    parser.add_argument("--seed", type=int, default=SEED)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.examples:
        chosen = example_cases(given.examples, given.gguf, given.gguf_draft, given.draws)
    elif given.smollm2:
        chosen = real_cases(given.smollm2, given.draws)
    else:
        chosen = cases(given.work, given.gguf, given.other)
    for number, (case, models) in enumerate(chosen):
        place = given.work / f"seed{given.seed}" / f"{number:02d}.json"
        if given.only not in case.name or place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            answer = audited(case, models, given.seed)
        except Exception as error:  # other people's code: what it raises is the answer
            answer = {"package": case.package, "version": version_of(case.package), "call": case.call}
            answer |= {"pair": case.pair, "setting": case.setting, "raised": f"{type(error).__name__}: {error}"}
        place.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
        print(case.name, answer.get("raised") or answer["words"][0], flush=True)


if __name__ == "__main__":
    main()
