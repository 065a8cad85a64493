"""Several users on one band and one server: rounds that were decoded are replayed by events, against the plan's speed.

A user drafts, sends its message over its share of the band, waits for the server, and gets the reply. The server runs
one pass at a time, with at most B of the rounds that wait. The plan of ``hlm plan --users`` knows this queue, and says
how many rounds a pass waits for. It is compared with the same plan if passes start at once, and with the draft lengths
for a server that is free at once for everybody. Needs simpy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import simpy
from plan_options import method_of
from plan_sessions import Rounds
from plan_study import ROUND_TRIP_S, SEED, TIMES, decoded

from hlmtheory.policy import plan_users
from validation.collection.prompts import builtin_prompts
from validation.models.pair import load_pair
from validation.planning.measure import planner_of_trace
from validation.planning.menu import FLEXSPEC, OURS
from validation.planning.plan import Planner
from validation.planning.setting import Setting, constant_link
from validation.planning.users import equal_users, members_of, plan_band

BAND_BPS, DOWN_BPS, USERS, BATCHES, SECONDS = 10e6, 1e9, (1, 2, 3, 4, 6, 8, 16, 32), (1, 4), 600.0


def simulate(
    played: list[Rounds],
    shares_bps: list[float],
    batch: int,
    *,
    company: int = 1,
    patience_s: float = 0.0,
    seconds: float = SECONDS,
) -> float:
    """Return the tokens per second of all users together.

    Parameters
    ----------
    played : list of Rounds
        The rounds of each user, replayed from a place of its own.
    shares_bps : list of float
        Rate of each user's share of the band.
    batch : int
        The most rounds of a pass; 0: every round is verified at once. Others wait in the order of their arrival.
    company, patience_s : int, float
        A pass starts when so many rounds wait, or when one of them has waited so long.
    seconds : float
        Simulated time.
    """
    world = simpy.Environment()
    queue: list[tuple[float, simpy.Event]] = []
    arrived = [world.event()]
    done = np.zeros(len(played))

    def server() -> Generator[Any, Any, None]:
        while True:
            while len(queue) < company:
                arrived[0] = world.event()
                if not queue:
                    yield arrived[0]
                    continue
                left = queue[0][0] + patience_s - world.now
                if left <= 0:
                    break
                yield arrived[0] | world.timeout(left)
            turn, queue[:] = queue[:batch], queue[batch:]
            yield world.timeout(TIMES[1])
            for _, one in turn:
                one.succeed()

    def user(number: int) -> Generator[Any, Any, None]:
        rounds = played[number]
        per_round = rounds.tokens[rounds.text] / np.bincount(rounds.text)[rounds.text]
        place = number * len(rounds.text) // len(played)
        while True:
            yield world.timeout(rounds.drafts[place] * TIMES[0] + rounds.up_bits[place] / shares_bps[number])
            if rounds.passes[place]:
                yield world.timeout(ROUND_TRIP_S / 2)
                if batch:
                    own = world.event()
                    queue.append((world.now, own))
                    if not arrived[0].triggered:
                        arrived[0].succeed()
                    yield own
                else:
                    yield world.timeout(TIMES[1])
                yield world.timeout(ROUND_TRIP_S / 2 + rounds.down_bits[place] / DOWN_BPS)
            done[number] += per_round[place]
            place = (place + 1) % len(rounds.text)

    if batch:
        world.process(server())
    for number in range(len(played)):
        world.process(user(number))
    world.run(until=seconds)
    return float(done.sum() / seconds)


def options_of(planner: Planner, codecs: list[str], lengths: list[int]) -> list[int]:
    """Return the place of each user's lossless option."""
    own = {one.label: n for n, one in enumerate(planner.options) if one.family == OURS}
    return [own[f"{codec}, K = {length}"] for codec, length in zip(codecs, lengths, strict=True)]


def played(planner: Planner, places: list[int], asked: Any) -> list[Rounds]:
    """Return the decoded rounds of options; those of FlexSpec are the same as ours with q_d up and p down."""
    twin = {one.label: n for n, one in enumerate(planner.options) if one.family == FLEXSPEC}
    found = {}
    for place in set(places):
        option = planner.options[place]
        number = place if option.codec else twin[option.label.removeprefix("q_d up, p down, ")]
        made = planner.options[number]
        records = decoded([(number, made)], planner, *asked)[number]
        found[place] = Rounds.of(records, real_bytes=method_of(made, planner.line).real_bytes)
    return [found[place] for place in places]


def main() -> None:
    """Compare for several numbers of users and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("work", type=Path, help="the folder of plan_study.py")
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    setting = Setting(constant_link(BAND_BPS, ROUND_TRIP_S, DOWN_BPS), *TIMES)
    planner, about = planner_of_trace(asked.trace, setting, cache=asked.work)
    test = [prompt for prompt in builtin_prompts() if prompt.id in set(about["split"]["test"])]
    source = (load_pair("builtin", draft=None, target=None, device="cpu"), test, asked.work / "decoded")
    rows = []
    for batch in BATCHES:
        for users in USERS:
            people = equal_users(users, setting)
            *_, plain = plan_band(planner, people, batch)
            free = plan_users(members_of(planner, people)[0])
            codecs = [one["codec"] for one in plain["users"]]
            lengths = [one["draft_length"] for one in plain["users"]]
            shares = [BAND_BPS * one["share"] for one in plain["users"]]
            own = played(planner, options_of(planner, codecs, lengths), source)
            other = played(planner, options_of(planner, codecs, [one.draft_length for one in free.users]), source)
            rule = plain["server"]
            company, patience = rule["waits_for_rounds"], rule["waits_at_most_s"]
            here = simulate(own, shares, batch, company=company, patience_s=patience)
            alone = simulate(own, shares, 0)
            queued = simulate(other, (BAND_BPS * free.shares).tolist(), batch)
            blind = float(free.rates.sum())
            row = {
                "batch": batch,
                "users": users,
                "draft_lengths": {str(k): lengths.count(k) for k in sorted(set(lengths))},
                "predicted": round(plain["total_tokens_per_s"], 3),
                "simulated": round(here, 3),
                "predicted_over_simulated_minus_1": round(plain["total_tokens_per_s"] / here - 1.0, 5),
                "upper_bound": round(plain["upper_bound"], 3),
                "waits_for_rounds": company,
                "started_at_once": round(simulate(own, shares, batch), 3),
                "utilisation": round(plain["server"]["utilisation"], 4),
                "free_server_simulated": round(alone, 3),
                "free_server_predicted_over_simulated_minus_1": round(
                    plain["free_server_tokens_per_s"] / alone - 1.0, 5
                ),
                "plan_without_queue": {
                    "draft_lengths": sorted({one.draft_length for one in free.users}),
                    "predicted": round(blind, 3),
                    "simulated": round(queued, 3),
                    "predicted_over_simulated_minus_1": round(blind / queued - 1.0, 5),
                },
                "gain_over_plan_without_queue": round(here / queued - 1.0, 5),
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
