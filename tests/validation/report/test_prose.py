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


def instructed(table: str, number: int, method: str) -> list[float]:
    rows = stored(f"instructed/flexspec-{table}")["tables"][number - 1]["rows"]
    return [float(value.split(" ")[0]) for row in rows if row[1] == method for value in row[2:]]


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
    "text, prompts": (NEW, "the sum {}", lambda: [cell("ours-tableIV", 1, ("40", "0.1", "sum, bound T"), "threshold")]),
    "text, enumeration": (NEW, "are {}, {} and {} at the threshold .5", lambda: means(6)),
    "audit, draws": (NEW, "after a median of {} tokens", lambda: [cell("ours-tableVII", 2, ("0.1",), "median")]),
    "audit, pair": (
        NEW,
        "U-HLM at u_th = 0.2 after {}",
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
        "with 16 bits per token it is {} wide",
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
        "which gives {:.0%} more",
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
        "the plan loses at most {:.1%}",
        lambda: [stored("experiments/policy_bound/policy_bound")["loss_largest"]],
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
        "travel over WiFi ({}); with tokens alone it is {} to {} times",
        lambda: [
            short(float(sent("distributions of 32,000", "WiFi"))),
            sent("tokens alone", "5G"),
            sent("tokens alone", "WiFi"),
        ],
    ),
    "flexspec, instructed, sampling": (
        NEW,
        "FlexSpec as printed is {:.1f} to {:.1f} times as fast as Cloud-Only",
        lambda: ends(instructed("tableIV-length-rule", 12, "FlexSpec, as printed")),
    ),
    "flexspec, instructed, standard": (
        NEW,
        "Standard speculative decoding with K = 4 is {:.1f} to {:.1f} times",
        lambda: ends(instructed("tableIV-length-rule", 12, "standard SD")),
    ),
    "flexspec, instructed, greedy": (
        NEW,
        "FlexSpec is faster ({:.2f} to {:.2f} against {:.2f} to {:.2f})",
        lambda: [
            *ends(instructed("tableIII-length-rule", 6, "FlexSpec, as printed")),
            *ends(instructed("tableIII-length-rule", 6, "standard SD")),
        ],
    ),
    "Table II, fall": (
        NEW,
        "falls from {} to {}, of which {} is the harder text and {} the version, {} in TV",
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
        "they are up to TV = {} from version 0",
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
        "the gain is {:,} to {:,}× from sample to sample, and {:,}× without fading",
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
    "audits": (AUDIT, "exact samplers are audited {:,} times each", lambda: [audited()[0]["audits"]]),
}
"""What a page says, by a name: the page, the phrase, and its numbers from the stored files."""


@pytest.mark.parametrize("name", PHRASES)
def test_the_page_says_what_is_stored(name: str):
    page, phrase, numbers = PHRASES[name]
    assert phrase.format(*numbers()) in text(page)


def test_a_changed_number_is_noticed(monkeypatch: pytest.MonkeyPatch):
    page, phrase, numbers = PHRASES["plan, links"]
    monkeypatch.setitem(stored("experiments/plan/builtin")["links"], "recorded", 519)
    assert phrase.format(*numbers()) not in text(page)
