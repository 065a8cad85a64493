"""The report and the generated tables."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape
from rich.console import Console

import hlmtheory
from hlmtheory.claims import FALSE, Source
from validation.claims.certificate import certificate
from validation.claims.check import Results, Tally, check_trace
from validation.claims.instances import measured
from validation.cli.claims import ROOT, show_claim
from validation.cli.display import verdict_screen
from validation.errors import UserError
from validation.plots import FIGURES, Table, draw
from validation.report.citations import bibliography, cite
from validation.report.first_screen import partition, partition_table, what_to_send
from validation.report.html import stale, summary, update_between_markers, write_report
from validation.report.symbols import topic
from validation.report.tables import markdown_table, plain_cells, table_row
from validation.trace.reader import Trace, TraceWriter, open_trace

EVIL = "<script>alert(1)</script>"
OBEYED = "\x00\x1b[31m\u202e"
CLAIMS = hlmtheory.all_claims()
SHOWN = [
    FIGURES[key]
    for key in (("cu-hlm", "2"), ("cu-hlm", "5a"), ("cu-hlm", "6"), ("u-hlm", "4"), ("ours", "5"), ("ours", "II"))
]
TABLE = {
    "title": "numbers",
    "caption": "a-paper Table I: They agree. Theirs and ours.",
    "method": "By hand.",
    "printed": [],
    "tables": [Table("What is printed", ("what", "value"), (("gain", "44.9%"),)).plain()],
}


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
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
def results(trace: Trace) -> Results:
    """The results of the check on the trace, with those of the release on what does not depend on it."""
    released = certificate()
    here = {name: claim for name, claim in CLAIMS.items() if name not in released.tallies}
    return released.completed(check_trace(trace, seed=3, claims=here))


@pytest.fixture(scope="module")
def page(trace: Trace, results: Results, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of the whole report."""
    folder = tmp_path_factory.mktemp("report")
    figures = [draw(one, trace, folder / "figures", command="hlm figure", seed=1)[0] for one in SHOWN]
    (folder / "figures" / "table.json").write_text(json.dumps(TABLE))
    figures.append(folder / "figures" / "table.json")
    command = f"hlm validate --prompts '{EVIL}'"
    path = write_report(
        folder / "new",
        results=results,
        manifest=trace.manifest,
        figures=figures,
        command=command,
        trace="runs/it/trace",
    )
    assert path == folder / "new" / "report.html"
    return path.read_text(encoding="utf-8")


