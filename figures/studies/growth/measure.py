"""How CPU time grows with positions, vocabulary, claims, users and tasks, each doubled four times."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import hlmtheory
from figures.studies.kit import SHELF, given, picture, store
from hlmtheory.batching import plan
from hlmtheory.policy import BandUser, StageCosts, lower_hulls, plan_users
from hlmtheory.serving import Device, ModelShape, Service, Task
from validation.claims.check import check_trace
from validation.claims.instances import measured
from validation.plots.common.record import plain
from validation.trace.reader import SyntheticTrace

DOUBLED = 2 ** np.arange(5)
DRAFT, TARGET = ModelShape(2, 768, 3072), ModelShape(32, 4096, 11008)
SERVICE = Service(DRAFT, TARGET, Device(4.11e-13, 5.6e-4), Device(2.08e-14, 1.28e-2), acceptance=0.8, memory=1e12)
HULLS = lower_hulls([[1000.0, 8000.0]], [[0.0625, 0.0]])


def check(positions: int, vocabulary: int, count: int | None = None) -> Callable[[], Any]:
    """Check a number of claims, or all that a trace decides, on drawn logits."""
    claims = sorted(measured(hlmtheory.all_claims()).items())
    picked = dict(claims[n] for n in np.random.default_rng(1).permutation(len(claims))[:count])
    trace: Any = SyntheticTrace(positions, vocabulary)
    return lambda: check_trace(trace, claims=picked)


def users(count: int) -> Callable[[], Any]:
    """Plan the drafts, messages and shares of users whose links differ."""
    costs = [StageCosts(0.0125, 0.03125, seconds_per_bit=float(slow)) for slow in np.geomspace(1e-7, 4e-6, count)]
    members = [BandUser(HULLS, one, [0.75] * 4, risk_limit=1.0, skipping=False) for one in costs]
    return lambda: plan_users(members)


def tasks(count: int) -> Callable[[], Any]:
    """Plan the batches of tasks by Algorithm 1 of edge-sd, repaired, for one draft length."""
    rng = np.random.default_rng(1)
    listed = [Task(int(one), 256) for one in rng.integers(20, 2000, count)]
    return lambda: plan(listed, SERVICE, "dp", draft_lengths=(4,))


AXES: dict[str, tuple[int, Callable[[int], Callable[[], Any]], float, str]] = {
    "positions": (256, lambda n: check(n, 512), 1.0, "a block after the other: n"),
    "vocabulary": (2048, lambda n: check(32, n), np.log2(16 * 15 / 11) / 4, "each row is sorted: V log V"),
    "claims": (3, lambda n: check(256, 2048, n), 1.0, "each claim once, and what claims share once: at most n"),
    "users": (16, users, 1.0, "one curve for all, then a line for each user: at most n"),
    "tasks": (16, tasks, 2.0, "each run of sorted tasks once: n²"),
}
"""The smallest size, what is timed, the exponent of the argument from that size to 16 times it, and the argument."""


def seconds(task: Callable[[], Any], runs: int) -> float:
    """Return the CPU seconds of all threads in the quickest run."""
    found = []
    for _ in range(runs):
        began = time.process_time()
        task()
        found.append(time.process_time() - began)
    return min(found)


def main() -> None:
    """Time every size of each axis, fit the exponents, and store and draw them."""
    options, found = given(__doc__, runs=3, out=SHELF / "growth/growth.json"), {}
    for name, (least, made, exponent, argument) in AXES.items():
        sizes = least * DOUBLED
        made(least)()  # the first call imports and caches
        spent = np.array([seconds(made(int(size)), options.runs) for size in sizes])
        (slope, _), errors = np.polyfit(np.log(sizes), np.log(spent), 1, cov=True)
        last = np.log2(spent[-1] / spent[-2])
        found[name] = {"sizes": sizes.tolist(), "cpu_s": plain(spent, 3), "exponent": plain(slope, 3)}
        found[name] |= {"error": plain(errors[0, 0] ** 0.5, 2), "last_doubling": plain(last, 3)}
        found[name] |= {"argued_exponent": plain(exponent, 3), "argument": argument}
        print(name, found[name], flush=True)
    store(options.out, found)
    with picture(options.out, (3.4, 3.2)) as (figure, (axes,)):
        for (name, one), mark in zip(found.items(), "osD^v", strict=True):
            label = f"{name}: exponent {one['exponent']:.3g} (argued: {one['argued_exponent']:.3g})"
            axes.plot(DOUBLED, np.array(one["cpu_s"]) / one["cpu_s"][0], marker=mark, markersize=4, label=label)
        axes.set(xscale="log", yscale="log", xlabel="times the smallest size", ylabel="times its CPU seconds")
        axes.set_title("None grows faster than argued,\nwithin noise", loc="left")
        figure.legend(loc="outside lower center")


if __name__ == "__main__":
    main()
