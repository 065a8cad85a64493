"""The models, methods and prompt sets of the study, for the built-in pair and for SmolLM2."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from validation.decoding.links import Link
from validation.decoding.methods.base import Method
from validation.decoding.methods.heads import Eagle2, Medusa
from validation.decoding.methods.multi_draft import (
    FLEXSPEC_DRAFT_S,
    Dssd,
    FixedLength,
    FlexSpec,
    PromptLookup,
)
from validation.decoding.methods.single_draft import CloudOnly, Hlm
from validation.decoding.methods.trees import NgramLookahead
from validation.decoding.studies import flexspec_links
from validation.models import smollm2
from validation.models.pair import PAIRS, Pair, load_pair
from validation.plots.flexspec.printed import DATASETS

SETS = (*DATASETS, "HumanEval")
SEED = 20261123
TEMPERATURES = {0.0: 1.0, 1.0: 0.9}
"""Temperature: top-p, as in flexspec Section V-B."""
MAX_DRAFT_LENGTH = 8
"""K_max; flexspec prints none."""
FIXED = 4
"""Draft length of the methods that do not choose one; flexspec prints none."""

MODELS = Path(os.environ.get("FLEXSPEC_MODELS", "runs/flexspec"))
"""The built-in pair: folder with ``pair/large``, ``pair/small``, ``pair/aligned``, ``medusa``, ``eagle`` and
``versions/NAME``. SmolLM2: folder with ``versions/NAME``."""
BASE, PLAIN = "version 0", "plain"
Runs = list[tuple[Method, Link | None]]


@dataclass(frozen=True)
class Setup:
    """Say what is decoded.

    Attributes
    ----------
    option : str
        What selects it on the command line.
    stored : Path
        File of the counts, from the repository's root.
    per_set, new_tokens, batch : int
        Prompts of each set, tokens of a text, and texts of a batch.
    versions, drafts : mapping
        For each version of the target model and each draft its folder or name.
    methods : callable
        Returns the methods of a version, a draft and a temperature, each with the network that it follows.
    base : str or None
        The model that an adapter of a version is merged into.
    told : str
        The models, in words, if the counts are a stored experiment; else empty.
    """

    option: str
    stored: Path
    per_set: int
    new_tokens: int
    batch: int
    versions: Mapping[str, Path | str]
    drafts: Mapping[str, Path | str]
    methods: Callable[[str, str, float], Runs]
    base: str | None = None
    told: str = ""


@lru_cache(maxsize=1)
def _load(target: Path | str, draft: Path | str, base: str | None) -> Pair:
    return load_pair(draft=draft, target=target, base=base, changed_anchor=True)


def pair_of(setup: Setup, version: str, draft: str) -> Pair | None:
    """Return a version of the target model with a draft; None if a folder of one of them is not there."""
    target, own = setup.versions[version], setup.drafts[draft]
    if any(isinstance(place, Path) and not place.exists() for place in (target, own)):
        return None
    return _load(target, own, setup.base)


def _algorithm_2(link: Link) -> tuple[Method, Link]:
    """Return FlexSpec as printed, with the network that it follows."""
    costs = {"propagation_s": 2.0 * link.way.propagation_s, "edge_slope_s": FLEXSPEC_DRAFT_S}
    return FlexSpec("linear", printed_acceptance=True, max_draft_length=MAX_DRAFT_LENGTH, costs=costs), link


def builtin_methods(version: str, draft: str, temperature: float) -> Runs:
    """Return the methods of the built-in pair.

    HLM verifies one draft at each position. From its flags every fixed length and every lossless rule is replayed. The
    heads are those of version 0, so that they are stale for the other versions.
    """
    links = flexspec_links()
    made: Runs = [(Hlm(), None)]
    if draft == PLAIN:
        made += [(CloudOnly(), None), (PromptLookup(FIXED), None), (NgramLookahead(), None)]
        made += [(FixedLength(FIXED), None), (Dssd(FIXED), None)]
        made += [
            (Medusa(MODELS / "medusa", any_base=version != BASE), None),
            (Eagle2(MODELS / "eagle", any_base=version != BASE), None),
        ]
    for link in links if version == BASE and draft == PLAIN else links[:1]:  # the same lengths over all networks
        if draft == "aligned" or version == BASE:
            made.append(_algorithm_2(link))
    return made


def smollm2_methods(version: str, draft: str, temperature: float) -> Runs:
    """Return the methods to decode with SmolLM2; there are no heads of Medusa and no layer of EAGLE.

    Cloud-Only, standard SD, DSSD and at temperature 0 Algorithm 2 are replayed from HLM's flags. The window of
    Lookahead is small, because the passes over it are most of the time.
    """
    made: Runs = [(Hlm(), None), (PromptLookup(FIXED), None)]
    if temperature:
        made.append(_algorithm_2(flexspec_links()[0]))
    return [*made, (NgramLookahead(window=4, ngram=3, guesses=4), None)]


STUDIES = Path("figures/studies")
BUILTIN = Setup(
    option="builtin",
    stored=STUDIES / "flexspec_tables" / "rows.json",
    per_set=12,
    new_tokens=48,
    batch=12,
    versions={
        BASE: MODELS / "pair/large",
        "math, LoRA": MODELS / "versions/math-lora16-s1",
        "code, full": MODELS / "versions/code-full-s1",
    },
    drafts={PLAIN: MODELS / "pair/small", "aligned": MODELS / "pair/aligned"},
    methods=builtin_methods,
    told="the built-in pair; its aligned draft, two tuned versions of its target model, heads of Medusa-1 and a layer "
    "of EAGLE-2, trained here and not stored",
)
SMOLLM2 = Setup(
    option="smollm2",
    stored=STUDIES / "smollm2_versions" / "rows.json",
    per_set=4,
    new_tokens=32,
    batch=14,
    versions={
        BASE: smollm2.NAME,
        "math, LoRA 16": MODELS / "versions/math-lora16-s1",
        "code, LoRA 16": MODELS / "versions/code-lora16-s1",
        "math, LoRA 4": MODELS / "versions/math-lora4-s1",
        "code, LoRA 4": MODELS / "versions/code-lora4-s1",
    },
    drafts={PLAIN: PAIRS[f"{smollm2.NAME}-small"].draft},
    methods=smollm2_methods,
    base=smollm2.NAME,
)
SETUPS = {setup.option: setup for setup in (BUILTIN, SMOLLM2)}
