"""The report in a real browser: limits of size, a telephone, dark mode, barriers, and hostile names."""

import json
from pathlib import Path

import pytest

from validation.claims.check import Results
from validation.plots import FIGURES
from validation.report.html import write_report

SHELF = Path(__file__).resolve().parents[3] / "figures"
HOSTILE = "</title><script>window.ran=1</script><img src=x onerror=window.ran=1>\"'&" + "w" * 3000
PROMPTS = [{"id": f"prompt-{i}", "text": "word " * 200, "source": "a book"} for i in range(6)]
LARGEST_FILE = 3_000_000  # bytes


def report(folder: Path, **names: str) -> Path:
    """Write the report of the published record and its published figures; names replace those of the pair.

    The verdicts are those of ``hlm validate``, which leaves the simulated claims to the release.
    """
    record = json.loads((SHELF / "claims.json").read_text(encoding="utf-8"))
    name = names.get("name", "builtin")
    manifest = {
        "pair": {"name": name, "small_name": name, "large_name": name, "small_parameters": 9},
        "vocabulary": record["run"]["vocabulary"],
        "positions": record["run"]["positions"],
        "seed": 1,
        "notes": [name],
        "prompts": [{key: names.get("name", value) for key, value in prompt.items()} for prompt in PROMPTS],
    }
    results = Results.from_json(json.dumps(record["results"]))
    results.tallies = {name: tally for name, tally in results.tallies.items() if tally.kind == "measured"}
    stored = [SHELF / f"{one.stem}.json" for one in FIGURES.values()]
    figures = [file for file in stored if file.exists()]
    assert len(figures) > 15
    if names:
        figures = [hostile(figures[-1], folder, name)]
    command = f"hlm validate --trace '{names.get('name', 'trace')}'"
    return write_report(folder, results=results, manifest=manifest, figures=figures, command=command)


def hostile(sidecar: Path, folder: Path, name: str) -> Path:
    about = json.loads(sidecar.read_text(encoding="utf-8"))
    table = {"title": name, "heads": [name, name], "rows": [[name, name]]}
    about |= {"title": name, "caption": f"{name}: {name}. {name}", "method": name, "tables": [table]}
    path = folder / "hostile" / 'a"b<i>.json'
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(about), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return report(tmp_path_factory.mktemp("report"))


@pytest.fixture
def opened(show, file):
    return lambda path=file, **view: show(path, **view)


TELEPHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
UNFOLD = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"

FEWER = """() => {
    const drop = (one) => one.remove();
    for (const one of document.querySelectorAll("tbody")) [...one.rows].slice(4).forEach(drop);
    for (const one of document.querySelectorAll(".topic")) [...one.querySelectorAll(".claim")].slice(2).forEach(drop);
}"""
"""Keep some of each kind of element, because axe looks at each of ten thousand."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_telephone_nothing_leaves_the_page(opened, scheme):
    page = opened(**TELEPHONE, color_scheme=scheme)
    for unfolded in (False, True):
        if unfolded:
            page.evaluate(UNFOLD)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        outside = page.evaluate(
            """() => [...document.querySelectorAll("main *")].filter((one) => !one.closest("svg, .scroll *")
                && one.getBoundingClientRect().right > 391).map((one) => one.outerHTML.slice(0, 99))"""
        )
        assert outside == []


@pytest.mark.parametrize(("view", "scheme"), [({}, "light"), (TELEPHONE, "dark")], ids=["desk", "telephone"])
def test_axe_finds_no_barrier_and_finds_two_that_are_made(opened, file, view, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[browser]'")
    assert file.stat().st_size <= LARGEST_FILE
    page = opened(**view, color_scheme=scheme)
    page.evaluate(UNFOLD)
    page.evaluate(FEWER)
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    if view:
        return
    page.evaluate("() => document.body.append(new Image())")
    page.evaluate("() => { document.querySelector('.small').style.color = '#bbb'; }")
    assert axe.Axe().run(page, options={"runOnly": ["image-alt", "color-contrast"]}).violations_count == 2


def test_hostile_names_are_text(opened, tmp_path):
    path = report(tmp_path, name=HOSTILE)
    for view in ({}, TELEPHONE):
        page = opened(path, **view)
        page.evaluate(UNFOLD)
        assert page.evaluate("() => window.ran ?? null") is None
        assert page.locator("img, script").count() == 0
        assert HOSTILE[:76] in page.title()
        assert HOSTILE[:76] in page.inner_text("h1")
        assert HOSTILE[:76] in page.inner_text("pre")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= page.viewport_size["width"]
