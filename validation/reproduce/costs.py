"""Predict the seconds of tasks that never ran here, from the cost of a position and of a decoded token.

The terms stand in ``times.json`` under ``terms``, by pair, with the machine on which they were measured. They are CPU
seconds of one core; a task that shares its core takes longer. A measured time of the whole task comes before them.

=============  =====================================================================================
term           seconds of
=============  =====================================================================================
start          starting Python and loading both models
collect        a position of the trace, with its part of the prompt
fit            a position, for the fit
check          a position, for all claims that a trace decides
draw           a position, for all exhibits of the trace
text           a text of a study, mean over the methods: reading the prompt, and the scores
token          a token of a text, mean over the methods
publish        publishing
=============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validation.collection.collect import DEFAULT_BATCH
from validation.decoding.methods.registry import Fitted
from validation.decoding.studies import STUDIES
from validation.reproduce.tasks import PAIRS, Scope, Setting, studies_of

PROMPTS = 100  # of a study, as `hlm decode`
TERMS = ("start", "collect", "fit", "check", "draw", "text", "token", "publish")


def expected_seconds(setting: Setting, terms: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the predicted seconds of the tasks of each pair that has terms, by the task's name.

    Parameters
    ----------
    setting : Setting
    terms : mapping of str to mapping
        By pair, the terms of this module's table, in seconds.

    Examples
    --------
    >>> from pathlib import Path
    >>> setting = Setting(Path(), Path(), pairs=("smollm2",), studies=("hlm",), texts=10)
    >>> found = expected_seconds(setting, {"smollm2": dict.fromkeys(TERMS, 1.0)})
    >>> found["smollm2:collect"], found["smollm2:decode:hlm"]
    (3841.0, 11641.0)
    """
    found: dict[str, float] = {}
    for pair in setting.pairs:
        if pair in terms:
            found |= {f"{pair}:{step}": seconds for step, seconds in _of_pair(setting, pair, terms[pair]).items()}
    return found


def _of_pair(setting: Setting, pair: str, term: Mapping[str, float]) -> dict[str, float]:
    positions, prompts, tokens = sizes(setting, PAIRS[pair])
    start = term["start"]
    found = {step: start + positions * term[step] for step in ("collect", "fit", "check", "draw")}
    for study in studies_of(setting, PAIRS[pair]):
        texts = prompts * (1 + texts_of_prompt(study))  # the target model alone with another seed, for the scores
        found[f"decode:{study}"] = start + texts * (term["text"] + tokens * term["token"])
    return found | {"publish": term["publish"]}


def sizes(setting: Setting, scope: Scope) -> tuple[int, int, int]:
    """Return positions of the trace, prompts of a study, and tokens of a text; at most, since a text may end earlier.

    A trace ends with the batch that reaches the positions that were asked for.
    """
    of_trace: Any = setting if setting.quick else scope
    batch = DEFAULT_BATCH * of_trace.new_tokens
    positions = -(-of_trace.positions // batch) * batch
    if setting.quick:
        return positions, setting.prompts, setting.text_tokens
    return positions, setting.texts or PROMPTS, scope.text_tokens or 0


def texts_of_prompt(study: str) -> int:
    """Return how many texts of a prompt a study has, one a method.

    >>> texts_of_prompt("hlm"), texts_of_prompt("design")
    (11, 20)
    """
    return len(STUDIES[study].methods(Fitted(1.0, 0.0, 0.5, 0.1, 0.5, 0.1, 1)))  # any fit
