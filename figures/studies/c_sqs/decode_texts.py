"""Decode the texts of c-sqs's figures, and store their counts: ``decode_texts.py WORK``.

The built-in pair writes the texts of the figures. ``decode_texts.py WORK smollm2-small COUNT`` decodes fewer texts with
a draft for SmolLM2, by the first COUNT methods of Figs. 2, 4, 5 and 6, for the study ``smollm2_c_sqs``.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path

from validation.errors import UserError
from validation.models.pair import load_pair
from validation.plots import commit_of_code
from validation.plots.c_sqs.numbers import ADAPTIVE, BUDGETED, BY_SIZE, FIXED, MAIN, PRINTED
from validation.plots.c_sqs.runs import NAMES, Named, Scale, decode_texts, pass_times
from validation.plots.c_sqs.texts_file import EXPERIMENT, text
from validation.plots.common.stored import ROOT, record

STORED = ROOT / "validation" / "plots" / "c_sqs" / "texts.json"
SMOLLM2 = ROOT / "figures" / "studies" / "smollm2_c_sqs" / "texts.json"
SEED = 1


def kept_in(folder: Path) -> Callable[[str, Callable[[], Named]], Named]:
    """Return a function that decodes a method and temperature once, and reads it when it is asked again."""

    def keep(key: str, decode: Callable[[], Named]) -> Named:
        file, part = folder / f"{key}.pickle", folder / f"{key}.part"
        if not file.exists():
            part.write_bytes(pickle.dumps(decode()))
            part.replace(file)
            print(key, flush=True)
        found: Named = pickle.loads(file.read_bytes())  # written by this script alone
        return found

    return keep


FEWER = Scale(prompts=5, new_tokens=24, long_tokens=0, temperatures=(0.0, 1.0))
ASKED = tuple(dict.fromkeys((*MAIN, *ADAPTIVE.values(), *BY_SIZE.values(), *FIXED.values(), PRINTED, BUDGETED)))
"""The methods of the figures, those of Fig. 2 first; without budgets and links that count encoded bytes."""


def alike(keep: Callable[[str, Callable[[], Named]], Named]) -> Callable[[str, Callable[[], Named]], Named]:
    """Return ``keep``, with one text for all methods that are one method at temperature 0.

    There q has a single entry. So all thresholds, allocations and budgets of mass keep it, and nothing else.
    """
    same = {f"c{NAMES.index(name)}-0" for name in ASKED if not name.startswith(("QS", "K-SQS"))}
    first = min(same)

    def kept(key: str, decode: Callable[[], Named]) -> Named:
        return keep(first if key in same else key, decode)

    return kept


def main() -> None:
    """Decode what is missing in WORK, and write all counts."""
    commit = commit_of_code()
    if commit is None or commit.endswith("changes"):
        raise UserError("What is stored names its commit; commit the changes of hlmtheory and validation first.")
    work = Path(sys.argv[1]) / commit[:12]  # texts of other code are not mixed
    work.mkdir(parents=True, exist_ok=True)
    if sys.argv[2:]:
        pair, names = load_pair(sys.argv[2]), ASKED[: int(sys.argv[3])]
        times = pass_times(pair, time.process_time)
        found = decode_texts(SEED, FEWER, keep=alike(kept_in(work)), pair=pair, names=names, times=times)
        SMOLLM2.write_text(text(found), encoding="utf-8")
        return
    STORED.write_text(text(decode_texts(SEED, keep=kept_in(work))), encoding="utf-8")
    record(
        EXPERIMENT,
        STORED,
        command="python3 figures/studies/c_sqs/decode_texts.py WORK",
        models="the built-in pair",
        data="evenly spaced prompts of the built-in pair",
        commit=commit,
    )


if __name__ == "__main__":
    main()
