"""The models, methods and prompt sets of the study."""

from __future__ import annotations

import os
from functools import cache
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
from validation.models.pair import Pair, load_pair
from validation.plots.flexspec.printed import DATASETS

SETS = (*DATASETS, "HumanEval")
PER_SET, NEW_TOKENS, SEED = 12, 48, 20261123
TEMPERATURES = {0.0: 1.0, 1.0: 0.9}
"""Temperature: top-p, as in flexspec Section V-B."""
MAX_DRAFT_LENGTH = 8
"""K_max; flexspec prints none."""
FIXED = 4
"""Draft length of the methods that do not choose one; flexspec prints none."""

MODELS = Path(os.environ.get("FLEXSPEC_MODELS", "runs/flexspec"))
"""Folder with ``pair/large``, ``pair/small``, ``pair/aligned``, ``medusa``, ``eagle`` and ``versions/NAME``."""
BASE = "version 0"
VERSIONS = {BASE: "pair/large", "math, LoRA": "versions/math-lora16-s1", "code, full": "versions/code-full-s1"}
"""Folder of each version of the target model: the domains and ways of flexspec's Table II."""
DRAFTS = {"plain": "pair/small", "aligned": "pair/aligned"}
"""Folder of each draft model."""


@cache
def pair_of(version: str, draft: str) -> Pair | None:
    """Return a version of the target model with a draft; None if one of them is not there."""
    target, own = MODELS / VERSIONS[version], MODELS / DRAFTS[draft]
    return load_pair(draft=own, target=target, changed_anchor=True) if target.exists() and own.exists() else None


def methods_of(version: str, draft: str, temperature: float) -> list[tuple[Method, Link | None]]:
    """Return the methods of a pair, each with the network that it follows.

    HLM verifies one draft at each position. From its flags every fixed length and every lossless rule is replayed. The
    heads are those of version 0, so that they are stale for the other versions.
    """
    links = flexspec_links()
    made: list[tuple[Method, Link | None]] = [(Hlm(), None)]
    if draft == "plain":
        made += [(CloudOnly(), None), (PromptLookup(FIXED), None), (NgramLookahead(), None)]
        made += [(FixedLength(FIXED), None), (Dssd(FIXED), None)]
        made += [
            (Medusa(MODELS / "medusa", any_base=version != BASE), None),
            (Eagle2(MODELS / "eagle", any_base=version != BASE), None),
        ]
    for link in links if version == BASE and draft == "plain" else links[:1]:  # the same lengths over all networks
        costs = {"propagation_s": 2.0 * link.way.propagation_s, "edge_slope_s": FLEXSPEC_DRAFT_S}
        rule = FlexSpec("linear", printed_acceptance=True, max_draft_length=MAX_DRAFT_LENGTH, costs=costs)
        if draft == "aligned" or version == BASE:
            made.append((rule, link))
    return made
