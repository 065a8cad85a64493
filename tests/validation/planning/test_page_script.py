"""The page's script makes the command's choice, also of a device that drafts on, whose passes follow the times."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.validation.command_line import run
from tests.validation.planning.test_times import LINE
from tests.validation.stored_traces import stored
from validation.planning.page import TEMPLATES, page_data
from validation.planning.times import write_times

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NODE = shutil.which("node")
if NODE is None:
    pytest.skip("there is no node to run the page's script", allow_module_level=True)

DOCUMENT = """
const nothing = new Proxy(function () {}, { get: (of, name) => name === Symbol.toPrimitive ? () => 0
  : name === "textContent" ? data_text : nothing, set: () => true, apply: () => nothing });
const document = { getElementById: () => nothing, createElementNS: () => nothing };
const addEventListener = () => {}, requestAnimationFrame = () => {};
"""
ANSWER = """
const answers = settings.map((own) => {
  const s = withLink({ ...start, ...own }), aims = aimsOf(s), aim = aims[s.objective === "capacity" ? 1 : 0];
  if (!aim.best) return { command: command(s), unmet: unmet(s) };
  const [, ...point] = pointsOf(aims).find(([one]) => one === aim.best), mapped = named(winners(s, true)(s));
  const answers = aims.map((aim) => [aim.best, bestOf(aim, true), bestOf(aim, false)]
    .map((one) => one && { policy: one.policy, option: one.option, value: value(one.test, aim.s),
      full: meanSpeed(one.test, aim.s, aim.s.batch) }));
  return { answers, command: command(s), card: card(aim), agree: mapped === named(plainest(aim)), point,
    rows: aim.rows.map((one) => rowOf(one, aim)), moving: data.counted && movingAxes(s, winners(s, true)) };
});
console.log(JSON.stringify(answers));
"""
BY = {"rate": "--link-csv", "roundTrip": "", "draft": "", "verify": "--times", "ownDraft": "--fading"}
BY |= {"token": "--times", "batch": ""}  # of a setting's numbers the option with which the command has them
SETTINGS = [
    (1e6, 0.020, 0.012, 0.030, 0.004, 0.0, 1),
    (2e3, 0.020, 0.012, 0.060, 0.006, 0.0, 4),  # a message takes longer than a draft
    (1e6, 0.020, 0.012, 0.030, 0.004, 5e-4, 3),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script")
    stored(path / "trace", noise=0.5, pair={"large_parameters": 7, "small_parameters": 1})
    lines = "".join(f"a,{second},{rate}\n" for second, rate in enumerate((4, 0, 0.5, 9, 12, 3, 8, 2)))
    shutil.copy(EXAMPLES / "passes.csv", path)
    write_times(LINE, path / "times.json")
    (path / "tram.csv").write_text(f"trace_id,time_s,throughput_mbps\n{lines}")
    return path


CELLS = {"median": "tokens_per_s_median", "slow": "tokens_per_s_p95", "mean": "tokens_per_s_mean"}
CELLS |= {"kilobytes": "kilobytes_per_token"}
CELLS |= {name: name for name in ("threshold", "k_mean", "k_p95", "bits", "draft_length", "gain")}


def answered(plan, settings, folder):
    """Return what the script of a plan's page says in these settings."""
    data = f"const data_text = {json.dumps(json.dumps(page_data(plan)))}, settings = {json.dumps(settings)};"
    own = (TEMPLATES / "plan.js").read_text(encoding="utf-8").replace('"use strict";', "")
    (folder / "page.js").write_text("\n".join([data, DOCUMENT, own, ANSWER]), encoding="utf-8")
    return json.loads(subprocess.run([NODE, folder / "page.js"], capture_output=True, text=True, check=True).stdout)


def test_what_is_told_of_a_servers_drafts_holds_until_their_times_change(tmp_path: Path) -> None:
    files = ["--acceptance", EXAMPLES / "server.log", "--passes", EXAMPLES / "passes.csv"]
    plan = json.loads(run("plan", *files, "--drafts", "greedy", "--verification", "standard", "--json").stdout)
    kept, lost = [{"roundTrip": 0.1}, {"rate": 3e5}, {"draft": 0.05}], [{"ownDraft": 0.0013}, {"batch": 3}]
    given, *moved = answered(plan, [{}, *kept, *lost], tmp_path)
    told, interval = given["card"]["use-how"].split("; it needs")[0], given["card"]["speed-how"].split(";")[0]
    assert all(part in plan["answer"][0] for part in told.split("; "))
    assert [told in one["card"]["use-how"] for one in moved] == [True] * 3 + [False] * 2
    assert [interval in one["card"]["speed-how"] for one in moved] == [True, False, True, False, False]
    assert given["moving"][0] == ["ownDraft", "batch"]  # no other of the numbers is in a server's time of one user
    assert "only the server's draft" in given["moving"][1]
    assert f"--passes {EXAMPLES / 'passes.csv'}" in page_data(plan)["command"]


