"""The report and the generated tables."""

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hlmtheory
from tests.validation.html_elements import Elements
from validation.claims.certificate import certificate
from validation.claims.check import Results, Tally, check_trace
from validation.errors import UserError
from validation.plots import FIGURES, draw
from validation.provenance import REPOSITORY
from validation.report.citations import bibliography, cite, in_print
from validation.report.first_screen import Length, partition, partition_table, what_to_send
from validation.report.html import write_report
from validation.report.tables import plain_cells, table_row, update_between_markers
from validation.site.pages import ROOT
from validation.trace.reader import TraceWriter, open_trace

EVIL = "<script>alert(1)</script>"
OBEYED = "\x00\x1b[31m\u202e"
CLAIMS = hlmtheory.all_claims()
DRAWN = ("cu-hlm 2", "cu-hlm 5a", "cu-hlm 6", "u-hlm 4", "ours 5", "ours II")
SHOWN = [FIGURES[tuple(name.split())] for name in DRAWN]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """120 positions over 40 entries, with a prompt and a pair name that contain markup."""
    rng = np.random.default_rng(0)
    draft = rng.normal(0, 2, (120, 40))
    manifest = {
        "pair": {"name": f"pair {EVIL}{OBEYED}", "small_name": "s", "large_name": "l", "small_parameters": 1500},
        "prompts": [
            {"id": EVIL, "text": f'one {EVIL} & "two" \'{OBEYED}', "source": EVIL + OBEYED},
            {"id": "long", "text": "word " * 300, "source": "a book"},
        ],
        "seed": 7,
        "notes": [EVIL],
    }
    path = tmp_path_factory.mktemp("traces") / "trace"
    zeros = np.zeros(120, dtype=np.int32)
    with TraceWriter(path, 40, manifest) as writer:
        writer.append(draft, draft + rng.normal(0, 1, draft.shape), zeros, zeros, np.arange(120))
    return open_trace(path)


@pytest.fixture(scope="module")
def results(trace):
    released = certificate()
    here = {name: claim for name, claim in CLAIMS.items() if name not in released.tallies}
    return released.completed(check_trace(trace, seed=3, claims=here))


