"""Benchmark ``pareto``: plans of batches beside their certified bounds and beside the exact optimum.

``python -m validation.benchmarks.plans FILE`` writes what it measures as JSON. What the code alone determines (plans,
bounds, gaps) stands apart from the processor seconds, which depend on the machine.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from hlmtheory.batching import Plan, lower_bound, plan
from hlmtheory.serving import Device, Service, Task, peak_memory
from validation.benchmarks.measurement import Measurement
from validation.benchmarks.planning import LENGTHS, SERVICE, TASKS, tasks_of
from validation.errors import naming
from validation.models.machine import machine

LIMIT_S, LIMIT_GAP = 10.0, 0.02
METHODS = (("improved", "together"), ("improved", "each"), ("pareto", "together"), ("dp", "together"), ("dp", "each"))
"""Methods and memory rules for many tasks."""
FEW = (("together", 8, 0.08), ("each", 10, 0.1))
"""Memory rule, number of tasks, and the share of the caches that fits; exact plans in waves take longer."""


@dataclass(frozen=True, slots=True)
class ManyTasks:
    """A plan of many tasks with its bounds; times in seconds of the simulated service.

    ``older_bound`` is the bound without the positions of the batches, over all draft lengths.
    """

    method: str
    memory_rule: str
    answers: str
    draft_length: int
    batch_sizes: tuple[int, ...]
    waves: tuple[int, ...]
    latency: float
    lower_bound: float
    older_bound: float

    @property
    def gap(self) -> float:
        """Certified gap: how far the latency may exceed the optimum."""
        return self.latency / self.lower_bound - 1

    @property
    def older_gap(self) -> float:
        """Gap that the older bound certifies."""
        return self.latency / self.older_bound - 1


@dataclass(frozen=True, slots=True)
class FewTasks:
    """The plan and the bound of ``improved`` for few tasks, and the latency of the exact optimum."""

    memory_rule: str
    answers: str
    tasks: int
    seed: int
    latency: float
    lower_bound: float
    optimum: float


def _answers(equal: bool) -> str:
    return "equal" if equal else "unequal"


def many_tasks(
    count: int = TASKS, lengths: Sequence[int] = LENGTHS, max_labels: int = 100
) -> Iterator[tuple[ManyTasks, float]]:
    """Return plans of many tasks, for answers of equal and of unequal length, each with its processor seconds.

    Seconds of the processor count, since other processes may share it.
    """
    for (method, rule), equal in itertools.product(METHODS, (True, False)):
        tasks = tasks_of(count, equal=equal)
        began = time.process_time()
        made = plan(tasks, SERVICE, method, memory_rule=rule, draft_lengths=lengths, max_labels=max_labels)
        seconds = time.process_time() - began
        older = min(lower_bound(tasks, SERVICE, length, memory_rule=rule) for length in lengths)
        yield _many(made, _answers(equal), older), seconds


def _many(made: Plan, answers: str, older: float) -> ManyTasks:
    return ManyTasks(
        made.method,
        made.memory_rule,
        answers,
        made.draft_length,
        tuple(map(len, made.batches)),
        made.waves,
        made.latency,
        made.lower_bound,
        older,
    )


def few_tasks(seeds: int = 3, few: Sequence[tuple[str, int, float]] = FEW) -> Iterator[FewTasks]:
    """Return plans of ``improved`` beside the exact optimum of few tasks, for several draws.

    Each task has ten times the work of one of 100 tasks. A draw takes the first tasks of the largest case.
    """
    most = max(count for _, count, _ in few)
    for (rule, count, share), equal, seed in itertools.product(few, (True, False), range(seeds)):
        tasks = tasks_of(most, seed, equal=equal)[:count]
        ours, best = (_alone(tasks, _small_service(share), name, rule) for name in ("improved", "exact"))
        yield FewTasks(rule, _answers(equal), count, seed, ours.latency, ours.lower_bound, best.latency)


def _alone(tasks: Sequence[Task], service: Service, method: str, rule: str) -> Plan:
    return plan(tasks, service, method, memory_rule=rule, draft_lengths=[1])


def _small_service(share: float) -> Service:
    """Return the service with tenfold work per task, and a share of the memory for caches."""
    weights = float(peak_memory(SERVICE.draft, 0, 0, 0))
    edge, cloud = (Device(10.0 * one.c1, one.c2) for one in (SERVICE.draft_device, SERVICE.verify_device))
    memory = weights + (SERVICE.memory - weights) * share
    return replace(SERVICE, draft_device=edge, verify_device=cloud, memory=memory)


# -------------------------------------------------------------------------------------------------- measurements


def measure_plans() -> list[Measurement]:
    """Measure plans for many tasks, and for few of them against the exact optimum."""
    return [*many_measured(many_tasks()), *few_measured(few_tasks())]


def many_measured(found: Iterator[tuple[ManyTasks, float]]) -> list[Measurement]:
    """Return the processor seconds and the certified gap of each plan of many tasks."""
    measured = []
    for one, seconds in found:
        where = _where(one, sum(one.batch_sizes))
        gap, limit = 100 * one.gap, f"the limit, {LIMIT_GAP:.0%}"
        measured += [
            Measurement(where, seconds, "s", f"the limit, {LIMIT_S:.0f} s", seconds / LIMIT_S),
            Measurement(f"{where}: certified gap", gap, "%", limit, one.gap / LIMIT_GAP),
        ]
    return measured


def _where(one: ManyTasks, tasks: int) -> str:
    return f"{one.method}, {tasks} tasks, {one.answers} answers, memory {one.memory_rule}"


def few_measured(found: Iterator[FewTasks]) -> list[Measurement]:
    """Return the slowest plan, the best bound and the worst bound of each case, against the exact optimum."""
    measured = []
    for (rule, answers, count), group in itertools.groupby(
        found, lambda one: (one.memory_rule, one.answers, one.tasks)
    ):
        draws = list(group)
        where = f"{count} tasks, {answers} answers, memory {rule}"
        slower = max(one.latency / one.optimum for one in draws)
        lower = [one.lower_bound / one.optimum for one in draws]
        measured += [
            Measurement(f"plan of improved, {where}", 100 * (slower - 1), "%", "exact", slower),
            Measurement(f"best bound of {len(lower)}, {where}", 100 * (1 - max(lower)), "% below", "exact", max(lower)),
            Measurement(
                f"worst bound of {len(lower)}, {where}", 100 * (1 - min(lower)), "% below", "exact", min(lower)
            ),
        ]
    return measured


# -------------------------------------------------------------------------------------------------------- record


def record(many: Iterator[tuple[ManyTasks, float]], few: Iterator[FewTasks]) -> dict[str, Any]:
    """Return what was measured as a JSON value: plans and bounds, and apart from them the processor seconds."""
    timed = list(many)
    return {
        "draft_lengths": [min(LENGTHS), max(LENGTHS)],
        "many_tasks": [asdict(one) | {"gap": one.gap, "older_gap": one.older_gap} for one, _ in timed],
        "few_tasks": [asdict(one) for one in few],
        "processor_seconds": {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine(),
            "seconds": {_where(one, sum(one.batch_sizes)): round(seconds, 2) for one, seconds in timed},
        },
    }


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def main(file: Path) -> None:
    """Measure all plans and write them to FILE."""
    with naming(file):
        found = record(_told(many_tasks()), few_tasks())
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _told(many: Iterator[tuple[ManyTasks, float]]) -> Iterator[tuple[ManyTasks, float]]:
    for one, seconds in many:
        click.echo(f"{_where(one, sum(one.batch_sizes))}: gap {one.gap:.1%}, {seconds:.1f} s")
        yield one, seconds


if __name__ == "__main__":
    main()
