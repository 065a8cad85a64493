"""The price of an engine's lossy mode on a trace: the distance of a token, and the acceptance that it buys.

At each position of the trace's texts the rule is computed exactly from q and p (:mod:`hlmtheory.verification.lossy`).
The intervals are over texts. The texts are the target model's, while those of the lossy mode drift away from them; so a
price is that of the mode's next token after a text of the target model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.verification import lossy_price, threshold_acceptance, top_acceptance, typical_acceptance
from validation.decoding.intervals import IntervalEstimate, ratio
from validation.errors import UserError
from validation.trace.reader import Trace, probabilities

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A lossy rule of an engine.

    Attributes
    ----------
    parameters : dict of str to float
        With the engine's defaults.
    accept : callable
        Acceptance of each token (n, V), from p and the parameters.
    after : str
        Law of the token after a rejection: ``missing`` (p - q)⁺, the target's ``own`` p, or its ``likeliest`` token.
    greedy_target : bool
        Whether the distance is from the target's likeliest token, and not from p: the mode is for greedy decoding.
    """

    engine: str
    parameters: dict[str, float]
    accept: Callable[..., Array]
    after: str
    greedy_target: bool = False


def _threshold(p: Array, given: dict[str, float]) -> Array:
    return np.asarray(threshold_acceptance(p, given["single"], given["acc"]))


def _typical(p: Array, given: dict[str, float]) -> Array:
    return np.asarray(typical_acceptance(p, given["epsilon"], given["delta"]))


def _top(p: Array, given: dict[str, float]) -> Array:
    return np.asarray(top_acceptance(p, min(int(given["topk"]), p.shape[-1]), given["delta"]))


RULES = {
    "threshold": Rule("SGLang", {"single": 1.0, "acc": 1.0}, _threshold, "missing"),
    "typical": Rule("Medusa", {"epsilon": 0.09, "delta": 0.3}, _typical, "own"),
    "relaxed": Rule("TensorRT-LLM", {"topk": 1.0, "delta": 0.0}, _top, "likeliest", True),
}
"""Rules that have a price, by the name of the acceptance rule; all draft greedily."""
NO_PRICE = {
    "fly": "FLy looks at the drafts behind a rejected one, so a position alone does not decide it",
    "synthetic": "a synthetic rate says nothing about the models",
}


@dataclass(frozen=True, slots=True)
class Price:
    """What a lossy mode costs and buys; each number is a mean over positions with an interval over texts.

    Attributes
    ----------
    lossless, accepted : IntervalEstimate
        Acceptance of a greedy draft without loss, and by the rule.
    distance : IntervalEstimate
        Total variation of a token from the target's law, or from its likeliest token.
    wasted : IntervalEstimate
        Acceptance that the best rule of the same distance would add.
    tokens_lossless, tokens : IntervalEstimate
        Tokens of a round, if drafts were accepted independently at the positions of a text.
    """

    rule: str
    engine: str
    parameters: dict[str, float]
    positions: int
    texts: int
    lossless: IntervalEstimate
    accepted: IntervalEstimate
    distance: IntervalEstimate
    wasted: IntervalEstimate
    draft_length: int
    tokens_lossless: IntervalEstimate
    tokens: IntervalEstimate
    greedy_target: bool

    def as_json(self) -> dict[str, Any]:
        """Return the price as plain values."""
        return asdict(self)

    def sentences(self) -> tuple[str, ...]:
        """Return the price in words."""
        law = "the target's likeliest token (the mode is for greedy decoding)" if self.greedy_target else "p"
        given = ", ".join(f"{name} = {value:g}" for name, value in self.parameters.items())
        return (
            f"Price of the rule {self.rule} ({given}), on {self.positions:,} positions of {self.texts:,} texts: "
            f"a token is {_said(self.distance)} from {law}, in total variation.",
            f"It buys an acceptance of {_said(self.accepted)} instead of {_said(self.lossless)} for greedy drafts; the "
            f"best rule at this distance would add {_said(self.wasted)}. No rule buys more than its distance.",
            f"Tokens of a round of {self.draft_length}: {_said(self.tokens)} instead of {_said(self.tokens_lossless)}, "
            "if drafts were accepted independently along a text.",
            "The prefixes are those of the target's texts; the mode's own texts drift away from them.",
        )


