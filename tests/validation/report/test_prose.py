"""Phrases with measured numbers on the hand-written pages say what the stored files say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from scipy.optimize import brentq

from hlmtheory.lattice import exact_payload_bits
from hlmtheory.verification import acceptance_interval, largest_distance
from validation.decoding.tree_defects import TREE_DEFECTS

ROOT = Path(__file__).resolve().parents[3]
NEW, REFUTED, AUDIT = (f"docs/results/{name}.md" for name in ("new", "refuted", "audit"))
IN_TURN = "downlink as the uplink's median"


@cache
def text(page: str) -> str:
    """A page in one line, with the texts of its links alone."""
    plain = re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()\s]+\)", r"\1", (ROOT / page).read_text(encoding="utf-8"))
    return re.sub(r"\s+", " ", plain).replace("\\*", "*")


@cache
def stored(stem: str) -> Any:
    return json.loads((ROOT / "figures" / f"{stem}.json").read_text(encoding="utf-8"))


def cell(stem: str, number: int, begins: tuple[str, ...], head: str) -> str:
    """The cell under a head in the first row that begins with these cells; a value without its interval."""
    table = stored(stem)["tables"][number - 1]
    row = next(row for row in table["rows"] if tuple(row[: len(begins)]) == begins)
    return re.split(r" [\[(]", row[table["heads"].index(head)])[0]


def short(value: float, digits: int = 2) -> str:
    """A number without the 0 before its point."""
    return f"{value:.{digits}f}".replace("0.", ".", 1)


def ends(values: list[float]) -> tuple[float, float]:
    return min(values), max(values)


def rules(setting: str, *names: str) -> list[float]:
    """The regret of length rules at all round trips of a setting, in percent."""
    data = stored("experiments/length_rules/length_rules")["data"].values()
    cases = [one for drafts in data for name, one in drafts["settings"].items() if name.startswith(setting)]
    return [100 * case["rules"][name]["regret"] for case in cases for name in names]


def ratio(name: str, limit: str) -> float:
    policies = stored("experiments/plan/builtin")[IN_TURN][limit]["policies"]
    return float(policies[name]["ours_over_it"]["median"])


def error(name: str, limit: str) -> float:
    policies = stored("experiments/plan/builtin")[IN_TURN][limit]["policies"]
    return float(policies[name]["predicted_over_decoded_minus_1"]["median"])


def means(length: int) -> list[str]:
    """Distance, overlap bound and clipped sum at the threshold .5, as means over the prompts."""
    found = stored("experiments/text_enumeration/builtin")
    one = next(one for one in found["texts"] if one["length"] == length)
    return [short(one[name][found["thresholds"].index(0.5)], 3) for name in ("distance", "overlap", "clipped")]


def bits(rule: str, epsilon: str) -> float:
    return float(cell("ours-tableV", 1, (rule,), epsilon).replace(",", ""))


def speeds(table: str, method: str) -> list[float]:
    return [found[method][0] for found in stored(f"flexspec-{table}")["statistics"]["speed_ups"].values()]


def over_cloud(table: str, method: str) -> list[str]:
    """The least and the largest speed-up of a method over Cloud-Only on the three networks."""
    rows = [row for one in stored(f"flexspec-{table}")["tables"][:3] for row in one["rows"] if row[0] == method]
    assert len(rows) == 3
    found = [float(row[4].split(" ")[0]) for row in rows]
    return list(dict.fromkeys(f"{one:.1f}" for one in ends(found)))


def said(table: str) -> str:
    return str(stored(f"flexspec-table{table}-length-rule")["findings"])


def drafted_whole(table: str) -> list[str]:
    return list(found(f"flexspec-{table}", r"drafts K_max in ([\d.]+)% of the rounds over 5G, 4G and WiFi alike"))


def losses() -> list[float]:
    """Lost acceptance over TV, means over seeds on a version's own texts."""
    found = stored("experiments/update_bound/bound")["means"]
    return [one["domain"][draft]["share_of_tv"] for one in found for draft in ("plain", "aligned")]


def code(method: str) -> Any:
    found = stored("experiments/update_bound/bound")["means"]
    return next(one["domain"] for one in found if (one["of"], one["method"], one["step"]) == ("code", method, 24))


def regime() -> list[float]:
    """Lost acceptance over TV where the draft agreed with version 0 in more than .8."""
    found = stored("experiments/aligned_draft/regime")
    return [rows[-1]["loss_over_tv"] for steps in found.values() if isinstance(steps, dict) for rows in steps.values()]


def audited() -> list[dict[str, Any]]:
    return list(json.loads((ROOT / "figures/experiments/audit_controls/controls.json").read_text())["exact"])


def overlap(head: str) -> str:
    """A cell of the overlap loss at T = 40 and ε = .1."""
    return cell("ours-tableIV", 1, ("40", "0.1", "overlap, bound 1"), head)


def listed(name: str, k: str = "20") -> float:
    return float(stored("ours-tableIX")["statistics"]["lists"][k][name])


def dropped(what: str, *names: str) -> list[float]:
    found = stored("ours-fig9")["statistics"][what]
    return [found[name] for name in names or found]


def errors(what: str, *names: str) -> list[float]:
    """Absolute errors in percent of Figure 8 of ours."""
    found = stored("ours-fig8")["statistics"]
    return [100 * abs(found[name][what]) for name in names or found]


