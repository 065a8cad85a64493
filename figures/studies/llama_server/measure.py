"""Time llama.cpp's server with and without drafts, and the passes of both models."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

URL, TOKENS, PREFIX = "http://127.0.0.1:8521", 32, list(range(1000, 1090))
PLAIN = {"samplers": ["temperature"], "cache_prompt": True, "return_tokens": True}
# kind of draft, its sampling, K, p_min, temperature, threads
RUNS: dict[str, tuple[str, str, int, float, float, int]] = {
    "none": ("", "greedy", 0, 0.0, 0.0, 1),
    "greedy, K = 4": ("DRAFT_SIMPLE", "greedy", 4, 0.0, 0.0, 1),
    "greedy, K = 2": ("DRAFT_SIMPLE", "greedy", 2, 0.0, 0.0, 1),
    "greedy, K = 1": ("DRAFT_SIMPLE", "greedy", 1, 0.0, 0.0, 1),
    "greedy, K = 4, p_min .8": ("DRAFT_SIMPLE", "greedy", 4, 0.8, 0.0, 1),
    "n-grams": ("NGRAM_SIMPLE", "greedy", 4, 0.0, 0.0, 1),
    "greedy, K = 4, T = 1": ("DRAFT_SIMPLE", "greedy", 4, 0.0, 1.0, 1),
    "sampled, K = 4, T = 1": ("DRAFT_SIMPLE", "probabilistic", 4, 0.0, 1.0, 1),
    "none, 2 threads": ("", "greedy", 0, 0.0, 0.0, 2),
    "greedy, K = 4, 2 threads": ("DRAFT_SIMPLE", "greedy", 4, 0.0, 0.0, 2),
}


def serve(draft: str, target: str, kind: str, sampling: str, length: str, p_min: str, _: str, threads: str) -> None:
    """Run the server of the package xllamacpp until this process is stopped."""
    package = importlib.import_module("xllamacpp")
    options = package.CommonParams()
    options.model.path, options.port, options.n_ctx, options.n_parallel = target, 8521, 1024, 1
    options.ui, options.warmup, options.fit_params, options.cache_ram_mib = False, False, False, 0
    options.endpoint_metrics, options.verbosity, own = True, 4, options.speculative.draft
    for cpu in (options.cpuparams, options.cpuparams_batch, own.cpuparams, own.cpuparams_batch):
        cpu.n_threads = int(threads)
    if kind:
        options.speculative.types = [getattr(package.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{kind}")]
        own.mparams.path = draft if kind.startswith("DRAFT") else ""
        own.probabilistic, own.n_max, own.p_min = sampling == "probabilistic", int(length), float(p_min)
    running = package.Server(options)
    while running:
        time.sleep(1)


def asked(path: str, **body: Any) -> bytes:
    data = json.dumps(PLAIN | body).encode() if body else None
    with urlopen(Request(URL + path, data, {"content-type": "application/json"}), timeout=900) as answer:
        return bytes(answer.read())


@contextmanager
def serving(python: str, log: Path, *words: Any) -> Iterator[int]:
    """Start a server; give its CPU clock, which other load on the machine changes little; stop it."""
    server = subprocess.Popen([python, __file__, "serve", *map(str, words)], stderr=log.open("w"))
    while server.poll() is None and b"listening" not in log.read_bytes():
        time.sleep(0.5)
    yield (~server.pid << 3) | 2  # as clock_getcpuclockid names the clock of a process
    server.terminate()
    server.wait(60)


def passes(python: str, work: Path, model: str, name: str) -> list[str]:
    """Return a table of passes over new tokens of a prompt whose start is cached, in ms of CPU time."""
    lines = []
    with serving(python, work / f"{name}.log", "", model, *RUNS["none"]) as clock:
        asked("/completion", prompt=[*PREFIX, 5], n_predict=1)
        for width in range(1, 6):
            began = time.clock_gettime(clock)
            for turn in range(12):
                new = [2000 + 97 * turn + 7 * width + 31 * i for i in range(width)]
                asked("/completion", prompt=PREFIX + new, n_predict=1, temperature=0)
            lines.append(f"1,{width},{len(PREFIX)},{1e3 / 12 * (time.clock_gettime(clock) - began):.4g},{name}")
    return lines


def run(python: str, folder: Path, models: tuple[str, str], name: str, prompts: list[str]) -> None:
    """Leave the answers of a server with their CPU seconds, the scrapes before and after them, and its log."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        serving(python, folder / "server.log", *models, *RUNS[name]) as clock,
        (folder / "answers.jsonl").open("w") as f,
    ):
        (folder / "before.txt").write_bytes(asked("/metrics"))
        for seed, prompt in enumerate(prompts):
            body: dict[str, Any] = {"prompt": prompt, "seed": seed, "temperature": RUNS[name][4]}
            asked("/completion", **body, n_predict=1)
            began = time.clock_gettime(clock)
            answer = json.loads(asked("/completion", **body, n_predict=TOKENS))
            f.write(json.dumps({"cpu_s": time.clock_gettime(clock) - began, "timings": answer["timings"]}) + "\n")
        (folder / "after.txt").write_bytes(asked("/metrics"))


def main() -> None:
    from figures.studies.kit import given  # here, since the server's Python needs none of its packages

    options = given(__doc__, "python", "work", "draft", "target", prompts=8)
    python, work, draft, target = str(options.python), options.work, str(options.draft), str(options.target)
    stored = Path("validation/pairs/builtin/prompts.jsonl").read_text(encoding="utf-8").splitlines()
    chosen = [json.loads(line)["prompt"] for line in stored[:: len(stored) // options.prompts]][: options.prompts]
    table = passes(python, work, target, "target") + passes(python, work, draft, "draft")
    (work / "passes.csv").write_text("\n".join(["batch,width,context,ms,model", *table]) + "\n")
    for name in RUNS:
        run(python, work / name.replace(" ", "_"), (draft, target), name, chosen)


if __name__ == "__main__":
    serve(*sys.argv[2:]) if sys.argv[1:2] == ["serve"] else main()
