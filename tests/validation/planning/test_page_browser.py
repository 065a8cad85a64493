"""The page of a plan in a real browser: its numbers are the command's, it sends nothing, and people can use it."""

from __future__ import annotations

import json
import math
import os
import random
import re
import shutil
import socket
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from hlmtheory.channel import TraceLink
from tests.validation.stored_traces import stored
from validation.errors import UserError
from validation.planning.aims import aim_of, best_kept
from validation.planning.measure import planner_of_trace
from validation.planning.menu import CERTIFIED, COLOCATED, DEVICE, OURS, OWN_TREE, SERVER, STREAM, Line
from validation.planning.page import write_page
from validation.planning.plan import Planner
from validation.planning.request import Request
from validation.planning.result import make
from validation.planning.words import explanation, headline

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
CELLS = {
    "threshold": "threshold",
    "k_mean": "k_mean",
    "k_p95": "k_p95",
    "bits": "bits",
    "kilobytes": "kilobytes_per_token",
    "draft_length": "draft_length",
    "median": "tokens_per_s_median",
    "slow": "tokens_per_s_p95",
    "mean": "tokens_per_s_mean",
    "gain": "gain",
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
        found = make(plan(request)[0], request, [])
        return {"rows": [row.plain() for row in found.rows], "verdict": found.verdict, "risk": request.risk[0]}

    return of


@pytest.fixture(scope="module")
def whole(plan):
    """Return all that ``hlm plan --json`` says at a request."""

    @cache
    def of(request: Request):
        planner, about = plan(request)
        return make(planner, request, []).plain(request, planner, about | {"defaults": []})

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
    """Assert that the page shows the command's rows, verdict and chosen plan."""
    found = table(page)
    assert list(found) == [row["policy"] for row in said["rows"]]
    for row in said["rows"]:
        here, where = found[row["policy"]], (row["policy"], said["verdict"])
        for key, name in CELLS.items():
            number, shown, basis = here[key]
            if row[name]["value"] is None:
                assert (number, shown) == (None, "–"), (key, where)
                continue
            assert number == pytest.approx(row[name]["value"], rel=1e-7, abs=1e-12), (key, where)
            digits = 2 if key == "draft_length" else 3
            assert float(shown.replace(",", "")) == pytest.approx(number, rel=0.6 * 10 ** (1 - digits), abs=0.5), where
            assert key in ("k_mean", "k_p95") or basis == row[name]["basis"][0], (key, where)
        risk = f"{said['risk']}_risk"
        assert here["risk"][0] == pytest.approx(row[risk]["value"], rel=1e-6, abs=1e-9), where
        assert here["breaks"][1] == (", ".join(row["breaks"]) or "–"), where
        assert here["option"][1] == row["option"], where
    same_sentence(page.inner_text("#verdict"), said["verdict"])


def number_of(text: str) -> float:
    return float(NUMBER.search(text)[0].replace(",", ""))


def same_sentence(here: str, there: str) -> None:
    """Assert the same words, and the same numbers within rounding; the page has no intervals."""
    there = re.sub(r" \([\d.e+-]+ to [\d.e+-]+\)", "", there)
    assert NUMBER.sub("#", here) == NUMBER.sub("#", there), (here, there)
    for a, b in zip(NUMBER.findall(here), NUMBER.findall(there), strict=True):
        assert float(a.replace(",", "")) == pytest.approx(float(b.replace(",", "")), rel=1e-2), (here, there)


def drawn(count: int, seed: int = 7) -> list[Request]:
    """Settings over the whole range of the sliders, with the corners of the risk."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        fading = ("none", "rayleigh", "rician")[number % 3]
        kind = ("text", "token")[number // 2 % 2]
        limit = (0.0, 1.0, rng.uniform(0.05, 0.95), rng.uniform(0.0, 0.3), rng.uniform(0.3, 0.7))[number % 5]
        found.append(
            Request(
                rate_bps=1e6 * round(10 ** rng.uniform(-1, 3), 3),
                fading=fading,
                snr=10 ** (round(rng.uniform(-8, 28), 1) / 10),
                round_trip_s=0.0 if number == 3 else round(10 ** rng.uniform(0, 2.5), 2) / 1e3,
                draft_s=round(rng.uniform(1, 60), 2) / 1e3,
                verify_s=round(rng.uniform(1, 200), 2) / 1e3,
                risk=(kind, round(limit, 3)),
            )
        )
    return found


def test_at_20_settings_the_page_says_what_the_command_says(opened, command):
    page = opened()
    same_as(page, command(BASE))
    requests = drawn(20)
    policies = set()
    for request in requests:
        set_to(page, request)
        said = command(request)
        same_as(page, said)
        policies.add(said["rows"][-1]["option"])
    assert len(policies) >= 5  # the settings decide
    page.click("#reset")
    settled(page)
    same_as(page, command(BASE))


@pytest.mark.parametrize(
    "start",
    [
        replace(BASE, latency=(0.95, 0.12), energy_j=0.1),
        replace(BASE, objective="cost", time_price=0.7, verify_token_s=2e-4),
        replace(BASE, objective="goodput", latency=(0.9, 0.09)),
        replace(BASE, down_bps=3e5, fading="rician", k_factor=4.0),
    ],
    ids=["limits", "cost", "goodput", "downlink"],
)
def test_other_limits_and_objectives_stay_the_commands(opened, command, start):
    page = opened(start)
    same_as(page, command(start))
    for change in ({"risk": ("text", 0.8)}, {"rate_bps": 2.5e6}, {"draft_s": 0.005, "risk": ("token", 0.3)}):
        request = replace(start, **change)
        set_to(page, request)
        same_as(page, command(request))


def test_a_papers_own_threshold_is_used_if_nothing_may_be_lost(browser, folder, plan):
    planner, about = plan(BASE)
    other = Planner(planner.options, planner.setting, planner.split, Line(1.0, 0.0, 0.2, 0.4))
    found = make(other, BASE, [])
    page = browser.new_page()
    page.goto(write_page(folder / "line.html", found.plain(BASE, other, about | {"defaults": []})).as_uri())
    page.wait_for_selector("#map .point")
    rows = {row.policy: row.option for row in found.rows}
    assert rows["U-HLM"] == "u ≤ 0.4"
    assert {name: cells["option"][1] for name, cells in table(page).items()} == rows
    page.close()


def test_a_recording_is_scaled(opened, command):
    times = [float(x) for x in range(12)]
    link = TraceLink(times, [1e6 * x for x in (4, 0, 0.5, 9, 12, 3, 0, 7, 8, 2, 6, 5)])
    start = replace(BASE, fading="none", recorded=("tram", link))
    page = opened(start)
    same_as(page, command(start))
    assert page.is_hidden("#snr")
    half = replace(start, recorded=("tram", TraceLink(times, [x / 2 for x in link.throughput_bps])))
    page.fill("#rate", repr(float(page.input_value("#rate")) / 2))
    settled(page)
    for row in command(half)["rows"]:
        number = table(page)[row["policy"]]["median"][0]
        assert number == pytest.approx(row["tokens_per_s_median"]["value"], rel=1e-4)


def test_limits_that_nobody_meets_are_answered_with_the_nearest(opened, plan):
    start = replace(BASE, latency=(0.95, 0.2), energy_j=0.2)
    page = opened(start)
    slow = replace(start, verify_s=0.9)
    with pytest.raises(UserError) as refused:
        make(plan(slow)[0], slow, [])
    page.fill("#verify", "900")
    settled(page)
    assert page.inner_text("#use") == "No policy"
    least = float(re.search(r"takes ([\d.]+) ms", str(refused.value))[1])
    assert number_of(page.inner_text("#verdict").split("takes")[1]) == pytest.approx(least, rel=6e-3)
    assert "server alone" in table(page)  # what the others break is still shown
    page.click("#reset")
    settled(page)
    assert page.inner_text("#use") != "No policy"


def test_sliders_move_and_numbers_change(opened):
    page = opened()
    for name in ("rate", "roundTrip", "snr", "draft", "verify", "limit"):
        page.click("#reset")
        settled(page)
        before, typed = table(page), page.input_value(f"#{name}")
        slider = page.locator(f"#{name}-slider")
        box = slider.bounding_box()
        page.mouse.click(box["x"] + 0.93 * box["width"], box["y"] + box["height"] / 2)
        settled(page)
        assert page.input_value(f"#{name}") != typed, name
        assert table(page) != before, name
        moved = page.input_value(f"#{name}")
        slider.press("ArrowLeft")
        settled(page)
        assert float(page.input_value(f"#{name}")) < float(moved), name
        assert page.input_value(f"#{name}").rstrip("0") in slider.get_attribute("aria-valuetext") or name == "snr"


def test_the_card_is_the_answer_in_the_words_of_its_fields(opened, plan):
    page = opened()
    used = set()
    for request in drawn(12, seed=3):
        set_to(page, request)
        planner, _ = plan(request)
        aim = aim_of(planner, request.setting())
        for stream in (True, False):
            page.set_checked("#stream", stream)
            settled(page)
            kept = [one for one in aim.rows if stream or one.family not in (STREAM, COLOCATED, OWN_TREE)]
            chosen = best_kept(kept).option
            use, how = page.inner_text("#use"), page.inner_text("#use-how")
            assert (use, how) == (headline(chosen), explanation(chosen)), request
            counts = chosen.counts[planner.split.test].sum(axis=0)
            speed = counts[0] / request.setting().seconds(counts, request.setting().link.quantile(0.5))
            assert number_of(page.inner_text("#speed")) == pytest.approx(float(speed), rel=6e-3)
            used.add(chosen.family)
    assert COLOCATED in used
    assert len(used) > 2
    page.set_checked("#stream", True)
    set_to(page, BASE)
    page.wait_for_timeout(400)  # the map waits until the sliders rest
    assert map_at_the_ring(page) == kind_of(COLOCATED)


def map_at_the_ring(page) -> int:
    """The kind of the area of the map that holds the ring."""
    return page.evaluate(
        """() => { const map = document.querySelector("#map"), at = map.createSVGPoint();
            const ring = map.querySelector("circle.point");
            at.x = ring.cx.baseVal.value; at.y = ring.cy.baseVal.value;
            return [...map.querySelectorAll("path.area")].findIndex((area) => area.isPointInFill(at)); }"""
    )


def kind_of(family: str) -> int:
    """The colour of the map: servers that stream share one."""
    kinds = [OURS, STREAM, SERVER, DEVICE]
    family = STREAM if family in (COLOCATED, OWN_TREE) else OURS if family == CERTIFIED else family
    return kinds.index(family) if family in kinds else len(kinds)


def test_the_pictures_follow(opened):
    page = opened()

    def pictures():
        page.wait_for_timeout(400)
        return [page.inner_html(name) for name in ("#quality", "#map", "#legend", "#lines")]

    assert "server with its own draft: 100%" in pictures()[2]  # no slower than the device, so nothing else is fastest
    page.uncheck("#stream")
    before = pictures()
    page.fill("#verify", "120")
    page.fill("#roundTrip", "300")
    after = pictures()
    assert before[0] != after[0]
    assert before[1] != after[1]
    assert "streaming" not in after[2]
    assert "its own draft" not in after[2]
    total = sum(int(share) for share in re.findall(r"(\d+)%", page.inner_text("#legend")))
    assert 97 <= total <= 103


def test_a_wrong_number_is_marked_and_the_plan_stays(opened):
    page = opened()
    before = table(page)
    for name, text in (("rate", "-3"), ("rate", ""), ("limit", "1.2"), ("verify", "0"), ("roundTrip", "-1")):
        page.fill(f"#{name}", text)
        settled(page)
        assert page.is_visible(f"#{name}-wrong")
        assert page.get_attribute(f"#{name}", "aria-invalid") == "true"
        assert table(page) == before
    page.click("#reset")
    assert page.is_hidden("#rate-wrong")


@pytest.mark.parametrize("guarded", [True, False])
def test_the_page_itself_refuses_a_connection(browser, folder, whole, guarded):
    """The control is the same page without its policy: there the connection arrives."""
    file = write_page(folder / "policy.html", whole(BASE))
    if not guarded:
        file.write_text(re.sub("<meta http-equiv[^>]*>", "", file.read_text(encoding="utf-8")), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        context = browser.new_context()
        page = context.new_page()
        page.goto(file.as_uri())
        found = page.evaluate(
            """async (address) => {
                const broken = [];
                addEventListener("securitypolicyviolation", (event) => broken.push(event.effectiveDirective));
                fetch(address).catch(() => 0);
                document.body.append(Object.assign(new Image(), { src: address }));
                const script = document.createElement("script");
                script.textContent = "window.ran = 1";
                document.body.append(script);
                await new Promise((done) => setTimeout(done, 300));
                return [broken.sort(), window.ran ?? null];
            }""",
            f"http://127.0.0.1:{server.getsockname()[1]}/",
        )
        server.settimeout(0.5)
        arrived = True
        try:
            server.accept()[0].close()
        except TimeoutError:
            arrived = False
        context.close()
    assert found == ([["connect-src", "img-src", "script-src-elem"], None] if guarded else [[], 1])
    assert arrived is not guarded


def test_hostile_names_do_not_run(browser, folder, whole):
    hostile = "</script><script>window.ran=1</script><img src=x onerror=window.ran=1>"
    said = json.loads(json.dumps(whole(BASE)))
    said["evidence"]["trace"] = said["mattered"] = said["verdict"] = hostile
    for one in said["menu"]:
        one["option"] += hostile
    context = browser.new_context()
    page = context.new_page()
    page.goto(write_page(Path(folder) / "hostile.html", said).as_uri())
    page.wait_for_selector("#map .point")
    assert page.evaluate("() => window.ran ?? null") is None
    assert page.locator("img").count() == 0
    assert hostile in page.inner_text("#rows")
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_on_a_telephone(opened, scheme):
    page = opened(viewport={"width": 390, "height": 844}, color_scheme=scheme, has_touch=True)
    found = page.evaluate(
        """() => {
            const shown = (one) => one.getClientRects().length && getComputedStyle(one).visibility === "visible";
            const named = (one) => one.outerHTML.slice(0, 99);
            const own = (one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
            const all = [...document.body.querySelectorAll("*")].filter((one) => shown(one) && !one.closest("script"));
            const targets = all.filter((one) => one.matches("button, select, input:not([type=checkbox]), label.check"));
            return {
                width: document.documentElement.scrollWidth,
                wide: all.filter((one) => one.getBoundingClientRect().right > 391).map(named),
                small: all.filter((one) => own(one) && parseFloat(getComputedStyle(one).fontSize) < 14).map(named),
                low: targets.filter((one) => one.getBoundingClientRect().height < 44).map(named),
                targets: targets.length,
                scale: [...document.querySelectorAll("svg")].map((one) => one.clientWidth / one.viewBox.baseVal.width),
            };
        }"""
    )
    assert (found["wide"], found["small"], found["low"]) == ([], [], [])
    assert found["width"] <= 390
    assert found["targets"] >= 16
    assert all(scale > 0.97 for scale in found["scale"])  # so that a picture's 14 pixels are 14 pixels
    first = page.evaluate("() => document.getElementById('sure').getBoundingClientRect().bottom")
    assert first < 844  # policy, speed and guarantee are on the first screen


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_barrier(opened, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[browser]'")
    page = opened(replace(BASE, risk=("text", 0.7)), viewport={"width": width, "height": 800}, color_scheme=scheme)
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