def cost(kind: str, what: str) -> float:
    return float(stored("experiments/gguf/builtin")["cost"][kind][what][0])


def users(what: str, **wanted: int) -> list[float]:
    rows = stored("experiments/plan/users")["rows"]
    return [abs(row[what]) for row in rows if all(row[name] == value for name, value in wanted.items())]


def versions(*names: str) -> list[str]:
    return [short(stored("flexspec-tableII")["statistics"][name]) for name in names]


def sent(kind: str, network: str) -> str:
    """The speed-up of standard SD at the printed acceptance of .18."""
    return cell("flexspec-tableIII", 10, ("0.18", kind), network)


def law(name: str) -> dict[str, Any]:
    return dict(stored("experiments/similarity/builtin")["laws"][name])


def route(model: str, kind: str, what: str) -> Any:
    """How far llama.cpp's rows of a GGUF file are from another reading of it."""
    return stored("experiments/gguf/builtin")["routes"][model][kind][what]


def similarity(name: str) -> float:
    """The similarity to the reference answer on the pair `instructed`."""
    return float(cell("instructed/cu-hlm-tableI", 1, (name,), "all sets"))


def sent_shares(*names: str) -> list[float]:
    """The shares of drafts that these methods send on the pair `instructed`, in percent."""
    bars = {one["name"]: one["transmission"]["value"] for one in stored("instructed/u-hlm-fig6-texts")["bars"]}
    return [100 * bars[name] for name in names]


def faster(setting: str) -> tuple[float, float]:
    """By how many percent a rule that knows what will be accepted is faster than the best fixed length."""
    return ends([-regret for regret in rules(setting, "clairvoyant")])


def cases() -> list[dict[str, Any]]:
    """The rules of each drafter, data set and setting."""
    data = stored("experiments/length_rules/length_rules")["data"].values()
    return [case["rules"] for drafts in data for case in drafts["settings"].values()]


def longer() -> tuple[int, int]:
    """By how many percent FlexSpec as printed takes longer than the best fixed length, over the networks."""
    times = found("flexspec-tableIII-length-rule", r"as printed” takes ([\d.]+) \[.*?\], ([\d.]+) \[.*?\], ([\d.]+)")
    shares = [round(100 * float(one)) - 100 for one in times]
    return min(shares), max(shares)


def tuned(of: str, draft: str) -> str:
    """The acceptance of a draft by a version whose weights were all tuned for 24 steps, mean over three seeds."""
    rows = stored("experiments/aligned_draft/builtin")
    own = [row["domain"] for row in rows if (row["of"], row["method"], row["step"]) == (of, "full", 24)]
    own = [one for one in own if "anew" in one["accept"]]
    return short(sum(sum(one["accept"][draft]) for one in own) / sum(sum(one["positions"]) for one in own))


def lost(draft: str) -> str:
    """The acceptance that a draft lost to a LoRA of rank 16 on Alpaca."""
    found = stored("experiments/update_bound/bound")["means"]
    own = next(one["domain"][draft] for one in found if (one["of"], one["method"]) == ("chat", "lora16"))
    return short(own["before"] - own["after"])


def training(name: str) -> dict[str, Any]:
    """The record of a model's training."""
    return dict(json.loads((ROOT / "validation/pairs/builtin" / name / "training.json").read_text(encoding="utf-8")))


def trained() -> float:
    """The training tokens of the aligned draft, two courses, over those of the plain one."""
    aligned = training("aligned")
    return float((aligned["tokens"] + aligned["earlier"]["tokens"]) / training("small")["tokens"])


def settings() -> dict[str, Any]:
    """The settings near edge-sd's printed savings."""
    return dict(json.loads((ROOT / "validation/plots/edge_sd/settings.json").read_text(encoding="utf-8")))


def two_changes() -> dict[str, Any]:
    nearest = settings()["groups"]["batching"]["nearest_by_changes"]
    return dict(next(one for one in nearest if one["changes"] == 2))


def narrower(drafts: list[int], rate: float = 0.7) -> list[bool]:
    """Whether the interval for a constant rate is narrower than the one for rates that vary, at δ = 5%."""
    accepted = [round(rate * count) for count in drafts]
    constant, varying = (acceptance_interval(accepted, drafts, 0.05, form=form) for form in ("constant", "varying"))
    widths = zip(constant.upper - constant.lower, varying.upper - varying.lower, strict=True)
    return [one < other for one, other in widths]


def least_divergence() -> float:
    """The largest mean KL at which a draft with α(0) = .72 keeps a guarantee."""
    return float(brentq(lambda kl: float(largest_distance(kl)) - 0.72, 0.1, 3.0))


def order(what: str) -> list[int]:
    """On how many sets a method is first at temperature 0: printed, ours; the same over all networks that are said."""
    rows = [row[1:3] for row in stored("flexspec-tableIII")["statistics"]["order"] if row[0].startswith(what)]
    assert all(row == rows[0] for row in rows)
    return list(rows[0])


def instead(method: str) -> float:
    return float(cell("flexspec-tableIV", 2, (method,), "all six"))


def slowest() -> list[list[float]]:
    """The speed-ups of Algorithm 2 and of K* on the slowest device, by data set."""
    return list(stored("flexspec-tableV")["statistics"]["devices"]["Raspberry Pi 5"].values())


def printed_numbers() -> list[dict[str, Any]]:
    return list(json.loads((ROOT / "validation/plots/printed_numbers.json").read_text(encoding="utf-8")))


