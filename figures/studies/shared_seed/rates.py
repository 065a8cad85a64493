"""Tokens per second against the link's rate: a token alone, streamed or not, beside every other method.

PYTHONPATH=. python3 figures/studies/shared_seed/rates.py TRACE WORK rates.json

Every method is counted along texts of the target model, with the times of ``figures/studies/plan``. A third of the
prompts chooses the parameters for each link (drafts, lattice, budget, threshold), another third is counted. Given the
server's token y at a position, the device's draft is it with probability t_y/p_y, t_y = P(a = b = y), as it is
accepted with probability min(1, q_y/p_y) by rejection sampling. So the counts of rounds are exact means. Streamed
drafts are simulated: matches are drawn with these probabilities, and :mod:`validation.decoding.streamed` replays them.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from figures.studies.kit import given, laws, legend, picture, read, store
from hlmtheory.shared_seed import streamed_rate
from validation.decoding.links import FadingLink, Way
from validation.decoding.random_streams import Noise
from validation.decoding.records import Round
from validation.decoding.streamed import Sizes, replay
from validation.decoding.wire import index_bits
from validation.planning.measure import planner_of_trace
from validation.planning.menu import COLOCATED, CU_HLM, FIXED, FLEXSPEC, HLM, SERVER, SQS, STREAM, U_HLM, Option
from validation.planning.plan import Planner
from validation.planning.request import Request
from validation.planning.rounds import COUNTS, Wire, expected_counts
from validation.planning.setting import Setting, constant_link
from validation.plots.common.record import plain
from validation.plots.common.style import DARK, MIDDLE
from validation.trace.reader import Trace, open_trace

Array = NDArray[Any]
TIMES = (0.012, 0.030)
RATES = np.geomspace(1e4, 1e8, 9)
ROUND_TRIPS = (0.005, 0.02, 0.1)
LOSSLESS = (COLOCATED, STREAM, SERVER, SQS, FLEXSPEC, FIXED, HLM)
TOKEN_LIMIT = ("token", 0.05)
MOST_DRAFTS, REPLICATES, RESAMPLES, SEED = 32, 4, 2_000, 1
SHARED, STREAMED = "shared seed", "shared seed, streamed"
COLUMN = {name: place for place, name in enumerate(COUNTS)}


def matches_along(trace: Trace) -> list[Array]:
    """Return t_y/p_y at each position of each text: the probability that the device's draft is the text's token."""
    index, place, tokens = (np.asarray(trace.arrays[name][:]) for name in ("prompt_index", "position", "tokens"))
    found = np.empty(trace.positions)
    for part, q, p in laws(trace):
        at, y = np.arange(len(q)), tokens[part]
        q_y, p_y = q[at, y][:, None], p[at, y][:, None]
        with np.errstate(divide="ignore", over="ignore"):
            slower = np.maximum(q * (p_y / q_y), p).sum(axis=-1)  # p_y Σ max(q/q_y, p/p_y); infinite where q_y is 0
        found[part] = 1.0 / slower
    first = np.flatnonzero((place == 0) | (np.diff(index, prepend=index[0] - 1) != 0))
    return np.split(found, first[1:])


def rounds_of(matches: list[Array], vocabulary: int) -> list[Option]:
    """Return rounds of K drafts by a shared seed; header and reply are those of the other methods."""
    length, width = np.array([len(one) for one in matches]), index_bits(vocabulary)
    table = np.zeros((int(length.max()), len(length)))
    for column, one in enumerate(matches):
        table[: len(one), column] = one
    wire, none = Wire(header=16.0, reply=8.0 * -(-(4 + width) // 8)), np.zeros(len(length))
    return [
        Option(SHARED, f"K = {k}", counts, k, -np.inf, none, none, (0, 0))
        for k in range(1, MOST_DRAFTS + 1)
        for counts in [expected_counts(table, np.full_like(table, float(width)), length, k, wire=wire)]
    ]


def best(options: list[Option], texts: Array, test: Array, setting: Setting) -> tuple[Option, Array]:
    """Return the option that is the fastest on some texts, and its seconds on the others."""
    chosen = options[int(np.argmax(setting.value(np.stack([one.counts[texts].sum(axis=0) for one in options]))))]
    return chosen, setting.seconds(chosen.counts[test], setting.link.rates[0])


def sizes_of(vocabulary: int) -> tuple[int, int]:
    """Return the bytes of a draft's message and of an answer, as ``SharedSeedStreamed`` sends them."""
    width = index_bits(vocabulary)
    return -(-(1 + width) // 8), -(-(17 + width) // 8)


def streamed_texts(matches: list[Array], rate: float, trip_s: float, vocabulary: int) -> dict[str, Array]:
    """Return the seconds, passes and drafts sent of each text, in the mean over replicates."""
    way = Way(trip_s / 2, rate)
    rng, (up, down) = np.random.default_rng(SEED), sizes_of(vocabulary)
    found = np.zeros((3, len(matches)))
    for text, chances in enumerate(matches):
        channel = FadingLink("constant", rate, 1.0, way).open(Noise(SEED, ["text"], 0))
        for _ in range(REPLICATES):
            rounds = replay(
                (rng.random(len(chances)) < chances).tolist(), Sizes(*TIMES, bytes=up, down_bytes=down), 0, channel
            )
            found[:, text] += (seconds_of(rounds), len(rounds), sum(one.drafted for one in rounds))
    return dict(zip(("seconds", "passes", "sent"), found / REPLICATES, strict=True))


def seconds_of(rounds: list[Round]) -> float:
    """Return the time that passed."""
    return sum(one.draft_s + one.target_s + one.link_s - one.overlap_s for one in rounds)


def interval(tokens: Array, seconds: Array, picks: Array) -> list[float]:
    """Return tokens per second with a 95% interval over texts."""
    drawn = tokens[picks].sum(axis=1) / seconds[picks].sum(axis=1)
    return plain([tokens.sum() / seconds.sum(), *np.quantile(drawn, [0.025, 0.975])], 5)


def at_link(
    planner: Planner, own: list[Option], matches: list[Array], setting: Setting, vocabulary: int
) -> dict[str, Any]:
    """Return the speed of each method over one link, with its parameters."""
    train, test = planner.split.train, planner.split.test
    tokens = np.array([float(len(matches[text])) for text in test])
    picks = np.random.default_rng(SEED).integers(0, len(test), (RESAMPLES, len(test)))
    limited = replace(setting, risk_kind=TOKEN_LIMIT[0], risk_limit=TOKEN_LIMIT[1])
    menus = {family: [one for one in planner.options if one.family == family] for family in LOSSLESS}
    menus[SHARED] = own
    for family in (U_HLM, CU_HLM):
        menus[f"{family}, paper's threshold"] = planner.candidates(family, setting, lossless=True)
        menus[f"{family}, token .05"] = [
            one for one in planner.options if one.family == family and planner.safe(one, limited)
        ]
    found: dict[str, Any] = {}
    spent: dict[str, Array] = {}
    for name, menu in menus.items():
        if not menu:
            continue
        chosen, spent[name] = best(menu, train, test, setting)
        found[name] = {"tokens_per_s": interval(tokens, spent[name], picks), "option": chosen.label}
        if chosen.threshold > -np.inf:
            found[name]["token_loss"] = plain(float(chosen.token_loss[test].mean()), 4)
    rate, trip = float(setting.link.rates[0]), setting.link.round_trip_s
    own_matches = [matches[text] for text in test]
    streamed = streamed_texts(own_matches, rate, trip, vocabulary)
    for name, seconds in spent.items():
        ratio = seconds[picks].sum(axis=1) / streamed["seconds"][picks].sum(axis=1)
        middle = seconds.sum() / streamed["seconds"].sum()
        found[name]["streamed_over_it"] = plain([middle, *np.quantile(ratio, [0.025, 0.975])], 4)
    up, down = sizes_of(vocabulary)
    delay = trip + 8.0 * (up + down) / rate
    formula = streamed_rate(float(np.concatenate(own_matches).mean()), TIMES[0], delay, TIMES[1]).rate
    found[STREAMED] = {
        "tokens_per_s": interval(tokens, streamed["seconds"], picks),
        "passes_per_token": plain(streamed["passes"].sum() / tokens.sum(), 4),
        "sent_per_token": plain(streamed["sent"].sum() / tokens.sum(), 4),
        "formula_for_constant_acceptance": plain(float(formula), 5),
    }
    return found


LINES = {  # method: colour, marker, line
    "server with its own draft": ("0.35", "P", "--"),
    "server alone, streaming": ("0.6", "v", "--"),
    "shared seed, streamed": (DARK, "o", "-"),
    "shared seed": (DARK, "d", ":"),
    "SQS": (MIDDLE, "s", "-"),
    "FlexSpec": (MIDDLE, "^", ":"),
    "HLM": ("0.6", "x", "-"),
    "U-HLM, token .05": ("#6d8bb5", ".", "-"),
    "CU-HLM, token .05": ("#6d8bb5", "D", ":"),
}


def draw(stored: Path) -> None:
    """Draw tokens per second against the link's rate, a panel for each round trip."""
    panels = read(stored)["speeds"]["no header"]
    with picture(stored, (7.0, 2.9), len(panels)) as (figure, axes):
        for panel, (trip, by_rate) in zip(axes, panels.items(), strict=True):
            for name, (color, marker, line) in LINES.items():
                speeds = [found[name]["tokens_per_s"][0] for found in by_rate.values()]
                look = {"color": color, "marker": marker, "linestyle": line, "markersize": 3}
                panel.plot([float(rate) for rate in by_rate], speeds, label=name, **look)
            panel.set(xscale="log", yscale="log", xlabel="rate, bit/s", title=f"round trip {trip}", ylim=(0.5, 80))
        axes[0].set_ylabel("tokens/s")
        legend(figure, axes, 5)


def main() -> None:
    """Count, store and draw."""
    asked = given(__doc__, "trace", "work", "out")
    planner, about = planner_of_trace(asked.trace, Setting(constant_link(1e7, 0.02), *TIMES), cache=asked.work)
    own_draft = Request(draft_s=TIMES[0], verify_s=TIMES[1]).with_server_draft(about["evidence"]["parameter_ratio"])
    trace = open_trace(asked.trace)
    matches = matches_along(trace)
    if [len(one) for one in matches] != planner.options[0].counts[:, COLUMN["tokens"]].astype(int).tolist():
        raise SystemExit("the texts of the trace are not those of the profile")
    own = rounds_of(matches, trace.vocabulary)
    found: dict[str, Any] = {}
    for trip, rate in product(ROUND_TRIPS, RATES.tolist()):
        setting = replace(planner.setting, link=constant_link(rate, trip), server_draft_s=own_draft.server_draft_s)
        speeds = at_link(planner, own, matches, setting, trace.vocabulary)
        found.setdefault(f"{1e3 * trip:g} ms", {})[f"{rate:.0f}"] = speeds
    head = {
        "kind": "measured acceptance × assumed times",
        "trace": {"pair": trace.manifest.get("pair", {}).get("name"), "positions": trace.positions},
        "prompts": planner.split.prompts,
        "times_s": TIMES,
        "server_draft_s": plain(own_draft.server_draft_s, 5),
        "acceptance": plain(float(np.concatenate(matches).mean()), 5),
        "bootstrap": "95% over the counted prompts",
    }
    store(asked.out, head | {"speeds": {"no header": found}}, indent=None)
    draw(asked.out)


if __name__ == "__main__":
    main()
