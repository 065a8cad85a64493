"""Decode the texts of Table VI of ours with the fit of a trace; store risks and bills: ``decode_texts.py TRACE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from validation.decoding.fit_file import FIT_FILE, fitted_to, stored_fit
from validation.errors import UserError
from validation.plots import commit_of_code
from validation.plots.common.stored import ROOT, record
from validation.plots.ours.bill_table import EXPERIMENT, Scale, decoded, plain_counts
from validation.trace.identity import fingerprint
from validation.trace.reader import open_trace

STORED = ROOT / "validation" / "plots" / "ours" / "bills.json"
SEED = 1


def main() -> None:
    """Fit, decode, and write the counts."""
    commit = commit_of_code()
    if commit is None or commit.endswith("changes"):
        raise UserError("What is stored names its commit; commit the changes of hlmtheory and validation first.")
    folder = Path(sys.argv[1])
    trace, scale = open_trace(folder), Scale()
    pair, vocabulary, found = decoded(fitted_to(trace, folder.parent / FIT_FILE), SEED, scale)
    value = plain_counts(pair, vocabulary, scale, [one.counts for one in found])
    methods = ",\n".join(json.dumps(one) for one in value.pop("methods"))
    STORED.write_text(f'{json.dumps(value)[:-1]}, "methods": [\n{methods}\n]}}\n', encoding="utf-8")
    record(
        EXPERIMENT,
        STORED,
        command="python3 figures/studies/bills/decode_texts.py TRACE",
        models="the built-in pair",
        data="evenly spaced prompts of the built-in pair",
        commit=commit,
        trace=fingerprint(trace),
        fit=stored_fit(trace),
    )


if __name__ == "__main__":
    main()
