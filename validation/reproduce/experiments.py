"""List the studies of ``figures/studies`` that are too long for a figure: their commands and their inputs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Experiment(NamedTuple):
    """One script of ``figures/studies``; its README says what it measures.

    ``paper`` is the one whose results it is about, or ``"ours"``. In ``argv`` the words ``{data}``, ``{models}``,
    ``{trace}`` and ``{work}`` are folders; ``data`` and ``models`` say what the script reads in the first two.
    """

    name: str
    paper: str
    argv: tuple[str, ...]
    data: tuple[str, ...] = ()
    models: tuple[str, ...] = ()

    def missing(self, data: Path | None, models: Path | None) -> str:
        """Return what it needs and does not find, in words; empty if it can run."""
        lacking = []
        for given, names, option in ((data, self.data, "--data"), (models, self.models, "--models")):
            absent = [name for name in names if given is None or not (given / name).exists()]
            lacking += [f"{', '.join(absent)} in {option}"] if absent else []
        return " and ".join(lacking)


def _script(file: str, *arguments: str) -> tuple[str, ...]:
    return ("-m", f"figures.studies.{file.replace('/', '.')}", *arguments)


_ACCEPTANCE = ("specdec-simulator/combined_gsm8k.jsonl.gz", "specdec-simulator/combined_instructcoder.jsonl.gz")
_SETS = ("gsm8k", "spec-bench", "mt-bench", "humaneval")
_MODELS = ("pair/large", "pair/small", "pair/aligned", "medusa", "eagle", "versions")
_SIMULATOR = "{data}/specdec-simulator"
_OUT = "{work}/builtin.json"

EXPERIMENTS = (
    Experiment("acceptance", "ours", _script("acceptance_by_depth/acceptance_replay", _SIMULATOR), _ACCEPTANCE),
    Experiment(
        "aligned_draft",
        "flexspec",
        _script("aligned_draft/measure", "{data}", "{models}", _OUT),
        ("gsm8k", "humaneval", "alpaca"),
        ("pair/aligned", "versions"),
    ),
    Experiment("anytime", "ours", _script("anytime/simulate")),
    Experiment("c_sqs", "c-sqs", _script("c_sqs/decode_texts", "{work}")),
    Experiment(
        "flexspec_tables", "flexspec", _script("flexspec_tables/decode_rows", "{data}", "{work}"), _SETS, _MODELS
    ),
    Experiment("length_rules", "flexspec", _script("length_rules/length_rules", _SIMULATOR), _ACCEPTANCE),
    Experiment("plan", "ours", _script("plan/plan_study", "{trace}", "{data}/traces", "{work}", _OUT), ("traces",)),
    Experiment("policy_bound", "ours", _script("policy_bound/brute_force")),
    Experiment("served_gaps", "ours", _script("policy_bound/served_gaps")),
    Experiment("shared_seed", "ours", _script("shared_seed/measure", "{trace}", _OUT)),
    Experiment("text_enumeration", "ours", _script("text_enumeration/enumeration", "{trace}", _OUT, "--prompts", "10")),
)
"""The experiments whose result is stored in the repository, in the order of their folders."""
