"""What a device of torch does with this project: doctor, its tests, verdicts, large tensors, decoding, pass times."""

import json
import os
import subprocess
import sys
import time
from typing import Any

import torch
from torch.utils.benchmark import Timer

from figures.studies.kit import SHELF, given, store
from hlmtheory import verification
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength
from validation.models.devices import choose_device
from validation.models.pair import load_pair
from validation.provenance import versions

HOST_ROWS, BLOCK = 32, 256
FUNCTIONS = (verification.total_variation, verification.acceptance_rate, verification.residual_distribution)


def printed(*words: str) -> str:
    """Return what a module of Python prints; its errors go to the screen."""
    command, env = [sys.executable, "-m", *words], {**os.environ, "DEEP": "1", "STAND_IN": "1"}
    return subprocess.run(command, cwd=SHELF.parents[1], env=env, stdout=subprocess.PIPE, text=True, check=False).stdout


def seconds(task: Any, *arrays: Any) -> float:
    """Return the mean seconds of three runs for each row."""
    return float(Timer("task(*arrays)", globals={"task": task, "arrays": arrays}).timeit(3).mean) / len(arrays[0])


def theory(device: torch.device, rows: int, vocabulary: int) -> list[dict[str, Any]]:
    """Time functions on (rows, V) tensors, beside one copy of the tensor and beside numpy."""
    found = []
    for dtype in (torch.float32, torch.float16):
        arrays = torch.randn(2, min(BLOCK, rows), vocabulary, device=device).softmax(-1).to(dtype)
        host = arrays[:, :HOST_ROWS].float().cpu().numpy()
        for function in FUNCTIONS:
            each = seconds(function, *arrays), seconds(torch.clone, arrays[0]), seconds(function, *host)
            times = dict(zip(("device_s", "copy_s", "numpy_s"), (rows * one for one in each), strict=True))
            found.append({"function": function.__name__, "dtype": str(dtype), **times})
    return found


def main() -> None:
    """Run every part, and store what each gave; the times of passes lie beside it."""
    options = given(__doc__, device="auto", rows=4096, vocabulary=151_936, positions=4000, out=SHELF / "gpu/gpu.json")
    device, outcomes, speeds = choose_device(options.device), [], {}
    found: dict[str, Any] = {"device": str(device), "versions": versions()}
    found["doctor"] = json.loads(printed("validation", "doctor", "--json", "--times", str(options.out) + ".times"))
    found["tests"] = printed("pytest", "-q", "tests/device", "-p", "no:cacheprovider").strip().splitlines()[-1]
    for place in (str(device), "cpu"):
        words = ["--positions", str(options.positions), "--device", place, "--out", f"runs/gpu-{place}", "--no-figures"]
        outcomes.append(json.loads(printed("validation", "validate", *words, "--json"))["outcomes"])
    found["verdicts"] = len(outcomes[0])
    found["differ"] = [claim for claim in outcomes[0] if outcomes[0][claim] != outcomes[1][claim]]
    pair, prompts = load_pair("builtin", device=str(device)), builtin_prompts()[::32]
    for batch in (1, len(prompts)):
        began = time.perf_counter()
        records = decode(pair, prompts, FixedLength(4), new_tokens=64, batch=batch, seed=1)
        speeds[batch] = sum(len(record.tokens) for record in records) / (time.perf_counter() - began)
    theory_times = theory(device, options.rows, options.vocabulary)
    store(options.out, {**found, "tokens_per_s_by_batch": speeds, "theory": theory_times})


if __name__ == "__main__":
    main()
