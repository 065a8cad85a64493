"""A script that computes the smallest latency of batches on two machines by OR-Tools' CP-SAT, in its own process.

It reads a list of instances from standard input, {"count", "blocks": [{"tasks", "times", "bytes"}], "room"}; A block is
a set of tasks that may become a batch; its times are draft, verification, draft, ... in whole seconds. The script
writes, for each instance, the smallest makespan with a barrier at every step and without.
"""

import json
import sys
from itertools import pairwise
from typing import Any

from ortools.sat.python import cp_model


def least(instance: dict[str, Any], barrier: bool) -> int:
    model, blocks = cp_model.CpModel(), instance["blocks"]
    waves = instance["count"]
    horizon = sum(max(sum(b["times"]) for b in blocks if k in b["tasks"]) for k in range(waves)) + 1
    steps = max(len(block["times"]) for block in blocks) // 2
    taken = [[model.new_bool_var("") for _ in range(waves)] for _ in blocks]
    for task in range(waves):
        model.add_exactly_one(var for b, block in enumerate(blocks) if task in block["tasks"] for var in taken[b])
    for w in range(waves):
        model.add(sum(block["bytes"] * taken[b][w] for b, block in enumerate(blocks)) <= instance["room"])
    edges = [model.new_int_var(0, horizon, "") for _ in range(waves + 1)]  # when waves begin
    gates = [[model.new_int_var(0, horizon, "") for _ in range(steps + 1)] for _ in range(waves)]  # the barriers
    machines: list[list[Any]] = [[], []]
    for b, block in enumerate(blocks):
        used = model.new_bool_var("")
        model.add(sum(taken[b]) == used)
        ends = [model.new_int_var(0, horizon, "") for _ in block["times"]]
        starts = [model.new_int_var(0, horizon, "") for _ in block["times"]]
        for i, time in enumerate(block["times"]):
            machines[i % 2].append(model.new_optional_interval_var(starts[i], time, ends[i], used, ""))
            if i:
                model.add(starts[i] >= ends[i - 1])
            for w in range(waves):
                model.add(starts[i] >= edges[w]).only_enforce_if(taken[b][w])
                model.add(ends[i] <= edges[w + 1]).only_enforce_if(taken[b][w])
                if barrier:
                    model.add(starts[i] >= gates[w][i // 2]).only_enforce_if(taken[b][w])
                    model.add(ends[i] <= gates[w][i // 2 + 1]).only_enforce_if(taken[b][w])
    for intervals in machines:
        model.add_no_overlap(intervals)
    for row in (edges, *gates):
        for first, second in pairwise(row):
            model.add(first <= second)
    model.minimize(edges[-1])
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


if __name__ == "__main__":
    found = [{"barrier": least(instance, True), "free": least(instance, False)} for instance in json.load(sys.stdin)]
    json.dump(found, sys.stdout)