class Elements(HTMLParser):
    """A parser that collects every start tag with its attributes, and the text outside of style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text += data


# -------------------------------------------------------------------------------------------------------- HTML


def test_every_claim_is_in_the_report_with_its_source(page: str):
    text = Elements(page).text
    for name, claim in CLAIMS.items():
        assert name in text
        assert cite(claim.source) in text
        plain = re.sub(r"[_^{}]", "", claim.statement)
        assert plain in re.sub(r"[_^{}]", "", text)


def test_every_tag_is_closed_and_ids_are_unique(page: str):
    elements = Elements(page)
    assert elements.open == []
    ids = Counter(attributes["id"] for _, attributes in elements.found if "id" in attributes)
    assert [name for name, count in ids.items() if count > 1] == []
    links = {
        value[1:] for _, a in elements.found for key, value in a.items() if key.endswith("href") and value[0] == "#"
    }
    assert links <= set(ids)
    assert set(re.findall(r"url\(#([^)]*)\)", page)) <= set(ids)


def test_text_from_outside_is_escaped(page: str):
    assert EVIL not in page
    assert not set(page) & set("\x00\x1b\u202e")
    assert r"\x00\x1b[31m\u202e" in page
    assert "script" not in {tag for tag, _ in Elements(page).found}
    text = Elements(page).text
    assert f'one {EVIL} & "two" \'' in text
    assert text.count(EVIL) >= 6  # prompt, its id, its source, pair, note, command


def test_nothing_is_loaded_from_elsewhere(page: str):
    """The only addresses are links to the sources, which a reader must click."""
    elements = Elements(page)
    links = {a["href"] for tag, a in elements.found if tag == "a" and not a["href"].startswith("#")}
    assert links == {link for entry in bibliography().values() if (link := entry["link"])} & links
    assert len(links) > 5
    assert all(link.startswith(("https://doi.org/", "https://arxiv.org/abs/")) for link in links)
    rest = re.sub(r"data:image/png;base64,[^\"]*", "", page)
    for link in links:
        rest = rest.replace(f'href="{link}"', "")
    assert "http" not in rest.replace("http-equiv", "")
    assert "//" not in rest
    assert "@import" not in page
    loads = {tag for tag, _ in elements.found} & {"link", "script", "iframe", "object", "embed", "base", "img"}
    assert loads == set()
    for tag, attributes in elements.found:
        for name, value in attributes.items():
            if name == "src" or (name.endswith("href") and tag != "a"):
                assert value.startswith(("#", "data:image/png;base64,"))


def test_the_figures_are_inlined_with_their_captions(page: str):
    elements = Elements(page)
    drawn = [attributes for tag, attributes in elements.found if tag == "svg"]
    names = [f"{f.paper} Figure {f.number}: {f.title}." for f in SHOWN if f.paint is not None]
    for attributes, name in zip(drawn, names, strict=True):
        assert attributes["aria-label"].startswith(name)
        assert len(attributes["aria-label"]) > len(name) + 20  # the message
    assert "cu-hlm Figure 5a: The draft model's probabilities by descending rank" in elements.text
    assert "Printed: correlation coefficient of TVD and bias 0.9763" in elements.text


def test_the_table_of_an_exhibit_is_shown_without_a_picture(page: str):
    text = Elements(page).text
    said = [text.index(part) for part in ("a-paper Table I: numbers", "They agree.", "Theirs and ours.", "44.9%")]
    assert said == sorted(said)
    assert "What is printed" in text
    assert "44.9%" in text


def test_a_long_prompt_is_cut(page: str):
    assert "word " * 70 in page
    assert "word " * 90 not in page


def test_the_counterexamples_are_shown(page: str):
    text = Elements(page).text
    assert "target = (0.25, 0.5, 0.25), draft = (0.5, 0.25, 0.25), token = 0: left 0.875, right 1" in text
    assert "target = (22/39, 1/3, 4/39), draft = (7/13, 1/3, 5/39), k = 0: left 0.8, right 0" in text


def test_no_counterexample_fills_a_page():
    rows = [table_row(claim, None) for claim in CLAIMS.values()]
    shown = {row["id"]: row["refuted"] for row in rows if row["refuted"]}
    assert shown["conformal.regret"].startswith("drafts = ((0.005 × 200), (0.005 × 200)), ")
    assert max(map(len, shown.values())) < 300


def test_a_claim_is_shown_with_its_proof(capsys: pytest.CaptureFixture[str]):
    for name in ("truncation.worst_case", "truncation.tvd_sharp", "truncation.size_certified"):
        show_claim(Console(width=200, soft_wrap=True), CLAIMS[name])
        said = re.search(r"proof: (\S+), line (\d+): ", capsys.readouterr().out)
        assert said
        assert name.split(".")[1] in (ROOT / said[1]).read_text(encoding="utf-8").splitlines()[int(said[2]) - 1]


def test_a_report_without_figures_and_prompts(results: Results, tmp_path: Path):
    page = write_report(tmp_path, results=results, manifest={}, figures=[], command="hlm").read_text(encoding="utf-8")
    assert ">Figures<" not in page
    assert ">Prompts<" not in page


# ----------------------------------------------------------------------------------------------------- outcomes


def with_tally(results: Results, **changes: Any) -> Results:
    """Return the results with one claim's tally changed."""
    tally = replace(results.tallies["truncation.tvd_sharp"], **changes)
    return replace(results, tallies={**results.tallies, tally.claim: tally})


