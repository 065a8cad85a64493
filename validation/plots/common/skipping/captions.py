"""Write captions of uncertainty and skipping: our numbers beside the printed ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from validation.plots.common.record import Numbers
from validation.plots.common.skipping.printed import CU, U, false_positives, value
from validation.plots.common.skipping.words import shown, with_interval

RATES = {
    "transmission": "transmission rate",
    "skipped_if_accepted": "P(skipped | accepted)",
    "accepted_if_skipped": "P(accepted | skipped)",
}


def _number(found: float | None, form: str = ".3f") -> str:
    return "undefined" if found is None else shown(found, form)


def _estimate(found: dict[str, float | None], form: str = ".3f") -> str:
    """Format a number with its interval."""
    if found["value"] is None:
        return "undefined"
    low, high = found["low"], found["high"]
    return with_interval(found["value"], None if low is None or high is None else (low, high), form)


def caption_baselines(numbers: Numbers, paper: str) -> str:
    """Give the correlation of each measure."""
    statistics = numbers["statistics"]
    ours = ", ".join(f"{name} {_number(r)}" for name, r in statistics["pearson_r"].items())
    sentences = [f"Pearson's r over tokens: {ours}."]
    if paper == CU:
        sentences.append(
            "The paper prints 0.71 for temperature perturbation, 0.65 for MC dropout and 0.20 for paraphrases."
        )
    if at := statistics["pearson_r_at_the_positions_of_the_rivals"]:
        like = ", ".join(f"{name} {_number(r)}" for name, r in at.items())
        count = statistics["positions_of_the_rivals"]
        sentences.append(f"At the {count:,} positions where all three were measured: {like}.")
    without = _number(statistics["pearson_r_of_one_less_draft_probability"])
    sentences.append(f"For 1 − q_d, which the device knows without sampling, r is {without} over all tokens.")
    return " ".join([*sentences, *statistics["left_out"].values()])


def _fit(numbers: Numbers, which: str) -> str:
    """Describe one fitted line."""
    line = numbers["statistics"][which]["line"]
    what = "tokens" if which == "tokens" else "mean rejection at each u"
    if line is None:
        return f"No line can be fitted to the {what}, as the uncertainty does not vary"
    words = f"a = {_number(line['slope'])}, b = {_number(line['intercept'])}, R² = {_number(line['r_squared'], '.4f')}"
    return f"{words} over {line['points']:,} {'tokens' if which == 'tokens' else 'means'}"


def _thresholds(numbers: Numbers, paper: str) -> str:
    """Give our thresholds beside the paper's."""
    statistics = numbers["statistics"]
    found = statistics["bins"]["thresholds"]
    ours = "undefined, as no line rises" if found is None else " and ".join(_number(one, ".4f") for one in found)
    theirs = f"{value(paper, 'averse'):g} and {value(paper, 'prone'):g}"
    beyond = " A threshold outside [0, 1] skips no draft or every draft." if found and not _inside(found) else ""
    return (
        f"The probability Δ that a draft can be rejected is {_estimate(statistics['non_acceptance'])} here and "
        f"{value(paper, 'non_acceptance'):g} in the paper. The risk-averse and risk-prone thresholds, by the fit to "
        f"the means, are {ours} here and {theirs} in the paper.{beyond}"
    )


def _inside(thresholds: list[float]) -> bool:
    return all(0 <= one <= 1 for one in thresholds)


def caption_line(numbers: Numbers, paper: str) -> str:
    """Give the fits, the linearity of the relation, and the thresholds."""
    theirs = f"a = {value(paper, 'slope'):g}, b = {shown(value(paper, 'intercept'), 'g')}"
    if paper == CU:
        theirs += f", R² = {value(paper, 'r_squared'):g}"
    fits = f"Fitted lines: {_fit(numbers, 'tokens')}; {_fit(numbers, 'bins')}. The paper prints {theirs}."
    return f"{fits} {_how_linear(numbers)}{_thresholds(numbers, paper)}"


def _how_linear(numbers: Numbers) -> str:
    """Give the largest distance of a mean from the line, and the share of variance that u can explain."""
    statistics = numbers["statistics"]
    miss, most = statistics["bins"]["largest_miss"], statistics["explained_at_most"]
    if miss is None or most is None:
        return ""
    off, of_points = statistics["bins"]["points_off"]
    beside = f" At {off} of {of_points} points the line lies outside the 95% interval of the mean." if of_points else ""
    return (
        f"The largest distance of a mean from the line is {_number(abs(miss[1]))}, at u = {miss[0]:g}.{beside} A "
        f"function of u explains at most {_number(most)} of the variance of β over tokens. "
    )


def caption_density(numbers: Numbers) -> str:
    """Give the shares of u = 0 and u = 1, and the kernel mass outside [0, 1]."""
    statistics, (_, density) = numbers["statistics"], numbers["series"]
    return (
        f"{100 * statistics['share_at_0']:.1f}% of the drafts have u = 0 and {100 * statistics['share_at_1']:.1f}% "
        "have u = 1. The paper says that u concentrates at both ends, but prints no number. The kernels put "
        f"{100 * density['outside']:.1f}% of their mass outside [0, 1], where u cannot lie."
    )


def _at(series: dict[str, Any], threshold: float) -> str:
    """Give a rate at one threshold, with its interval."""
    index = int(np.argmin(np.abs(np.array(series["x"]) - threshold)))
    return _estimate({"value": series["mean"][index]} | {end: series[end][index] for end in ("low", "high")})


