"""Record assisted generation in transformers: both models' distributions and the accepted drafts of every round.

    from validation.collection.recorder import record_assisted

    with record_assisted(target) as recorder:
        target.generate(**inputs, assistant_model=draft, do_sample=True)
    recorder.save("runs/mine/trace")

The recorder copies what ``generate`` computes and changes nothing, so a seed gives the same text with and without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.acceptance.record import AcceptanceRecord
from validation.errors import UserError
from validation.trace.reader import Trace, TraceWriter, open_trace

MASKED = -60_000.0
"""Stored in place of the -inf that logits processors give excluded tokens; its probability is 0 in every type."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round of assisted generation.

    Attributes
    ----------
    draft_scores : array, shape (c, V), float32, or None
        The assistant's processed scores at each drafted token; None if it gives none, as with another tokenizer.
    target_scores : array, shape (c + 1, V), float32
        The target model's processed scores at the same positions and at the next one.
    tokens : array, shape (n + 1,), int64
        The tokens that the round emitted.
    accepted : int
        n, the accepted drafts.
    """

    draft_scores: NDArray[np.float32] | None
    target_scores: NDArray[np.float32]
    tokens: NDArray[np.int64]
    accepted: int


@dataclass(slots=True)
class Recorder:
    """Texts that were generated while the recorder was active, each as a list of rounds."""

    texts: list[list[Round]] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    """How each text was generated: the candidate generator, do_sample, temperature, top_k, top_p and min_p."""
    pair: tuple[str, str] = ("assistant", "target")

    def save(self, path: str | Path, *, fresh: bool = False) -> Trace:
        """Store as a trace all rows for which both models' scores are known.

        Each emitted token has a row. The exception is the last token of a round whose drafts were all accepted: there
        the assistant computed no scores. Temperature, top-k and top-p are already applied; the manifest records this.

        Parameters
        ----------
        path : str or Path
            The folder to create.
        fresh : bool
            Delete the trace at ``path`` first.

        Returns
        -------
        Trace

        Raises
        ------
        UserError
            No row was recorded, a round has no scores of the assistant, two texts were generated with different
            settings, or ``path`` exists.
        """
        rounds = [one for text in self.texts for one in text]
        if not any(len(one.target_scores) > 1 for one in rounds):
            raise UserError("Nothing was recorded; call generate with assistant_model inside the with block.")
        if any(one.draft_scores is None and len(one.target_scores) > 1 for one in rounds):
            raise UserError(
                "The assistant gave no scores, as with prompt lookup or another tokenizer; only the accepted drafts "
                "are known: use Recorder.acceptance()."
            )
        for number, settings in enumerate(self.settings):
            if settings != self.settings[0]:
                raise UserError(
                    f"Text {number} was generated with {settings}, text 0 with {self.settings[0]}; their distributions "
                    "must not be mixed: record them separately."
                )
        vocabulary = rounds[0].target_scores.shape[1]
        manifest = {
            "pair": {"name": "recorded", "small_name": self.pair[0], "large_name": self.pair[1]},
            "recorded": {
                "scores": "processed",
                "engine": "transformers",
                "settings": self.settings[0],
            },
            "notes": ["Recorded from assisted generation; rows that only the target model computed are left out."],
            "prompts": [],
        }
        with TraceWriter(path, vocabulary, manifest, dtype="float32", fresh=fresh) as writer:
            for number, text in enumerate(self.texts):
                place = 0
                for one in text:
                    known = min(len(one.tokens), len(one.target_scores) - 1)
                    if known:  # a last round may draft nothing
                        writer.append(
                            np.maximum(np.asarray(one.draft_scores)[:known], MASKED),
                            np.maximum(one.target_scores[:known], MASKED),
                            one.tokens[:known],
                            np.full(known, number),
                            place + np.arange(known),
                        )
                    place += len(one.tokens)
        return open_trace(path)

    def acceptance(self) -> list[AcceptanceRecord]:
        """Return the accepted drafts, one record for each text."""
        return [
            AcceptanceRecord(
                engine="transformers",
                source=f"text {number}",
                num_spec_steps=len(text),
                num_accepted_draft_tokens=sum(one.accepted for one in text),
                num_draft_tokens=sum(len(one.target_scores) - 1 for one in text),
                completion_tokens=sum(len(one.tokens) for one in text),
                per_step_accepted=tuple(one.accepted for one in text),
                per_step_drafted=tuple(len(one.target_scores) - 1 for one in text),
                draft_sampling="sampled" if settings["drafts_sampled"] else "greedy",
                verification="standard" if settings["drafts_sampled"] else "match",
                copied=settings["candidates"] == "PromptLookupCandidateGenerator",
            )
            for number, (text, settings) in enumerate(zip(self.texts, self.settings, strict=True))
        ]


@contextmanager
def record_assisted(target: Any) -> Iterator[Recorder]:
    """Record every round of a model's assisted generation while the ``with`` block runs.

    Parameters
    ----------
    target : transformers.PreTrainedModel
        The model whose ``generate`` is called, with ``assistant_model`` or ``prompt_lookup_num_tokens``.

    Yields
    ------
    Recorder
    """
    recorder = Recorder()
    make = target._get_candidate_generator

    def recording(*args: Any, **named: Any) -> Any:
        generator = make(*args, **named)
        assistant = getattr(generator, "assistant_model", None)
        if assistant is not None:
            recorder.pair = str(assistant.config.name_or_path), str(target.config.name_or_path)
        recorder.settings.append(_settings(generator, named.get("generation_config", args[0] if args else None)))
        recorder.texts.append([])
        _watch(generator, recorder.texts[-1])
        return generator

    target._get_candidate_generator = recording  # hides the method of the class for this one model
    try:
        yield recorder
    finally:
        del target._get_candidate_generator


def _settings(generator: Any, config: Any) -> dict[str, Any]:
    """Return what decides the distributions of a text; without sampling nothing but the models does."""
    sampled = bool(getattr(config, "do_sample", False))
    names = ("temperature", "top_k", "top_p", "min_p") if sampled else ()
    drawn = sampled and getattr(generator, "assistant_model", None) is not None
    found = {"candidates": type(generator).__name__, "do_sample": sampled, "drafts_sampled": drawn}
    return found | {name: getattr(config, name, None) for name in names}


def _watch(generator: Any, rounds: list[Round]) -> None:
    """Copy the arguments and results of the two methods of a candidate generator."""
    get, update = generator.get_candidates, generator.update_candidate_strategy
    last: list[Any] = []

    def get_candidates(input_ids: Any, *args: Any, **named: Any) -> Any:
        candidates, scores = get(input_ids, *args, **named)
        last[:] = [input_ids.shape[1], None if scores is None else _rows(scores)]
        return candidates, scores

    def update_candidate_strategy(input_ids: Any, scores: Any, num_matches: Any) -> Any:
        start, drafts = last
        tokens = input_ids[0, start:].cpu().numpy().astype(np.int64)
        rounds.append(Round(drafts, _rows(scores), tokens, int(num_matches)))
        return update(input_ids, scores, num_matches)

    generator.get_candidates = get_candidates
    generator.update_candidate_strategy = update_candidate_strategy


def _rows(scores: Any) -> NDArray[np.float32]:
    """Return a copy of the scores of the only sequence."""
    return np.array(scores[0].detach().float().cpu().numpy(), dtype=np.float32)
