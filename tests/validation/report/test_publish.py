"""The page agrees with its source files, a change on either side is noticed, and what is published is of one run."""

import csv
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import hlmtheory
from hlmtheory.claims import Origin
from validation.claims.certificate import PLACE
from validation.errors import UserError
from validation.plots import EXHIBITS, Decoding
from validation.plots.common.stored import SHOWN, digest, records
from validation.report.publish import add_verdicts, publish, regenerate, stale_tables, tables
from validation.report.results import sections, site_pages, slug
from validation.report.tables import table_row

ROOT = Path(__file__).resolve().parents[3]
FIGURES = ROOT / "figures"
CHANGED_CLAIM = ["paper_repro.md: pairs", "paper_repro.md: truncation.tvd_bound", "figures/claims.csv"]


@pytest.fixture
def copy(tmp_path):
    shutil.copy(ROOT / "paper_repro.md", tmp_path)
    shutil.copytree(FIGURES, tmp_path / "figures", ignore=shutil.ignore_patterns("studies"))
    (tmp_path / PLACE).parent.mkdir(parents=True)
    shutil.copy(ROOT / PLACE, tmp_path / PLACE)
    return tmp_path


def changed(root: Path, part: str, name: str, **values: object) -> None:
    path = root / "figures" / "claims.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    where = record["results"]["tallies"][name] if part == "tallies" else record[part]
    where.update(values or {name: "TV(r, r̂) = 0"})
    path.write_text(json.dumps(record), encoding="utf-8")


def test_the_page_is_not_stale_and_no_verdict_contradicts_its_claim():
    assert stale_tables(ROOT) == []
    with (ROOT / "figures" / "claims.csv").open(encoding="utf-8", newline="") as file:
        assert not {row["Outcome"] for row in csv.DictReader(file)} & {"violated", "inconclusive", "out of scope"}


def test_a_changed_verdict_is_noticed_in_the_page_and_in_the_certificate(copy):
    changed(copy, "tallies", "truncation.tvd_bound", violated=1)
    assert stale_tables(copy) == CHANGED_CLAIM
    changed(copy, "tallies", "channel.markov", instances=7)
    assert PLACE.as_posix() in stale_tables(copy)
    regenerate(copy)
    assert stale_tables(copy) == ["paper_repro.md: truncation.tvd_bound"]  # its row is written by hand


@pytest.mark.parametrize(
    ("file", "old", "new", "stale"),
    [
        ("paper_repro.md", "| acceptance rate, mean | 0.", "| acceptance rate, mean | 1.", "paper_repro.md: pairs"),
        ("figures/ours-fig8.json", "fitted at K = 1", "fitted at K = 2", "paper_repro.md: best; ours-fig8.json"),
        ("figures/claims.csv", ",truncation.tvd_sharp,", ",truncation.other,", "figures/claims.csv"),
        ("paper_repro.md", "| ⊘ refuted | can fail", "| ✓ holds | can fail", "paper_repro.md: conformal.regret"),
    ],
)
def test_a_change_by_hand_is_noticed(copy, file, old, new, stale):
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new), encoding="utf-8")
    assert "; ".join(stale_tables(copy)) == stale


def test_a_caption_without_its_number_is_refused(copy):
    file = copy / "figures" / "ours-tableII.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"k_offline":', '"k_other":'), encoding="utf-8")
    regenerate(copy)
    assert stale_tables(copy) == ["ours-tableII.json: a missing number"]


