"""Compare the accepted drafts that llama.cpp's server counts with what is read of them, and with what rows predict.

A greedy draft is verified by a match: the server draws the token x from its own p, and keeps the draft if it is x. So
its answer is a text of the target, and which drafts were kept can be replayed: the draft at a position is the most
probable token of q there, given the emitted tokens. Two predictions follow:

- ``replayed``: rounds in order, each draft compared with the emitted token. Beside each comparison stands its
  probability p(argmax q), given all tokens before it. So accepted drafts less the sum of these probabilities have the
  mean 0, and the sum of p(1 - p) is their variance: a test of the server, and the prediction of its count;
- ``one rate``: alpha is the mean probability of acceptance at all emitted tokens, p(argmax q) for a greedy draft and
  1 - TV(q, p) for one that is drawn from q and verified by rejection; a round of K drafts keeps alpha + ... + alpha^K.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hlmtheory.verification import softmax, total_variation
from validation.acceptance.engines import read_acceptance
from validation.acceptance.vllm import of_scrapes
from validation.plots.common.skipping.sample import ClusteredEstimate, ratio

Rates = dict[str, Any]


def answers_of(path: Path) -> list[dict[str, Any]]:
    """Return the answers of a server."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def counted(path: Path) -> Rates:
    """Return what three outputs of one server say of its drafts, all read as ``hlm acceptance`` does."""
    found: Rates = {}
    for name, file in (("answers", path), ("log", path.with_suffix(".log"))):
        reading = read_acceptance(file)
        steps, accepted, drafted = (
            sum(getattr(one, field) for one in reading.records)
            for field in ("num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens")
        )
        found[name] = {"steps": steps, "accepted": accepted, "drafted": drafted, "left_out": len(reading.left_out)}
        if name == "log":
            places = [one.accepted_per_position for one in reading.records]
            longest = max((len(place) for place in places if place), default=0)
            found[name]["requests_with_positions"] = sum(place is not None for place in places)
            found[name]["accepted_by_position"] = [
                sum(place[at] for place in places if place and at < len(place)) for at in range(longest)
            ]
    (record,) = of_scrapes(
        [str(path.with_suffix(".metrics"))], [path.with_suffix(".metrics").read_text(encoding="utf-8")]
    )
    found["metrics"] = {
        "steps": record.num_spec_steps,
        "accepted": record.num_accepted_draft_tokens,
        "drafted": record.num_draft_tokens,
        "accepted_by_position": list(record.accepted_per_position or ()),
    }
    printed = re.findall(r"(\d+) accepted /\s*(\d+) generated", path.with_suffix(".log").read_text(encoding="utf-8"))
    found["log_lines"] = {
        "requests": len(printed),
        "accepted": sum(int(a) for a, _ in printed),
        "drafted": sum(int(d) for _, d in printed),
    }
    return found


def shown(estimate: ClusteredEstimate) -> list[float]:
    """Return a rate and the ends of its interval over requests."""
    return [float(f"{value:.4g}") for value in (estimate.value, estimate.low, estimate.high)]


def acceptance(answers: list[dict[str, Any]]) -> list[float]:
    """Return accepted drafts per draft with a 95% interval over requests, from the answers' own counts."""
    accepted, drafted = (
        np.array([one["timings"].get(name, 0) for one in answers], float) for name in ("draft_n_accepted", "draft_n")
    )
    return shown(ratio(accepted, drafted, np.arange(len(answers))))


def replayed(
    draft: NDArray[np.int64], emitted: NDArray[np.int64], match: NDArray[np.float64], longest: int, most: int
) -> NDArray[np.float64]:
    """Return the rounds, drafts, accepted drafts, their predicted number and its variance, for one text.

    Parameters
    ----------
    draft : array of int, shape (n,)
        The most probable token of q at each emitted token.
    emitted : array of int, shape (n,)
        The first one comes from the pass over the prompt.
    match : array, shape (n,)
        The target's probability of each draft.
    longest : int
        Drafts of a round; fewer where less than that is left to emit after the round's own token.
    most : int
        Tokens that were asked for; a text may end before.

    Returns
    -------
    array, shape (5,)

    Raises
    ------
    ValueError
        The arrays differ in length, ``longest`` is below 1, or the text is longer than ``most``.
    """
    if len({len(draft), len(emitted), len(match)}) > 1 or longest < 1 or len(emitted) > most:
        raise ValueError(
            f"{len(draft)} drafts, {len(emitted)} of {most} tokens, {len(match)} probabilities and at most {longest} "
            "drafts a round"
        )
    totals, at = np.zeros(5), 1
    while at < len(emitted) and (length := min(longest, most - at - 1)) > 0:
        kept = 0
        for depth in range(min(length, len(emitted) - at)):
            chance = match[at + depth]
            totals[3:] += chance, chance * (1 - chance)
            if draft[at + depth] != emitted[at + depth]:
                break
            kept += 1
        totals[:3] += 1, length, kept
        at += kept + 1
    return totals


def predicted(
    answers: list[dict[str, Any]],
    target: NDArray[np.float32],
    draft: NDArray[np.float32],
    longest: int,
    most: int,
    greedy: bool,
) -> Rates:
    """Return the predictions for a server's answers from both models' logits before each emitted token."""
    emitted = [np.array(one["tokens"]) for one in answers]
    cuts = np.cumsum([len(one) for one in emitted])[:-1]
    totals, matches = np.zeros(5), []
    for tokens, p_logits, q_logits in zip(emitted, np.split(target, cuts), np.split(draft, cuts), strict=True):
        p, q = softmax(p_logits.astype(np.float64)), softmax(q_logits.astype(np.float64))
        first = q.argmax(axis=1)
        match = p[np.arange(len(p)), first]
        totals += replayed(first, tokens, match, longest, most)
        matches.append(match if greedy else 1 - total_variation(q, p))
    rate = shown(ratio(np.concatenate(matches), 1.0, np.repeat(np.arange(len(matches)), [*map(len, matches)])))
    powers = np.array(rate)[:, None] ** np.arange(1, longest + 1)
    found: Rates = {"alpha": rate, "one rate": [float(f"{value:.4g}") for value in powers.mean(axis=1)]}
    if greedy:
        rounds, drafted, accepted = (int(value) for value in totals[:3])
        found["replayed"] = {
            "steps": rounds,
            "drafted": drafted,
            "accepted": accepted,
            "predicted": float(f"{totals[3]:.4g}"),
            "standard_deviation": float(f"{np.sqrt(totals[4]):.3g}"),
        }
    return found