MORE = {
    "lossless": "",
    "capacity": "--objective capacity --server-batch 4 --times passes.csv",
    "certified": "--verify-token-time 300us --risk token=.1 --down-rate 60k --no-shared-seed",
    "cost": "--risk text=.5 --fading rayleigh --objective cost --time-price 0.7",
    "goodput": "--latency p90=900ms --objective goodput --energy 2000mJ --risk text=.7",
    "rician": "--fading rician --k-factor 4x --risk text=1 --latency p95=900ms",
    "recorded": "--link-csv tram.csv --risk token=.3",
    "times": "--times times.json",
}


@pytest.mark.parametrize("more", list(map(str.split, MORE.values())), ids=MORE)
def test_the_script_chooses_what_the_command_chooses(folder, monkeypatch, more):
    monkeypatch.chdir(folder)
    own_draft = () if "--fading" in more else ("--server-draft-time", "4ms")
    plan = json.loads(run("plan", "--trace", "trace", *own_draft, "--between-time", "2ms", *more, "--json").stdout)
    settings = [{name: at for name, at in zip(BY, one, strict=True) if BY[name] not in more} for one in SETTINGS]
    aims = [aim for aim in ("throughput", "capacity", "cost") if aim not in more][-2:]
    settings[1:] = [one | {"objective": aim} for one, aim in zip(settings[1:], aims, strict=True)]
    for asked, mine in zip(settings, answered(plan, settings, folder), strict=True):
        result = run(*shlex.split(mine["command"].partition("hlm ")[2]), "--json")
        if result.exit_code:
            assert "cannot be kept" in mine["unmet"] or "No policy keeps" in mine["unmet"]
            continue
        own = json.loads(result.stdout)
        assert own["request"]["objective"] == asked.get("objective", plan["request"]["objective"])
        assert [row["policy"] for row in mine["rows"]] == [row["policy"] for row in own["rows"]]
        assert mine["agree"]
        assert ("--server-draft-time" in mine["command"]) is bool(own_draft)
        assert mine["card"]["sure"].endswith("if") is ("lossless if" in own["answer"][2])
        assert mine["card"]["sure-how"].partition("Greedy")[2] == own["answer"][2].partition("Greedy")[2]
        best, alone = own["aims"][own["request"]["objective"] == "capacity"]["best"], own["aims"][1]["without_device"]
        assert mine["point"][1] == pytest.approx(best["tokens_per_s"], rel=1e-7)
        share = best["server_s_per_token"] / alone["server_s_per_token"]
        assert 1 / mine["point"][0] == pytest.approx(share, rel=1e-7, abs=1e-9)
        for here, there in zip(mine["answers"], own["aims"], strict=True):
            inverse = there["aim"] == "a full server" or there["objective"] == "cost"
            for kind, option in zip(("best", "with_device", "without_device"), here, strict=True):
                assert (option is None) is (there[kind] is None)
                if option is not None:
                    assert (option["policy"], option["option"]) == (there[kind]["policy"], there[kind]["option"])
                    number = 1 / option["value"] if inverse else option["value"]
                    assert number == pytest.approx(there[kind]["number"], rel=1e-7)
                    full = there[kind]["tokens_per_s_in_full_passes"]
                    assert full == (None if full is None else pytest.approx(option["full"], rel=1e-7))
                    assert full is not None or there[kind]["policy"] == "shared seed, streamed"
        used = own["answer"][0].removeprefix("Use: ")
        assert used.startswith(mine["card"]["use"].partition(",")[0]) or "ours is as good" in used
        for here, there in zip(mine["rows"], own["rows"], strict=True):
            assert (here["label"], here["breaks"]) == (there["option"], there["breaks"])
            for name, field in (CELLS | {"risk": f"{plan['request']['risk']['kind']}_risk"}).items():
                assert (here["cells"][name][0] or 0) == pytest.approx(there[field]["value"] or 0, rel=1e-7, abs=1e-12)
            assert here["cells"]["server"][0] == pytest.approx(1e3 * there["server_s_per_token"]["value"], rel=1e-7)
