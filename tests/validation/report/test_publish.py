"""paper_repro.md agrees with its source files, and a change on either side is noticed."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import hlmtheory
from hlmtheory.claims import Claim
from validation.claims.certificate import PLACE
from validation.claims.results import Results
from validation.errors import UserError
from validation.plots import EXHIBITS
from validation.report.publish import (
    REWORDED,
    publish,
    regenerate,
    stale_tables,
    tables,
)

ROOT = Path(__file__).resolve().parents[3]
CHANGED_CLAIM = ["paper_repro.md: pairs", "figures/claims.csv"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the pages and their sources, which a test may change."""
    shutil.copy(ROOT / "paper_repro.md", tmp_path)
    shutil.copytree(ROOT / "figures", tmp_path / "figures")
    (tmp_path / PLACE).parent.mkdir(parents=True)
    shutil.copy(ROOT / PLACE, tmp_path / PLACE)
    return tmp_path


def test_the_page_is_not_stale() -> None:
    assert stale_tables(ROOT) == []


def test_every_sidecar_has_the_words_of_its_exhibit() -> None:
    for sidecar in [*ROOT.glob("figures/*.json"), *ROOT.glob("figures/*/*.json")]:
        if sidecar.name == "claims.json":
            continue
        about = json.loads(sidecar.read_text(encoding="utf-8"))
        one = EXHIBITS[tuple(about["figure"].split(" "))]
        assert {key: about[key] for key in ("title", "caption", "method")} == one.describe(about, about["basis"])
        assert len(about.get("tables", [])) <= 1, sidecar.name


def recorded() -> Results:
    """The results of the built-in pair's published run."""
    record = json.loads((ROOT / "figures" / "claims.json").read_text(encoding="utf-8"))
    return Results.from_json(json.dumps(record["results"]))


def outcomes(root: Path) -> dict[str, str]:
    """The outcome of each claim in figures/claims.csv."""
    with (root / "figures" / "claims.csv").open(encoding="utf-8", newline="") as file:
        return {row["Claim"]: row["Outcome"] for row in csv.DictReader(file)}


def test_every_published_claim_stands_in_the_table() -> None:
    assert {name for name in hlmtheory.all_claims() if name in recorded().tallies} <= set(outcomes(ROOT))


def test_no_recorded_verdict_contradicts_its_claim() -> None:
    found = {name: tally.outcome for name, tally in recorded().tallies.items()}
    assert [name for name, outcome in found.items() if outcome in ("violated", "inconclusive", "out of scope")] == []


