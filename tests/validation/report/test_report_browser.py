"""The report in a real browser: limits of size, a telephone, dark mode, barriers, and hostile names."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from validation.claims.check import Results
from validation.plots import FIGURES
from validation.report.html import write_report

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium: apt install chromium, or set CHROMIUM", allow_module_level=True)

SHELF = Path(__file__).resolve().parents[3] / "figures"
HOSTILE = "</title><script>window.ran=1</script><img src=x onerror=window.ran=1>\"'&" + "w" * 3000
PROMPTS = [{"id": f"prompt-{i}", "text": "word " * 200, "source": "a book"} for i in range(6)]
LARGEST_PAGE = 25_000  # pixels high, at 1,280 wide
LARGEST_CELL = 400  # characters
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
    """Return the sidecar of a figure whose texts are all a hostile name."""
    about = json.loads(sidecar.read_text(encoding="utf-8"))
    table = {"title": name, "heads": [name, name], "rows": [[name, name]]}
    about |= {
        "title": name,
        "caption": f"{name}: {name}. {name}",
        "findings": name,
        "method": name,
        "kind": name,
        "tables": [table],
    }
    path = folder / "hostile" / 'a"b<i>.json'
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(about), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser():
    with sync.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report(tmp_path_factory.mktemp("report"))


@pytest.fixture
def opened(browser, file):
    """Open a report; in the end nothing was asked of a network and no error was printed."""
    contexts, wrong = [], []

    def of(path: Path = file, **view):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **view})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        context.on("request", lambda asked: wrong.append(asked.url) if asked.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    yield of
    for context in contexts:
        context.close()
    assert wrong == []


TELEPHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
UNFOLD = "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"


FEWER = """() => {
    const drop = (one) => one.remove();
    document.querySelectorAll("figure svg > *").forEach(drop);
    [...document.querySelectorAll("figure:has(svg)")].slice(4).forEach(drop);
    for (const one of document.querySelectorAll("tbody")) [...one.rows].slice(4).forEach(drop);
    for (const one of document.querySelectorAll(".topic")) [...one.querySelectorAll(".claim")].slice(2).forEach(drop);
}"""
"""Keep some of each kind of element, because axe looks at each of ten thousand."""


def test_the_limits_of_size_are_met(opened, file):
    assert file.stat().st_size <= LARGEST_FILE
    page = opened()
    assert page.evaluate("() => document.documentElement.scrollHeight") <= LARGEST_PAGE
    cells = page.evaluate(
        """() => [...document.querySelectorAll("td, th, dd, dt, li:not(:has(li)), summary, figcaption")]
            .map((one) => [one.textContent.trim().length, one.textContent.trim().slice(0, 99)])"""
    )
    assert len(cells) > 1000
    assert [text for length, text in cells if length > LARGEST_CELL] == []


def test_the_first_screen_holds_the_verdict_what_to_send_and_what_is_wrong(opened):
    page = opened()
    assert page.locator(".verdict p").count() == 5
    foot = page.evaluate("() => document.getElementById('verdict').getBoundingClientRect().bottom")
    assert foot <= 800
    rows = [row.split("\t")[0] for row in page.inner_text("#verdict tbody").splitlines()]
    assert rows[-5:] == ["ε = 0.01", "ε = 0.05", "ε = 0.1", "ε = 0.2", "none"]
    wrong = page.locator("#wrong + ul li")
    refuted = page.locator("#kind-refuted > .claim").count()
    assert wrong.count() == refuted + 1 > 3
    targets = page.locator("#wrong + ul a").evaluate_all("(all) => all.map((one) => one.getAttribute('href').slice(1))")
    assert all(page.locator(f"[id='{target}']").count() == 1 for target in targets)


def test_figures_have_their_own_size_and_come_before_tables(opened):
    page = opened()
    sizes = page.evaluate(
        "() => [...document.querySelectorAll('figure svg')].map((one) => [one.clientWidth, one.getAttribute('width')])"
    )
    assert len(sizes) > 15
    assert all(shown == pytest.approx(float(width.removesuffix("pt")) * 96 / 72, abs=1) for shown, width in sizes)
    tops = [page.locator(f"#{name}").bounding_box()["y"] for name in ("figures", "tables", "claims")]
    assert tops == sorted(tops)
    last = page.locator("figure:has(svg)").last.bounding_box()
    assert last["y"] + last["height"] <= tops[1]


@pytest.mark.parametrize("view", [{}, TELEPHONE], ids=["desk", "telephone"])
def test_contents_stay_and_lead_to_their_places(opened, view):
    page = opened(**view)
    links = page.locator("nav a:visible")
    assert links.count() >= 8
    for index in (links.count() - 1, 3, 1):
        target = links.nth(index).get_attribute("href")
        links.nth(index).click()
        where = page.evaluate("(id) => document.getElementById(id).getBoundingClientRect().top", target[1:])
        covered = 0 if not view else page.locator("nav").bounding_box()["height"]
        at_foot = page.evaluate("() => scrollY + innerHeight + 1 >= document.documentElement.scrollHeight")
        assert covered <= where < 120 or at_foot, target
        box = page.locator("nav").bounding_box()
        assert box["y"] == 0
        assert page.locator("nav a").first.bounding_box()["y"] >= 0


def test_a_link_unfolds_its_claim(opened, file):
    page = opened()
    claim = page.locator("[id='claim-truncation.tvd_sharp']")
    assert not claim.is_visible()
    page.evaluate("() => { location.hash = 'claim-truncation.tvd_sharp'; }")
    claim.locator("summary").wait_for(state="visible")


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
    words = page.evaluate(
        """() => [...document.querySelectorAll("main th, main td, main dt, main dd")].filter((one) => {
            const range = document.createRange();
            range.selectNodeContents(one);
            const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
            return lines > one.textContent.trim().split(/\\s+/).length + 4;
        }).map((one) => one.textContent)"""
    )
    assert words == []  # no column is so narrow that words are cut into letters
    heads = page.evaluate(
        """() => [...document.querySelectorAll("figure table")].map((one) => [
            [...one.querySelectorAll("thead tr > *")].filter((head) => head.getBoundingClientRect().height > 5).length,
            Math.max(...[...one.rows].map((row) => row.cells.length)), one.closest(".scroll") !== null])"""
    )
    assert len(heads) > 10
    assert all(shown == width and scrolls for shown, width, scrolls in heads)


def test_dark_mode_is_dark_and_inverts_the_pictures(opened):
    light, dark = (
        opened(color_scheme=scheme).evaluate(
            """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
                getComputedStyle(document.querySelector("figure svg")).filter]"""
        )
        for scheme in ("light", "dark")
    )
    assert light == ["rgb(255, 255, 255)", "rgb(26, 31, 41)", "none"]
    assert dark[0] == "rgb(20, 24, 31)"
    assert dark[1] == "rgb(230, 233, 238)"
    assert dark[2].startswith("invert")


@pytest.mark.parametrize(("view", "scheme"), [({}, "light"), (TELEPHONE, "dark")], ids=["desk", "telephone"])
def test_axe_finds_no_barrier(opened, view, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[browser]'")
    page = opened(**view, color_scheme=scheme)
    page.evaluate(UNFOLD)
    page.evaluate(FEWER)
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_axe_is_awake(opened):
    """The check above fails on a page with barriers."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[browser]'")
    page = opened()
    page.evaluate(FEWER)
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