@pytest.fixture(scope="module")
def page(trace, results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    figures = [draw(one, trace, folder / "figures", command="hlm figure", seed=1)[0] for one in SHOWN]
    command = f"hlm validate --prompts '{EVIL}'"
    path = write_report(folder / "new", results=results, manifest=trace.manifest, figures=figures, command=command)
    assert path == folder / "new" / "report.html"
    return path.read_text(encoding="utf-8")


def test_every_claim_is_in_the_report_with_its_source(page):
    text, printed = Elements(page).text, in_print()
    plain = re.sub(r"[_^{}]", "", text)
    for name, claim in CLAIMS.items():
        assert name in text
        assert cite(claim.source) in text
        reading = plain.index(re.sub(r"[_^{}]", "", claim.statement))
        words = [said for place, said in printed.get(name, {}).items() if place != "letters"]
        assert bool(words) == (claim.standing in ("refuted", "misprint"))
        assert all(re.sub(r"[_^{}]", "", said) in plain[:reading] for said in words)  # the paper speaks first
        sides = table_row(claim, None)["sides"]
        assert sides is None or (sides in text and len({*sides.split()}) == 3)  # the two sides differ in print


def test_figures_for_a_deployment_come_first(page):
    places = [page.index(f'id="{one.stem}"') for one in sorted(SHOWN, key=lambda one: not one.for_deployment)]
    assert places == sorted(places)


def test_every_tag_is_closed_and_ids_are_unique(page):
    elements = Elements(page)
    assert elements.open == []
    ids = Counter(attributes["id"] for _, attributes in elements.found if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    links = [value for _, a in elements.found for key, value in a.items() if key.endswith("href")]
    assert {link[1:] for link in links if link[0] == "#"} <= set(ids)
    assert set(re.findall(r"url\(#([^)]*)\)", page)) <= set(ids)


def test_text_from_outside_is_escaped(page):
    assert EVIL not in page
    assert not set(page) & set("\x00\x1b\u202e")
    assert r"\x00\x1b[31m\u202e" in page
    assert "script" not in {tag for tag, _ in Elements(page).found}
    assert Elements(page).text.count(EVIL) >= 13  # pair, also of figures, source of a prompt, note, command


def test_nothing_is_loaded_from_elsewhere(page):
    """The only addresses are links to the sources and to pages of the repository, which a reader must click."""
    elements = Elements(page)
    links = {a["href"] for tag, a in elements.found if tag == "a" and not a["href"].startswith("#")}
    pages = {link for link in links if link.startswith(f"{REPOSITORY}/blob/main/")}
    assert all((ROOT / link.removeprefix(f"{REPOSITORY}/blob/main/")).is_file() for link in pages)
    assert links - pages == {link for entry in bibliography().values() if (link := entry["link"])} & links
    assert len(links) > 5
    assert all(link.startswith(("https://doi.org/", "https://arxiv.org/abs/")) for link in links - pages)
    rest = re.sub(r"data:image/png;base64,[^\"]*", "", page)
    for link in links:
        rest = rest.replace(f'href="{link}"', "")
    assert "http" not in rest.replace("http-equiv", "")
    assert "//" not in rest
    assert "@import" not in page
    assert not {tag for tag, _ in elements.found} & {"link", "script", "iframe", "object", "embed", "base", "img"}
    others = ((key, one) for tag, attributes in elements.found if tag != "a" for key, one in attributes.items())
    here = [one for key, one in others if key == "src" or key.endswith("href")]
    assert all(one.startswith(("#", "data:image/png;base64,")) for one in here)


def with_tally(results: Results, **changes: Any) -> Results:
    tally = replace(results.tallies["truncation.tvd_sharp"], **changes)
    return replace(results, tallies={**results.tallies, tally.claim: tally})


def test_every_statement_is_counted_once(results):
    """The partition adds up, with every outcome and every kind of data present."""
    true = [name for name, claim in CLAIMS.items() if claim.refuted is None]
    undecided, empty = Tally(true[0], instances=9, inconclusive=9), Tally(true[1], instances=9, out_of_scope=9)
    tallies = {**results.tallies, true[0]: undecided, true[1]: empty}
    del tallies[true[2]]
    changed = with_tally(replace(results, tallies=tallies), violated=1)
    for one in (results, changed):
        counts = partition(CLAIMS, one)
        assert sum(sum(row.values()) for row in counts.values()) == len(CLAIMS)
        *rows, last = partition_table(counts, {"vacuous": counts["holds"]})
        assert last["total"] == len(CLAIMS) == sum(row["total"] for row in rows if row["head"])
        assert [sum(cells) for cells in zip(*(r["cells"] for r in rows if r["outcome"]), strict=True)] == last["cells"]
        assert [row["cells"] for row in rows if row["part"]] == [list(counts["holds"].values())]
    assert {name for name, row in counts.items() if any(row.values())} == set(counts) - {"not confirmed"}


def test_what_to_send_is_counted_in_bits(results, tmp_path):
    known = {"bits": [100.0, None], "ends": [[80, 1600], []]}
    statistics = {"epsilon": [0.05, 0.2], **{name: {"cheapest codec": each} for name, each in known.items()}}
    (table := tmp_path / "ours-tableV.json").write_text(json.dumps({"statistics": statistics}), encoding="utf-8")
    known = replace(results, summary={"size_for_bias_0.05": 10.0, "size_for_bias_0.2": 2.5})
    found = what_to_send(known, 4096, [table])
    assert found["full"] == 4096 * 32
    cells = [[row[name] for name in ("bias", "top_k", "bits", "smallest")] for row in found["rows"]]
    assert cells == [[0.05, 10.0, 440.0, 100.0], [0.2, 2.5, 110.0, None]]
    assert found["rows"][0]["factor"] == pytest.approx(131072 / 440)
    assert [row["smallest_ends"] for row in found["rows"]] == [[131072 / 1600, 131072 / 80], []]
    assert [row["bits"] for row in what_to_send(known, None, [])["rows"]] == [None, None]
    assert [row["bias"] for row in what_to_send(results, 40, [])["rows"]] == [0.01, 0.05, 0.1, 0.2]


@pytest.mark.parametrize(
    ("changes", "said"), [({"violated": 2, "holds": 118, "worst_slack": -0.25}, "✗ violated"), (None, "· not checked")]
)
def test_a_claim_that_is_violated_or_was_not_checked_shows(results, tmp_path, changes, said):
    name = "truncation.tvd_sharp"
    fewer = replace(results, tallies={n: t for n, t in results.tallies.items() if n != name})
    changed = with_tally(results, **changes) if changes else fewer
    page = write_report(tmp_path, results=changed, manifest={}, figures=[], command="").read_text(encoding="utf-8")
    assert said in page
    assert said[2:] == plain_cells(table_row(CLAIMS[name], changed.tallies.get(name)))[0]
    assert ("<b>One claim is violated</b>" in page) == bool(changes)


def test_each_kind_of_drafts_has_its_best_length_and_the_box_the_whole_answer(results, tmp_path):
    (picture := tmp_path / "plan.svg").write_text("<svg></svg>")
    lengths = [(k, [Length(1.0, 1.5, 40.0 + k, 1.25), Length(1.0, 1.75, 50.0 - k, None)]) for k in (1, 2)]
    plan = {"answer": ["Guarantee: b, if c"], "options": "", "assumed": [], "lengths": lengths, "picture": picture}
    plan["sources"] = [("prompt", 1, 1, 1, 1, 1.5, 41.0)]
    page = write_report(tmp_path, results=results, manifest={}, figures=[], command="", plan=plan).read_text("utf-8")
    assert re.findall('class="n best">([^<]*)<', page) == ["1.75", "49.0", "never", "1.50", "42.0", "1.25×"]
    assert "b, if c" in page[: page.index('<div class="beside">')]


TEXT = "above\n<!-- begin generated: a -->\nold\n<!-- end generated: a -->\nbelow\n"


@pytest.mark.parametrize("text", ["", TEXT.replace("begin", "start"), TEXT + TEXT])
def test_missing_markers_are_refused(text):
    with pytest.raises(UserError, match="begin generated: a"):
        update_between_markers(text, "a", "1")
