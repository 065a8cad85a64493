"""Numbers that cu-hlm and u-hlm print on uncertainty and skipping, and their contradictions."""

from __future__ import annotations

import numpy as np

from hlmtheory.skipping import skip_thresholds
from validation.decoding.trace_drafts import POINTS
from validation.plots.common.record import Printed, Table

CU, U = "cu-hlm", "u-hlm"
PRINTED = {
    CU: {
        "slope": Printed("slope a", 0.815, "(7)"),
        "intercept": Printed("intercept b", -0.066, "(7)"),
        "r_squared": Printed("R²", 0.9774, "(7)"),
        "mse": Printed("mean squared error", 1.41e-3, "(7)"),
        "correlation": Printed("correlation, temperature perturbation", 0.7106, "Section III-A"),
        "dropout": Printed("correlation, MC dropout", 0.65, "Fig. 2"),
        "paraphrases": Printed("correlation, prompt perturbation", 0.20, "Fig. 2"),
        "non_acceptance": Printed("Δ", 0.5956, "Section III-C"),
        "averse": Printed("risk-averse threshold", 0.0810, "Section III-C"),
        "prone": Printed("risk-prone threshold", 0.8117, "Section III-C"),
        "risk": Printed("rejection risk R", 4.94e-3, "Section III-C"),
        "bound": Printed("bound on R", 9.87e-3, "Section III-C"),
        "chosen": Printed("threshold chosen", 0.8, "Section V-B"),
        "skipped": Printed("share skipped there", 0.748, "Section V-B"),
        "true_skips": Printed("of which accepted", 0.857, "Section I-B"),
        "least_true_skips": Printed("least true skip rate", 0.702, "Section V-B"),
    },
    U: {
        "slope": Printed("slope a", 0.82, "(5)"),
        "intercept": Printed("intercept b", -0.06, "(5)"),
        "non_acceptance": Printed("Δ", 0.301, "Section IV-A"),
        "averse": Printed("risk-averse threshold", 0.073, "Section IV-A"),
        "prone": Printed("risk-prone threshold", 0.431, "Section IV-A"),
        "risk": Printed("rejection risk R", 2.24e-3, "Section IV-A"),
        "bound": Printed("bound on R", 4e-3, "Section IV-A"),
        "experimental": Printed("experimental threshold", 0.6, "Section IV-A"),
        "skipped": Printed("share skipped", 0.4593, "Section IV-B"),
    },
}
HALF_DIGIT = {"slope": 0.005, "intercept": 0.005, "non_acceptance": 0.0005, "averse": 0.0005, "prone": 0.0005}
"""Rounding units of the numbers that u-hlm prints."""


def printed(paper: str, *names: str) -> tuple[Printed, ...]:
    """Return the named numbers that a paper prints."""
    return tuple(PRINTED[paper][name] for name in names)


def value(paper: str, name: str) -> float:
    """Return one number that a paper prints."""
    return PRINTED[paper][name].value


def fraction_of_bins() -> float:
    """Return R² from cu-hlm's a and MSE with equal weights on the 21 points: a² Var(u) / (a² Var(u) + MSE)."""
    explained = value(CU, "slope") ** 2 * float(np.var(POINTS))
    return explained / (explained + value(CU, "mse"))


def false_positives() -> float:
    """Return P(skipped and rejected) from cu-hlm's skipped share and true skip rate."""
    return value(CU, "skipped") * (1.0 - value(CU, "true_skips"))


def between_thresholds() -> float:
    """Return the largest P(-b/a < u ≤ (Δ - b)/a) under cu-hlm's bound: its ‖f‖ times √|I| (Cauchy-Schwarz)."""
    slope, delta = value(CU, "slope"), value(CU, "non_acceptance")
    norm = value(CU, "bound") * np.sqrt(3.0 * slope) / delta**1.5  # (13)
    return float(norm * np.sqrt(delta / slope))


def prone_range(*, with_averse: bool) -> tuple[float, float]:
    """Return the range of (Δ - b)/a over all a, b and Δ that round to u-hlm's printed values, or over a, Δ and -b/a."""
    near = {name: (value(U, name) - half, value(U, name) + half) for name, half in HALF_DIGIT.items()}
    slopes, shares = near["slope"], near["non_acceptance"]
    if with_averse:
        low, high = (shares[end] / slopes[1 - end] + near["averse"][end] for end in (0, 1))
    else:
        low, high = ((shares[end] - near["intercept"][1 - end]) / slopes[1 - end] for end in (0, 1))
    return low, high


