"""What the captions of uncertainty and skipping say: our numbers beside the printed ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.plots.common.record import Numbers
from validation.plots.common.skipping.printed import CU, U, false_positives, value
from validation.plots.ours.skipping_table import shown, with_interval

RATES = {
    "transmission": "transmission rate",
    "skipped_if_accepted": "P(skipped | accepted)",
    "accepted_if_skipped": "P(accepted | skipped)",
}


def _number(found: float | None, form: str = ".3f") -> str:
    return "undefined" if found is None else shown(found, form)


def _estimate(found: dict[str, float | None], form: str = ".3f") -> str:
    """A number with its interval."""
    if found["value"] is None:
        return "undefined"
    low, high = found["low"], found["high"]
    return with_interval(found["value"], None if low is None or high is None else (low, high), form)


def caption_baselines(numbers: Numbers, paper: str) -> str:
    """The correlations."""
    statistics = numbers["statistics"]
    ours = ", ".join(f"{name} {_number(r)}" for name, r in statistics["pearson_r"].items())
    text = f"Pearson's r over tokens: {ours}"
    if paper == CU:
        text += "; the paper prints 0.71 for temperature perturbation, 0.65 for MC dropout and 0.20 for paraphrases"
    if at := statistics["pearson_r_at_the_positions_of_the_rivals"]:
        like = ", ".join(f"{name} {_number(r)}" for name, r in at.items())
        text += f". At the {statistics['positions_of_the_rivals']:,} positions where all were taken: {like}"
    without = _number(statistics["pearson_r_of_one_less_draft_probability"])
    text += f". For 1 − q_d, which the device knows without a draw, r is {without} over all tokens"
    return " ".join([f"{text}.", *statistics["left_out"].values()])


def _fit(numbers: Numbers, which: str) -> str:
    """One line in words."""
    line = numbers["statistics"][which]["line"]
    what = "tokens" if which == "tokens" else "mean rejection at each u"
    if line is None:
        return f"No line can be fitted to the {what}, as the uncertainty does not vary"
    words = f"a = {_number(line['slope'])}, b = {_number(line['intercept'])}, R² = {_number(line['r_squared'], '.4f')}"
    return f"{words} over {line['points']:,} {'tokens' if which == 'tokens' else 'means'}"


def _thresholds(numbers: Numbers, paper: str) -> str:
    """Ours beside the paper's."""
    statistics = numbers["statistics"]
    found = statistics["bins"]["thresholds"]
    ours = "undefined, as no line rises" if found is None else " and ".join(_number(one, ".4f") for one in found)
    theirs = f"{value(paper, 'averse'):g} and {value(paper, 'prone'):g}"
    beyond = " A threshold beyond [0, 1] skips no draft or every one." if found and not _inside(found) else ""
    return (
        f"Δ = {_estimate(statistics['non_acceptance'])}, the paper has {value(paper, 'non_acceptance'):g}; risk-averse "
        f"and risk-prone thresholds by the fit to the means {ours}, the paper has {theirs}.{beyond}"
    )


def _inside(thresholds: list[float]) -> bool:
    return all(0 <= one <= 1 for one in thresholds)


def caption_line(numbers: Numbers, paper: str) -> str:
    """Both fits, how linear the relation is, and the thresholds."""
    theirs = f"a = {value(paper, 'slope'):g}, b = {shown(value(paper, 'intercept'), 'g')}"
    if paper == CU:
        theirs += f", R² = {value(paper, 'r_squared'):g}"
    fits = f"{_fit(numbers, 'tokens')}; {_fit(numbers, 'bins')}; the paper prints {theirs}."
    return f"{fits} {_how_linear(numbers)}{_thresholds(numbers, paper)}"


def _how_linear(numbers: Numbers) -> str:
    """How far off a line the means are, and the tokens from any function of u."""
    statistics = numbers["statistics"]
    miss, most = statistics["bins"]["largest_miss"], statistics["explained_at_most"]
    if miss is None or most is None:
        return ""
    off, of_points = statistics["bins"]["points_off"]
    beside = f"; at {off} of {of_points} points the line is outside the 95% interval" if of_points else ""
    return (
        f"The mean farthest from its line is {_number(abs(miss[1]))} off, at u = {miss[0]:g}{beside}. Of the variance "
        f"of β over tokens any function of u explains at most {_number(most)}. "
    )


def caption_density(numbers: Numbers) -> str:
    """How much of u lies at its ends."""
    statistics, (_, density) = numbers["statistics"], numbers["series"]
    return (
        f"{100 * statistics['share_at_0']:.1f}% of the drafts have u = 0 and {100 * statistics['share_at_1']:.1f}% "
        f"u = 1; the paper says that u gathers at both, without a number. The kernels put "
        f"{100 * density['outside']:.1f}% of their mass outside [0, 1], where no u can be."
    )


def _at(series: dict[str, Any], threshold: float) -> str:
    """A rate at one threshold, with its interval."""
    index = int(np.argmin(np.abs(np.array(series["x"]) - threshold)))
    return _estimate({"value": series["mean"][index]} | {end: series[end][index] for end in ("low", "high")})


