"""Replay every draft-length rule on real drafts, and compare each with the best fixed length in hindsight."""

import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from figures.studies.kit import SHELF, given, picture, store
from figures.studies.length_rules import source_data
from hlmtheory.draft_length import acceptance_by_depth, optimal_draft_length, split_tokens
from hlmtheory.draft_length.optimum import optimal_draft_length_profile, surrogate_draft_length
from hlmtheory.draft_length.published import single_rate
from validation.plots.common.ends import label_ends
from validation.plots.common.record import plain
from validation.plots.common.style import DARK, MIDDLE, PAGE

MAX_LENGTH = 15
FIXED_SHOWN = range(1, 9)
FOLDS = 10
RESAMPLES = 2_000
STEP, START = 0.1, 0.8
"""Step of the moving average and its first estimate, as in the decoding methods of this project."""
ROUND_TRIPS_MS = (0.0, 5.0, 20.0, 100.0)
PLACES = {"eagle": ("H100", "device"), "ngram": ("H100",)}

Row = np.ndarray[Any, Any]
Chooser = Callable[[int, int], int]
"""Takes the last round's draft length and accepted drafts, (0, 0) at the start; returns the next draft length."""


def replay(request: source_data.Request, choose: Chooser) -> tuple[int, int, int]:
    """Return rounds, cached tokens summed over rounds, and drafts of one request.

    >>> replay(Request(10, (3, 2, 1, 1)), lambda length, accepted: 1)  # 2 tokens, then 1 or more
    (2, 24, 2)
    """
    rounds = cached = drafts = at = length = accepted = 0
    last = len(request.emitted) - 1  # the prefill emits the first token
    while at < last:
        length = choose(length, accepted)
        rounds, cached, drafts = rounds + 1, cached + request.prompt + at + 1, drafts + length
        tokens = min(request.emitted[at], length + 1)
        accepted, at = tokens - 1, at + tokens
    return rounds, cached, drafts


def fixed_sums(requests: Sequence[source_data.Request]) -> Row:
    """Return the sums of each request for every fixed length, shape (K_max, R, 3)."""
    lengths = range(1, MAX_LENGTH + 1)
    return np.array([[replay(one, lambda *_, k=k: k) for one in requests] for k in lengths], dtype=np.float64)


def counts(request: source_data.Request, length: int) -> Row:
    """Return the number of rounds by accepted drafts, shape (length + 1,), for rounds of one length."""
    found, at = np.zeros(length + 1), 0
    while at < len(request.emitted) - 1:
        tokens = min(request.emitted[at], length + 1)
        found[tokens - 1] += 1
        at += tokens
    return found


def seconds(sums: Row, times: source_data.RoundTimes) -> Row:
    """Return the time of each request from its sums."""
    return np.asarray(sums @ np.array([times.base, times.cached, times.draft]))


def thresholds(choose: Callable[[Row], Any]) -> list[float]:
    """Return the acceptance rates at which a rule's length rises to 2, ..., K_max, by bisection; infinite if never."""
    wanted = np.arange(2, MAX_LENGTH + 1)
    low, high = np.zeros(len(wanted)), np.ones(len(wanted))
    for _ in range(60):
        middle = (low + high) / 2
        reached = np.asarray(choose(middle)) >= wanted
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return [float(one) for one in np.where(np.asarray(choose(np.ones(len(wanted)))) >= wanted, high, np.inf)]


def consistent_average(ends: list[float]) -> Chooser:
    """Return K* of accepted over examined drafts of the past rounds, both with forgetting."""
    accepted_sum, examined_sum = START, 1.0

    def choose(length: int, accepted: int) -> int:
        nonlocal accepted_sum, examined_sum
        if length:
            accepted_sum = (1.0 - STEP) * accepted_sum + accepted
            examined_sum = (1.0 - STEP) * examined_sum + min(accepted + 1, length)
        return 1 + bisect_right(ends, accepted_sum / examined_sum)

    return choose


def printed_average(ends: list[float]) -> Chooser:
    """Return a length from flexspec's moving average of accepted over drafted tokens."""
    estimate = START

    def choose(length: int, accepted: int) -> int:
        nonlocal estimate
        if length:
            estimate = (1.0 - STEP) * estimate + STEP * accepted / length
        return 1 + bisect_right(ends, estimate)

    return choose


def stepwise() -> Chooser:
    """Return the assisted-generation heuristic: 5 at first, 2 more if all drafts were accepted, else 1 fewer."""

    def choose(length: int, accepted: int) -> int:
        if not length:
            return 5
        return min(length + 2, MAX_LENGTH) if accepted == length else max(length - 1, 1)

    return choose


def causal_rules(fixed: float, marginal: float) -> dict[str, Callable[[], Chooser]]:
    """Return the rules that look at the past rounds of the request only; each call starts a request."""
    exact = thresholds(lambda rates: optimal_draft_length(rates, fixed, marginal, MAX_LENGTH))
    linear = thresholds(lambda rates: surrogate_draft_length(rates, fixed, marginal, MAX_LENGTH))
    return {
        "flexspec as printed": lambda: printed_average(linear),
        "printed average, K*": lambda: printed_average(exact),
        "moving average, K*": lambda: consistent_average(exact),
        "plus 2, minus 1": stepwise,
    }


