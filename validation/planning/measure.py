"""Planners from evidence: a trace, or an engine's counts of accepted drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.collection.import_lists import CORPUS
from validation.decoding.methods.planned import models_mark
from validation.planning.answers import answer_options
from validation.planning.bound import Model
from validation.planning.envelopes import SEALS, sealed
from validation.planning.menu import Line, fitted_line, options
from validation.planning.padding import padded
from validation.planning.plan import Planner
from validation.planning.profile import Profile, profile_of, remembered
from validation.planning.setting import Setting
from validation.planning.several import tree_options
from validation.planning.split import PARTS, split_prompts
from validation.planning.streamed import Streamed
from validation.planning.truncated import messages
from validation.trace.reader import open_trace
from validation.trace.remote import Place

CORPUS_NOTE = (
    "The texts are a corpus's: the target model did not write them. Acceptance, speeds and losses are those of rounds "
    "along these texts, not of the system's own, and no loss here bounds a total variation."
)

Report = Callable[[int, int, str], None]


def planner_of_trace(
    path: Place,
    setting: Setting,
    *,
    cache: Path | None = None,
    seed: int = 1,
    report: Report | None = None,
    seal: str = "none",
    shared_seed: bool = True,
    block: bool = False,
) -> tuple[Planner, dict[str, Any]]:
    """Return the planner of a trace, and what the plan says about its evidence.

    Parameters
    ----------
    cache : Path, optional
        Folder for what depends on the trace alone.
    seed : int
        Seed of the split of the prompts.
    seal : str
        Envelope of messages and answers, of :data:`validation.planning.envelopes.SEALS`.
    shared_seed : bool
        Whether ours may draft by a seed that the server shares.
    block : bool
        Whether a server may verify the drafts of a round together.

    With a limit on what sizes tell, messages are padded, and no device drafts on: its number of messages tells as much.
    Certified answers and trees are then left out. Trees need the time of each token of the target's pass.
    """
    trace = open_trace(path)
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
    profile = profile_of(trace, None if cache is None else cache / "profile.npz", report)
    split = split_prompts(profile.prompts, seed)
    line = _line(profile, split.train, None if cache is None else cache / "line.json")
    cut = messages(trace, profile, line, setting.bias, None if cache is None else cache / "messages.json")
    about = {
        "evidence": {
            "trace": str(path),
            "positions": trace.positions,
            "vocabulary": trace.vocabulary,
            "texts": profile.texts,
            "prompts": len(np.unique(profile.prompts)),
            "acceptance": float(np.average(profile.acceptance[:, 0], weights=profile.lengths)),
            "tokens_known": profile.known,
            "models": models_mark(trace.manifest.get("settings")),
            "parameter_ratio": _parameter_ratio(trace.manifest.get("pair")),
        },
        "split": {part: np.unique(profile.prompts[getattr(split, part)]).tolist() for part in PARTS},
        "notes": [CORPUS_NOTE] if trace.manifest.get("texts") == CORPUS else [],
    }
    model = None if line is None else Model.of(profile, split.train, line, shared_seed=shared_seed)
    found = options(profile, cut, shared_seed=shared_seed, block=block)
    if setting.leak_bits is not None:
        found = padded(found, profile, split.train, setting.leak_bits)
    else:
        found += answer_options(trace, profile, None if cache is None else cache / "answers.json")
        found += tree_options(profile, shared_seed=shared_seed) if setting.verify_token_s > 0 else []
    found = sealed(found, seal)
    streamed = Streamed.of(profile, SEALS[seal]) if shared_seed and setting.leak_bits is None else None
    return Planner(found, setting, split, line, model, streamed), about


def _parameter_ratio(pair: Any) -> float | None:
    """Return the target model's parameters over the draft model's; None where a trace does not know them."""
    if not isinstance(pair, dict):
        return None
    counts = [pair.get(f"{size}_parameters") for size in ("large", "small")]
    large, small = (float(count) if isinstance(count, int | float) else 0.0 for count in counts)
    return large / small if large > 0 and small > 0 else None


def _line(profile: Profile, texts: NDArray[Any], file: Path | None) -> Line | None:
    """Return the papers' line, from a file if it holds that of these texts: the fit loads a large package."""
    key = {"texts": profile.prompts[texts].tolist(), "rejection": float(profile.rejection.sum())}

    def fitted() -> dict[str, float] | None:
        line = fitted_line(profile, texts)
        return None if line is None else asdict(line)

    plain = remembered(file, key, fitted)
    return None if plain is None else Line(**plain)


def planner_of_acceptance(
    files: Sequence[Path],
    vocabulary: int,
    setting: Setting,
    only: str | None = None,
    draft_length: int | None = None,
    drafts: str | None = None,
    verification: str | None = None,
    seal: str = "none",
) -> tuple[Planner, dict[str, Any]]:
    """Return the planner of an engine's counts; it knows no rows, so nothing is skipped or truncated."""
    from validation.planning.engine_counts import options_of_records

    found, about = options_of_records(files, vocabulary, only, draft_length, drafts, verification)
    return Planner(sealed(found, seal), setting, split_prompts(np.arange(len(found[0].counts)))), about