def caption_rates(numbers: Numbers) -> str:
    """The rates at the paper's threshold."""
    sent, accepted, skipped = numbers["series"]
    chosen = value(CU, "chosen")
    wrong = numbers["statistics"]["skipped_and_rejected"][f"{chosen:g}"]
    least = min((one for one in accepted["mean"] if one is not None), default=None)
    return (
        f"At the paper's threshold {chosen}: transmission rate {_at(sent, chosen)}, the paper prints "
        f"{1 - value(CU, 'skipped'):.3f}; P(accepted | skipped), its true skip rate, {_at(accepted, chosen)}, the "
        f"paper prints {value(CU, 'true_skips')}; P(skipped | accepted), u-hlm's, {_at(skipped, chosen)}. "
        f"P(skipped and rejected) is {_estimate(wrong)}, by the paper's rates {false_positives():.3f}. The least "
        f"P(accepted | skipped) is {_number(least)}, the paper's {value(CU, 'least_true_skips')}. The accuracy that "
        "the paper draws too takes texts by the hybrid system: Figure 9a-texts."
    )


def caption_transmission(numbers: Numbers) -> str:
    """The rate about the paper's threshold."""
    (sent,) = numbers["series"]
    near = [0.4, 0.6]
    ours = ", ".join(f"{_at(sent, one)} at {one}" for one in near)
    return (
        f"Transmission rate {ours}; the paper prints {1 - value(U, 'skipped'):.4f} at {value(U, 'prone')}, which with "
        "20 draws is 0.4. The cosine similarity that the paper draws too takes texts by the hybrid system: Figure "
        "4-texts."
    )


def caption_methods(numbers: Numbers) -> str:
    """Every bar."""
    parts = []
    for one in numbers["series"]:
        at = "" if one["threshold"] is None else f" (threshold {_number(one['threshold'])})"
        parts.append(f"{one['name']}{at}: {', '.join(_estimate(one[key]) for key in RATES)}")
    text = "; ".join(parts) if parts else "No line rises, so there is no threshold to draw"
    left_out = list(numbers["statistics"]["left_out"].values())
    return " ".join(
        [
            f"Transmission rate, P(skipped | accepted), P(accepted | skipped): {text}. The paper prints a transmission "
            f"rate of {1 - value(U, 'skipped'):.4f} and no true skip rate.",
            *left_out,
        ]
    )


def caption_table(numbers: Numbers) -> str:
    """What skipping costs, beside R."""
    statistics = numbers["statistics"]
    bins, exact = statistics["bins"], statistics["exact"].get("bins")
    if exact is None:
        return "The fitted line does not rise, so there is no threshold and no risk by it."
    bound = statistics["sequence_bound"]["bins"]
    vacuous = ", so it says nothing" if bound is not None and bound >= 1 else ""
    return (
        f"At the risk-prone threshold {bins['thresholds'][1]:.4f} the emitted token's law is {_estimate(exact, '.4f')} "
        f"from the target model's in total variation; R gives {statistics['surrogate']['bins']:.4f}. The bound on "
        f"whole texts is min(1, the mean sum) = {_number(bound)}{vacuous}; calibrated thresholds keep the mean per "
        "token. Intervals are 95%, clustered by prompt."
    )


# ------------------------------------------------------------------------------------------- messages, in one sentence


def message_baselines(numbers: Numbers) -> str:
    """How far uncertainty and rejection go together."""
    found = [r for r in numbers["statistics"]["pearson_r"].values() if r is not None]
    if not found:
        return "The correlation of uncertainty and rejection is undefined here."
    least, most = min(found), max(found)
    span = _number(most) if len(found) == 1 else f"{_number(least)} to {_number(most)}, depending on the measure"
    return f"The correlation of uncertainty and rejection over tokens is {span}."


def message_line(numbers: Numbers) -> str:
    """How much the line explains of the means, and of single tokens."""
    statistics = numbers["statistics"]
    means, tokens = (statistics[which]["line"] for which in ("bins", "tokens"))
    if means is None or tokens is None:
        return "No line can be fitted here, since the uncertainty does not vary."
    return (
        f"A line explains {_percent(means['r_squared'])} of the variance of the mean rejection probability at each u, "
        f"but {_percent(tokens['r_squared'])} of that of single tokens."
    )


def _percent(share: float | None) -> str:
    return "an undefined share" if share is None else f"{100 * share:.1f}%"


def message_density(numbers: Numbers) -> str:
    """The share of drafts at both ends."""
    ends = numbers["statistics"]["share_at_0"] + numbers["statistics"]["share_at_1"]
    return f"The uncertainty of {100 * ends:.1f}% of the drafts is exactly 0 or 1."


def message_rates(numbers: Numbers) -> str:
    """What would be accepted of the skipped drafts at the paper's threshold."""
    sent, accepted, _ = numbers["series"]
    chosen = value(CU, "chosen")
    return (
        f"At the paper's threshold {chosen} the transmission rate is {_at(sent, chosen)}, and "
        f"{_at(accepted, chosen)} of the skipped drafts would be accepted."
    )


def message_transmission(numbers: Numbers) -> str:
    """The rate at the paper's experimental threshold."""
    (sent,) = numbers["series"]
    at = value(U, "experimental")
    return f"The transmission rate falls as the threshold rises; at {at:g} it is {_at(sent, at)}."


def message_methods(numbers: Numbers) -> str:
    """The range of the transmission rates."""
    rates = [one["transmission"]["value"] for one in numbers["series"] if one["transmission"]["value"] is not None]
    if not rates:
        return "No method has a threshold here."
    return f"The transmission rate is {_number(min(rates))} to {_number(max(rates))}, depending on the method."


def message_table(numbers: Numbers) -> str:
    """The true risk of skipping at the risk-prone threshold."""
    exact = numbers["statistics"]["exact"].get("bins")
    if exact is None:
        return "The fitted line does not rise, so there is no threshold."
    return (
        "At the risk-prone threshold the emitted token's distribution differs from the target model's by "
        f"{_estimate(exact, '.4f')} in total variation."
    )
