"""What an engine had done to the values that it returned: nothing, or temperature, top-p, top-k and penalties.

Files do not say it, so the user does: ``raw_logprobs``, or ``processed_logprobs,temperature=0.7,top_p=0.9``. The first
word is vLLM's ``logprobs_mode``: raw values are those before the sampler, processed ones those that it draws from.
"""

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from validation.errors import UserError

VALUES = ("raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs")


@dataclass(frozen=True, slots=True)
class Processing:
    """One of ``VALUES`` and the settings of the sampler that they include; ``stated`` by the user, or a default."""

    values: str = "raw_logprobs"
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: float = 0.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    stated: bool = True

    @property
    def raw(self) -> bool:
        return self.values.startswith("raw")

    @property
    def logits(self) -> bool:
        return self.values.endswith("logits")

    def settings(self) -> dict[str, float]:
        return {name: value for name, value in asdict(self).items() if name not in ("values", "stated")}

    def words(self) -> str:
        """Return the values and the settings that differ from the default."""
        default = Processing().settings()
        said = [f"{name}={value:g}" for name, value in self.settings().items() if value != default[name]]
        return f"{self.values} at {', '.join(said) or 'temperature=1'}"


def parse_processing(text: str | None, default: str) -> Processing:
    """Return what ``VALUES[,setting=number]...`` says; without a text the values are ``default``."""
    if text is None:
        return Processing(default, stated=False)
    values, *settings = (part.strip() for part in text.split(","))
    if values not in VALUES:
        raise UserError(f"{values!r} is not what an engine returns; choose {', '.join(VALUES)}.")
    known = [field.name for field in fields(Processing) if field.name not in ("values", "stated")]
    given: dict[str, Any] = {}
    for setting in settings:
        name, _, number = setting.partition("=")
        name = name.strip().replace("-", "_")
        if name not in known or name in given:
            raise UserError(f"{setting!r} is not a setting of a sampler, or given twice; use {', '.join(known)}.")
        given[name] = _number(name, number)
    found = replace(Processing(values), **given)
    if found.raw and found.settings() != Processing().settings():
        raise UserError(
            f"{text!r}: {values} are the values before the sampler, so its settings do not belong to them; leave them "
            f"out, or say {values.replace('raw', 'processed')}."
        )
    return found


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    signed, positive = ("presence_penalty", "frequency_penalty"), ("temperature", "repetition_penalty")
    least = -1e9 if name in signed else 1e-9 if name in positive else 0.0
    most = 1.0 if name in ("top_p", "min_p") else 1e9
    if not least <= value <= most or (name == "top_k" and value != int(value)):
        greedy = "; a greedy engine (temperature 0) draws from no distribution" if name == "temperature" else ""
        raise UserError(f"{name}={text.strip()!r} is outside its range{greedy}; give the engine's own number.")
    return value


def refuse_mixed(draft: Processing, target: Processing) -> None:
    if draft.raw != target.raw or draft.settings() != target.settings():
        raise UserError(
            f"The draft model's values are {draft.words()}, the target model's {target.words()}; q and p must be "
            "processed alike to be compared: take both alike, or state what they are with --draft-processing and "
            "--target-processing."
        )


def processing_note(draft: Processing, target: Processing) -> str:
    both = draft.words() if draft.values == target.values else f"{draft.words()} and {target.words()}"
    said = "as stated" if draft.stated and target.stated else "the default, since nothing else was stated"
    return f"Values: {both} ({said})."