def test_the_summary_counts_outcomes(results: Results):
    standings = Counter(claim.standing for claim in CLAIMS.values())
    counts = summary(CLAIMS, results)
    assert counts["claims"] == len(CLAIMS)
    assert counts["held"] == standings["true"]
    assert {kind: counts[kind] for kind in FALSE.values()} == {kind: standings[kind] for kind in FALSE.values()}
    assert counts["measured"] + counts["simulated"] == len(CLAIMS)
    assert counts["violated"] == counts["inconclusive"] == counts["not checked"] == counts["not confirmed"] == 0
    assert counts["vacuous"] == sum(t.vacuous > 0 for t in results.tallies.values() if t.outcome not in FALSE.values())


def test_every_statement_is_counted_once(results: Results):
    """The partition adds up, with every outcome and every kind of data present."""
    true = [name for name, claim in CLAIMS.items() if claim.refuted is None]
    undecided = Tally(true[0], instances=9, inconclusive=9)
    empty = Tally(true[1], instances=9, out_of_scope=9)
    tallies = {**results.tallies, true[0]: undecided, true[1]: empty}
    del tallies[true[2]]
    changed = with_tally(replace(results, tallies=tallies), violated=1)
    for one in (results, changed):
        counts = partition(CLAIMS, one)
        assert sum(sum(row.values()) for row in counts.values()) == len(CLAIMS)
        *rows, last = partition_table(counts)
        assert last["total"] == len(CLAIMS) == sum(row["total"] for row in rows if row["head"])
        assert [sum(cells) for cells in zip(*(r["cells"] for r in rows if not r["head"]), strict=True)] == last["cells"]
        short = summary(CLAIMS, one)
        assert short["held"] == sum(counts["holds"].values())
        for outcome in ("violated", "inconclusive", "out of scope", "not checked", "not confirmed", *FALSE.values()):
            assert short[outcome] == sum(counts[outcome].values()), outcome
    assert {name for name, row in counts.items() if any(row.values())} == set(counts) - {"not confirmed"}


def test_what_to_send_is_counted_in_bits(results: Results, tmp_path: Path):
    table = tmp_path / "ours-tableV.json"
    statistics = {"epsilon": [0.05, 0.2], "bits": {"cheapest codec": [100.0, None]}}
    table.write_text(json.dumps({"statistics": statistics}), encoding="utf-8")
    known = replace(results, summary={"size_for_bias_0.05": 10.0, "size_for_bias_0.2": 2.5})
    found = what_to_send(known, 4096, [table])
    assert found["full"] == 4096 * 32
    assert [(row["bias"], row["top_k"], row["bits"], row["smallest"]) for row in found["rows"]] == [
        (0.05, 10.0, 440.0, 100.0),
        (0.2, 2.5, 110.0, None),
    ]
    assert found["rows"][0]["factor"] == pytest.approx(131072 / 440)
    assert [row["bits"] for row in what_to_send(known, None, [])["rows"]] == [None, None]
    assert [row["bias"] for row in what_to_send(results, 40, [])["rows"]] == [0.01, 0.05, 0.1, 0.2]


def test_every_topic_has_its_notation(page: str):
    for name in {claim.split(".")[0] for claim in CLAIMS}:
        title, rows = topic(name)
        assert title.endswith(".")
        assert rows, name
        assert all(symbol and said for symbol, said, _ in rows)
        assert escape(title) in page


def cells(results: Results, name: str) -> list[str]:
    """The cells of a claim, as in figures/claims.csv."""
    return plain_cells(table_row(CLAIMS[name], results.tallies.get(name)))


def test_what_is_false_is_so_by_its_counterexample_and_not_by_this_run(results: Results):
    name = "conformal.regret"
    for violated, said in ((0, "on no instance here"), (3, "fails on 2.5% here")):
        tally = replace(results.tallies[name], violated=violated, instances=120, out_of_scope=0)
        outcome, *_ = cells(replace(results, tallies={**results.tallies, name: tally}), name)
        assert outcome == f"refuted by counterexample; {said}"
    false = {cells(results, name)[0].partition(";")[0] for name, claim in CLAIMS.items() if claim.standing != "true"}
    assert false == {f"{kind} by counterexample" for kind in ("refuted", "misprint", "false reading")}


