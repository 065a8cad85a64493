"""The page of a plan in a real browser: its numbers are the command's, it sends nothing, and people can use it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from functools import cache

import pytest

from tests.validation.stored_traces import stored
from validation.planning.measure import planner_of_trace
from validation.planning.page import write_page
from validation.planning.request import Request
from validation.planning.result import make

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium: apt install chromium, or set CHROMIUM", allow_module_level=True)

BASE = Request(rate_bps=8e6, fading="rayleigh", round_trip_s=0.025, draft_s=0.008, verify_s=0.04)


@pytest.fixture(scope="module")
def browser():
    with sync.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages")
    stored(path / "trace")
    return path


@pytest.fixture(scope="module")
def whole(folder):
    @cache
    def of(request: Request):
        planner, about = planner_of_trace(folder / "trace", request.setting(), cache=folder / "cache")
        return make(planner, request).plain(request, planner, about)

    return of


@pytest.fixture
def opened(browser, folder, whole):
    """Open the page of a request; in the end nothing was asked of a network and no error was printed."""
    contexts, wrong = [], []

    def of(request: Request = BASE, **view):
        page_file = write_page(folder / "plan.html", whole(request))
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **view})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        context.on("request", lambda asked: wrong.append(asked.url) if asked.url != page_file.as_uri() else None)
        page.goto(page_file.as_uri())
        page.wait_for_selector("#map .point")
        return page

    yield of
    for context in contexts:
        context.close()
    assert wrong == []


def test_a_slower_link_slows_the_rows(opened, whole):
    page = opened()
    first = {row["policy"]: row["tokens_per_s_median"]["value"] for row in whole(BASE)["rows"]}
    cell = "Number(row.querySelector('[data-key=median]').dataset.value)"
    cells = f"row => [row.querySelector('th').firstChild.textContent, {cell}]"
    shown = dict(page.eval_on_selector_all("#rows tr", f"rows => rows.map({cells})"))
    assert shown == pytest.approx(first, rel=1e-7)
    page.fill("#rate", "0.1")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    slower = dict(page.eval_on_selector_all("#rows tr", f"rows => rows.map({cells})"))
    assert slower["FlexSpec"] < shown["FlexSpec"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_barrier(opened, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[browser]'")
    page = opened(replace(BASE, risk=("text", 0.7)), viewport={"width": width, "height": 800}, color_scheme=scheme)
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
