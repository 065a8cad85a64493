"""Decode the texts of c-sqs's figures, and store their counts: ``decode_texts.py WORK``."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

from figures.studies.kit import given
from validation.errors import UserError
from validation.plots import commit_of_code
from validation.plots.c_sqs.runs import Named, decode_texts
from validation.plots.c_sqs.texts_file import EXPERIMENT, text
from validation.plots.common.stored import ROOT, record

STORED = ROOT / "validation" / "plots" / "c_sqs" / "texts.json"
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


def main() -> None:
    """Decode what is missing in WORK, and write all counts."""
    asked = given(__doc__, "work")
    commit = commit_of_code()
    if commit is None or commit.endswith("changes"):
        raise UserError("What is stored names its commit; commit the changes of hlmtheory and validation first.")
    work = asked.work / commit[:12]  # texts of other code are not mixed
    work.mkdir(parents=True, exist_ok=True)
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