def test_false_statements_have_a_table_a_kind(page: str):
    text = Elements(page).text
    text = text[text.index("Each fails on its counterexample") :]
    heads = [text.index(head) for head in ("Printed results that are false", "Misprints", "False readings")]
    assert heads == sorted(heads)
    assert heads[0] < text.index("conformal.regret") < heads[1] < text.index("ofdma.minmax_printed") < heads[2]


def test_report_and_screen_say_how_many_claims_are_of_the_pair(page: str, results: Results):
    measured = sum(tally.kind == "measured" for tally in results.tallies.values())
    true = sum(t.kind == "measured" and t.outcome == "holds" for t in results.tallies.values())
    said = " ".join(Elements(page).text.split())
    assert "No claim is violated. " in said
    of_pair = sum(t.kind == "measured" and not CLAIMS[name].refuted for name, t in results.tallies.items())
    assert f"Of {of_pair} claims that these models decide, {true} hold at 120 positions" in said
    assert f"All statements{measured}{len(CLAIMS) - measured}0{len(CLAIMS)}" in said
    console = Console(file=StringIO(), width=200)
    verdict_screen(console, results)
    shown = " ".join(console.file.getvalue().split())
    assert f"{measured} claims were measured on this pair's positions, {len(CLAIMS) - measured} on simulated" in shown


def test_the_report_opens_with_acceptance_message_plan_and_the_pair_s_claims(page: str, results: Results):
    said = " ".join(Elements(page).text.split())
    opening = said[said.index("The pair") : said.index("What to send, and what it buys")]
    parts = (
        f"{results.summary['acceptance']:.3f} of the drafts are accepted",
        "For a Bias of at most",
        "python3 hlm plan --trace runs/it/trace",
        "claims that these models decide",
        "The papers print",
    )
    places = [opening.index(part) for part in parts]
    assert places == sorted(places)
    assert '<p id="acceptance">' in page


def test_a_trace_of_lists_opens_with_an_interval_of_the_acceptance(results: Results, tmp_path: Path):
    ends = {"acceptance_low": 0.5, "acceptance_high": 0.625}
    page = write_report(tmp_path, results=replace(results, summary=ends), manifest={}, figures=[], command="")
    assert "Between 0.500 and 0.625 of the drafts" in " ".join(Elements(page.read_text("utf-8")).text.split())
    page = write_report(tmp_path, results=replace(results, summary={}), manifest={}, figures=[], command="")
    assert "This run stored no acceptance rate." in page.read_text("utf-8")


def test_report_and_screen_say_which_claims_the_release_has_checked(results: Results, tmp_path: Path):
    """Of a run of ``hlm validate``, which checks the claims that its trace decides."""
    some = replace(results, tallies={name: results.tallies[name] for name in measured(CLAIMS)})
    certified = certificate()
    assert not certified.tallies.keys() & some.tallies.keys()
    released = f"{len(certified.tallies)} other claims do not depend on the models; they were checked by the release, "
    released += f"{certified.commits}."
    newer = len(CLAIMS) - len(some.tallies) - len(certified.tallies)
    page = write_report(tmp_path, results=some, manifest={}, figures=[], command="").read_text(encoding="utf-8")
    said = " ".join(Elements(page).text.split())
    assert released in said
    assert f"All statements{len(some.tallies)}{len(certified.tallies)}{newer}{len(CLAIMS)}" in said
    in_release = re.findall(r"checked by the release(?:, [0-9,]+ undecided)?</dd>", page)
    assert len(in_release) == len(certified.tallies)
    console = Console(file=StringIO(), width=200)
    verdict_screen(console, some)
    shown = " ".join(console.file.getvalue().split())
    assert f"{len(some.tallies)} claims were measured on this pair's positions. {released}" in shown
    assert f"{newer} are newer than the release and were not checked" in shown or not newer


def test_a_violated_claim_shows(results: Results, tmp_path: Path):
    changed = with_tally(results, violated=2, holds=118, worst_slack=-0.25)
    assert summary(CLAIMS, changed)["violated"] == 1
    page = write_report(tmp_path, results=changed, manifest={}, figures=[], command="").read_text(encoding="utf-8")
    assert '<b>1 claim is violated</b>:\n<a href="#claim-truncation.tvd_sharp">' in page
    assert "✗ violated" in page
    assert "−0.25" in page
    assert cells(changed, "truncation.tvd_sharp")[0] == "violated"


