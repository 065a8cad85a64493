"""Write the first sentence of each caption of decoded texts."""

from __future__ import annotations

from typing import Any

from validation.plots.common.decoded.captions import at_place, decibels, draft_alone, of_paper, said
from validation.plots.common.decoded.numbers import METRICS
from validation.plots.common.decoded.printed import PRINTED
from validation.plots.common.record import Numbers
from validation.plots.common.skipping.printed import CU, U, value


def message_both(numbers: Numbers) -> str:
    """Compare the fastest method with truncated distributions to HLM."""
    speeds = {one["name"]: one["throughput"]["median"]["value"] for one in numbers["series"]}
    base, own = speeds.get("HLM"), {name: speeds[name] for name in _verifying(speeds, CU) if speeds[name]}
    if not base or not own:
        return "The study has no HLM and no CU-HLM to compare."
    best = max(own, key=lambda name: own[name])
    return f"{best} generates {own[best] / base:.1f} times as many tokens per second as HLM, in the median over texts."


def message_thresholds(numbers: Numbers, paper: str) -> str:
    """Give the transmission rate and the true skip rates at the paper's threshold."""
    series = {one["kind"]: one for one in numbers["series"]}
    sent, true = series["transmission"], series["accepted_if_skipped"]
    if not sent["x"]:
        return "The study has no thresholds."
    wanted = value(paper, "chosen" if paper == CU else "experimental")
    at = min(range(len(sent["x"])), key=lambda i: abs(sent["x"][i] - wanted))
    return (
        f"At the threshold {sent['x'][at]:g} the device sends {at_place(sent, at)} of its drafts, and "
        f"{at_place(true, at)} of the skipped ones would be accepted."
    )


def message_sizes(numbers: Numbers) -> str:
    """Give the bits of a message at the paper's k and at the largest k."""
    encoded = next(one for one in numbers["series"] if one["kind"] == "encoded")
    x = encoded["x"]
    if not x:
        return "The study has no sizes."
    near = min(range(len(x)), key=lambda i: abs(x[i] - PRINTED["offline_k"].value))
    return (
        f"A message of k = {x[near]:g} entries takes {at_place(encoded, near, ',.0f')} bits as encoded, one of "
        f"{x[-1]:,.0f} entries {at_place(encoded, len(x) - 1, ',.0f')}."
    )


def message_speeds(numbers: Numbers) -> str:
    """Give the largest gain over HLM."""
    gains = numbers["statistics"]["gains"]
    own = {name: gains[name]["median"] for name in _verifying(gains, CU) if gains[name]["median"]["value"]}
    if not own:
        return "The study has no HLM and no CU-HLM to compare."
    best = max(own, key=lambda name: own[name]["value"] or 0.0)
    snr = decibels(numbers["statistics"]["gains_at_snr_db"])
    return f"At {snr}, {best} is {said(own[best], '.1f')} times as fast as HLM, in the median over texts."


def message_accuracy(numbers: Numbers, paper: str) -> str:
    """Give the range of the share of HLM's accuracy that the methods keep, by the last of the metrics that is there.

    Similarity to the target model's own texts comes last: above it there is nothing to gain.
    """
    name = "CU-HLM" if paper == CU else "U-HLM"
    for metric, methods in reversed(numbers["statistics"]["shares"].items()):
        bases = [methods[method].get("HLM", {}).get("value") for method in _verifying(methods, paper)]
        shares = [100.0 * share for share in bases if share is not None]
        if shares:
            return (
                f"{name} keeps {min(shares):.1f} to {max(shares):.1f}% of HLM's {METRICS[metric]}, where it "
                "verifies drafts."
            )
    return f"The similarity that {name} keeps is undefined here."


def message_methods(numbers: Numbers) -> str:
    """Give the gain of U-HLM over HLM on the paper's link."""
    gains = numbers["statistics"]["gains"]
    own = {name: gains[name]["median"] for name in _verifying(gains, U) if gains[name]["median"]["value"]}
    if not own:
        return "The study has no HLM and no U-HLM to compare."
    best = max(own, key=lambda name: own[name]["value"] or 0.0)
    snr = decibels(round(numbers["statistics"]["link_snr_db"], 1))
    return (
        f"At {snr}, the SNR of its link, {best} is {said(own[best], '.2f')} times as fast as HLM, in the median over "
        "texts."
    )


def _verifying(found: dict[str, Any], paper: str) -> list[str]:
    """Return a paper's methods that verify drafts; all of them if none does."""
    own, alone = of_paper(found, paper), draft_alone(found)
    return [name for name in own if name not in alone] or own


MESSAGE_BREAKDOWN = (
    "The communication times that the paper prints for U-HLM are those of whole distributions at an SNR of exactly "
    "10 dB without fading."
)