def _said(one: IntervalEstimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "unknown"
    return f"{one.value:.4f} [{one.low:.4f}, {one.high:.4f}]"


def parameters_of(name: str, text: str) -> dict[str, float]:
    """Return the parameters of a rule from text such as ``single=0.8,acc=0.9``.

    Raises
    ------
    UserError
        If the rule has no price, or a parameter is not known, not a number or out of range.
    """
    if name not in RULES:
        why = NO_PRICE.get(name, "it is lossless" if name in ("standard", "block", "match") else "it is not known")
        raise UserError(f"The rule {name} has no price: {why}. Rules with a price: {', '.join(RULES)}.")
    found = dict(RULES[name].parameters)
    for part in filter(None, (one.strip() for one in text.split(","))):
        key, _, value = part.partition("=")
        if key not in found:
            raise UserError(f"{part!r} is no parameter of {name}; its parameters are {', '.join(found)}.")
        try:
            found[key] = float(value)
        except ValueError as error:
            raise UserError(f"{part!r}: give a number, such as {key}={found[key]:g}.") from error
    whole = {"topk"}
    for key, number in found.items():
        if key in whole and not (number >= 1 and number == int(number)):
            raise UserError(f"{key} is {number:g}; a whole number from 1 on is needed.")
        if key not in whole and not 0 <= number <= 1:
            raise UserError(f"{key} is {number:g}; a number from 0 to 1 is needed.")
    return found


def price_of(trace: Trace, name: str, parameters: dict[str, float], draft_length: int, confidence: float) -> Price:
    """Return the price of a rule on the positions of a trace.

    Parameters
    ----------
    trace : Trace
        With whole rows of both models.
    name : str
        A key of :data:`RULES`.
    parameters : dict
        What :func:`parameters_of` returns.
    draft_length : int
        Drafts of a round.
    confidence : float
        Of the intervals.

    Raises
    ------
    UserError
        If the trace has lists of probabilities only.
    """
    if trace.kind == "top-k":
        raise UserError("The trace has the most probable tokens only; a price needs whole rows of both models.")
    rule, parts, owner = RULES[name], [], []
    start = 0  # a text begins where the position falls
    last = np.inf
    for chunk in trace.chunks(128):
        parts.append(_position_prices(rule, parameters, chunk.draft_logits, chunk.target_logits))
        begins = np.diff(chunk.position, prepend=last) <= 0
        owner.append(start + np.cumsum(begins) - 1)
        start, last = int(owner[-1][-1]) + 1, chunk.position[-1]
    table, text = np.concatenate(parts, axis=1), np.concatenate(owner)
    counts = np.bincount(text).astype(np.float64)
    lossless, accepted, distance, wasted = (
        ratio(np.bincount(text, row), counts, confidence=confidence) for row in table
    )
    without, tokens = (_tokens(row, text, draft_length, confidence) for row in table[:2])
    about = (name, rule.engine, parameters, len(text), len(counts), lossless, accepted, distance, wasted, draft_length)
    return Price(*about, without, tokens, rule.greedy_target)


def _position_prices(rule: Rule, parameters: dict[str, float], draft_logits: Array, target_logits: Array) -> Array:
    """Return lossless acceptance, acceptance, distance and waste of each position, (4, n)."""
    q, p = probabilities(draft_logits), probabilities(target_logits)
    tokens = np.arange(p.shape[-1])
    drafts = np.asarray(tokens == q.argmax(axis=-1)[:, None], dtype=np.float64)
    likeliest = np.asarray(tokens == p.argmax(axis=-1)[:, None], dtype=np.float64)
    law = likeliest if rule.greedy_target else p
    after = {"missing": None, "own": p, "likeliest": likeliest}[rule.after]
    found = lossy_price(law, drafts, rule.accept(p, parameters), after)
    return np.stack([(law * drafts).sum(axis=-1), *(np.asarray(one) for one in found)])


def _tokens(rate: Array, text: Array, length: int, confidence: float) -> IntervalEstimate:
    """Return 1 + Σ_i of the products of i acceptances in a row, a mean over the starts of a text with room."""
    alive, total = np.ones(len(rate)), np.ones(len(rate))
    for i in range(length):
        at = np.minimum(np.arange(len(rate)) + i, len(rate) - 1)
        alive = alive * np.where(text[at] == text, rate[at], 0.0)
        total = total + alive
    ends = np.minimum(np.arange(len(rate)) + length - 1, len(rate) - 1)
    whole = (text[ends] == text) & (np.arange(len(rate)) + length - 1 < len(rate))
    if not whole.any():
        raise UserError(f"No text of the trace has {length} tokens; give a smaller --draft-length.")
    return ratio(np.bincount(text, total * whole), np.bincount(text, whole.astype(np.float64)), confidence=confidence)
