"""The models, methods and prompt sets of the study."""

import os
from functools import lru_cache
from pathlib import Path

from validation.decoding.links import FadingLink
from validation.decoding.methods.base import Method
from validation.decoding.methods.heads import Eagle2, Medusa
from validation.decoding.methods.multi_draft import FLEXSPEC_DRAFT_S, Dssd, FixedLength, FlexSpec, PromptLookup
from validation.decoding.methods.single_draft import CloudOnly, Hlm
from validation.decoding.methods.trees import NgramLookahead
from validation.decoding.studies import flexspec_links
from validation.models.pair import Pair, load_pair
from validation.plots.common.printed import DATASETS

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
``versions/NAME``."""
NAMED = os.environ.get("FLEXSPEC_PAIR", "")
"""A named pair in its place, with its own draft alone: no version, no aligned draft, no heads; fewer prompts."""
BASE, PLAIN = "version 0", "plain"
Runs = list[tuple[Method, FadingLink | None]]


VERSIONS = {
    BASE: MODELS / "pair/large",
    "math, LoRA": MODELS / "versions/math-lora16-s1",
    "code, full": MODELS / "versions/code-full-s1",
}
DRAFTS = {PLAIN: MODELS / "pair/small", "aligned": MODELS / "pair/aligned"}
PER_SET, NEW_TOKENS, BATCH = 12, 48, 12
TOLD = (
    "the built-in pair; its aligned draft, two tuned versions of its target model, heads of Medusa-1 and a layer of "
    "EAGLE-2, trained here and not stored"
)
if NAMED:
    VERSIONS, DRAFTS, TOLD = {BASE: MODELS}, {PLAIN: MODELS}, f"the pair {NAMED}"
    SETS, PER_SET, NEW_TOKENS, BATCH = DATASETS, 2, 24, 12


@lru_cache(maxsize=1)
def pair_of(version: str, draft: str) -> Pair:
    """Return a version of the target model with a draft."""
    if NAMED:
        return load_pair(NAMED, chat=True)
    return load_pair(draft=DRAFTS[draft], target=VERSIONS[version], changed_anchor=True)


def _algorithm_2(link: FadingLink) -> tuple[Method, FadingLink]:
    costs = {"propagation_s": 2.0 * link.way.propagation_s, "edge_slope_s": FLEXSPEC_DRAFT_S}
    return FlexSpec("linear", printed_acceptance=True, max_draft_length=MAX_DRAFT_LENGTH, costs=costs), link


def methods(version: str, draft: str) -> Runs:
    """Return the methods of a version of the target and a draft, each with the network that it follows."""
    links = flexspec_links()
    made: Runs = [] if NAMED else [(Hlm(), None)]
    if draft == PLAIN:
        made += [(CloudOnly(), None), (PromptLookup(FIXED), None)]
        made += [(FixedLength(FIXED), None), (Dssd(FIXED), None)]
    if draft == PLAIN and not NAMED:
        made += [
            (NgramLookahead(), None),
            (Medusa(MODELS / "medusa", any_base=version != BASE), None),
            (Eagle2(MODELS / "eagle", any_base=version != BASE), None),
        ]
    for link in (
        links if version == BASE and draft == PLAIN and not NAMED else links[:1]
    ):  # the same lengths over all networks
        if draft == "aligned" or version == BASE:
            made.append(_algorithm_2(link))
    return made