def most_links() -> dict[str, Any]:
    """The plan's choice on most links with a limit of .3 on whole texts."""
    options = stored("experiments/plan/builtin")[IN_TURN]["text .3"]["quality"]["options"].values()
    return dict(max(options, key=lambda one: one["links"]))


def plans(answers: str, method: str = "improved") -> list[dict[str, Any]]:
    """The plans of 100 tasks for the batches of edge-sd, by memory rule."""
    rows = stored("experiments/edge_sd_plans/plans")["many_tasks"]
    return sorted(
        (one for one in rows if (one["method"], one["answers"]) == (method, answers)),
        key=lambda one: str(one["memory_rule"]),
    )


def few_plans() -> list[dict[str, Any]]:
    """The plans of few tasks with unequal answers, beside the exact optimum."""
    return [one for one in stored("experiments/edge_sd_plans/plans")["few_tasks"] if one["answers"] == "unequal"]


def found(stem: str, pattern: str) -> list[str]:
    """The groups of a pattern in the findings of a figure."""
    match = re.search(pattern, stored(stem)["findings"])
    assert match is not None
    return list(match.groups())


PHRASES: dict[str, tuple[str, str, Callable[[], Sequence[Any]]]] = {
    "text, threshold": (
        NEW,
        "allow the threshold {} for texts of 40 tokens",
        lambda: [short(float(overlap("threshold")), 1)],
    ),
    "text, sent": (NEW, "where {:.0%} of the drafts are sent", lambda: [float(overlap("sent"))]),
    "text, prompts": (
        NEW,
        "The sum {}",
        lambda: [cell("ours-tableIV", 1, ("40", "0.1", "sum, bound T"), "threshold")],
    ),
    "text, enumeration": (NEW, "are {}, {} and {} at the threshold .5", lambda: means(6)),
    "audit, draws": (NEW, "after a median of {} tokens", lambda: [cell("ours-tableVII", 2, ("0.1",), "median")]),
    "audit, pair": (
        NEW,
        "U-HLM at u_th = 0.2 a median of {}",
        lambda: [cell("ours-tableVII", 4, ("0.2", "0.1"), "median tokens")],
    ),
    "interval": (
        NEW,
        "leave it in {:.1f}% of the runs",
        lambda: [float(found("ours-tableVII", r"([\d.]+)% at δ = 20%")[0])],
    ),
    "codec, entropy": (
        NEW,
        "entropy coding saves most: {:.0%} at 0.01",
        lambda: [1 - bits("cheapest, entropy coding too", "ε = 0.01") / bits("cheapest codec", "ε = 0.01")],
    ),
    "lists, width": (
        NEW,
        "is {:.2f} wide on average, and {:.0%} of the drafts are decided",
        lambda: [listed("acceptance width"), listed("decided")],
    ),
    "lists, bias": (
        NEW,
        "is {:.2f} on average at k = 20 and {:.3f} at k = 1,000",
        lambda: [listed("largest bias"), listed("largest bias", "1000")],
    ),
    "lists, stored": (
        NEW,
        "With 16 bits per token it is {} wide",
        lambda: [
            cell("ours-tableIX", 2, ("16 bits over 16 nats, as llama.cpp",), "width of the acceptance rate").split(";")[
                0
            ]
        ],
    ),
    "budget, C-SQS": (
        NEW,
        "C-SQS drops {} to {:.0f} times ε",
        lambda: [
            short(dropped("dropped", "C-SQS (τ₁ = 0)")[0] / 0.0005),
            dropped("dropped", "C-SQS (τ₁ = 0.01)")[0] / 0.0005,
        ],
    ),
    "budget, τ₁ = 0": (
        NEW,
        "sends {:.1%} fewer bits than the budget",
        lambda: [1 - dropped("bits", "C-SQS (τ₁ = 0)")[0] / dropped("bits", "Budgeted SQS")[0]],
    ),
    "budget, cheapest": (
        NEW,
        "the cheapest takes {:,.0f} bits with the budget and {:,.0f} with C-SQS, in place of {:,.0f} and {:,.0f}",
        lambda: dropped("bits", "Budgeted SQS, cheapest support", "C-SQS, cheapest support", "Budgeted SQS", "C-SQS"),
    ),
    "counts, bias": (
        NEW,
        "makes E(7) too large by {:.0f} to {:.0f}% in simulation",
        lambda: ends([float(row[-1].strip("+%")) for row in stored("ours-tableX")["tables"][2]["rows"][-3:]]),
    ),
    "rate, EAGLE-3": (
        NEW,
        "predicts {:.0f}% (EAGLE-3 on gsm8k) and {:.0f}% (on instructcoder) too many tokens at K = 7",
        lambda: errors("rate_error_at_7", "EAGLE-3, gsm8k", "EAGLE-3, instructcoder"),
    ),
    "rate, n-grams": (
        NEW,
        "and {:.0f}% and {:.0f}% too few with n-gram drafts",
        lambda: errors("rate_error_at_7", "n-gram, gsm8k", "n-gram, instructcoder"),
    ),
    "rate, depth": (
        NEW,
        "has an error of {:.0f} to {:.0f}% at other K",
        lambda: ends(errors("profile_error_largest")),
    ),
    "rate, split": (NEW, "its error is at most {:.0f}%", lambda: [max(errors("split_error_largest"))]),
    "rules, printed": (
        NEW,
        "flexspec as printed loses at most {:.1f}%, a moving average with the exact K* {:.1f}%",
        lambda: [max(rules("H100", name)) for name in ("flexspec as printed", "moving average, K*")],
    ),
    "rules, fitted": (
        NEW,
        "a rate fitted at K = 1 on other requests {:.1f}%, acceptance by depth {:.1f}%",
        lambda: [max(rules("H100", name)) for name in ("rate at 1, K*", "depths, K*")],
    ),
    "rules, device": (
        NEW,
        "flexspec as printed loses {:.0f} to {:.0f}%, the other three at most {:.1f}%",
        lambda: [
            *ends(rules("device", "flexspec as printed")),
            max(rules("device", "moving average, K*", "rate at 1, K*", "depths, K*")),
        ],
    ),
    "rules, simulator": (
        NEW,
        "simulator within {:.2f}%",
        lambda: [ceil(1e4 * stored("experiments/length_rules/simulator_speedups")["largest_difference"]) / 100],
    ),
    "gguf, k": (
        NEW,
        "rises by {}, {:.1f} and {:.1f}, from {:.0f}",
        lambda: [
            short(cost("Q8_0", "change of k at 0.02")),
            *(cost(kind, "change of k at 0.02") for kind in ("Q4_K", "Q4_0")),
            cost("folder", "k at 0.02"),
        ],
    ),
    "plan, lossless": (
        NEW,
        "{:.2f} times as fast as c-sqs, {:.2f} times as flexspec and {:.1f} times as fixed K",
        lambda: [ratio(name, "lossless") for name in ("SQS", "FlexSpec", "fixed K, full rows")],
    ),
    "plan, risk": (
        NEW,
        "it is {:.2f} times as fast as c-sqs and {:.2f} times as cu-hlm",
        lambda: [ratio(name, "token .05") for name in ("SQS", "CU-HLM")],
    ),
    "plan, predicted": (
        NEW,
        "(c-sqs: {:.1f}%; cu-hlm and u-hlm: {:.1f} to {:.1f}%",
        lambda: [
            100 * error("SQS", "lossless"),
            *ends(
                [100 * abs(error(name, limit)) for name in ("U-HLM", "CU-HLM") for limit in ("text .3", "token .05")]
            ),
        ],
    ),
    "plan, links": (NEW, "for {} recorded links", lambda: [stored("experiments/plan/builtin")["links"]["recorded"]]),
    "users, gain": (
        NEW,
        "This gives {:.0%} more",
        lambda: [max(users("gain_over_plan_without_queue", batch=1))],
    ),
    "users, error": (
        NEW,
        "differ by {:.1%} at most",
        lambda: [max(users("predicted_over_simulated_minus_1"))],
    ),
    "confidence": (
        NEW,
        "{:.1%} of the calibrations are above a limit of .3",
        lambda: [
            stored("experiments/plan/splits_builtin")["limits"]["text .3"]["codecs"]["q_d up, p down"]["confident"][
                "share_above_held_out"
            ]
        ],
    ),
    "bound": (
        NEW,
        "the plan loses {:.2%} at the 95th percentile and {:.1%} at most",
        lambda: [stored("experiments/policy_bound/policy_bound")[f"loss_{what}"] for what in ("p95", "largest")],
    ),
    "bound, gap": (
        NEW,
        "the certified gap is {:.1%} in the median, {:.0%} at the 95th percentile and {:.0%} at most",
        lambda: [
            stored("experiments/policy_bound/policy_bound")[f"gap_{what}"] for what in ("median", "p95", "largest")
        ],
    ),
    "served, gap": (
        NEW,
        "On 200 small instances the certified gap is 0 in the median, {:.1%} at the 95th percentile and {:.0%} at most",
        lambda: [
            max(stored("experiments/policy_bound/served_gaps")[utility]["gap"][what] for utility in ("linear", "log"))
            for what in ("p95", "largest")
        ],
    ),
    "users, wait": (
        NEW,
        "for eight users this gives {:.0%} more",
        lambda: [
            row["simulated"] / row["started_at_once"] - 1.0
            for row in stored("experiments/plan/users")["rows"]
            if (row["batch"], row["users"]) == (4, 8)
        ],
    ),
    "flexspec, speeds": (
        NEW,
        "FlexSpec is {:.1f} to {:.1f} times as fast as Cloud-Only, standard SD {:.1f} to {:.1f}",
        lambda: [*ends(speeds("tableIII", "FlexSpec")), *ends(speeds("tableIII", "Std. SD"))],
    ),
    "flexspec, acceptance": (
        NEW,
        "{} of the aligned draft's tokens, {} of the plain one's",
        lambda: [short(stored("flexspec-tableIII")["statistics"]["acceptance"][name]) for name in ("aligned", "plain")],
    ),
    "flexspec, after code": (
        NEW,
        "and after tuning on code {} and {}",
        lambda: [
            short(float(cell("flexspec-tableIII", 5, (f"acceptance of the {name} draft",), "code, full")))
            for name in ("aligned", "plain")
        ],
    ),
    "flexspec, printed acceptance": (
        NEW,
        "{}, against {} for the same draft",
        lambda: [cell("flexspec-tableIV", 2, (name,), "all six") for name in ("FlexSpec", "aligned draft with K*")],
    ),
    "flexspec, .18": (
        NEW,
        "travel over WiFi ({}). With tokens alone it is {} to {} times",
        lambda: [
            short(float(sent("distributions of 32,000", "WiFi"))),
            sent("tokens alone", "5G"),
            sent("tokens alone", "WiFi"),
        ],
    ),
    "Table II, fall": (
        NEW,
        "falls from {} to {}. Of this {} is the harder text and {} the version, {} in TV",
        lambda: versions("general", "plain_after", "of_the_texts", "of_the_version", "tv"),
    ),
    "Table II, aligned": (
        NEW,
        "The aligned draft loses {} there",
        lambda: [short(code("full")["aligned"]["before"] - code("full")["aligned"]["after"])],
    ),
    "Table II, frozen": (
        NEW,
        "on code {} of the TV is lost, not {}",
        lambda: [short(code(method)["plain"]["share_of_tv"]) for method in ("frozen", "full")],
    ),
    "Table II, own texts": (
        NEW,
        "the mean loss is −{} to {} of the bound's TV",
        lambda: [short(-min(losses())), short(max(losses()))],
    ),
    "Table II, regime": (NEW, "It is {} to {} where the draft agreed", lambda: [short(one) for one in ends(regime())]),
    "updates, largest": (
        NEW,
        "They are up to TV = {} from version 0",
        lambda: [
            short(
                max(
                    one[kind]["tv"]
                    for one in stored("experiments/update_bound/bound")["means"]
                    for kind in ("domain", "general")
                )
            )
        ],
    ),
    "threshold": (
        NEW,
        "On the pair `instructed` it is {:.2f}",
        lambda: [float(found("instructed/u-hlm-fig4-texts", r"thresholds are [\d.−]+ and ([\d.]+)")[0])],
    ),
    "similarity": (
        NEW,
        "{:.0%} of the drafts are kept, the entropy of the emitted token is {} nats below the target's",
        lambda: [law("U-HLM, calibrated")["skipped"], short(-law("U-HLM, calibrated")["entropy_less_target"][0], 3)],
    ),
    "similarity, random": (
        NEW,
        "As many skips at random raise the entropy by {} nats",
        lambda: [short(law("as many skips at random, calibrated")["entropy_less_target"][0], 3)],
    ),
    "fading": (
        NEW,
        "it is {:,} to {:,}× from sample to sample, and {:,}× without fading",
        lambda: [
            int(one)
            for pattern in (
                r"\[(\d+), (\d+)\] over samples of Rayleigh fading for k = 30",
                r"(\d+)× at a constant −20 dB",
            )
            for one in found("cu-hlm-fig10a", pattern)
        ],
    ),
    "online bound": (
        REFUTED,
        "the share is {} at η = 1 and {} from η = 5 on",
        lambda: [found("ours-fig4", rf"η = {eta}: [\d.%]+, [\d.%]+ and ([\d.]+%)")[0] for eta in (1, 5)],
    ),
    "codec, share": (
        NEW,
        "takes {:.0%} of the bits of top-k with 24 bits, and one budget for all positions saves {:.0%} of these",
        lambda: [
            bits("cheapest codec", "ε = 0.05") / bits("certified, 24 bits", "ε = 0.05"),
            1 - bits("one budget for all", "ε = 0.05") / bits("cheapest codec", "ε = 0.05"),
        ],
    ),
    "gguf, positions": (
        NEW,
        "the target at F32, {:,} positions",
        lambda: [stored("experiments/gguf/builtin")["cost"]["positions"]],
    ),
    "gguf, acceptance": (
        NEW,
        "the acceptance falls by {}, at Q5_0 (what llama.cpp's Q4_K becomes for these rows) by {}, at Q4_0 by {}, "
        "from {}",
        lambda: [
            short(-cost("Q8_0", "change of acceptance"), 5),
            *(short(-cost(kind, "change of acceptance"), 4) for kind in ("Q4_K", "Q4_0")),
            short(cost("folder", "acceptance"), 3),
        ],
    ),
    "gguf, nats": (
        NEW,
        "those of transformers within {:.1f}e-4 nats",
        lambda: [
            1e4
            * max(route(f"{one} F32", "transformers, same file", "largest_difference") for one in ("draft", "target"))
        ],
    ),
    "gguf, distance": (
        NEW,
        "a total variation of {} from those of transformers",
        lambda: [short(route("draft Q8_0", "transformers, same file", "tv")[0], 3)],
    ),
    "gguf, readings": (
        NEW,
        "The mean acceptance by both readings differs by less than {}",
        lambda: [
            short(
                ceil(
                    1e4
                    * max(
                        abs(end)
                        for name, one in stored("experiments/gguf/builtin")["routes"].items()
                        if name.startswith("draft")
                        for end in one["acceptance, difference"]
                    )
                )
                / 1e4,
                4,
            )
        ],
    ),
    "text, prompts for a token": (NEW, "{} for a risk of 5%", lambda: [ceil(1 / 0.05 - 1e-9) - 1]),
    "text, prompts for the sum": (
        NEW,
        "where the sum over 200 tokens needs {:,}",
        lambda: [ceil(200 / 0.05 - 1e-9) - 1],
    ),
    "text, tokens": (
        NEW,
        "if it is .05, the bound for texts of up to 160 tokens is {}",
        lambda: [short(float(found("ours-fig6", r"([\d.]+) at ε = 0.05, 1.00")[0]))],
    ),
    "text, enumerated": (
        NEW,
        "restricted to {} tokens and T = {}",
        lambda: [
            {6: "six"}[stored("experiments/text_enumeration/builtin")["tokens_kept"]],
            max(one["length"] for one in stored("experiments/text_enumeration/builtin")["texts"]),
        ],
    ),
    "text, enumerated prompts": (
        NEW,
        "as means over {} prompts",
        lambda: [stored("experiments/text_enumeration/builtin")["prompts"]],
    ),
    "confidence, splits": (
        NEW,
        "On {} splits of the built-in pair's prompts",
        lambda: [stored("experiments/plan/splits_builtin")["splits"]],
    ),
    "confidence, mean": (
        NEW,
        "With the threshold that keeps only the mean over calibrations it is {:.0%}",
        lambda: [
            stored("experiments/plan/splits_builtin")["limits"]["text .3"]["codecs"]["q_d up, p down"]["mean"][
                "share_above_held_out"
            ]
        ],
    ),
    "audit, risk": (
        NEW,
        "At π = 0.1 a risk of {1} is certified to be below {0}",
        lambda: re.findall(r"0\.\d+", stored("ours-tableVII")["tables"][1]["title"]),
    ),
    "threshold, averse": (
        NEW,
        "The risk-averse threshold is −{:.3f}, so U-HLM with it is HLM",
        lambda: [float(found("instructed/u-hlm-fig4-texts", r"thresholds are −([\d.]+) and")[0])],
    ),
    "threshold, similarity": (
        NEW,
        "their texts are {:.0%} less similar to the reference answers than the target model's",
        lambda: [1 - similarity("CU-HLM online") / similarity("large only")],
    ),
    "threshold, sent": (
        NEW,
        "With cu-hlm's own threshold 0.8, or with a calibrated one, {:.0f} to {:.0f}% of the drafts are sent",
        lambda: ends(sent_shares("U-HLM at 0.8", "CU-HLM online at 0.8", "CU-HLM certified (bias 0.1)")),
    ),
    "interval, narrower": (
        NEW,
        "At δ = 5% it is also no narrower from {:,} to 10{} drafts",
        lambda: [10**3, "?" if any(narrower([10**power for power in range(3, 10)])) else "⁹"],
    ),
    "defects": (NEW, "each of {} defects", lambda: [{9: "nine"}.get(len(TREE_DEFECTS), "?")]),
    "text, steps": (NEW, "0.001 at each step is {:.0%} of 200 tokens", lambda: [1 - (1 - 0.001) ** 200]),
    "updates, divergence": (
        NEW,
        "A draft with α(0) = 0.72 keeps a guarantee up to a mean KL of {:.2f} nats a token",
        lambda: [least_divergence()],
    ),
    "updates, apart": (
        NEW,
        "Table II's {0}, {1} and {2} therefore need versions at least {3} and {4} apart",
        lambda: [
            *(printed := [row[1] for row in stored("flexspec-tableII")["tables"][0]["rows"]]),
            *(short(float(printed[0]) - float(one)) for one in printed[1:]),
        ],
    ),
    "updates, share": (
        NEW,
        "the drafts lose at most {:.0%} of that",
        lambda: [
            ceil(
                100
                * max(
                    one[kind][draft]["share_of_tv"]
                    for one in stored("experiments/update_bound/bound")["means"]
                    for kind in ("domain", "general")
                    for draft in ("plain", "aligned")
                )
            )
            / 100
        ],
    ),
    "support": (
        NEW,
        "it takes {:.0f} bits at V = 4,096, and one of 1,500 tokens takes {:,.0f}",
        lambda: [exact_payload_bits(4096, k, 100, adaptive=True) for k in (4096, 1500)],
    ),
    "rate, first": (
        NEW,
        "Its error first exceeds 5% at K = {} to {}",
        lambda: ends([one["first_beyond_5_percent"] for one in stored("ours-fig8")["statistics"].values()]),
    ),
    "rate, first draft": (
        NEW,
        "is accepted in {}% of the rounds of one draft, and in {}% of those of 15",
        lambda: [round(100 * float(one)) for one in found("ours-fig8", r"n-gram, instructcoder ([\d.]+), ([\d.]+) in")],
    ),
    "rate, speed": (
        NEW,
        "this gains up to {:.0f}% of the speed over the rate",
        lambda: [float(found("ours-tableX", r"fitted at K = 1 loses up to ([\d.]+)%")[0])],
    ),
    "rules, requests": (
        NEW,
        "replayed on the same {} requests",
        lambda: [
            sum(
                one["requests"]
                for name, one in stored("experiments/length_rules/length_rules")["data"].items()
                if name.startswith("EAGLE-3")
            )
        ],
    ),
    "rules, clairvoyant": (
        NEW,
        "is {:.1f} to {:.0f}% faster than the best fixed length in the first case, and {:.0f} to {:.0f}% in the second",
        lambda: [*faster("H100"), *faster("device")],
    ),
    "rules, best": (
        NEW,
        "the best sequence of lengths is up to {:.1f}% faster",
        lambda: [
            max(100 * (one["least time"]["tokens_per_s"] / one["clairvoyant"]["tokens_per_s"] - 1) for one in cases())
        ],
    ),
    "linear, share": (
        NEW,
        "the policy drafts K_max in {}% of the rounds at temperature 1, and in {}% at temperature 0",
        lambda: drafted_whole("tableIV-length-rule") + drafted_whole("tableIII-length-rule"),
    ),
    "linear, time": (NEW, "At temperature 0 it takes {} to {}% longer than the best fixed length", longer),
    "linear, speeds at 0": (
        NEW,
        "It is {} to {} times as fast as Cloud-Only, and standard speculative decoding with K = 4 is {} to {} times",
        lambda: [
            *over_cloud("tableIII-length-rule", "FlexSpec, as printed"),
            *over_cloud("tableIII-length-rule", "standard SD"),
        ],
    ),
    "linear, speeds at 1": (
        NEW,
        "FlexSpec as printed is {} to {} times as fast as Cloud-Only, and standard speculative decoding is {} times",
        lambda: [
            *over_cloud("tableIV-length-rule", "FlexSpec, as printed"),
            *over_cloud("tableIV-length-rule", "standard SD"),
        ],
    ),
    "linear, lossless": (
        NEW,
        "With lossless acceptance it is not shown to differ from the best fixed length{}",
        lambda: ["."] if "FlexSpec, lossless” is not shown to differ over 5G, 4G and WiFi" in said("IV") else ["!"],
    ),
    "linear, rows": (
        NEW,
        "It sends rows of V = 4,096; rows of 32,000 have {} times as many entries",
        lambda: [{8: "eight"}[round(32_000 / training("large").get("vocabulary", 4096))]],
    ),
    "flexspec, order": (
        NEW,
        "FlexSpec is the fastest over 4G and WiFi on {} printed sets and on {} of ours",
        lambda: [{6: "six", 0: "none"}[one] for one in order("FlexSpec is the fastest")],
    ),
    "flexspec, EAGLE-2": (
        NEW,
        "EAGLE-2 over 5G at temperature 0 {}",
        lambda: ["likewise" if order("EAGLE-2 is the fastest") == order("FlexSpec is the fastest") else "?"],
    ),
    "flexspec, drafts": (
        NEW,
        "All drafts take the same {} ms",
        lambda: [cell("flexspec-tableV", 1, ("Jetson AGX Orin",), "a draft").removesuffix(" ms")],
    ),
    "flexspec, best length": (
        NEW,
        "FlexSpec's best fixed length on GSM8K is {} over every network",
        lambda: {one["best"] for one in stored("flexspec-fig5")["statistics"]["networks"].values()},
    ),
    "flexspec, slow device": (
        NEW,
        "at {} a draft Algorithm 2 loses to Cloud-Only on {} sets of {}, K* on {}",
        lambda: [
            cell("flexspec-tableV", 1, ("Raspberry Pi 5",), "a draft"),
            *(
                {0: "none", 2: "two", 3: "three"}[count]
                for count in (
                    sum(one[0] < 1 for one in slowest()),
                    len(slowest()),
                    sum(one[1] < 1 for one in slowest()),
                )
            ),
        ],
    ),
    "flexspec, quarter": (
        NEW,
        "the printed acceptance costs FlexSpec {} of its speed over 5G",
        lambda: ["a quarter" if 0.2 < 1 - instead("FlexSpec") / instead("aligned draft with K*") < 0.3 else "?"],
    ),
    "flexspec, parameters": (
        NEW,
        "the largest model has {:.0f} million parameters",
        lambda: [training("large")["parameters"] / 1e6],
    ),
    "Table II, anchor": (
        NEW,
        "With one trainable block in front it reaches 1 − TV = {} on GSM8K, after {} of the plain draft's training "
        "tokens",
        lambda: [
            short(training("aligned")["held_out_acceptance"]["gsm8k"]),
            "a third" if 0.3 < trained() < 0.35 else "?",
        ],
    ),
    "Table II, Alpaca": (NEW, "(Alpaca, LoRA: {} and {})", lambda: [lost(draft) for draft in ("aligned", "plain")]),
    "Table II, anew": (
        NEW,
        "A draft distilled anew for 24 steps has {} on code and {} on Alpaca, for {} and {}",
        lambda: [tuned(of, draft) for draft in ("anew", "plain") for of in ("code", "chat")],
    ),
    "fading, printed": (
        NEW,
        "cu-hlm's gain of {}× at −20 dB",
        lambda: [next(one for one in printed_numbers() if one["value"] == 1014.1)["digits"]],
    ),
    "edge-sd, single": (
        NEW,
        "each of the {} follows if one constant is changed",
        lambda: [{8: "eight"}[sum(all(one["nearest"]["inside"]) for one in settings()["single_changes"].values())]],
    ),
    "edge-sd, two": (
        NEW,
        "With 37 GB of memory and a reference gain of {} dB, the {} of Figures 7 and 8 come out within {:.1f} points",
        lambda: [
            two_changes()["setting"].split("g₀ = ")[1].removesuffix(" dB"),
            {5: "five"}[len(two_changes()["printed"])],
            two_changes()["largest_difference"],
        ],
    ),
    "plan, within": (
        NEW,
        "within {}% of the decoded one in the median. So are those of fixed K, HLM and flexspec",
        lambda: [
            ceil(
                100
                * max(
                    abs(error(name, limit))
                    for name in ("ours", "fixed K, full rows", "HLM", "FlexSpec")
                    for limit in ("lossless", "text .3", "token .05")
                )
            )
        ],
    ),
    "plan, held out": (
        NEW,
        "the held-out mean of this split is {}; over {} splits it is {}",
        lambda: [
            short(most_links()["held_out_mean"], 3),
            stored("experiments/plan/splits_builtin")["splits"],
            short(most_links()["over_200_splits"]["mean"]),
        ],
    ),
    "bound, instances": (
        NEW,
        "In a comparison with all plans of {} small instances",
        lambda: [stored("experiments/policy_bound/policy_bound")["instances"]],
    ),
    "bound, median": (
        NEW,
        "and {} is lost in the median",
        lambda: ["nothing" if stored("experiments/policy_bound/policy_bound")["loss_median"] == 0 else "?"],
    ),
    "users, lengths": (
        NEW,
        "the best K grows from {} for two users to {} for six",
        lambda: [
            *(
                next(iter(row["draft_lengths"]))
                for count in (2, 6)
                for row in stored("experiments/plan/users")["rows"]
                if row["batch"] == 1 and row["users"] == count
            )
        ],
    ),
    "batches, gap": (
        NEW,
        "can be planned within {:.1%} of the fastest",
        lambda: [max(one["gap"] for one in plans("equal"))],
    ),
    "batches, tasks": (
        NEW,
        "{} tasks on the paper's machines, all draft lengths from {} to {}",
        lambda: [
            *{sum(one["batch_sizes"]) for one in plans("equal") + plans("unequal")},
            *stored("experiments/edge_sd_plans/plans")["draft_lengths"],
        ],
    ),
    "batches, older bound": (
        NEW,
        "The older bound left {:.0f} to {:.0f}%",
        lambda: ends([100 * one["older_gap"] for one in plans("equal")]),
    ),
    "batches, less time": (
        NEW,
        "take up to {:.0%} less time than those of Algorithm 1",
        lambda: [
            1
            - min(
                ours["latency"] / theirs["latency"]
                for ours, theirs in zip(plans("unequal"), plans("unequal", "dp"), strict=True)
            )
        ],
    ),
    "batches, unequal answers": (
        NEW,
        "the certified gap is {:.0f} to {:.0f}%",
        lambda: ends([100 * one["gap"] for one in plans("unequal")]),
    ),
    "batches, few tasks": (
        NEW,
        "On {} cases of {} or {} tasks the plan is within {:.1f}% of the exact optimum",
        lambda: [
            {6: "six"}[len(few_plans())],
            *sorted({one["tasks"] for one in few_plans()}),
            ceil(1000 * max(one["latency"] / one["optimum"] - 1 for one in few_plans())) / 10,
        ],
    ),
    "batches, loose bound": (
        NEW,
        "the bound is {:.0f} to {:.0f}% below it",
        lambda: ends([100 * (1 - one["lower_bound"] / one["optimum"]) for one in few_plans()]),
    ),
    "audits": (AUDIT, "exact samplers are audited {:,} times each", lambda: [audited()[0]["audits"]]),
}
"""What a page says, by a name: the page, the phrase, and its numbers from the stored files."""