def fitted_lengths(tables: dict[int, Row], sums: Row, tokens: float, times: source_data.RoundTimes) -> dict[str, int]:
    """Return the length that each rule chooses from these requests."""
    fixed = times.base + times.cached * float(sums[4, 1] / sums[4, 0])
    mean = {k: float(row @ np.arange(k + 1) / row.sum()) for k, row in tables.items()}
    square = np.zeros((MAX_LENGTH + 1,) * 2, dtype=np.int64)
    square[MAX_LENGTH] = tables[MAX_LENGTH]
    profile = np.nan_to_num(acceptance_by_depth(square).acceptances)
    lengths = np.arange(1, MAX_LENGTH + 1)
    split = np.asarray(split_tokens(tables[MAX_LENGTH][None, :], lengths)).reshape(-1)
    rates = {f"rate at {k}, K*": float(single_rate(mean[k], k)) for k in (1, 5)}
    rates["accepted/drafted at 5, K*"] = mean[5] / 5
    found = {name: int(optimal_draft_length(one, fixed, times.draft, MAX_LENGTH)) for name, one in rates.items()}
    found["depths, K*"] = int(optimal_draft_length_profile(profile, fixed, times.draft))
    found["split rounds"] = 1 + int(np.argmax(split / (fixed + times.draft * lengths)))
    found["best fixed of the others"] = 1 + int(np.argmax(tokens / seconds(sums, times)))
    return found


def oracle(request: source_data.Request) -> tuple[int, int, int]:
    """Return the sums of the simulator's oracle: a round drafts what will be accepted, which may be nothing."""
    rounds = cached = drafts = at = 0
    while at < len(request.emitted) - 1:
        length = min(request.emitted[at] - 1, MAX_LENGTH)
        rounds, cached, drafts = rounds + 1, cached + request.prompt + at + 1, drafts + length
        at += length + 1
    return rounds, cached, drafts


def least_seconds(request: source_data.Request, times: source_data.RoundTimes) -> float:
    """Return the least time over all sequences of lengths 0..K_max, by dynamic programming from the last token."""
    last = len(request.emitted) - 1
    after = [0.0] * (last + MAX_LENGTH + 2)
    for at in range(last - 1, -1, -1):
        most = min(request.emitted[at] - 1, MAX_LENGTH)
        best = min(times.draft * k + after[at + k + 1] for k in range(most + 1))
        after[at] = times.base + times.cached * (request.prompt + at + 1) + best
    return after[0]


def study(requests: Sequence[source_data.Request], drafter: str, seed: int) -> dict[str, Any]:
    """Return the results of one data set with one drafter, for every place of the drafter and every link."""
    rng = np.random.default_rng([seed, 3])
    fold = rng.permutation(np.arange(len(requests)) % FOLDS)
    weights = rng.multinomial(len(requests), np.full(len(requests), 1 / len(requests)), RESAMPLES).astype(np.float64)
    tokens = np.array([len(one.emitted) - 1 for one in requests], dtype=np.float64)
    sums = fixed_sums(requests)
    tables = {k: np.stack([counts(one, k) for one in requests]) for k in (1, 5, MAX_LENGTH)}
    seen = np.array([oracle(one) for one in requests], dtype=np.float64)
    found = {}
    for place in PLACES[drafter]:
        for trip in ROUND_TRIPS_MS:
            times = source_data.round_times(drafter, trip / 1e3, device=place == "device")
            rules: dict[str, Row] = {f"fixed {k}": sums[k - 1] for k in range(1, MAX_LENGTH + 1)}
            rules |= fitted_sums(sums, tables, tokens, fold, times)
            fixed = times.base + times.cached * float(sums[4, :, 1].sum() / sums[4, :, 0].sum())
            for name, start in causal_rules(fixed, times.draft).items():
                rules[name] = np.array([replay(one, start()) for one in requests], dtype=np.float64)
            rules["clairvoyant"] = seen
            taken = {name: seconds(one, times) for name, one in rules.items()}
            taken["best fixed of each request"] = np.min(
                [taken[f"fixed {k}"] for k in range(1, MAX_LENGTH + 1)], axis=0
            )
            taken["least time"] = np.array([least_seconds(one, times) for one in requests])
            shown = compared(taken, rules, tokens, weights)
            found[f"{place}, {trip:g} ms"] = {"fixed_s": plain(fixed, 5), "draft_s": plain(times.draft, 5)} | shown
    return {"requests": len(requests), "tokens": int(tokens.sum()), "settings": found}


def fitted_sums(
    sums: Row, tables: dict[int, Row], tokens: Row, fold: Row, times: source_data.RoundTimes
) -> dict[str, Row]:
    """Return the sums of each request at the lengths that the other folds choose."""
    found: dict[str, Row] = {}
    for part in range(FOLDS):
        others, own = fold != part, fold == part
        told = {k: one[others].sum(axis=0) for k, one in tables.items()}
        chosen = fitted_lengths(told, sums[:, others].sum(axis=1), float(tokens[others].sum()), times)
        for name, k in chosen.items():
            found.setdefault(name, np.zeros_like(sums[0]))[own] = sums[k - 1, own]
    return found


