"""Figure 8 and Table X of ours: acceptance by depth, the error of a single rate, and what published counts identify.

Both read the stored results of ``figures/studies/acceptance_by_depth``; this module measures nothing.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlmtheory.verification import expected_tokens
from validation.plots.common.record import Numbers, Table
from validation.plots.common.style import DARK, MIDDLE, axis, canvas, name_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

COVERAGE = Path(__file__).with_name("acceptance_coverage.json")
REPLAY = Path(__file__).with_name("acceptance_replay.json")

SIZE = (7.0, 2.9)
ENOUGH = 50
"""A depth is drawn if at least this many rounds examined it."""

RATE, PROFILE, SPLIT = "rate at 1", "profile at 15", "split"
SHOWN = 7
"""Draft length at which the tables give errors."""

LINKS = ("server, 0 ms", "server, 5 ms", "server, 20 ms", "server, 100 ms", "device, 20 ms", "device, 100 ms")
CHOOSERS = ("rate at 1", "rate at 7", "accepted/drafted at 7", PROFILE, SPLIT)

STYLES: dict[str, dict[str, Any]] = {
    "EAGLE-3, gsm8k": {"color": DARK, "marker": "o"},
    "EAGLE-3, instructcoder": {"color": DARK, "marker": "s", "linestyle": (0, (4, 2))},
    "n-gram, gsm8k": {"color": MIDDLE, "marker": "^"},
    "n-gram, instructcoder": {"color": MIDDLE, "marker": "v", "linestyle": (0, (4, 2))},
}

PUBLISHED = (
    ("vLLM: acceptance_histogram_by_draft_length", "n[k][i]", "α_d, if k is independent of the outcome"),
    (
        "vLLM: num_accepted_tokens_per_pos, num_drafts, num_draft_tokens",
        "H(d), mean k",
        "α_d at a fixed k; else α_1, and an interval of α_d",
    ),
    ("vLLM: acceptance_histogram of a request", "H(d)", "α_d at a fixed k; else α_1, and a lower bound of α_d"),
    (
        "SGLang: spec_accept_histogram, spec_correct_drafts_histogram",
        "H(d); its drafted tokens are rounds × the most",
        "α_d at a fixed k; else α_1, and a lower bound of α_d",
    ),
    (
        "SGLang: spec_accept_length, spec_accept_rate",
        "mean i with the prefill's token",
        "E(k) only after the prefill's token is removed",
    ),
    (
        "TensorRT-LLM: acceptanceLength, numDraftTokens, numAcceptedTokens",
        "mean i, mean k",
        "E(k) in use; other K within an interval, at a fixed k",
    ),
    (
        "llama.cpp: draft_n, draft_n_accepted, predicted_n",
        "mean i, mean k; k depends on the draft's confidence",
        "E(k) in use",
    ),
    (
        "llama.cpp: acceptance rate per position",
        "H(d); k depends on the draft's confidence",
        "E(k) in use; S(d) ≥ H(d)",
    ),
    ("Spec-Bench: accept_lengths; specdec_bench: Acceptance_Length_Histogram", "H(d)", "α_d, if the method has one k"),
    ("SpecDecode-Bench/simulator: acc_len", "L at every token", "everything: every K can be replayed"),
)


@cache
def replay() -> dict[str, Any]:
    """Return the stored replay of real drafts."""
    found: dict[str, Any] = json.loads(REPLAY.read_text(encoding="utf-8"))
    return found


@cache
def coverage() -> dict[str, Any]:
    """Return the stored simulation of the intervals."""
    found: dict[str, Any] = json.loads(COVERAGE.read_text(encoding="utf-8"))
    return found


def _percent(value: float) -> str:
    return f"{100.0 * value:+.1f}%".replace("-", "−")


def _basis() -> str:
    found = replay()["data"]
    sizes = {name.split(", ")[1]: one["requests"] for name, one in found.items()}
    listed = " and ".join(f"{count} requests of {name}" for name, count in sizes.items())
    return (
        f"a replay of the acceptance data of Llama-3.1-8B-Instruct that liu2025specdecode published, {listed}; "
        f"intervals: 95%, {replay()['resamples']:,} resamples of the requests"
    )


# ------------------------------------------------------------------------------------------------------ Figure 8


def simulate(seed: int) -> Numbers:
    """Return acceptance by depth, and the error in tokens of a round by a rate, a profile and split rounds."""
    series = []
    for name, one in replay()["data"].items():
        depths = one["acceptance"]
        deep = sum(count >= ENOUGH for count in depths["examined"])
        series.append(
            {
                "name": name,
                "x": depths["depth"][:deep],
                "y": depths["alpha"][:deep],
                "interval": depths["interval"][:deep],
                "length": one["tokens"]["length"],
                "tokens": one["tokens"]["true"],
                "first_draft": [depths["at_length_1"], depths["alpha"][0]],
                **{kind: one["errors"][kind]["relative"] for kind in (RATE, PROFILE, SPLIT)},
            }
        )
    names = (
        (axis("depth d"), axis("acceptance given d − 1")),
        (axis("draft length K"), axis("error, rate fitted at K = 1", "%")),
        (axis("draft length K"), axis("error, from rounds of 15 drafts", "%")),
    )
    return {
        "axes": [{"x": x, "y": y} for x, y in names],
        "series": series,
        "statistics": {
            one["name"]: {
                "rate_error_at_7": one[RATE][SHOWN - 1],
                "first_beyond_5_percent": next((k + 1 for k, e in enumerate(one[RATE]) if abs(e) > 0.05), None),
                "profile_error_largest": max(one[PROFILE], key=abs),
                "split_error_largest": max(one[SPLIT], key=abs),
            }
            for one in series
        },
        "basis": _basis(),
    }


def paint(numbers: Numbers) -> Canvas:
    """Draw three panels: acceptance, error of the rate, error of the profile and of split rounds."""
    figure, (left, middle, right) = canvas(SIZE, panels=3)
    for one in numbers["series"]:
        style = STYLES[one["name"]] | {"markersize": 3}
        low, high = zip(*one["interval"], strict=True)
        left.plot(one["x"], one["y"], label=one["name"], **style)
        left.fill_between(one["x"], low, high, color=style["color"], alpha=0.15, linewidth=0)
        middle.plot(one["length"], [100.0 * e for e in one[RATE]], **style)
        right.plot(one["length"], [100.0 * e for e in one[PROFILE]], **style)
        if one["name"] == "n-gram, instructcoder":
            split = style | {"markerfacecolor": "white", "linestyle": (0, (1, 1.5)), "label": "split rounds"}
            right.plot(one["length"], [100.0 * e for e in one[SPLIT]], **split)
    for axes, names in zip((left, middle, right), numbers["axes"], strict=True):
        name_axes(axes, names)
        axes.set_xticks([1, 5, 10, 15])
    left.set(ylim=(0, 1))
    for axes in (middle, right):
        axes.axhspan(-5.0, 5.0, color="0.93", linewidth=0)
        axes.set(ylim=(-28, 21))
    right.legend(loc="upper right")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def message(numbers: Numbers) -> str:
    """Give the error of the rate at K = 7."""
    worst = max(numbers["statistics"].values(), key=lambda one: abs(one["rate_error_at_7"]))["rate_error_at_7"]
    return (
        f"A single rate fitted at K = 1 is wrong by up to {100.0 * abs(worst):.0f}% at K = {SHOWN}, and acceptance by "
        "depth does not correct this."
    )


SHOWS = "Left: acceptance of each draft. Other panels: error of the tokens of a round."
METHOD = (
    "The left panel is the acceptance of draft d after d − 1 accepted ones, in rounds of 15 drafts. Errors are against "
    "a replay with K drafts; grey: within 5%; dotted: n-grams on instructcoder by split rounds."
)


def caption(numbers: Numbers) -> str:
    """Give all errors, and their causes."""
    parts = [
        f"{name}: rate {_percent(one['rate_error_at_7'])} at K = {SHOWN}, profile at most "
        f"{_percent(one['profile_error_largest'])}, split rounds at most {_percent(one['split_error_largest'])}"
        for name, one in numbers["statistics"].items()
    ]
    firsts = [f"{one['name']} {one['first_draft'][0]:.2f}, {one['first_draft'][1]:.2f}" for one in numbers["series"]]
    beyond = [one["first_beyond_5_percent"] or 0 for one in numbers["statistics"].values()]
    return (
        f"The error of the rate first exceeds 5% at K = {min(beyond)} to {max(beyond)}. Acceptance by depth is counted "
        f"at K = 15. Errors by drafts and texts: {'; '.join(parts)}. Two causes add up or cancel. Longer rounds begin "
        "at harder tokens: the first draft is "
        f"accepted less often ({'; '.join(firsts)} in rounds of 1 and 15). And acceptance changes with the depth: that "
        "of EAGLE-3 falls after depth 7; n-grams copy long passages after a first token that is mostly wrong. Split "
        "rounds assume that a round that begins one token later accepts at most one draft fewer; if so, they are a "
        "lower bound. The data does not show where no n-gram matched; such rounds count as rejected drafts."
    )


# ------------------------------------------------------------------------------------------------------- Table X


def simulate_table(seed: int) -> Numbers:
    """Return errors, chosen draft lengths, coverage, and what published counts identify."""
    return {
        "axes": [],
        "series": [],
        "statistics": {"data": _summary(), "coverage": _coverage_summary()},
        "tables": [one.plain() for one in (_errors_table(), _choices_table(), _coverage_table(), _published_table())],
        "basis": f"{_basis()}; coverage simulated with {coverage()['repetitions']:,} repetitions",
    }


def _summary() -> dict[str, Any]:
    found = {}
    for name, one in replay()["data"].items():
        losses = {kind: max(speed["loss"][kind] for speed in one["speeds"].values()) for kind in CHOOSERS}
        found[name] = {"largest_loss": losses, "random_lengths": one["random_lengths"]["relative"]}
    return found


def _coverage_summary() -> dict[str, float]:
    rows = coverage()["rows"]
    alone = [one for one in rows if not one["requests"] and one["lengths"].endswith(("independent", "7"))]
    differ = [one for one in rows if one["requests"] and one["lengths"] == "uniform, independent"]
    looks = [one for one in rows if one not in alone and one not in differ]
    return {
        "band_least": min(one["coverage"]["band"] for one in alone),
        "exact_least": min(min(one["coverage"][f"depth {d}"] for d in (1, 4, 7)) for one in alone),
        "delta_at_1000_least": min(one["coverage"]["delta"] for one in alone if one["rounds"] == 1000),
        "delta_at_30_most": max(one["coverage"]["delta"] for one in alone if one["rounds"] == 30),
        "delta_of_requests_most": max(one["coverage"]["delta"] for one in differ),
        "clustered_least": min(one["coverage"]["clustered"] for one in differ if one["requests"] >= 40),
        "delta_if_k_looks_most": max(one["coverage"]["delta"] for one in looks),
        "bias_if_k_looks_most": max(one["mean_estimate"] / one["true_tokens"] - 1.0 for one in looks),
    }


def _errors_table() -> Table:
    rows = []
    data = {name: (one["tokens"]["true"], one["errors"], one) for name, one in replay()["data"].items()}
    for name, (true, errors, one) in data.items():
        rate = errors[RATE]
        low, high = rate["interval"][SHOWN - 1]
        beyond = rate["beyond_5_percent"]
        rows.append(
            (
                name,
                f"{one['acceptance']['at_length_1']:.3f}, {one['acceptance']['alpha'][0]:.3f}",
                f"{true[SHOWN - 1]:.3f}",
                f"{_percent(rate['relative'][SHOWN - 1])} [{_percent(low)}, {_percent(high)}]",
                _percent(_first_alone(one) / true[SHOWN - 1] - 1.0),
                f"K = {beyond[0]}" if beyond else "none",
                f"{_percent(errors['rate at 7']['relative'][0])}, {_percent(errors['rate at 7']['relative'][14])}",
                _percent(max(errors[PROFILE]["relative"], key=abs)),
                _percent(max(errors[SPLIT]["relative"], key=abs)),
            )
        )
    for name, errors in replay()["without_loops"].items():
        beyond = [k + 1 for k, e in enumerate(errors[RATE]) if abs(e) > 0.05]
        rows.append(
            (
                f"{name}, without 5 texts of 8,192 tokens",
                "–",
                "–",
                _percent(errors[RATE][SHOWN - 1]),
                "–",
                f"K = {beyond[0]}" if beyond else "none",
                f"{_percent(errors['rate at 7'][0])}, {_percent(errors['rate at 7'][14])}",
                _percent(max(errors[PROFILE], key=abs)),
                _percent(max(errors[SPLIT], key=abs)),
            )
        )
    heads = (
        "drafts, texts",
        "first draft accepted at K = 1, at K = 15",
        f"tokens of a round at K = {SHOWN}",
        f"error at K = {SHOWN}, rate fitted at 1",
        "by the first draft at 15",
        "beyond 5% from",
        "error at K = 1 and 15, rate fitted at 7",
        "largest error, profile at 15",
        "largest error, split rounds of 15",
    )
    return Table("Expected tokens of a round, estimated and replayed", heads, tuple(rows))


def _choices_table() -> Table:
    rows = []
    for name, one in replay()["data"].items():
        for link in LINKS:
            speed = one["speeds"][link]
            told = (f"{speed['chosen'][kind]} ({100.0 * speed['loss'][kind]:.1f}%)" for kind in CHOOSERS)
            rows.append((name, link, f"{speed['best']}", *told))
    heads = ("drafts, texts", "drafts on, round trip", "best K", *CHOOSERS)
    return Table("Draft length chosen, and the share of the speed that it loses", heads, tuple(rows))


def _coverage_table() -> Table:
    rows = []
    for one in coverage()["rows"]:
        held = one["coverage"]
        told = (f"{100.0 * held[key]:.1f}" if key in held else "–" for key in COLUMNS)
        requests = f", {one['requests']} requests" if one["requests"] else ""
        bias = _percent(one["mean_estimate"] / one["true_tokens"] - 1.0)
        gap = f"{100.0 * one['without_estimate']:.0f}"
        rows.append((f"{one['rounds_drawn']}{requests}", one["lengths"], f"{one['rounds']:,}", *told, gap, bias))
    heads = (
        "rounds",
        "k",
        "number",
        "α_1, exact",
        "α_4, exact",
        "α_7, exact",
        "all E(K), band",
        "E(7), delta",
        "E(7), clustered",
        "no estimate of E(7), %",
        "bias of E(7)",
    )
    return Table("Coverage of 95% intervals, in percent; where there is no estimate, delta fails", heads, tuple(rows))


def _first_alone(one: dict[str, Any]) -> float:
    """Return the tokens at the shown length if every draft were accepted as the first is in rounds of 15."""
    return float(expected_tokens(one["acceptance"]["alpha"][0], SHOWN))


COLUMNS = ("depth 1", "depth 4", "depth 7", "band", "delta", "clustered")


def _published_table() -> Table:
    return Table("What published counts identify", ("published", "holds", "identifies"), PUBLISHED)


def _worst(numbers: Numbers) -> dict[str, float]:
    """Return the largest loss of speed by each estimate."""
    data = numbers["statistics"]["data"]
    return {kind: max(one["largest_loss"][kind] for one in data.values()) for kind in CHOOSERS}


def message_table(numbers: Numbers) -> str:
    """Give the speed that each estimate loses."""
    worst = _worst(numbers)
    return (
        f"The draft length chosen from a rate fitted at K = 1 loses up to {100.0 * worst[RATE]:.1f}% of the speed, "
        f"from split rounds up to {100.0 * worst[SPLIT]:.1f}%."
    )


SHOWS_TABLE = "Errors of the expected tokens, coverage, and what published counts identify."


def caption_table(numbers: Numbers) -> str:
    """Give the other losses, the coverage, and the source of the times."""
    held = {name: f"{100.0 * value:.1f}%" for name, value in numbers["statistics"]["coverage"].items()}
    worst = _worst(numbers)
    return (
        f"The length from accepted over drafted tokens loses up to {100.0 * worst['accepted/drafted at 7']:.0f}%, from "
        f"acceptance by depth up to {100.0 * worst[PROFILE]:.0f}%. "
        f"Of 95% intervals, the exact ones hold in at least {held['exact_least']} of samples of independent rounds, "
        f"and the band in at least {held['band_least']}. The delta method holds in at least "
        f"{held['delta_at_1000_least']} of samples of 1,000 rounds, but in at most {held['delta_at_30_most']} of "
        "samples of 30. Many of these leave a depth unexamined. If requests differ, it holds in at most "
        f"{held['delta_of_requests_most']}, and the interval clustered by request in at least "
        f"{held['clustered_least']} with 40 requests or more. If k depends on the request, the past or the draft, the "
        f"estimate is wrong by up to {held['bias_if_k_looks_most']}. The times of a round are the H100 times that the "
        "data's authors fitted: 2.1 ms per round for EAGLE-3's drafts and almost nothing for each draft. On a device "
        f"each draft takes {1e3 * replay()['edge_draft_s']:.0f} ms, which is assumed. K is at most "
        f"{replay()['max_length']}."
    )
