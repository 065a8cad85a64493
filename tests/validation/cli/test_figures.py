"""``hlm figure`` draws what it can, in the requested formats, and lists the rest with the missing commands."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.validation.stored_traces import stored
from validation import plots
from validation.cli.commands import main
from validation.cli.figures import _decode
from validation.plots import Decoding, Figure, Simulation, Tag
from validation.plots.common.style import COLUMN, canvas
from validation.plots.common.values import as_csv

ABOUT = {
    "paper": "cu-hlm",
    "source": "oh2025cuhlm",
    "tag": Tag.MEASURED,
    "title": "t",
    "message": "m",
}
NUMBERS = {"axes": [], "series": [{"name": "a", "x": [1, 2], "band": {"low": [0.5, 1.0]}}], "basis": "made up"}


def painted(numbers: dict[str, Any]) -> Any:
    """Paint a line."""
    figure, (axes,) = canvas(COLUMN)
    axes.plot(numbers["series"][0]["x"])
    return figure


@pytest.fixture(autouse=True)
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A paper with a simulated figure, one figure of a trace and two figures of texts."""
    monkeypatch.chdir(tmp_path)
    made = [
        Simulation(number="1", paint=painted, simulate=lambda seed: dict(NUMBERS), **ABOUT),
        Figure(number="2", paint=painted, measure=lambda trace, seed: NUMBERS | {"positions_drawn": 1}, **ABOUT),
        *(
            Decoding(number=number, paint=None, study="hlm", measure=lambda studies, seed: {}, **ABOUT)
            for number in ("3", "II")
        ),
    ]
    monkeypatch.setattr(plots, "EXHIBITS", {("cu-hlm", one.number): one for one in made})


def figure(*words: str) -> Result:
    """Run one command line."""
    return CliRunner().invoke(main, ["figure", *words])


def test_what_can_be_drawn_is_and_the_rest_is_listed() -> None:
    done = figure("cu-hlm")
    assert done.exit_code == 3, done.output
    assert Path("runs/simulated/figures/cu-hlm-fig1.svg").exists()
    assert "Drawn: 1 of 4. Not drawn:" in done.stderr
    assert "Fig. 2: There is no trace at runs/builtin/trace; collect one with `python3 hlm validate`" in done.stderr
    assert "Fig. 3, Table II: There is no finished study at runs/builtin/decoded/hlm; make it with" in done.stderr
    assert done.stderr.rstrip().endswith("`python3 hlm decode hlm`.")
    stored(Path("runs/builtin/trace"))
    done = figure("cu-hlm", "--quiet")
    assert done.exit_code == 3
    assert done.stdout == ""
    assert "Drawn: 2 of 4." in done.stderr


def test_one_that_cannot_be_drawn_is_the_users_to_mend() -> None:
    done = figure("cu-hlm", "II")
    assert done.exit_code == 2
    assert "make it with `python3 hlm decode hlm`" in done.stderr
    assert figure("cu-hlm", "1").exit_code == 0


def test_the_command_names_the_run_and_its_models() -> None:
    trace = stored(Path("mine/trace"))
    assert _decode("greedy", Path("mine")) == "python3 hlm decode greedy --run mine"
    file = trace.path / "manifest.json"
    assert _decode("hlm", Path("runs/builtin")) == "python3 hlm decode hlm"
    assert file.exists()


def test_every_format_is_written_and_the_same_each_time() -> None:
    first, second = (figure("cu-hlm", "1", "--format", "pdf,png", "--format", "CSV", "--out", out) for out in "ab")
    assert (first.exit_code, second.exit_code) == (0, 0)
    names = [f"cu-hlm-fig1.{suffix}" for suffix in ("json", "svg", "pdf", "png", "csv")]
    assert [Path(line).name for line in first.stdout.split()] == names
    for name in names[1:]:
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()
    assert Path("a", names[2]).read_bytes().startswith(b"%PDF")
    assert Path("a", names[3]).read_bytes().startswith(b"\x89PNG")
    with Path("a", names[4]).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [tuple(row.values()) for row in rows] == [
        ("series", "a", "x", "0", "1"),
        ("series", "a", "x", "1", "2"),
        ("series", "a", "band.low", "0", "0.5"),
        ("series", "a", "band.low", "1", "1.0"),
    ]


def test_an_unknown_format_is_refused_before_anything_is_drawn() -> None:
    done = figure("cu-hlm", "1", "--format", "svg,gif")
    assert done.exit_code == 2
    assert "There is no format 'gif'; choose of: svg, pdf, png, csv." in done.stderr
    assert not Path("runs").exists()


def test_every_number_of_the_published_figures_is_in_its_table() -> None:
    folder = Path(plots.SOURCE, "figures")
    for name in ("cu-hlm-fig5a", "cu-hlm-fig1", "flexspec-fig2", "u-hlm-fig6-texts"):
        numbers = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        kept = {key: value for key, value in numbers.items() if key in ("series", "bars", "tables")}
        rows = list(csv.DictReader(as_csv(kept).splitlines()))
        assert len(rows) == sum(_count(value) for value in kept.values())


def _count(value: Any, *, top: bool = True) -> int:
    """Return the number of leaves, without the names of series and the titles and heads of tables."""
    if isinstance(value, dict):
        return sum(_count(inner) for key, inner in value.items() if key not in ("name", "title", "heads"))
    return sum(map(_count, value)) if isinstance(value, list) else 1