def findings() -> Table:
    """Return claims on uncertainty and skipping, beside the implications of the same paper's numbers."""
    steeper = value(U, "non_acceptance") / (value(U, "prone") - value(U, "averse"))
    prone = {paper: _threshold(paper) for paper in (CU, U)}
    alone, together = prone_range(with_averse=False), prone_range(with_averse=True)
    wrong, inside = false_positives(), between_thresholds()
    at_one = {paper: value(paper, "slope") + value(paper, "intercept") for paper in (CU, U)}
    rows = (
        (
            "cu-hlm, Fig. 2 and (7): r = 0.7106, R² = 0.9774",
            f"r² = {value(CU, 'correlation') ** 2:.3f}: not of one fit. a, MSE and R² agree if each of the 21 points "
            f"0, .05, …, 1 counts once: a² Var(u)/(a² Var(u) + MSE) = {fraction_of_bins():.4f}. R² is of bin means",
        ),
        ("cu-hlm, III-C: (Δ − b)/a = 0.8117", f"{prone[CU]:.4f} from the printed inputs; their rounding allows .8117"),
        (
            "u-hlm, IV-A: (Δ − b)/a = 0.431, −b/a = 0.073",
            f"{prone[U]:.3f} from the printed inputs; rounding allows {alone[0]:.3f} to {alone[1]:.3f}, but with the "
            f"printed −b/a no less than {together[0]:.3f}. Both need a = {steeper:.3f}",
        ),
        (
            "both, proof of Theorem 1: β ≤ Δ, as E[β] ≤ Δ",
            f"at u = 1 the printed lines are at β = {at_one[CU]:.3f} > Δ = {value(CU, 'non_acceptance')} and "
            f"{at_one[U]:.2f} > {value(U, 'non_acceptance')}; the mean over all drafts is below Δ, "
            "that of the uncertain ones is not",
        ),
        (
            "cu-hlm, III-C: P(skipped, though it would be rejected) = R = 4.94e-3 < 9.87e-3",
            f"74.8% are skipped and 85.7% of these are accepted: .748 · .143 = {wrong:.3f}, "
            f"{wrong / value(CU, 'risk'):.0f} times R and {wrong / value(CU, 'bound'):.0f} times the bound. R "
            "integrates the line from −b/a on, and leaves out what is skipped below",
        ),
        (
            "cu-hlm, III-C: up to −b/a only drafts are skipped that are accepted for certain",
            f"the bound allows at most {100 * inside:.1f}% of the drafts between the thresholds (Cauchy–Schwarz), so "
            f"{wrong - inside:.3f} of the {wrong:.3f} are below −b/a: a mean β there of "
            f"{(wrong - inside) / value(CU, 'skipped'):.2f} or more",
        ),
        (
            "u-hlm, IV-A: the experimental threshold 0.6 lies between the risk-averse and the risk-prone one",
            f"{value(U, 'averse')} and {value(U, 'prone')}: it lies above both",
        ),
        (
            "u-hlm, IV-A: (13) with the empirical, discrete density",
            "with sums, the first factor is a sum too; its integral beside a sum is no bound (skipping.holder_unsaid)",
        ),
        (
            "“true skip rate” in both",
            "P(accepted | skipped) in cu-hlm, V-B; P(skipped | accepted) in u-hlm, IV: two quantities of one name",
        ),
        (
            "u-hlm, (6), (9), (10)",
            "θ cancels in (6) (uncertainty.printed_temperature); β(t) stands for β_v and for Σ q_i β_i in (9) "
            "(verification.unbiased_printed); y/x stands for 1 − y/x in (10) (verification.rejection_ratio)",
        ),
        (
            "u-hlm, IV-B: 5.08% over the draft model is a 244% greater gain than 2.08%",
            f"{5.08 / 2.08:.2f} times it, so {100 * (5.08 / 2.08 - 1):.0f}% greater",
        ),
    )
    return Table("What does not follow from what the papers print", ("printed", "follows"), rows)


def _threshold(paper: str) -> float:
    return float(
        skip_thresholds(**{name: value(paper, name) for name in ("slope", "intercept", "non_acceptance")}).risk_prone
    )
