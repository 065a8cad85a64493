"""The page of a plan in a real browser: its numbers are the command's, it sends nothing, and people can use it."""

from __future__ import annotations

import math
import os
import re
import shutil
from dataclasses import replace
from functools import cache

import pytest

from tests.validation.stored_traces import stored
from validation.planning.measure import planner_of_trace
from validation.planning.page import write_page
from validation.planning.plan import Planner
from validation.planning.request import Request
from validation.planning.result import make

sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no chromium: apt install chromium, or set CHROMIUM", allow_module_level=True)

FIELDS = {
    "rate": lambda one: one.rate_bps / 1e6,
    "roundTrip": lambda one: 1e3 * one.round_trip_s,
    "draft": lambda one: 1e3 * one.draft_s,
    "verify": lambda one: 1e3 * one.verify_s,
    "limit": lambda one: one.risk[1],
}
NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:e[+-]?\d+)?")
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
def plan(folder):
    """Return the planner of a request; the trace is measured once."""
    planner, about = planner_of_trace(folder / "trace", BASE.setting(), cache=folder / "cache")
    return lambda request: (Planner(planner.options, request.setting(), planner.split, planner.line), about)


@pytest.fixture(scope="module")
def command(plan):
    """Return what ``hlm plan --json`` says at a request, without the menu: rows, verdict and the kind of the risk."""

    def of(request: Request):
        found = make(plan(request)[0], request)
        return {"rows": [row.plain() for row in found.rows], "verdict": found.verdict, "risk": request.risk[0]}

    return of


@pytest.fixture(scope="module")
def whole(plan):
    """Return all that ``hlm plan --json`` says at a request."""

    @cache
    def of(request: Request):
        planner, about = plan(request)
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


def set_to(page, request: Request) -> None:
    """Type the numbers of a request into the page's fields."""
    page.select_option("#fading", request.fading)
    page.select_option("#kind", request.risk[0])
    if request.fading != "none":
        page.fill("#snr", repr(decibels(request.snr)))
    for name, value in FIELDS.items():
        page.fill(f"#{name}", repr(value(request)))
    settled(page)


def settled(page) -> None:
    """Wait until the page has drawn what was typed."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def decibels(ratio: float) -> float:
    return round(float(math.log10(ratio)) * 10, 9)


def table(page):
    """The rows of the page: policy, then cell by cell the full number and the shown text."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#rows tr")].map((row) => [
            row.querySelector("th").firstChild.textContent,
            Object.fromEntries([["option", [null, row.querySelector(".option").textContent]],
                ...[...row.querySelectorAll("td")].map((cell) => [cell.dataset.key,
                    [cell.dataset.value === undefined ? null : Number(cell.dataset.value), cell.firstChild.textContent,
                     cell.querySelector(".basis")?.textContent]])])]))"""
    )


def same_as(page, said) -> None:
    """Assert that the page shows the command's rows and verdict; test_page_script.py compares every number."""
    found = table(page)
    assert list(found) == [row["policy"] for row in said["rows"]]
    for row in said["rows"]:
        here = found[row["policy"]]
        assert here["option"][1] == row["option"]
        assert here["median"][0] == pytest.approx(row["tokens_per_s_median"]["value"], rel=1e-7)
        assert here["breaks"][1] == (", ".join(row["breaks"]) or "–")
    assert NUMBER.sub("#", page.inner_text("#verdict")) == NUMBER.sub("#", said["verdict"])


REQUESTS = [
    replace(BASE, rate_bps=2e5, fading="none", round_trip_s=0.0),
    replace(BASE, rate_bps=3e8, fading="rician", snr=100.0, risk=("text", 0.5), draft_s=0.001),
    replace(BASE, risk=("token", 1.0), verify_s=0.2),
]


def test_the_page_says_what_the_command_says(opened, command):
    page = opened()
    for request in REQUESTS:
        set_to(page, request)
        same_as(page, command(request))
    page.click("#reset")
    settled(page)
    same_as(page, command(BASE))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_barrier(opened, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[browser]'")
    page = opened(replace(BASE, risk=("text", 0.7)), viewport={"width": width, "height": 800}, color_scheme=scheme)
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
