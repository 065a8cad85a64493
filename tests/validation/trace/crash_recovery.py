"""Kill a collection at random times, resume it, and compare it with an uninterrupted one.

    python -m tests.validation.trace.crash_recovery --rounds 100

A round kills one collection up to three times with SIGKILL: in odd rounds after a random time, in even rounds just
before or just after a random fsync, where a crash does the most harm. Then the round finishes the collection and
compares prompts, positions and every byte of the arrays. The child processes are forked after the models are loaded, so
a round takes about a second; this needs Linux.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from validation.collection.collect import collect
from validation.collection.prompts import Prompt
from validation.models.pair import Pair, load_pair
from validation.models.sources import PAIRS_FOLDER
from validation.trace.reader import open_trace

SETTINGS: dict[str, Any] = {"positions": 700, "new_tokens": 24, "batch": 8}
PROMPTS = [Prompt(f"p{i}", "Question: " + "how many apples " * (1 + i % 5) + str(i), "made up") for i in range(11)]
KILLS = 3


def random_pair(folder: Path) -> Pair:
    """Return two tiny models with random weights over the vocabulary of the built-in pair."""
    import torch
    from transformers import AutoTokenizer
    from transformers.utils import logging

    from validation.training.__main__ import Recipe, build_model

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(PAIRS_FOLDER / "builtin" / "small")
    for name, hidden in (("small", 8), ("large", 16)):
        torch.manual_seed(hidden)
        shape = Recipe(hidden=hidden, feed_forward=16, layers=1, heads=2, matrix_rate=0.0, other_rate=0.0)
        build_model(shape, len(tokenizer)).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return load_pair(draft=folder / "small", target=folder / "large")


def run(pair: Pair, path: Path, kill_at_sync: float | None = None) -> None:
    """Collect, and kill this process at the given fsync: n is just before the n-th, n + 0.5 just after it."""
    sync, seen = os.fsync, 0

    def counted(handle: int) -> None:
        nonlocal seen
        seen += 1
        if kill_at_sync == seen:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(handle)
        if kill_at_sync == seen + 0.5:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync = counted  # type: ignore[assignment]
    collect(pair, PROMPTS, path, **SETTINGS)
    path.with_suffix(".syncs").write_text(str(seen))


def forked(work: Callable[[], None], kill_after: float | None = None) -> bool:
    """Run the function in a child process; return whether it exited without error."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException as error:
            print(f"\n{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(f"A collection failed by itself (exit code {os.WEXITSTATUS(status)}).")
    return os.WIFEXITED(status)


def compare(path: Path, reference: Path) -> None:
    """Raise an error if the two traces differ."""
    found, expected = (open_trace(folder, verify=True).manifest for folder in (path, reference))
    for name in ("prompts", "positions", "texts", "settings"):
        if found[name] != expected[name]:
            raise ValueError(f"{name} differ: {found[name]} and {expected[name]}")
    files = [
        {f.relative_to(p): f.read_bytes() for f in p.rglob("arrays/**/*") if f.is_file()} for p in (path, reference)
    ]
    if files[0] != files[1]:
        raise ValueError(f"the arrays of {path} and {reference} differ")
    if {file.name for file in path.iterdir()} != {"arrays", "journal.jsonl", "manifest.json"}:
        raise ValueError(f"something was left in {path}")


def rounds(count: int, seed: int, folder: Path) -> str:
    """Run the rounds and return a one-sentence summary."""
    rng = random.Random(seed)
    pair = random_pair(folder)
    reference = folder / "reference"
    began = time.perf_counter()
    forked(partial(run, pair, reference))
    seconds = time.perf_counter() - began
    syncs = int(reference.with_suffix(".syncs").read_text())
    kills, resumed = 0, 0
    for number in range(1, count + 1):
        path = folder / f"round-{number}"
        for _ in range(rng.randint(1, KILLS)):
            if number % 2:
                ended = forked(partial(run, pair, path), kill_after=rng.uniform(0, seconds))
            else:
                at = rng.randint(1, syncs) + rng.choice((0, 0.5))
                ended = forked(partial(run, pair, path, at))
            if ended:
                break
            kills += 1
            resumed += (path / "journal.jsonl").exists()
        forked(partial(run, pair, path))
        forked(partial(compare, path, reference))
    return (
        f"{count} rounds, {kills} kills, {resumed} of them with something stored: every trace ended with the same "
        f"prompts, positions and bits ({syncs} fsyncs and {seconds:.1f} s a collection, "
        f"{time.perf_counter() - began:.0f} s in all)."
    )


def main() -> None:
    """Parse the command line and run the rounds."""
    parser = argparse.ArgumentParser(description="Kill a collection at random moments, resume it, compare.")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)  # threads do not survive a fork
    with tempfile.TemporaryDirectory() as folder:
        print(rounds(options.rounds, options.seed, Path(folder)))


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    main()
