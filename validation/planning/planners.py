"""Planners from evidence: a trace, or an engine's counts of accepted drafts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from validation.collection.import_lists import CORPUS
from validation.collection.processing import Processing
from validation.decoding.methods.planned import models_mark
from validation.planning.bound import Model
from validation.planning.certified import answer_bits
from validation.planning.menu import Evidence, options
from validation.planning.option import SEALS, Note, fitted_line, sealed
from validation.planning.padding import padded
from validation.planning.plan import Planner
from validation.planning.profile import Report, profile_of
from validation.planning.setting import Passes, Setting
from validation.planning.split import PARTS, split_prompts
from validation.planning.streamed import Streamed
from validation.planning.truncated import messages
from validation.trace.reader import open_trace
from validation.trace.remote import Place

CORPUS_NOTE = (
    "The texts are a corpus's: the target model did not write them. Acceptance, speeds and losses are those of rounds "
    "along these texts, not of the system's own, and no loss here bounds a total variation."
)


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
    """Return the planner of a trace, and what the plan says about its evidence; ``cache`` is a folder."""
    trace = open_trace(path)
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
    names = ("profile.npz", "messages.json", "answers.json")
    kept, messages_file, answers_file = (None if cache is None else cache / name for name in names)
    profile = profile_of(trace, kept, report)
    split = split_prompts(profile.prompts, seed)
    line = fitted_line(profile, split.train)
    cut = messages(trace, line, setting.bias, messages_file)
    imported = trace.manifest.get("processing")
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
            **_about_pair(trace.manifest.get("pair")),
            "rows": f"rows: {Processing(**imported['target']).words()}" if imported else "rows at temperature 1",
        },
        "split": {part: np.unique(profile.prompts[getattr(split, part)]).tolist() for part in PARTS},
        "notes": [Note(CORPUS_NOTE)] if trace.manifest.get("texts") == CORPUS else [],
    }
    model = None if line is None else Model.of(profile, split.train, line, shared_seed=shared_seed)
    if setting.leak_bits is not None:
        plain = options(Evidence(profile, cut, shared_seed=shared_seed, block=block))
        menu = padded(plain, profile, split.train, setting.leak_bits)
    else:
        answers = answer_bits(trace, profile, answers_file)
        menu = options(Evidence(profile, cut, answers, shared_seed, block))
    menu = sealed(menu, seal)
    streamed = Streamed.of(profile, SEALS[seal]) if shared_seed and setting.leak_bits is None else None
    return Planner(menu, setting, split, line, model, streamed), about


def _about_pair(pair: Any) -> dict[str, Any]:
    known = pair if isinstance(pair, dict) else {}
    counts = [known.get(f"{size}_parameters") for size in ("large", "small")]
    large, small = (float(count) if isinstance(count, int | float) else 0.0 for count in counts)
    sides = ((known.get("large_name"), large), (known.get("small_name"), small))
    names = ", ".join(f"{name} ({count / 1e6:,.3g} M)" if count else name for name, count in sides if name)
    return {"pair": names, "parameter_ratio": large / small if large > 0 and small > 0 else None}


def planner_of_acceptance(
    files: Sequence[Path],
    vocabulary: int,
    setting: Setting,
    draft_length: int | None = None,
    drafts: str | None = None,
    verification: str | None = None,
    seal: str = "none",
    batch: int = 1,
) -> tuple[Planner, dict[str, Any]]:
    """Return the planner of an engine's counts; it compares draft lengths in passes of ``batch`` texts."""
    from validation.acceptance.summary import RoundTimes
    from validation.planning.engine_counts import options_of_records

    table, own_s, own = setting.passes, setting.own_draft_s, setting.draft_passes or Passes((1,), (1,), ((1.0,),))
    verify_s, each_s = (setting.verify_s, setting.verify_token_s) if table is None else (table.table[0][0], 0.0)
    rests: dict[str, Any] = {"target_rest": table and (lambda _, width: table.seconds(width, batch) - verify_s)}
    rests["draft_rest"] = lambda _, width: own_s * (own.seconds(width, batch) / own.seconds(np.ones(())) - 1.0)
    times = RoundTimes(verify=verify_s + setting.between_s, verify_token=batch * each_s, draft=own_s, **rests)
    menu, about = options_of_records(files, vocabulary, draft_length, drafts, verification, times)
    return Planner(sealed(menu, seal), setting, split_prompts(np.arange(len(menu[0].counts)))), about