@pytest.fixture
def one_more(monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A claim that was added after the published run."""
    known = hlmtheory.all_claims()
    added = replace(known["truncation.tvd_sharp"], id="truncation.added")
    monkeypatch.setattr(hlmtheory, "all_claims", lambda: {**known, added.id: added})
    return added


def test_a_new_claim_makes_no_table_stale_and_is_shown_as_not_yet_published(one_more: Claim, copy: Path) -> None:
    assert stale_tables(copy) == []
    regenerate(copy)
    assert outcomes(copy)[one_more.id] == "not yet published"
    assert stale_tables(copy) == []


def test_a_claim_that_says_something_else_than_the_page_is_noticed(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = hlmtheory.all_claims()
    changed = replace(known["truncation.tvd_sharp"], statement="TV(r, r̂) = 0")
    monkeypatch.setattr(hlmtheory, "all_claims", lambda: {**known, changed.id: changed})
    assert stale_tables(copy) == CHANGED_CLAIM  # its verdict, on the old statement, no longer counts


def test_a_verdict_on_another_statement_does_not_count(copy: Path) -> None:
    path = copy / "figures" / "claims.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["statements"] |= {"truncation.tvd_sharp": "TV(r, r̂) = 0"}
    path.write_text(json.dumps(record), encoding="utf-8")
    assert stale_tables(copy) == CHANGED_CLAIM
    regenerate(copy)
    assert outcomes(copy)["truncation.tvd_sharp"] == "not yet published"


def test_a_verdict_on_a_statement_in_other_words_counts(copy: Path) -> None:
    words = json.loads(REWORDED.read_text(encoding="utf-8"))
    assert words
    now, record = hlmtheory.all_claims(), copy / "figures" / "claims.json"
    said = json.loads(record.read_text(encoding="utf-8"))["statements"]
    for name, one in words.items():
        assert one["after"] == now[name].statement
        assert one["after"] not in one["before"]
        assert said[name] in (*one["before"], one["after"])  # in the words of the run, or published since
    assert [name for name in words if outcomes(copy)[name] == "not yet published"] == []


@pytest.fixture
def run_again(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run with the published results but other stamps, as on another day."""
    run = tmp_path / "run"
    shutil.copytree(
        copy / "figures",
        run / "figures",
        ignore=shutil.ignore_patterns("claims.json", "*.csv", "wide", "instr*", "smollm2", "studies"),
    )
    record = json.loads((copy / "figures" / "claims.json").read_text(encoding="utf-8"))
    record["statements"] = {n: hlmtheory.all_claims()[n].statement for n in record["results"]["tallies"]}
    (copy / "figures" / "claims.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    regenerate(copy)
    (run / "claims.json").write_text(json.dumps({**record["results"], "seconds": 1.0}), encoding="utf-8")
    for sidecar in run.glob("figures/*.json"):
        about = json.loads(sidecar.read_text(encoding="utf-8"))
        sidecar.write_text(json.dumps({**about, "command": "hlm again", "commit": "0" * 40}), encoding="utf-8")
    monkeypatch.setattr("validation.report.publish.open_trace", lambda path: SimpleNamespace(manifest={}))
    monkeypatch.setattr("validation.report.publish._marks", lambda run: {})
    monkeypatch.setattr(
        "validation.report.publish._run_facts", lambda manifest, name: {**record["run"], "created": "now"}
    )
    return run


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every published file."""
    pages = [folder / "paper_repro.md", folder / PLACE]
    return {str(path): path.read_bytes() for path in [*pages, *folder.glob("figures/**/*.*")]}


def test_a_run_that_finds_the_same_changes_no_file(copy: Path, run_again: Path) -> None:
    before = contents(copy)
    written = publish(run_again, copy / "nothing", copy)
    assert contents(copy) == before
    assert written == [copy / "paper_repro.md"]


def test_a_run_that_finds_another_number_changes_what_shows_it(copy: Path, run_again: Path) -> None:
    before = contents(copy)
    sidecar = run_again / "figures" / "cu-hlm-fig6.json"
    sidecar.write_text(sidecar.read_text().replace("0.9763", "0.9999"))
    picture = run_again / "figures" / "cu-hlm-fig6.svg"
    picture.write_text(picture.read_text() + "<!-- redrawn -->")
    publish(run_again, copy / "nothing", copy)
    after = contents(copy)
    changed = {Path(name).name for name in after if after[name] != before[name]}
    assert changed == {"cu-hlm-fig6.json", "cu-hlm-fig6.svg"}


def test_a_claim_that_is_missing_is_noticed(copy: Path) -> None:
    table = copy / "figures" / "claims.csv"
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    table.write_text("".join(line for line in lines if ",truncation.tvd_sharp," not in line), encoding="utf-8")
    assert stale_tables(copy) == ["figures/claims.csv"]


def test_a_claim_that_a_pair_was_not_checked_on_is_counted(copy: Path) -> None:
    path = copy / "figures" / "wide" / "claims.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    before = tables(copy)["paper_repro.md"]["pairs"]
    del record["results"]["tallies"]["truncation.tvd_sharp"]
    path.write_text(json.dumps(record), encoding="utf-8")
    after = tables(copy)["paper_repro.md"]["pairs"]
    assert after != before
    missing = [line for line in after.splitlines() if line.startswith("| claims newer than the record, not measured |")]
    assert len(missing) == 1


def test_a_check_of_the_first_positions_alone_is_said(copy: Path) -> None:
    path = copy / "figures" / "wide" / "claims.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["results"]["positions"] = 1_280
    path.write_text(json.dumps(record), encoding="utf-8")
    (row,) = [line for line in tables(copy)["paper_repro.md"]["pairs"].splitlines() if "of them checked" in line]
    assert row.endswith("| 1,280 |")


def test_a_verdict_on_a_claim_that_is_no_more_is_counted_as_withdrawn(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = hlmtheory.all_claims()
    monkeypatch.setattr(hlmtheory, "all_claims", lambda: {n: c for n, c in known.items() if n != "channel.markov"})
    assert "| claims simulated: withdrawn | 1 |" in tables(copy)["paper_repro.md"]["pairs"]
    assert stale_tables(copy) == [CHANGED_CLAIM[0], PLACE.as_posix(), CHANGED_CLAIM[1]]


def test_a_changed_verdict_is_noticed(copy: Path) -> None:
    path = copy / "figures" / "claims.json"
    record = json.loads(path.read_text())
    record["results"]["tallies"]["truncation.tvd_sharp"]["violated"] += 1
    path.write_text(json.dumps(record))
    assert stale_tables(copy) == CHANGED_CLAIM


def test_a_changed_simulated_verdict_makes_the_certificate_stale(copy: Path) -> None:
    path = copy / "figures" / "claims.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["results"]["tallies"]["channel.markov"]["instances"] += 1
    path.write_text(json.dumps(record), encoding="utf-8")
    assert PLACE.as_posix() in stale_tables(copy)
    regenerate(copy)
    assert stale_tables(copy) == []
    (copy / PLACE).unlink()
    assert stale_tables(copy) == [PLACE.as_posix()]


def test_a_run_that_checked_fewer_claims_is_not_published(copy: Path, run_again: Path) -> None:
    """It would empty the certificate, and the table of claims."""
    path = run_again / "claims.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    results["tallies"] = {name: one for name, one in results["tallies"].items() if one["kind"] == "measured"}
    path.write_text(json.dumps(results), encoding="utf-8")
    before = contents(copy)
    with pytest.raises(UserError, match="run `python3 hlm validate --all-claims` first"):
        publish(run_again, copy / "nothing", copy)
    assert contents(copy) == before


def test_a_changed_number_on_the_page_is_noticed(copy: Path) -> None:
    page = copy / "paper_repro.md"
    page.write_text(page.read_text().replace("| acceptance rate, mean | 0.", "| acceptance rate, mean | 1."))
    assert stale_tables(copy) == ["paper_repro.md: pairs"]


def test_a_changed_figure_is_noticed(copy: Path) -> None:
    path = copy / "figures" / "ours-fig8.json"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("a rate fitted at K = 1 errs by", "a rate fitted at K = 2 errs by"), encoding="utf-8")
    assert stale_tables(copy) == ["paper_repro.md: best"]


@pytest.mark.parametrize("name", ["../../pwn", "..", ".", "", "/tmp/pwn", "a/b", "a\\b", "-x", ".hidden", "a\n"])
def test_a_pair_is_published_under_a_plain_name_alone(copy: Path, name: str) -> None:
    before = sorted(copy.parent.rglob("*"))
    with pytest.raises(UserError, match=r"The pair cannot be called .*: start with a letter"):
        publish(copy / "run", copy / "simulated", copy, name)
    assert sorted(copy.parent.rglob("*")) == before


def test_a_missing_record_says_what_to_do(copy: Path) -> None:
    (copy / "figures" / "claims.json").unlink()
    with pytest.raises(UserError, match=r"no figures/claims\.json; run `python3 hlm validate`"):
        tables(copy)