@pytest.fixture
def run_again(copy, tmp_path, monkeypatch):
    run = tmp_path / "run"
    ignored = shutil.ignore_patterns("claims.json", "*.csv", "wide", "instr*", "smollm2", "qwen*")
    shutil.copytree(copy / "figures", run / "figures", ignore=ignored)
    record = json.loads((copy / "figures" / "claims.json").read_text(encoding="utf-8"))
    record["statements"] = {n: hlmtheory.all_claims()[n].statement for n in record["results"]["tallies"]}
    (copy / "figures" / "claims.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    regenerate(copy)
    (run / "claims.json").write_text(json.dumps({**record["results"], "seconds": 1.0}), encoding="utf-8")
    for sidecar in run.glob("figures/*.json"):
        about = json.loads(sidecar.read_text(encoding="utf-8"))
        sidecar.write_text(json.dumps({**about, "command": "hlm again", "commit": "0" * 40}), encoding="utf-8")
    module = "validation.report.publish"
    monkeypatch.setattr(f"{module}.open_trace", lambda path: SimpleNamespace(manifest={}))
    monkeypatch.setattr(f"{module}._marks", lambda run: {})
    monkeypatch.setattr(f"{module}._run_facts", lambda manifest, name: {**record["run"], "created": "now"})
    return run


def contents(folder: Path) -> dict[str, bytes]:
    pages = [folder / "paper_repro.md", folder / PLACE]
    return {str(path): path.read_bytes() for path in [*pages, *folder.glob("figures/**/*.*")]}


def test_a_run_changes_the_files_whose_numbers_it_changes_and_no_other(copy, run_again):
    before = contents(copy)
    assert publish(run_again, copy / "nothing", copy) == [copy / "paper_repro.md"]
    assert contents(copy) == before
    sidecar = run_again / "figures" / "cu-hlm-fig4a.json"
    sidecar.write_text(sidecar.read_text().replace("0.9774", "0.9999"))
    publish(run_again, copy / "nothing", copy)
    assert {Path(name).name for name, text in contents(copy).items() if text != before[name]} == {"cu-hlm-fig4a.json"}


def test_verdicts_are_added_of_one_trace(copy, run_again, monkeypatch):
    file = copy / "figures" / "claims.json"
    record = json.loads(file.read_text(encoding="utf-8"))
    tally = record["results"]["tallies"].pop("verification.acceptance")
    file.write_text(json.dumps(record), encoding="utf-8")
    monkeypatch.setattr("validation.report.publish.fingerprint", lambda trace: record["run"]["trace"])
    add_verdicts(run_again, copy)
    assert json.loads(file.read_text(encoding="utf-8"))["results"]["tallies"]["verification.acceptance"] == tally
    monkeypatch.setattr("validation.report.publish.fingerprint", lambda trace: "another")
    with pytest.raises(UserError, match="has the trace another, and"):
        add_verdicts(run_again, copy)


def test_a_run_that_checked_fewer_claims_is_not_published(copy, run_again):
    path = run_again / "claims.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    results["tallies"] = {name: one for name, one in results["tallies"].items() if one["kind"] == "measured"}
    path.write_text(json.dumps(results), encoding="utf-8")
    before = contents(copy)
    with pytest.raises(UserError, match="run `python3 hlm validate --all-claims` first"):
        publish(run_again, copy / "nothing", copy)
    assert contents(copy) == before


@pytest.mark.parametrize("name", ["../../pwn", "..", "", "/tmp/pwn", "a/b", "a\\b", "-x", ".hidden", "a\n"])
def test_a_pair_is_published_under_a_plain_name_alone(copy, name):
    before = sorted(copy.parent.rglob("*"))
    with pytest.raises(UserError, match=r"The pair cannot be called .*: start with a letter"):
        publish(copy / "run", copy / "simulated", copy, name)
    assert sorted(copy.parent.rglob("*")) == before
    (copy / "figures" / "claims.json").unlink()
    with pytest.raises(UserError, match=r"No figures/claims\.json; run `python3 hlm validate`"):
        tables(copy)


def test_what_is_published_of_a_pair_is_of_one_commit_one_trace_and_one_fit():
    """A figure of a stored experiment is of its record; its trace and fit, if it has them, are those of the pair."""
    prompts = {}
    for record in [FIGURES / "claims.json", *FIGURES.glob("*/claims.json")]:
        run = json.loads(record.read_text(encoding="utf-8"))["run"]
        assert len(set(run["commits"].values())) == 1
        marks = {"commit": run["commits"]["draw"], "trace": run["trace"], "fit": run["fit"]}
        for file in [file for file in record.parent.glob("*.json") if file.name != "claims.json"]:
            about = json.loads(file.read_text(encoding="utf-8"))
            if shown := about.get("experiment"):
                known = records()[shown["name"]]
                assert {key: shown.get(key) for key in SHOWN} == {key: known[key] for key in SHOWN}, file
                marks_here = {key: known[key] for key in ("trace", "fit") if key in known}
                assert marks_here.items() <= marks.items(), file
            elif about.get("pair") or record.parent != FIGURES:
                redrawn = run.get("redrawn", {}).get(file.stem, {})  # a commit; of texts decoded anew, all marks
                expected = marks | {"pair": run["pair"]} | redrawn
                assert {key: about.get(key) for key in expected} == expected, file
            exhibit = EXHIBITS[tuple(about["figure"].split(" "))]
            if isinstance(exhibit, Decoding):
                assert prompts.setdefault((run["pair"], exhibit.study), about["prompts"]) == about["prompts"], file
    for name, record in records().items():
        assert digest(ROOT / record["file"]) == record["digest"], name


def test_each_exhibit_has_its_section_on_the_site_and_its_line_in_the_coverage():
    pages = site_pages(ROOT)
    for file, place in sections().items():
        assert (ROOT / file).is_file() or file.endswith(".svg")
        page, _, anchor = place.partition("#")
        assert anchor in {slug(title) for title in re.findall(r"^## (.+)$", pages[page], re.MULTILINE)}
    covered = re.findall(r"figures/([\w-]+)\.(?:svg|json)", (ROOT / "docs/results/coverage.md").read_text("utf-8"))
    assert sorted(covered) == sorted(one.stem for one in EXHIBITS.values() if one.paper != "ours")


def test_the_page_of_false_claims_counts_them_and_cites_what_their_disproofs_name():
    page, known, false = (ROOT / "docs/results/refuted.md").read_text("utf-8"), hlmtheory.all_claims(), []
    kinds = Counter(claim.standing for claim in known.values())
    assert "{refuted} refuted, {misprint} misprints, {false reading} false readings".format_map(kinds) in page
    for words, says, true in re.findall(r"^\| ([^|]+\.[^|]+)\|[^|]*\|([^|]*\d) \|( [^|]*\d[^|]*)\|.*\|$", page, re.M):
        sides = table_row(known[next(iter(re.findall(r"`([a-z_]+\.\w+)", words)))], None)["sides"]
        assert {*re.findall(r"[−\d.]+", says + true)} == {*sides.replace("0.", ".").split()[::2]}, words
    for first, second in re.findall(r"^\| ([^|]*)\|(?:[^|\n]*\|)* ([^|]*)\|[^|\n]+\|$", page, re.MULTILINE):
        named, cited = (set(re.findall(r"[a-z_]+\.\w+", part)) & known.keys() for part in (first, second))
        false = [name for name in named if known[name].standing != "true"] if first.strip() else false
        instead = " ".join(known[name].proof.text.partition("Instead: ")[2] for name in false)
        assert not false or cited <= set(re.findall(r"[a-z_]+\.\w+", instead)), false


def test_the_page_of_new_results_names_every_new_claim_and_no_unknown_one():
    named = set(re.findall(r"`([a-z_]+\.[a-z_\d]+)`", (ROOT / "docs/results/new.md").read_text("utf-8")))
    known = hlmtheory.all_claims()
    assert {claim.id for claim in known.values() if claim.origin is Origin.NEW} <= named <= known.keys()
