"""Record assisted generation in transformers: both models' distributions and the accepted drafts of every round.

``with record_assisted(target, "runs/mine/trace") as recorder: target.generate(**inputs, assistant_model=draft)`` copies
what ``generate`` computes and changes nothing, so a seed gives the same text with and without it.
"""

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
    """One round of assisted generation: the tokens that it emitted, its drafts, and those that were accepted."""

    tokens: list[int]
    drafted: int
    accepted: int


@dataclass(slots=True)
class Recorder:
    """Texts that were generated while the recorder was active, each as a list of rounds."""

    texts: list[list[Round]] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    """How each text was generated: the candidate generator, do_sample, temperature, top_k, top_p and min_p."""
    pair: tuple[str, str] = ("assistant", "target")
    trace: Trace | None = None  # the rows, once the ``with`` block has ended

    def acceptance(self) -> list[AcceptanceRecord]:
        return [
            AcceptanceRecord(
                engine="transformers",
                source=f"text {number}",
                num_spec_steps=len(text),
                num_accepted_draft_tokens=sum(one.accepted for one in text),
                num_draft_tokens=sum(one.drafted for one in text),
                completion_tokens=sum(len(one.tokens) for one in text),
                per_step_accepted=tuple(one.accepted for one in text),
                per_step_drafted=tuple(one.drafted for one in text),
                draft_sampling="sampled" if settings["drafts_sampled"] else "greedy",
                verification="standard" if settings["drafts_sampled"] else "match",
                copied=settings["candidates"] == "PromptLookupCandidateGenerator",
            )
            for number, (text, settings) in enumerate(zip(self.texts, self.settings, strict=True))
        ]


@contextmanager
def record_assisted(target: Any, path: str | Path | None = None, *, fresh: bool = False) -> Iterator[Recorder]:
    """Record every round of a model's assisted generation while the ``with`` block runs."""
    recorder = Recorder()
    store = None if path is None else _Store(recorder, path, fresh)
    make = target._get_candidate_generator

    def recording(*args: Any, **named: Any) -> Any:
        generator = make(*args, **named)
        if (assistant := getattr(generator, "assistant_model", None)) is not None:
            recorder.pair = str(assistant.config.name_or_path), str(target.config.name_or_path)
        settings = _settings(generator, named.get("generation_config", args[0] if args else None))
        if store is not None and recorder.settings and settings != recorder.settings[0]:
            raise UserError(
                f"Text {len(recorder.texts)} is generated with {settings}, text 0 with {recorder.settings[0]}; their "
                "distributions must not be mixed: record them separately."
            )
        recorder.settings.append(settings)
        recorder.texts.append([])
        _watch(generator, recorder.texts[-1], store)
        return generator

    target._get_candidate_generator = recording  # hides the method of the class for this one model
    try:
        yield recorder
    except BaseException:
        if store is not None:
            store.close()
        raise
    finally:
        del target._get_candidate_generator
    if store is not None and not store.close():
        raise UserError("Nothing was recorded; call generate with assistant_model inside the with block.")


class _Store:
    def __init__(self, recorder: Recorder, path: str | Path, fresh: bool) -> None:
        self.recorder, self.path, self.fresh = recorder, path, fresh
        self.writer: TraceWriter | None = None

    def append(self, rounds: list[Round], draft: NDArray[np.float32] | None, target: NDArray[np.float32]) -> None:
        """Append the rows of the last of a text's rounds; ``draft`` is (c, V) and ``target`` (c + 1, V), processed."""
        *before, now = rounds
        known = min(len(now.tokens), now.drafted)
        if not known:  # a last round may draft nothing
            return
        if draft is None:
            raise UserError(
                "The assistant gave no scores, as with prompt lookup or another tokenizer; only the accepted drafts "
                "are known: leave out the path, and use Recorder.acceptance()."
            )
        if self.writer is None:
            writer = TraceWriter(self.path, target.shape[1], self._manifest(), dtype="float32", fresh=self.fresh)
            self.writer = writer.__enter__()
        self.writer.append(
            np.maximum(draft[:known], MASKED),
            np.maximum(target[:known], MASKED),
            now.tokens[:known],
            np.full(known, len(self.recorder.texts) - 1),
            sum(len(one.tokens) for one in before) + np.arange(known),
        )

    def close(self) -> bool:
        if self.writer is None:
            return False
        self.writer.__exit__(None, None, None)
        self.recorder.trace = open_trace(self.path)
        return True

    def _manifest(self) -> dict[str, Any]:
        small, large = self.recorder.pair
        return {
            "pair": {"name": "recorded", "small_name": small, "large_name": large},
            "recorded": {"scores": "processed", "engine": "transformers", "settings": self.recorder.settings[0]},
            "notes": ["Recorded from assisted generation; rows that only the target model computed are left out."],
            "prompts": [],
        }


def _settings(generator: Any, config: Any) -> dict[str, Any]:
    sampled = bool(getattr(config, "do_sample", False))
    names = ("temperature", "top_k", "top_p", "min_p") if sampled else ()
    drawn = sampled and getattr(generator, "assistant_model", None) is not None
    found = {"candidates": type(generator).__name__, "do_sample": sampled, "drafts_sampled": drawn}
    return found | {name: getattr(config, name, None) for name in names}


def _watch(generator: Any, rounds: list[Round], store: _Store | None) -> None:
    """Copy the arguments and results of the two methods of a candidate generator; scores only for a store."""
    get, update = generator.get_candidates, generator.update_candidate_strategy
    last: list[Any] = []

    def get_candidates(input_ids: Any, *args: Any, **named: Any) -> Any:
        candidates, scores = get(input_ids, *args, **named)
        last[:] = [input_ids.shape[1], None if scores is None or store is None else _rows(scores)]
        return candidates, scores

    def update_candidate_strategy(input_ids: Any, scores: Any, num_matches: Any) -> Any:
        start, drafts = last
        rounds.append(Round(input_ids[0, start:].tolist(), scores.shape[1] - 1, int(num_matches)))
        if store is not None:
            store.append(rounds, drafts, _rows(scores))
        return update(input_ids, scores, num_matches)

    generator.get_candidates = get_candidates
    generator.update_candidate_strategy = update_candidate_strategy


def _rows(scores: Any) -> NDArray[np.float32]:
    return np.array(scores[0].detach().float().cpu().numpy(), dtype=np.float32)
