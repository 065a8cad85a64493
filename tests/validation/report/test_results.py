"""The pages of results are short, their links and anchors lead somewhere, and their choices name what exists."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest

import hlmtheory
from validation.plots import EXHIBITS
from validation.report.results import INTRODUCTIONS, paper_page, sections, site_pages, slug
from validation.report.verdicts import BEST, COUNTEREXAMPLE, COVERAGE, MAIN_RESULTS, MEASURED, PROMPTS, TOO_FEW

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "paper_repro.md", *sorted((ROOT / "docs" / "results").glob("*.md"))]
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)


@cache
def page_of(paper: str) -> str:
    """The text of the page with a paper's exhibits, as the site has it."""
    return paper_page(ROOT / "figures", paper)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, with GitHub's numbers for repeated ones."""
    found: dict[str, int] = {}
    names = []
    for title in re.findall(r"^#{1,6} (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        name = slug(title)
        names.append(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return set(names)


def targets(page: Path) -> list[str]:
    return [next(filter(None, found)) for found in LINK.findall(page.read_text(encoding="utf-8"))]


def broken(page: Path) -> list[str]:
    """The links of a page that lead to no file or to no heading."""
    lost = []
    for target in targets(page):
        path, _, anchor = target.partition("#")
        if path.startswith(("https://", "http://")):
            continue
        there = (page.parent / path).resolve() if path else page
        if not there.is_file() or (anchor and anchor not in anchors(there)):
            lost.append(target)
    return lost


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_an_anchor(page: Path):
    assert targets(page)
    assert broken(page) == []


def test_a_broken_link_is_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n\n[a](#one) [b](#two) [c](page.md#one) ![d](no.svg) [`e`]\n\n[`e`]: page.md#three\n", encoding="utf-8"
    )
    assert broken(page) == ["#two", "no.svg", "page.md#three"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_are_unique(page: Path):
    titles = [slug(title) for title in re.findall(r"^#{1,6} (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_claim_that_a_page_names_exists(page: Path):
    text = page.read_text(encoding="utf-8")
    claims, modules = hlmtheory.all_claims(), {name.partition(".")[0] for name in hlmtheory.all_claims()}
    named = [name for name in re.findall(r"`(\w+\.\w+)`", text) if name.partition(".")[0] in modules]
    assert [name for name in named if name not in claims] == []
    assert page.name not in ("paper_repro.md", "new.md", "refuted.md") or named


def test_every_exhibit_stands_on_its_paper_s_page():
    for one in EXHIBITS.values():
        assert f"\n## {one.place.replace('Fig.', 'Figure')}\n" in page_of(one.paper), one.stem
    assert {one.paper for one in EXHIBITS.values()} == {*INTRODUCTIONS}


def test_each_file_of_an_exhibit_has_its_section_on_the_site():
    pages = site_pages(ROOT)
    for file, place in sections().items():
        assert (ROOT / file).is_file() or file.endswith(".svg")
        page, _, anchor = place.partition("#")
        assert anchor in {slug(title) for title in re.findall(r"^## (.+)$", pages[page], re.MULTILINE)}


def test_no_page_that_the_site_makes_is_in_the_repository():
    assert [page for page in site_pages(ROOT) if (ROOT / "docs" / page).exists()] == []


def test_a_changed_number_shows_on_the_page_of_the_site(tmp_path: Path):
    shutil.copytree(ROOT / "figures", tmp_path / "figures", ignore=shutil.ignore_patterns("studies", "*.svg"))
    sidecar = tmp_path / "figures" / "cu-hlm-fig6.json"
    sidecar.write_text(sidecar.read_text(encoding="utf-8").replace("0.9763", "0.9999"), encoding="utf-8")
    pages = site_pages(tmp_path)
    assert "0.9999" in pages["results/cu-hlm.md"]
    assert "results/audit.md" not in pages  # its study was not copied


def test_the_chosen_results_name_what_exists():
    claims = hlmtheory.all_claims()
    assert [one for one in MAIN_RESULTS if one.claim and one.claim not in claims] == []
    assert [one for one in MAIN_RESULTS if one.exhibit and one.exhibit not in EXHIBITS] == []
    assert [one for one in MAIN_RESULTS if not one.claim and not one.verdict] == []
    assert len(BEST) == 5
    assert set(BEST) <= set(EXHIBITS)


def test_one_bar_holds_for_all_measurements():
    """Too few prompts cannot say; what was measured on enough of them, or on positions, is a measurement."""
    for one in MAIN_RESULTS:
        if one.verdict and one.exhibit and not one.claim and not one.verdict.startswith(COUNTEREXAMPLE):
            basis = json.loads((ROOT / "figures" / f"{EXHIBITS[one.exhibit].stem}.json").read_text("utf-8"))["basis"]
            prompts = [int(count) for count in re.findall(r"(?:prompts: )?\b(\d+) (?:prompts|of GSM8K)", basis)]
            sign = TOO_FEW if prompts and min(prompts) < PROMPTS else MEASURED
            assert one.verdict.startswith(sign), (one.paper, one.place, prompts)


def test_each_sign_of_the_verdicts_is_in_the_legend():
    page = (ROOT / "paper_repro.md").read_text(encoding="utf-8")
    legend, table = page.split("<!-- begin generated: verdicts -->")
    signs = {line.split(" | ")[3][0] for line in table.split("<!-- end")[0].splitlines()[3:] if line.startswith("| ")}
    assert signs == {"✓", COUNTEREXAMPLE, MEASURED, TOO_FEW}
    assert all(f"\n- {sign} " in legend for sign in signs - {"✓"})
    assert f"fewer than {PROMPTS} prompts" in legend


def test_the_coverage_names_each_exhibit_of_a_paper_once():
    named = [(one.paper, number) for one in COVERAGE for number in one.exhibits]
    assert sorted(named) == sorted(key for key in EXHIBITS if key[0] != "ours")


def test_every_table_is_on_its_page():
    for one in EXHIBITS.values():
        page = page_of(one.paper)
        for sidecar in (ROOT / "figures").glob(f"**/{one.stem}.json"):
            for table in json.loads(sidecar.read_text(encoding="utf-8")).get("tables", []):
                assert f"| {' | '.join(head.replace('*', chr(92) + '*') for head in table['heads'])} |" in page