def caption_rates(numbers: Numbers) -> str:
    """Give the rates at the paper's threshold."""
    _, accepted, skipped = numbers["series"]
    chosen = value(CU, "chosen")
    wrong = numbers["statistics"]["skipped_and_rejected"][f"{chosen:g}"]
    least = min((one for one in accepted["mean"] if one is not None), default=None)
    return (
        f"At this threshold the printed share of skips gives a transmission rate of "
        f"{1 - value(CU, 'skipped'):.3f}; printed is P(accepted | skipped) = {value(CU, 'true_skips')}. "
        "P(skipped | accepted), the true skip rate of u-hlm, is "
        f"{_at(skipped, chosen)} here. P(skipped and rejected) is {_estimate(wrong)} here and {false_positives():.3f} "
        f"by the paper's rates. The smallest P(accepted | skipped) is {_number(least)} here and "
        f"{value(CU, 'least_true_skips')} in the paper. Figure 9a-texts shows the accuracy, which needs texts decoded "
        "by the hybrid system."
    )


def caption_transmission(numbers: Numbers) -> str:
    """Give the transmission rate near the paper's threshold."""
    (sent,) = numbers["series"]
    near = [0.4, 0.6]
    ours = ", ".join(f"{_at(sent, one)} at {one}" for one in near)
    return (
        f"The transmission rate is {ours}. The printed share of skips gives {1 - value(U, 'skipped'):.4f} at "
        f"{value(U, 'prone')}; "
        "with 20 draws of u this threshold equals 0.4. Figure 4-texts shows the cosine similarity, which needs texts "
        "decoded by the hybrid system."
    )


def caption_methods(numbers: Numbers) -> str:
    """Give the three rates of each method."""
    parts = []
    for one in numbers["series"]:
        at = "" if one["threshold"] is None else f" (threshold {_number(one['threshold'])})"
        parts.append(f"{one['name']}{at}: {', '.join(_estimate(one[key]) for key in RATES)}")
    text = "; ".join(parts) if parts else "No line rises, so there is no threshold to draw"
    left_out = list(numbers["statistics"]["left_out"].values())
    return " ".join(
        [
            f"Transmission rate, P(skipped | accepted) and P(accepted | skipped): {text}. The paper's "
            f"printed share of skips gives a transmission rate of {1 - value(U, 'skipped'):.4f}; it prints no true "
            "skip rate.",
            *left_out,
        ]
    )


def caption_table(numbers: Numbers) -> str:
    """Compare the true risk of skipping to the papers' surrogate R."""
    statistics = numbers["statistics"]
    bins, exact = statistics["bins"], statistics["exact"].get("bins")
    if exact is None:
        return "The fitted line does not rise, so there is no threshold and no risk by it."
    bound = statistics["sequence_bound"]["bins"]
    vacuous = ", so it is vacuous" if bound is not None and bound >= 1 else ""
    return (
        f"This threshold is {bins['thresholds'][1]:.4f}; the papers' surrogate R gives "
        f"{statistics['surrogate']['bins']:.4f} for the distance of {_estimate(exact, '.4f')}. The bound for whole "
        f"texts, min(1, mean sum), is {_number(bound)}{vacuous}. Calibrated thresholds bound the mean per token. "
        "Intervals are 95%, clustered by prompt."
    )


# ------------------------------------------------------------------------------------------- messages, in one sentence


def message_baselines(numbers: Numbers) -> str:
    """Give the correlation of uncertainty and rejection."""
    found = [r for r in numbers["statistics"]["pearson_r"].values() if r is not None]
    if not found:
        return "The correlation of uncertainty and rejection is undefined here."
    least, most = min(found), max(found)
    span = _number(most) if len(found) == 1 else f"{_number(least)} to {_number(most)}, depending on the measure"
    return f"The correlation of uncertainty and rejection over tokens is {span}."


def message_line(numbers: Numbers) -> str:
    """Give the variance that the line explains, for the means and for single tokens."""
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
    """Give the share of drafts at u = 0 and u = 1."""
    ends = numbers["statistics"]["share_at_0"] + numbers["statistics"]["share_at_1"]
    return f"The uncertainty of {100 * ends:.1f}% of the drafts is exactly 0 or 1."


def message_rates(numbers: Numbers) -> str:
    """Give the share of skipped drafts that would be accepted at the paper's threshold."""
    sent, accepted, _ = numbers["series"]
    chosen = value(CU, "chosen")
    return (
        f"At the paper's threshold {chosen} the transmission rate is {_at(sent, chosen)}, and "
        f"{_at(accepted, chosen)} of the skipped drafts would be accepted."
    )


def message_transmission(numbers: Numbers) -> str:
    """Give the rate at the paper's experimental threshold."""
    (sent,) = numbers["series"]
    at = value(U, "experimental")
    return f"The transmission rate falls as the threshold rises; at {at:g} it is {_at(sent, at)}."


def message_methods(numbers: Numbers) -> str:
    """Give the range of the transmission rates."""
    rates = [one["transmission"]["value"] for one in numbers["series"] if one["transmission"]["value"] is not None]
    if not rates:
        return "No method has a threshold here."
    return f"The transmission rate is {_number(min(rates))} to {_number(max(rates))}, depending on the method."


def message_table(numbers: Numbers) -> str:
    """Give the true risk of skipping at the risk-prone threshold."""
    exact = numbers["statistics"]["exact"].get("bins")
    if exact is None:
        return "The fitted line does not rise, so there is no threshold."
    return (
        "At the risk-prone threshold the emitted token's distribution differs from the target model's by "
        f"{_estimate(exact, '.4f')} in total variation."
    )
