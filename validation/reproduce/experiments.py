"""List the studies of ``figures/studies`` that are too long for a figure: their commands and their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

FOLDER = "figures/studies"


@dataclass(frozen=True, slots=True)
class Experiment:
    """One script of ``figures/studies``; its README says what it measures.

    Attributes
    ----------
    name : str
    paper : str
        The paper whose results it is about; ``"ours"`` for results of this project.
    argv : tuple of str
        Script and arguments; ``{data}``, ``{models}``, ``{trace}`` and ``{work}`` are folders.
    data : tuple of str
        Folders or files in ``--data`` that it reads.
    models : tuple of str
        Folders in ``--models`` that it reads.
    packages : tuple of str
        Packages that it imports and no extra of ``validation`` installs.
    """

    name: str
    paper: str
    argv: tuple[str, ...]
    data: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def reads_trace(self) -> bool:
        """Return whether it reads the trace of the built-in pair."""
        return "{trace}" in self.argv

    def missing(self, data: Path | None, models: Path | None) -> str:
        """Return what it needs and does not find, in words; empty if it can run."""
        lacking = []
        for given, names, option in ((data, self.data, "--data"), (models, self.models, "--models")):
            absent = [name for name in names if given is None or not (given / name).exists()]
            if absent:
                lacking.append(f"{', '.join(absent)} in {option}")
        lacking += [f"the package {name}" for name in self.packages if find_spec(name) is None]
        return " and ".join(lacking)


def _script(folder: str, file: str, *arguments: str) -> tuple[str, ...]:
    return (f"{FOLDER}/{folder}/{file}", *arguments)


_ACCEPTANCE = ("specdec-simulator/combined_gsm8k.jsonl.gz", "specdec-simulator/combined_instructcoder.jsonl.gz")
_SETS = ("gsm8k", "spec-bench", "mt-bench", "humaneval")
_MODELS = ("pair/large", "pair/small", "pair/aligned", "medusa", "eagle", "versions")

EXPERIMENTS = (
    Experiment(
        "acceptance_replay",
        "ours",
        _script("acceptance_by_depth", "acceptance_replay.py", "{data}/specdec-simulator"),
        data=_ACCEPTANCE,
    ),
    Experiment(
        "aligned_draft",
        "flexspec",
        _script("aligned_draft", "measure.py", "{data}", "{models}", "{work}/builtin.json"),
        data=("gsm8k", "humaneval", "alpaca"),
        models=("pair/aligned", "versions"),
    ),
    Experiment("anytime", "ours", _script("anytime", "simulate.py")),
    Experiment(
        "audit_software",
        "ours",
        _script("audit_software", "audit_software.py", "{work}", "{work}/audits.json"),
    ),
    Experiment("c_sqs", "c-sqs", _script("c_sqs", "decode_texts.py", "{work}")),
    Experiment(
        "flexspec_tables",
        "flexspec",
        _script("flexspec_tables", "decode_rows.py", "{data}", "{work}"),
        data=_SETS,
        models=_MODELS,
    ),
    Experiment(
        "length_rules",
        "flexspec",
        _script("length_rules", "length_rules.py", "{data}/specdec-simulator"),
        data=_ACCEPTANCE,
    ),
    Experiment(
        "plan",
        "ours",
        _script("plan", "plan_study.py", "{trace}", "{data}/traces", "{work}", "{work}/builtin.json"),
        data=("traces",),
    ),
    Experiment("policy_bound", "ours", _script("policy_bound", "brute_force.py")),
    Experiment("served_gaps", "ours", _script("policy_bound", "served_gaps.py")),
    Experiment(
        "text_enumeration",
        "ours",
        _script("text_enumeration", "enumeration.py", "{trace}", "{work}/builtin.json", "--prompts", "10"),
    ),
    Experiment(
        "update_bound",
        "flexspec",
        _script("update_bound", "bound.py", "{work}/bound.json", "{models}/update_rows.json"),
        models=("update_rows.json",),
    ),
)
"""The experiments whose result is stored in the repository, in the order of their folders."""
