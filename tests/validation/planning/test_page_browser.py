"""The page of a plan in a real browser: its numbers are the command's, it sends nothing, and people can use it."""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import pytest

from tests.validation.stored_traces import stored
from validation.planning.page import write_page
from validation.planning.planners import planner_of_trace
from validation.planning.request import Request
from validation.planning.result import make

BASE = Request(rate_bps=8e6, fading="rayleigh", round_trip_s=0.025, draft_s=0.008, verify_s=0.04)


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
def opened(show, folder, whole):
    def of(request: Request = BASE, **view):
        page = show(write_page(folder / "plan.html", whole(request)), **view)
        page.wait_for_selector("#map .point")
        return page

    return of


def test_the_page_follows_its_controls(opened, whole):
    page = opened()
    first = {row["policy"]: row["tokens_per_s_median"]["value"] for row in whole(BASE)["rows"]}
    cell = "Number(row.querySelector('[data-key=median]').dataset.value)"
    cells = f"rows => rows.map(row => [row.querySelector('th').dataset.policy, {cell}])"
    shown = dict(page.eval_on_selector_all("#rows tr", cells))
    assert shown == pytest.approx(first, rel=1e-7)
    page.fill("#rate", "0.2")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    slower = dict(page.eval_on_selector_all("#rows tr", cells))
    assert slower["FlexSpec"] < shown["FlexSpec"]
    assert page.is_hidden("#calibrated")
    page.select_option("#objective", "capacity")
    page.wait_for_selector("#command span:has-text('--objective capacity')")
    best = whole(replace(BASE, objective="capacity", rate_bps=2e5))["aims"][1]["best"]["number"]
    shown = page.get_attribute("#rows .ours [data-key=server]", "data-value")
    assert float(shown) == pytest.approx(1e3 * best, rel=1e-7)
    page.select_option("#up", "draft")
    page.fill("#draft", "200")
    page.wait_for_selector("#map .point[cy='30']")  # the axis's upper end


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_what_no_other_point_beats_has_a_name_and_axe_finds_no_barrier(opened, scheme, width):
    page = opened(replace(BASE, risk=("text", 0.7)), viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert page.evaluate("byId('map').replaceChildren(), render(), byId('map').textContent") == "computing …"
    boxes = "all => all.map(one => one.getBoundingClientRect()).map(({ x, y, width, height }) => [x, y, width, height])"
    names, dots = (page.eval_on_selector_all(f"#quality {one}", boxes) for one in (".label", "circle:not(.ring)"))
    spots = {(x, y) for x, y, *_ in dots if not any(a >= x and b <= y and (a, b) != (x, y) for a, b, *_ in dots)}
    apart = [one for one in spots if not any(one < other and math.dist(one, other) < 6 for other in spots)]
    _, unnamed, listed = page.inner_text("#lines").partition("unnamed")
    assert len(names) + bool(unnamed) + listed.count(";") == len(apart) > 2
    for (x, y, w, h), (a, b, c, d) in product(names, [*names, *dots]):
        assert (x, y) == (a, b) or min(x + w, a + c) - max(x, a) < 1 or min(y + h, b + d) - max(y, b) < 1
    page.wait_for_selector("#map .point")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install '.[browser]'")
    assert page.is_visible("#calibrated") is ("(c)" in page.inner_text("#rows")) is True
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
