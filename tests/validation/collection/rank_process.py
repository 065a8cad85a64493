"""Ranks as real processes: a server that has imported the models' libraries forks each, so that it starts at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import transformers.models.llama.modeling_llama  # noqa: F401  (the server imports this module)
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: F401

import hlmtheory
import validation.report.html  # noqa: F401
from validation import plots
from validation.claims import check
from validation.cli.commands import main
from validation.collection import collect, shards
from validation.collection.ranks import Link, Rank

CLAIM = {name: claim for name, claim in hlmtheory.all_claims().items() if name == "verification.tokens"}
PATIENCE = 300.0  # seconds after which a test gives up, on the busiest machine


def server() -> Any:
    """Return a context whose processes are forked from a server that has imported this module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))  # else it does not find this
        forkserver.ensure_running()
    return context


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def environment(rank: int, world: int, port: int) -> dict[str, str]:
    """Return the variables of a rank that is started without torchrun's agent."""
    names = {"RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return {name: str(value) for name, value in names.items()}


def command(variables: dict[str, str], log: Path, words: Sequence[str], kill_in: int = -1) -> None:
    """Run one command line, with a check of one claim and no figures, and exit with its code.

    The output and the number of each collected batch go to ``log``. The process kills itself with signal 9 in the
    middle of batch ``kill_in``, unless the log shows that it did so before.
    """
    os.environ.update(variables)
    before = log.read_text() if log.exists() else ""
    file = log.open("a", buffering=1)
    for number in (1, 2):
        os.dup2(file.fileno(), number)
    store = collect._score_and_store
    numbers: list[int] = []

    def noted(pair: Any, prompts: Any, encoded: Any, batch: Any, *rest: Any) -> None:
        numbers.append(batch.number)
        collect.collect_batch(pair, prompts, encoded, batch, *rest)
        print(f"collected {batch.number}", file=file)

    def stored(*args: Any) -> None:
        store(*args)
        if numbers[-1] == kill_in and f"killed {kill_in}" not in before:
            args[2].flush()  # batches are written by a thread: those before this one are committed now
            print(f"killed {kill_in}", file=file)
            os.kill(os.getpid(), signal.SIGKILL)

    whole = check.check_trace
    check.check_trace = lambda trace, **more: whole(trace, **{"claims": CLAIM, **more})
    plots.FIGURES = {}
    shards.collect_batch = noted  # type: ignore[assignment]
    collect._score_and_store = stored  # type: ignore[assignment]
    sys.argv = ["hlm", *words]
    main(list(words), prog_name="hlm")


def agent_command(folder: str, words: Sequence[str], kill: tuple[int, int]) -> None:
    """Run one command line in a rank of torchrun's agent; rank ``kill[0]`` kills itself in batch ``kill[1]``."""
    rank = int(os.environ["RANK"])
    command({}, Path(folder) / f"{rank}.log", words, kill[1] if rank == kill[0] else -1)


def meet(rank: Rank, wait: float, log: Path, deed: Callable[[Link], None]) -> None:
    """Meet the other ranks and do a deed; write the sentence of a refusal."""
    try:
        with Link(rank, wait) as link:
            deed(link)
    except Exception as error:
        log.write_text(f"{type(error).__name__}: {error}")
        raise SystemExit(2) from error


def others(facts: dict[int, Any], name: str) -> bool:
    """Return whether both of two ranks have told a fact."""
    return all(name in facts.get(rank, {}) for rank in (0, 1))


def hello_and_die(link: Link) -> None:
    """Greet the other rank, wait for its greeting, and die by signal 9."""
    link.tell(hello=True)
    link.wait_until(lambda facts: others(facts, "hello"))
    os.kill(os.getpid(), signal.SIGKILL)


def hello_and_freeze(link: Link) -> None:
    """Greet the other rank, wait for its greeting, and stand still without ending."""
    link.tell(hello=True)
    link.wait_until(lambda facts: others(facts, "hello"))
    os.kill(os.getpid(), signal.SIGSTOP)


def hello_and_wait(link: Link) -> None:
    """Greet the other rank, wait for its greeting, and then at most 2 s at a time for what it never says."""
    link.tell(hello=True)
    link.wait_until(lambda facts: others(facts, "hello"))
    link.wait = 2.0
    link.wait_until(lambda facts: others(facts, "done"))


def end(processes: Sequence[BaseProcess]) -> None:
    """Kill what is left of these processes."""
    for process in processes:
        process.kill()
        process.join()
