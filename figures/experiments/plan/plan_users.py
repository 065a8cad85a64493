"""Several users on one band and one server: rounds that were decoded are replayed by events, against the plan's speed.

A user drafts, sends its message over its share of the band, waits for the server, and gets the reply. The plan takes
the server as free at once for everybody. Here it is simulated with as many passes at a time as there are users, and
with one pass at a time. Needs simpy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray
from plan_options import method_of
from plan_sessions import Rounds
from plan_study import ROUND_TRIP_S, SEED, TIMES

from validation.decoding.records import GenerationRecord
from validation.planning.measure import planner_of_trace
from validation.planning.menu import Option
from validation.planning.plan import Planner
from validation.planning.setting import Setting, constant_link

Array = NDArray[Any]
BAND_BPS, DOWN_BPS, USERS, SECONDS = 10e6, 1e9, (1, 2, 4, 8, 16, 32), 600.0


def simulate(rounds: Rounds, users: int, share_bps: float, passes: int, *, seconds: float = SECONDS) -> float:
    """Return the tokens per second of all users together.

    Parameters
    ----------
    rounds : Rounds
        Each user replays them from a place of its own.
    users : int
    share_bps : float
        Rate of a user's share of the band.
    passes : int
        Passes of the target model that the server runs at a time; others wait in the order of their arrival.
    seconds : float
        Simulated time.
    """
    world = simpy.Environment()
    server = simpy.Resource(world, capacity=passes)
    done = np.zeros(users)
    per_round = rounds.tokens[rounds.text] / np.bincount(rounds.text)[rounds.text]

    def user(number: int) -> Generator[Any, Any, None]:
        place = number * len(rounds.text) // users
        while True:
            yield world.timeout(rounds.drafts[place] * TIMES[0] + rounds.up_bits[place] / share_bps)
            if rounds.passes[place]:
                yield world.timeout(ROUND_TRIP_S / 2)
                with server.request() as turn:
                    yield turn
                    yield world.timeout(rounds.passes[place] * TIMES[1])
                yield world.timeout(ROUND_TRIP_S / 2 + rounds.down_bits[place] / DOWN_BPS)
            done[number] += per_round[place]
            place = (place + 1) % len(rounds.text)

    for number in range(users):
        world.process(user(number))
    world.run(until=seconds)
    return float(done.sum() / seconds)


def best(planner: Planner, options: list[Option], rate: float) -> tuple[Option, float]:
    """Return the option with the most predicted tokens per second at a rate, and this number for the test prompts."""
    here: Setting = replace(planner.setting, link=constant_link(rate, ROUND_TRIP_S, DOWN_BPS))
    option = max(options, key=lambda one: planner.value_of(one, here))
    return option, float(here.value(option.counts[planner.split.test].sum(axis=0)))


def main() -> None:
    """Compare for several numbers of users and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("work", type=Path, help="the folder of plan_study.py")
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    planner, _ = planner_of_trace(asked.trace, Setting(constant_link(1e7, ROUND_TRIP_S), *TIMES), cache=asked.work)
    records = {
        int(file.stem): [GenerationRecord.of(one) for one in json.loads(file.read_text())["records"]]
        for file in sorted((asked.work / "decoded").glob("*.json"))
    }
    pool = [planner.options[place] for place in records if planner.options[place].lossless]
    rows = []
    for users in USERS:
        option, speed = best(planner, pool, BAND_BPS / users)
        place = next(n for n in records if planner.options[n] is option)
        rounds = Rounds.of(records[place], real_bytes=method_of(option, planner.line).real_bytes)
        free, alone = (simulate(rounds, users, BAND_BPS / users, passes) for passes in (users, 1))
        row = {
            "users": users,
            "option": f"{option.family} {option.label}",
            "predicted_tokens_per_s": round(users * speed, 3),
            "simulated_free_server": round(free, 3),
            "simulated_one_pass_at_a_time": round(alone, 3),
            "predicted_over_free_minus_1": round(users * speed / free - 1.0, 5),
            "predicted_over_one_pass_minus_1": round(users * speed / alone - 1.0, 5),
        }
        rows.append(row)
        print(row, flush=True)
    head = {"command": f"plan_users.py TRACE WORK {asked.out.name}", "seed": SEED, "band_bps": BAND_BPS}
    about = {"down_bps": DOWN_BPS, "round_trip_s": ROUND_TRIP_S, "times_s": TIMES, "seconds": SECONDS}
    asked.out.write_text(
        json.dumps(head | about | {"rows": rows}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
