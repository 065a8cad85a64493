"""``hlm figure`` draws what it can, in the requested formats, and lists the rest with the missing commands."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.validation.stored_traces import stored
from validation import plots
from validation.cli.commands import main
from validation.plots import Decoding, Figure, Simulation, Tag
from validation.plots.common.style import COLUMN, canvas

ABOUT = {"paper": "cu-hlm", "source": "oh2025cuhlm", "tag": Tag.MEASURED, "title": "t", "message": "m"}
NUMBERS = {"axes": [], "series": [{"name": "a", "x": [1, 2], "band": {"low": [0.5, 1.0]}}], "basis": "made up"}


def painted(numbers: dict[str, Any]) -> Any:
    figure, (axes,) = canvas(COLUMN)
    axes.plot(numbers["series"][0]["x"])
    return figure


@pytest.fixture(autouse=True)
def three(tmp_path, monkeypatch):
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
    return CliRunner().invoke(main, ["figure", *words])


def test_what_can_be_drawn_is_and_the_rest_is_listed():
    done = figure("cu-hlm")
    assert done.exit_code == 3, done.output
    assert Path("runs/simulated/figures/cu-hlm-fig1.svg").exists()
    assert "Drawn: 1 of 4. Not drawn:" in done.stderr
    assert figure("cu-hlm", "2").exit_code == 0  # the published numbers
    stored(Path("runs/builtin/trace"))
    assert "There is no trace at runs/mine/trace" in figure("cu-hlm", "2", "--pair", "mine").stderr
    done = figure("cu-hlm", "--quiet")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "Drawn: 2 of 4." in done.stderr


def test_every_format_is_written_and_the_same_each_time():
    first, second = (figure("cu-hlm", "1", "--format", "pdf,png", "--format", "CSV", "--out", out) for out in "ab")
    assert (first.exit_code, second.exit_code) == (0, 0)
    names = [f"cu-hlm-fig1.{suffix}" for suffix in ("json", "svg", "pdf", "png", "csv")]
    assert [Path(word).name for word in first.stdout.split() if Path(word).parent.name == "a"] == names
    assert "cu-hlm Figure 1: m" in first.stdout
    for name in names[1:]:
        assert Path("a", name).read_bytes() == Path("b", name).read_bytes()
    assert Path("a", names[2]).read_bytes().startswith(b"%PDF")
    assert Path("a", names[3]).read_bytes().startswith(b"\x89PNG")
    assert Path("a", names[4]).read_text("utf-8").startswith("part,name,field,index,value\nseries,a,x,0,1\n")