@pytest.mark.parametrize("name", PHRASES)
def test_the_page_says_what_is_stored(name: str):
    page, phrase, numbers = PHRASES[name]
    assert phrase.format(*numbers()) in text(page)


SETTINGS = (
    r"(Figures?|Tables?|Algorithm) [\dIVXabc]+( to \d+)?|Table II's .72, .45 and .18|\([\d]+\)|`[^`]*`",
    r"GSM8K|gsm8k|H100|Q\d_[\dK]|F32|[45]G|EAGLE-\d|Medusa-1|Llama-3.1-8B|FIXED 1, 3, 5",
    r"(?<![\w.])[kKTV] = [\d,]+|[δεπτ₁α]+(\(0\))? = [\d.]+%?|ℓ = 100|u_th = 0.2|2\^\{D/\(W x\)\}|\(¾, ¼\)",
    r"100 prompts|rank 4, 16, 64|24 bits|bias of 0.05|threshold 0?.[58]|limit of .3|With .05 of risk",
    r"temperature (0 and )?[01]|round trips of 0 to 100 ms|With 5 ms a draft|a constant 10 dB|at −20 dB|1 to 32 users",
    r"version 0 in more than .8|printed acceptance of .18|(distributions|rows) of 32,000",
)
"""What is not a result: names, places, and the settings of a run, which the sentences around a number say."""


def untested(page: str) -> list[str]:
    """Percentages, decimals and numbers of two digits or more outside of the phrases and settings."""
    for phrase in (phrase.format(*numbers()) for at, phrase, numbers in PHRASES.values() if at == NEW):
        page = page.replace(phrase, "")
    page = re.sub("|".join(SETTINGS), "", page)
    numbers_left = re.finditer(r"(?<![\w,.])(?:\d*\.\d+|\d+%|\d[\d,]*\d|\d+×)(?!\w)", page)
    return [page[max(0, one.start() - 20) : one.end() + 12] for one in numbers_left]


def test_every_result_in_digits_is_recomputed():
    assert untested(text(NEW)) == []
    assert len(untested(text(NEW) + " In this sentence 7.5% of the 31 texts are new.")) == 2


def test_a_changed_number_is_noticed(monkeypatch: pytest.MonkeyPatch):
    page, phrase, numbers = PHRASES["plan, links"]
    monkeypatch.setitem(stored("experiments/plan/builtin")["links"], "recorded", 519)
    assert phrase.format(*numbers()) not in text(page)
