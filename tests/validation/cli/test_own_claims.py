"""Claims are printed whole; a user's theorem is checked on drawn instances and on a trace, or refused by name."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from pybtex.database import parse_string

import hlmtheory
from hlmtheory import all_claims, own, theorems
from hlmtheory.claims import Status
from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from validation.report.citations import bibtex, in_print

ROOT = Path(__file__).resolve().parents[3]
(MINE,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "own_claim.md").read_text(encoding="utf-8"), re.DOTALL)
NAME, FALSE = "mine.dropped", MINE.replace("- k /", "- 2 * k /")
REFUSED = {
    "import": ("import nowhere\n", "cannot be imported (ModuleNotFoundError): No module named 'nowhere'"),
    "proof": (MINE.replace("\n\n    The", " The"), "a theorem must have a proof; got none for 'mine.dropped'"),
    "no theorem": ("from hlmtheory.theorems.cu_hlm import certificate\n", "has no theorem of its own"),
    "id": (MINE.replace(NAME, "truncation.certificate"), "'truncation.certificate' exists already"),
    "twice": (MINE + MINE.partition("\n\n")[2].replace("def dropped", "def other"), "exists already"),
    "form": (MINE.replace(NAME, "Mine"), "must have the form mine.bound; got 'Mine'"),
    "argument": (MINE.replace("draft, k", "drafft, k"), "'drafft', which is no argument", "draft"),
    "batch": (MINE.replace(".sum(-1)", ".sum()"), "reduce the last axis"),
    "function": (MINE.replace("(-1)", "(7)"), "mine.dropped fails on draft (200, ", "AxisError"),
    "counterexample": (MINE.replace("assuming", 'false={"draft": [1], "k": 1}, assuming'), "origin must fit"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "trace")
    few = {name: theorems.THEOREMS[name] for name in ("verification.tokens", "truncation.certificate")}
    monkeypatch.setattr(own, "THEOREMS", few)
    monkeypatch.setattr(theorems, "THEOREMS", few)


def validated(text: str) -> Result:
    Path("mine.py").write_text(text, encoding="utf-8")
    return run("validate", "--trace", "trace", "--claims", "mine.py", "--out", "run", "--no-figures", "--json")


def test_the_theorem_of_the_page_is_checked_beside_the_others(folder):
    said = json.loads(validated(MINE).stdout)
    assert said["outcomes"] == dict.fromkeys((*theorems.THEOREMS, NAME), "holds")
    assert (said["tallies"][NAME]["kind"], said["tallies"][NAME]["instances"]) == ("measured", 320)
    assert NAME in Path("run/report.html").read_text(encoding="utf-8")
    assert "symbols:\n    q  argument draft\n    k  argument k\n" in run("claims", "--claims", "mine.py", NAME).output
    Path("mine.py").write_text(f'"""\n===  ==\na    b\n===  ==\nε    an error\n===  ==\n"""\n{MINE}', encoding="utf-8")
    assert "symbols:\n    ε  an error\n" in run("claims", "--claims", "mine.py", NAME).output
    unserved = re.sub("draft, k|k(?=: k| >=)", "load", MINE).partition("falling")[0] + "return le(load, 2 * load)\n"
    assert json.loads(validated(unserved).stdout)["tallies"][NAME]["kind"] == "simulated"
    assert NAME not in all_claims()


def test_a_false_theorem_is_a_verdict_with_a_counterexample(folder):
    result = validated(FALSE)
    assert (result.exit_code, json.loads(result.stdout)["violated"], Path("run").exists()) == (1, [NAME], False)
    other = MINE.partition("\n\n\n")[2].replace(NAME, "mine.other").replace("def dropped", "def other")
    outcomes = json.loads(validated(f"{FALSE}\n\n{other}").stdout)["outcomes"]
    assert (outcomes[NAME], outcomes["mine.other"]) == ("violated", "holds")
    listed = run("claims", "--claims", "mine.py", "mine")
    assert (listed.exit_code, re.findall(r"mine\.\w+ +(\w+)", listed.output)) == (1, ["violated", "yours"])
    (shown,) = json.loads(run("claims", "--claims", "mine.py", NAME, "--json").stdout)["claims"]
    q, k = (np.array(shown["counterexample"][name]) for name in ("draft", "k"))
    assert 1 - np.sort(q)[::-1][: int(k)].sum() > 1 - 2 * k / len(q)
    sides = "return le(np.where(draft[..., 0] > 0.5, 1.0, np.nan), 0.5)\n"  # undefined for some
    Path("mine.py").write_text(f"import numpy as np\n{MINE.partition('return')[0]}{sides}", encoding="utf-8")
    shown = run("claims", "--claims", "mine.py", NAME).output
    assert [word in shown for word in ("left 1, right 0.5", "(contradicted)", "tight case")] == [True, True, False]


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_checked_is_refused(folder, name):
    one_sentence(validated(REFUSED[name][0]), *REFUSED[name][1:])


def test_every_claim_is_in_the_json_whole():
    for plain in json.loads(run("claims", "--json").stdout)["claims"]:
        claim, recorded = all_claims()[plain["id"]], plain["tight_case"] or plain["counterexample"]
        instance = {name: np.inf if value == "inf" else value for name, value in recorded.items()}
        assert claim.check(instance).count(Status.VIOLATED) == (plain["counterexample"] is not None)
        assert re.search(r"\((19|20)\d\d\)", plain["source"]["full"]), claim.id
        file, line = plain["proof_at"].split(", line ")
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        assert plain["id"] in "".join(lines[int(line) - 1 : int(line) + 1])
        assert (ROOT / plain["tests"][0]).is_file()
    shown = run("claims", "truncation.certificate").output
    assert all(f"pair {name}: holds" in shown for name in ("builtin", "wide", "instructed", "smollm2"))
    assert re.search(r"tight case: .*, k = 1: left (\S+), right \1\n", shown)
    assert "  source: Oh et al. (2025), (3)" in run("claims", "verification.unbiased").output
    assert re.search(r"cite instead:\n    batching\.pareto: .*[ |]Y: ", run("claims", "batching.dp_gap").output, re.S)
    places = in_print()["batching.dp_gap"]
    assert json.loads(run("claims", "batching.dp_gap", "--json").output)["claims"][0]["in_print"] == places


def test_a_new_result_is_cited_as_software_and_a_printed_one_as_its_paper():
    new, printed = (bibtex(all_claims()[name], "abc") for name in ("truncation.certificate", "verification.unbiased"))
    ours, paper = parse_string(new, "bibtex").entries.values()
    assert ours.fields["note"] == r"Claim \texttt{truncation.certificate}, checked at commit abc"
    assert (ours.type, ours.fields["version"]) == ("misc", hlmtheory.__version__)
    assert f'date-released: "{ours.fields["year"]}-' in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert [paper] == list(parse_string(printed, "bibtex").entries.values())
    assert r"\texttt{draft\_length.linear\_adapts}" in bibtex(all_claims()["draft_length.linear_adapts"])


def test_the_claims_of_a_paper_are_counted_filtered_and_in_the_order_of_its_theorems():
    shown = run("claims", "--paper", "cu-hlm").output
    assert (run("claims", "cu-hlm").output, "skipping.holder " in run("claims", "u-hlm").output) == (shown, True)
    assert re.match(r"59 claims\..* \d+ printed .* 8 false reading .* cu-hlm: Oh", " ".join(shown.split()))
    order = ["channel.payload", "skipping.holder", "truncation.online_bound", "truncation.tvd_sharp"]
    assert [name for name in shown.split() if name in order] == order
    assert re.search(r"prints:\n  verification.unbiased .*\n  What is added here, uncertainty:\n  unc", shown, re.S)
    known, shared = all_claims(), run("claims", "--paper", "u-hlm").output
    whole, few = ([known[name] for name in re.findall(r"^  (\w+\.\w+) ", text, re.M)] for text in (shown, shared))
    assert whole == sorted(whole, key=lambda one: one.standing == "false reading")
    assert few == sorted(few, key=lambda one: one.source.key != "oh2024uhlm")
    assert re.findall(r"largest left/right known: (\S+)\)", shown) == ["0.50", "0.50"]  # tvd_bound and offline
    assert (shown.count(" too: its "), len(re.findall("\ncu-hlm: .*\n  Each is on u-hlm too", shared))) == (0, 1)
    assert re.findall(r"(?<!in) B: (.{8})", shown) == ["bits of ", "here tok", "bits of "]
    assert shown.index("q̂: ") < shown.index("(p − q̂)")  # also where only another symbol's meaning has it
    own = " ".join(shared.partition("\ncu-hlm: ")[0].split())
    assert ("in cu-hlm: " in own, "law (0.25, 0.375, 0.125) instead of (0.25, 0.5, 0.25)" in own) == (False, True)
    kept = json.loads(run("claims", "--paper", "u-hlm", "--status", "misprint", "--json").stdout)["claims"]
    assert {claim["status"] for claim in kept} == {"misprint"}
    assert "0 claims." in run("claims", "--paper", "cu-hlm", "--status", "refuted", "--origin", "new").output