def compared(taken: dict[str, Row], rules: dict[str, Row], tokens: Row, weights: Row) -> dict[str, Any]:
    """Return speed, mean draft length and regret of each rule; the best fixed length is found anew per resample."""
    lengths = range(1, MAX_LENGTH + 1)
    total = {name: float(one.sum()) for name, one in taken.items()}
    best = min(lengths, key=lambda k: total[f"fixed {k}"])
    resampled = np.min([weights @ taken[f"fixed {k}"] for k in lengths], axis=0)
    table = {}
    for name, one in taken.items():
        if name.startswith("fixed ") and int(name[6:]) not in {*FIXED_SHOWN, best}:
            continue
        spread = 1.0 - resampled / (weights @ one)
        table[name] = {
            "tokens_per_s": plain(float(tokens.sum()) / total[name], 5),
            "regret": plain(1.0 - total[f"fixed {best}"] / total[name], 4),
            "interval": [plain(float(end), 4) for end in np.quantile(spread, [0.025, 0.975])],
        }
        if name in rules:
            rounds, _, drafts = rules[name].sum(axis=0)
            table[name] |= {
                "drafts_per_round": plain(float(drafts / rounds), 4),
                "tokens_per_round": plain(float(tokens.sum() / rounds), 4),
            }
    return {"best": best, "rules": table}


DRAWN: dict[str, dict[str, Any]] = {
    "flexspec as printed": {"color": MIDDLE, "marker": "v", "linestyle": (0, (1, 1))},
    "rate at 1, K*": {"color": MIDDLE, "marker": "s", "linestyle": (0, (4, 2))},
    "depths, K*": {"color": DARK, "marker": "o"},
    "moving average, K*": {"color": DARK, "marker": "^", "linestyle": (0, (4, 2)), "markerfacecolor": "white"},
    "clairvoyant": {"color": "0.65", "marker": "D"},
}
TICKS = (-30, -10, -3, -1, 0, 1, 3, 10, 30)
SHOWN = ("EAGLE-3", "device")
"""Drafter and place of the picture, where drafts cost time; the numbers hold all places."""


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw the regret of five rules over the round-trip time, a panel for each data set."""
    with picture(path, (PAGE[0], 3.0), len(source_data.DATASETS)) as (_, panels):
        for panel, dataset in zip(panels, source_data.DATASETS, strict=True):
            settings = found[f"{SHOWN[0]}, {dataset}"]["settings"]
            for offset, (name, style) in enumerate(DRAWN.items()):
                told = [settings[f"{SHOWN[1]}, {trip:g} ms"]["rules"][name] for trip in ROUND_TRIPS_MS]
                x = np.arange(len(ROUND_TRIPS_MS)) + 0.07 * (offset - 2)
                ends = 100 * np.array([rule["interval"] for rule in told]).T
                panel.plot(x, [100 * rule["regret"] for rule in told], ms=3.5, label=name, **style)
                panel.vlines(x, *ends, color=style["color"], lw=0.8)
            panel.axhline(0, color="0.3", lw=0.6)
            panel.set_yscale("symlog", linthresh=1.0, linscale=0.7)
            panel.set_yticks(TICKS, [f"{tick:g}".replace("-", "−") for tick in TICKS])
            panel.minorticks_off()
            panel.set_xticks(range(len(ROUND_TRIPS_MS)), [f"{trip:g}" for trip in ROUND_TRIPS_MS])
            panel.set(title=f"{SHOWN[0]}, {dataset}", xlabel="round trip (ms)", ylim=(-45, 75))
            label_ends(panel)
        panels[0].set_ylabel("regret (%)")


def main() -> None:
    """Replay all data, and write the numbers and the figure."""
    asked = given(__doc__, "folder", seed=1)
    found, without = {}, {}
    for dataset, (drafter, name) in itertools.product(source_data.DATASETS, source_data.DRAFTERS.items()):
        requests = source_data.read(source_data.path_of(asked.folder, dataset), drafter)
        found[f"{name}, {dataset}"] = study(requests, drafter, asked.seed)
        short = [one for one in requests if len(one.emitted) < source_data.LOOPS]
        if len(short) < len(requests):
            without[f"{name}, {dataset}"] = study(short, drafter, asked.seed)
    about = {
        "seed": asked.seed,
        "source": source_data.SOURCE,
        "sha256": source_data.digests(asked.folder),
        "measured": "acceptance on an H100 by the source; replayed here",
        "simulated": "times of a round, from the source's fit, with the link added; a device's 5 ms a draft is assumed",
        "max_length": MAX_LENGTH,
        "folds": FOLDS,
        "resamples": RESAMPLES,
        "loops": source_data.LOOPS,
        "step": STEP,
        "start": START,
        "device_draft_s": source_data.DEVICE_DRAFT_S,
    }
    out = SHELF / "length_rules" / "length_rules.json"
    store(out, about | {"data": found, "without_loops": without})
    draw(found, out)


if __name__ == "__main__":
    main()
