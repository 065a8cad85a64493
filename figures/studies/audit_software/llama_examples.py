"""Call the example programs of llama.cpp, each compiled as a library that prints token ids (``llama_cpp.sh``).

    python3 figures/studies/audit_software/llama_examples.py ENGINE PROGRAM SEEDS OPTIONS ...

runs a program once for each seed, in one process. ``llama_example_cases`` makes samplers of it for an audit.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ENGINE = "site/xllamacpp/xllamacpp.abi3.so"
MARK = "seed"
OPTIONS = {
    "temperature 1": ["--samplers", "temperature", "--temp", "1"],
    "temperature 0.7": ["--samplers", "temperature", "--temp", "0.7"],
    "top-k 50": ["--samplers", "top_k;temperature", "--temp", "1", "--top-k", "50"],
}
"""The chain of samplers of each setting; all that a program adds by default is left out."""


def llama_example_cases(models: Any, pair: str, draws: int, work: Path, files: tuple[Path, Path]) -> Iterator[Any]:
    """Yield ``llama-speculative`` and ``llama-lookup``; ``files`` are the target and the draft as GGUF files."""
    from samplers import NEW_TOKENS, Case

    target, draft = map(str, files)
    for program, more in (("speculative", ["-md", draft, "--spec-draft-n-max", "3"]), ("lookup", [])):
        for setting, chain in OPTIONS.items():
            given = ["-m", target, *more, "-n", str(NEW_TOKENS), "-c", "64", "-t", "1", "-tb", "1", *chain]

            def sample(
                prompts: list[list[int]], n: int, seed: int, program: str = program, given: list[str] = given
            ) -> list[list[list[int]]]:
                found, generator = [], np.random.default_rng(seed)
                for prompt in prompts:
                    start = int(prompt[0] == models.tokenizer.bos_token_id)  # the program adds it
                    seeds = ",".join(map(str, generator.integers(2**31, size=n)))
                    options = ["-p", models.tokenizer.decode(prompt[start:]), *given]
                    command = [sys.executable, __file__, str(work / ENGINE), str(work / f"{program}.so"), seeds]
                    printed = subprocess.run([*command, *options], capture_output=True, text=True, check=True).stdout
                    texts = [[int(one) for one in text.split()] for text in printed.split(MARK)[1:]]
                    if len(texts) != n or any(text[: len(prompt)] != prompt for text in texts):
                        raise ValueError(f"{program} read other tokens than {prompt}: {texts[:1]}")
                    found.append([text[len(prompt) :] for text in texts])
                return found

            yield Case("xllamacpp", f"llama-{program}", pair, setting, sample, draws=draws, rounding=1e-2)


def run(engine: str, program: str, seeds: list[str], options: list[str]) -> None:
    """Call a program's ``main`` once for each seed."""
    library = ctypes.CDLL(engine, mode=ctypes.RTLD_GLOBAL)
    log = library._Z15common_log_mainv  # the thread that prints
    log.restype = ctypes.c_void_p
    main = ctypes.CDLL(program)._Z3runiPPc
    for seed in seeds:
        words = [one.encode() for one in ("x", *options, "--seed", seed)]
        print(MARK, flush=True)
        if failed := main(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None)):
            sys.exit(f"{program} ended with {failed}")
        library._Z16common_log_flushP10common_log(ctypes.c_void_p(log()))  # all is printed before the next mark


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3].split(","), sys.argv[4:])