def test_a_claim_that_was_not_checked_shows(results: Results, tmp_path: Path):
    fewer = replace(results, tallies={n: t for n, t in results.tallies.items() if n != "truncation.certificate"})
    assert summary(CLAIMS, fewer)["not checked"] == 1
    page = write_report(tmp_path, results=fewer, manifest={}, figures=[], command="").read_text(encoding="utf-8")
    assert "· not checked" in page
    assert cells(fewer, "truncation.certificate")[0] == "not checked"


def test_a_claim_out_of_scope_everywhere_has_no_slack(results: Results):
    empty = Tally("truncation.tvd_sharp", instances=120, out_of_scope=120)
    changed = replace(results, tallies={**results.tallies, empty.claim: empty})
    outcome, *_, origin, scope, slack, ratio, vacuous = cells(changed, empty.claim)
    assert outcome == "out of scope"
    assert (origin, scope, slack, ratio, vacuous) == ("new", "0 measured", "–", "– (1)", "–")


def test_a_share_is_0_or_100_percent_only_if_exactly_so(results: Results):
    for vacuous, shown in ((0, "0%"), (1, "0.8%"), (119, "99.2%"), (120, "100%")):
        assert cells(with_tally(results, vacuous=vacuous), "truncation.tvd_sharp")[-1] == shown


# ----------------------------------------------------------------------------------------------------- Markdown


def test_markdown_is_escaped():
    table = markdown_table({"heads": ["it"], "rows": [[r"a|b \ *c* <d> `e` [f](g) _h_ x_i Δ_{k}"]]})
    assert table.splitlines()[-1] == r"| a\|b \\ \*c\* \<d> \`e\` \[f\](g) \_h\_ x_i Δ\_{k} |"


TEXT = "above\n<!-- begin generated: a -->\nold\n<!-- end generated: a -->\nbelow\n"


def test_a_table_goes_between_its_markers():
    new = update_between_markers(TEXT, "a", "| 1 |\n| 2 |\n")
    assert new == "above\n<!-- begin generated: a -->\n| 1 |\n| 2 |\n<!-- end generated: a -->\nbelow\n"
    assert update_between_markers(new, "a", "| 1 |\n| 2 |") == new


def test_backslashes_of_a_table_stay():
    assert r"\| \1 \g<0>" in update_between_markers(TEXT, "a", r"\| \1 \g<0>")


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT.replace("begin", "start"),
        TEXT.replace("end generated", "done"),
        TEXT + TEXT,
        "<!-- end generated: a --><!-- begin generated: a -->",
    ],
)
def test_missing_markers_are_refused(text: str):
    with pytest.raises(UserError, match="begin generated: a"):
        update_between_markers(text, "a", "1")


def test_stale_names_what_differs(tmp_path: Path):
    path = tmp_path / "page.md"
    path.write_text(TEXT + TEXT.replace(": a", ": b"), encoding="utf-8")
    assert stale(path, {"a": "old", "b": "old"}) == []
    assert stale(path, {"a": "old", "b": "new"}) == ["b"]
    with pytest.raises(UserError, match="generated: c"):
        stale(path, {"c": "old"})


# ---------------------------------------------------------------------------------------------------- citations


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("oh2025cuhlm", "Oh et al. (2025), here"),
        ("reznik2011", "Reznik (2011), here"),
        ("peps", "The authors of the Python Enhancement Proposals (undated), here"),
        ("nobody", "nobody, here"),
    ],
)
def test_a_source_is_cited_by_author_and_year(key: str, text: str):
    assert cite(Source(key, "here")) == text


def test_the_whole_bibliography_is_read():
    text = (Path(__file__).resolve().parents[3] / "validation" / "references.bib").read_text(encoding="utf-8")
    assert list(bibliography()) == re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)
    assert all("{" not in entry["full"] and "\\" not in entry["full"] for entry in bibliography().values())
