"""The command ``hlm plan``."""

import json
import re
import shlex
from contextlib import chdir
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from tests.validation.acceptance.test_engines import scrape
from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from validation.cli.options import GroupedCommand, option
from validation.decoding.methods.planned import read_policy
from validation.planning.answer import symbols_said
from validation.planning.request import Request
from validation.trace.reader import TraceWriter

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan")
    stored(path / "trace")
    with chdir(path):
        run("plan", "--trace", "trace", "--json")  # keeps the profile: on a slow machine its wait would be told
    return path


@pytest.fixture
def plan(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda *words: run("plan", "--trace", "trace", *words)


def planned(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def row_of(found, policy):
    return next(row for row in found["rows"] if row["policy"] == policy)


def test_every_number_names_what_it_rests_on(plan):
    found = planned(plan("--json", "--risk", "text=.5"))
    numbers = [value for row in found["rows"] for value in row.values() if isinstance(value, dict) and "basis" in value]
    assert {one["basis"] for one in numbers} == {"proved", "measured", "calibrated on 13 prompts"}
    assert found["prompts"] == {"train": 14, "calibrate": 13, "test": 13}
    names = [name for part in found["split"].values() for name in part]
    assert sorted(names) == sorted(set(names))  # no prompt is in two parts
    assert found["rows"] == planned(run("plan", "--trace", ".", "--json", "--risk", "text=.5"))["rows"]


def test_what_is_left_out_of_a_command_has_the_default_of_a_request(plan):
    asked = planned(plan("--json"))["request"]
    for name in asked.keys() - {"risk", "server_draft_s", "server_draft_basis"}:  # written otherwise, or computed
        assert asked[name] == getattr(Request(), name)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rate", "0"), "dead link"),
        (("--down-rate", "0M"), "no answer arrives"),
        (("--latency", "p95=1ms"), "the shortest round takes 30.0 ms; allow 30.1"),
        (("--objective", "goodput"), "give --latency"),
        (("--verify-time", "0ms"), "--verify-time is 0: a model"),
        (("--rate", "100000000G"), "is at most 1e+15"),
        (("--draft-ms", "12"), "write --draft-time 12ms"),
        (("--confidence", ".9"), "write --all: its intervals are at 95%"),
        (("--link-csv", "none.csv"), "There is no file or folder none.csv"),
        (("--users", "many"), "--users is 'many'"),
        (("--picture", "plan.jpg"), "end it with .svg"),
    ],
)
def test_what_is_refused(plan, words, said):
    result = plan(*words)
    one_sentence(result, said)
    assert result.stdout == ""


def test_the_first_lines_name_the_answer_and_what_is_against_it(plan, folder):
    for words in ((), ("--objective", "capacity"), ("--users", "2")):
        asked = planned(plan("--json", *words))
        aim = next(one for one in asked["aims"] if one["aim"] == asked["asked"])
        assert (aim["aim"] == "2 users") is ("--users" in words)
        result = plan(*words, "--picture", "plan.png")
        assert result.exit_code == 0, result.output
        use, *lines = result.output.splitlines()[:7]
        lines = dict(line.split(": ", 1) for line in lines if ": " in line)
        assert "ours is as good" in use or use.startswith(f"Use: {aim['best']['policy']}")
        shown = aim["best"]["option"]  # of ours, as good as the policy that is named, with its K
        assert (shown.rpartition(", ")[2] if "ours is as good" in use else shown) in lines.get("With", use)
        assert ("lossless" in lines["Guarantee"]) is (aim["best"]["text_risk"] == 0.0)
        (other,) = (line for name, line in lines.items() if "within the limits" in name)
        kind = "without_device" if aim["best"] == aim["with_device"] else "with_device"
        rival = aim[kind] if use.startswith(f"Use: {asked['rows'][0]['policy']}") else asked["rows"][0]
        assert rival["policy"] in other
        assert "tokens/s" in lines.get("Speed", "") or "ms of the server" in lines["Server time"]
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_each_row_has_the_users_of_its_own_option_over_the_best_without_a_device(plan):
    full, shown = planned(plan("--json")), plan().output.splitlines()
    base = full["aims"][1]["without_device"]["server_s_per_token"]
    for policy in ("FlexSpec", "server with its own draft", "server alone, streaming"):
        users = next(line for line in shown if line.startswith(f" {policy}")).split()[-3]
        assert float(users) == pytest.approx(base / row_of(full, policy)["server_s_per_token"]["value"], abs=0.005)


def test_the_first_lines_say_which_times_were_given(plan, folder):
    (folder / "passes.csv").write_text("batch,width,ms\n1,1,20\n1,8,27\n")
    result = plan("--draft-time", "8ms", "--times", "passes.csv")
    assert "draft 8 ms (given); verify 20 ms (measured); server's draft 8 ms (assumed)" in result.output
    assert "server's draft 5 ms (given)" in plan("--server-draft-time", "5ms").output


def test_behind_each_limit_stands_what_the_plan_has_of_it(plan):
    words = ("--rate", "2M", "--risk", "text=.7", "--latency", "p90=900ms", "--energy", "2000mJ", "--no-shared-seed")
    result = plan(*words, "--server-draft-time", "400ms", "--verify-time", "90ms", "--json")
    used = row_of(planned(result), planned(result)["aims"][0]["best"]["policy"])
    assert used["counts"]["drafts"] > 0
    assert heard_of("here", result) == pytest.approx(held_of(used), rel=6e-3)
    beside = plan(*words, "--json")  # the answer is a server, and a device stands behind it
    device = row_of(planned(beside), planned(beside)["aims"][0]["with_device"]["policy"])
    assert held_of(device)[2] > 0 == heard_of("here", beside)[2]
    assert heard_of("with a device", beside) == pytest.approx(held_of(device), rel=6e-3)
    full = plan(*words, "--objective", "capacity", "--device-power", "4W", "--json")
    used = row_of(planned(full), planned(full)["aims"][1]["best"]["policy"])
    assert heard_of("here", full) == pytest.approx(held_of(used), rel=6e-3)
    heard = ("waits for no other", "radio 1 W (defaults, not measured)", "device 4 W (given)")
    assert [each for each in heard if each not in full.stderr] == []
    assert "Limits: nothing is lost" in plan().output


def held_of(row):
    return [row["text_risk"]["value"], 1e3 * row["round_s"]["value"], 1e3 * row["joules_per_token"]["value"]]


def heard_of(whose, result):
    (said,) = (line for line in result.stderr.splitlines() if line.startswith("Limits: "))
    return [float(number) for number in re.findall(rf"{whose} ([\d.]+)", said)]


def test_a_risk_that_is_used_for_another_aim_is_set_beside_the_best_without_loss(plan):
    found = planned(plan("--risk", "text=.8", "--objective", "capacity", "--json"))
    used, exact = (
        planned(plan("--risk", limit, "--objective", "capacity", "--json")) for limit in ("text=.8", "text=0")
    )
    best, lossless = (each["aims"][1]["best"]["server_s_per_token"] for each in (used, exact))
    assert best < lossless
    (said,) = (line for line in found["answer"] if line.startswith("Risk: used"))
    exact = re.search(r"Without loss: .*: ([\d.]+) ms of the server", found["answer"][0])
    assert float(exact[1]) == pytest.approx(1e3 * lossless, rel=5e-3)
    heard = re.search(r"\(([\d.]+) of 0.8\).* ([\d.]+)% \(([\d.]+)% to ([\d.]+)%", said)
    spent, bought, low, high = map(float, heard.groups())
    assert spent == pytest.approx(row_of(found, found["aims"][1]["best"]["policy"])["text_risk"]["value"], rel=0.02)
    assert low < bought < high
    assert bought == pytest.approx(100 * (lossless / best - 1), abs=0.06)


def test_all_columns_tell_the_parts_of_the_time_and_what_no_engine_runs(plan):
    result = plan("--risk", "text=.65", "--server-draft-time", "12ms", "--all", "--json")
    best, left = (row_of(planned(result), f"server {name}") for name in ("with its own draft", "keeping sure drafts"))
    speed, used = (row["tokens_per_s_mean"]["value"] for row in (left, best))
    assert f"no engine runs, would be, by {speed / used - 1:.0%} ({speed:.1f} tokens/s)" in result.stderr
    passes, drafts = best["counts"]["passes"] * 30, best["counts"]["server_drafts"] * 12
    said = [float(x) for x in re.findall(r"\((\d+)%\)", re.search("In this plan.*", result.stderr)[0])]
    assert said == pytest.approx([100 * part / (passes + drafts) for part in (passes, drafts)], abs=0.51)


def test_a_device_is_told_its_server_and_vllm_has_no_device_on_a_full_one(plan):
    """Its plugin keeps each text in all passes."""
    full = planned(plan("--objective", "capacity", "--json"))
    used = [full, *(planned(plan(*words, "--json")) for words in ((), ("--risk", "text=1", "--objective", "capacity")))]
    assert ["hlm serve" in found["answer"][0] for found in used] == [True, False, False]  # a server; no server
    (said,) = re.findall(r"vLLM: at best (.*) \(K = \d+\): ([\d.]+) ms", full["answer"][0])
    best = full["aims"][1]["without_device"]
    assert (said[0], float(said[1])) == (best["policy"], pytest.approx(1e3 * best["server_s_per_token"], rel=6e-3))


def test_a_full_server_has_the_most_texts_that_were_timed(plan, folder):
    (folder / "batches.csv").write_text("batch,width,ms\n1,1,20\n1,4,27\n16,4,60\n")
    for words, most in (((), 16), (("--server-batch", "4"), 4), (("--users", "5"), 5), (("--users", "17"), 16)):
        asked = planned(plan("--passes", "batches.csv", "--json", *words))
        assert asked["request"]["server_batch"] == most
        assert ("at most 16 texts, the most of --passes" in asked["assumed"][0]) is ("17" in words)


def test_an_interval_says_of_what_it_is(answers):
    one = json.loads((answers / "answers.jsonl").read_text().splitlines()[0])
    other = json.loads(json.dumps(one))
    other["metrics"]["speculative_decoding"]["acceptance_histogram_by_draft_length"] = {"2": [2, 4, 4]}
    other["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"] = 12
    (answers / "one.jsonl").write_text(json.dumps(one))
    (answers / "many.jsonl").write_text("\n".join(map(json.dumps, [one, one, other, one, other, other] * 4)))
    for name, said in (("one", "95% at any stopping time: "), ("many", "95% over records: ")):
        assert said in run("plan", "--acceptance", f"{name}.jsonl", "--server-draft-time", "1ms").output


def test_a_symbol_is_explained_where_it_stands():
    assert symbols_said("offline k = 8, u ≤ 0.3").count(":") == 2
    assert symbols_said("server alone; Bias ≤ 0.1") == ""


def test_the_picture_marks_rows_that_break_a_limit(plan, folder):
    plan("--picture", "free.svg", "--risk", "text=1")
    plan("--picture", "strict.svg")
    free, strict = ((folder / f"{name}.svg").read_text().count("<pattern") for name in ("free", "strict"))
    assert strict > free


def test_options_are_under_the_headings_of_their_groups():
    @click.command(cls=GroupedCommand)
    @option("--rate", group="Link")
    @option("--plain")
    @option("--rtt", group="Link")
    def command():
        pass

    words = CliRunner().invoke(command, ["--help"]).output.split()
    places = [words.index(word) for word in ("Link:", "--rate", "--rtt", "Options:", "--plain")]
    assert places == sorted(places)


def test_a_link_that_is_down_for_a_while_and_one_that_always_is(plan, folder):
    (folder / "down.csv").write_text("trace_id,time_s,throughput_mbps\na,0,5\na,1,0\na,2,5\na,3,5\n")
    best = row_of(planned(plan("--json", "--link-csv", "down.csv")), "FlexSpec")
    assert best["tokens_per_s_p95"]["value"] == 0.0  # for a quarter of the time nothing arrives
    assert best["tokens_per_s_mean"]["value"] == pytest.approx(0.75 * best["tokens_per_s_median"]["value"], rel=1e-6)
    (folder / "dead.csv").write_text("trace_id,time_s,throughput_mbps\na,0,0\na,1,0\n")
    one_sentence(plan("--link-csv", "dead.csv"), "over a dead link nothing arrives")


def test_users_share_a_band(plan, folder):
    (folder / "users.csv").write_text("name,rate,draft_time\nnear,40M,8ms\nfar,400k,20ms\nmid,4M,\nslow,4M,5s\n")
    found = planned(plan("--json", "--users", "users.csv", "--objective", "fair", "--page", "users.html"))
    shares = {one["name"]: one["share"] for one in found["users"]["users"]}
    assert found["request"]["users"] == len(shares) == 4
    assert found["streamed"] is None  # a device that drafts on takes more of a server than one in rounds
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-9)
    assert shares["far"] > shares["near"]  # the slow link needs more of the band for the same
    assert found["users"]["upper_bound"] >= found["users"]["value"]
    assert [one["draft_length"] > 0 for one in found["users"]["users"]] == [True, True, True, False]
    assert "planned 4 users of one\nserver together" in (folder / "users.html").read_text()


def test_users_wait_for_one_server(plan):
    words = ("--down-rate", "1G", "--rate", "100M", "--rtt", "5ms", "--json")
    few, many = (planned(plan("--users", n, "--server-batch", "1", *words))["users"] for n in ("2", "12"))
    assert 0.95 < many["server"]["utilisation"] <= 1.0
    assert many["value"] <= many["upper_bound"]  # both without waits, in the model of mean rounds
    assert 0.95 < many["total_tokens_per_s"] / many["value"] < 1.02
    assert many["gap"] < 0.05
    assert max(one["draft_length"] for one in many["users"]) > max(one["draft_length"] for one in few["users"])
    assert min(one["wait_s"] for one in many["users"]) > 0.1
    batched = planned(plan("--users", "12", "--server-batch", "8", *words))["users"]
    assert 2.0 * many["total_tokens_per_s"] < batched["total_tokens_per_s"] <= 1.02 * batched["upper_bound"]
    assert 1.0 < batched["server"]["rounds_of_a_pass"] <= 8.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,rate\na,10\n", "line 2: rate 10 has no unit"),
        ("name\na\n", "has no column rate; it needs name, rate"),
        ("name,rate\n", "a line for each user, 1 to 1,000"),
        ("name,rate,weight\na,1M,x\n", "line 2: weight is 'x'"),
        ("name,rate,draft_time\na,1M,8\n", "line 2: draft_time 8 has no unit"),
        ("name,rate,draft_tim\na,1M,500ms\n", "line 2: there is no column 'draft_tim'; it may have rtt, draft_time"),
        ("name,rate,rate\na,1M,2M\n", "has two columns rate"),
        ("name,rate\na,1M,8ms\n", "line 2 has 3 cells, but the head has 2"),
        ("name,rate\na,0M\n", "rate is 0"),
        ("name,rate,draft_time\na,1M,0ms\n", "draft_time is 0"),
        ("name,rate,weight\na,1M,0\n", "above 0"),
    ],
)
def test_a_wrong_file_of_users(plan, folder, text, said):
    (folder / "wrong.csv").write_text(text)
    one_sentence(plan("--users", "wrong.csv"), said)


@pytest.mark.parametrize(
    "words",
    [
        ("--alone", "--row", "ours"),
        ("--risk", "text=.6", "--row", "ours"),
        ("--rtt", "0ms", "--verify-time", "1ms", "--draft-time", "99ms", "--row", "server alone"),
        ("--objective", "capacity"),
    ],
)
def test_the_plan_is_written_as_a_policy(plan, folder, words):
    found = planned(plan("--policy", "policy.json", "--json", *words))
    row = row_of(found, words[-1] if "--row" in words else found["aims"][1]["best"]["policy"])
    policy = read_policy(folder / "policy.json")
    assert policy.rule.draft_length == row["draft_length"]["value"]
    assert policy.alone == ("--alone" in words)
    assert policy.rule.skips == (row["threshold"]["value"] is not None)
    assert policy.guarantees[0].basis == ("calibrated" if policy.rule.skips else "proved")
    speeds = [one["tokens_per_s_median"]["value"] for one in (row, found["rows"][0])]  # first the strongest rival
    assert policy.guarantees[-1].value == pytest.approx(speeds[0] / speeds[1], rel=1e-9)


def test_a_policy_that_loses_is_written_by_name_alone(plan, folder):
    """By default a server with its own draft is the fastest for one user, and needs no device."""
    (folder / "policy.json").unlink(missing_ok=True)
    result = plan("--policy", "policy.json")
    one_sentence(result, "needs no device")
    named = shlex.split(" ".join(result.stderr.split()).partition("--row ")[2].partition(" (")[0])
    assert not (folder / "policy.json").exists()
    assert plan("--policy", "best.json", "--row", *named).exit_code == 0
    one_sentence(plan("--policy", "policy.json", "--row", "SQS2"), "the rows that a device runs are: ours, ")
    one_sentence(plan("--policy", "policy.json", "--row", "device alone"), "breaks the limit of risk")
    given = plan("--policy", "policy.json", "--row", "server alone")
    assert (given.exit_code, read_policy(folder / "policy.json").rule.draft_length) == (0, 0)
    assert "Warning: this policy, server alone, one exchange a token: " in given.output


def test_a_shared_seed_is_planned_and_left_out(plan, folder):
    slow = ("--rate", "20k", "--json", "--policy", "policy.json")
    found = planned(plan(*slow, "--row", "shared seed, streamed"))
    row, bits = row_of(found, "shared seed, streamed"), found["streamed"]["message_bits"]
    seconds = 1 / row["tokens_per_s_median"]["value"]  # in which it always drafts, and sends each draft by itself
    up, exchanges = bits * seconds / 0.012, row["counts"]["exchanges"]
    assert row["joules_per_token"]["value"] == pytest.approx(5 * seconds + up / 20e3)
    assert row["kilobytes_per_token"]["value"] == pytest.approx((up + row["counts"]["down_bits"]) / 8e3)
    assert row["round_s"]["value"] == pytest.approx(seconds / exchanges)
    policy = read_policy(folder / "policy.json")
    assert (type(policy.messages).__name__, policy.rule.draft_length, policy.bonus) == ("StreamedTokens", 1, False)
    slow = (*slow, "--row", "ours", "--latency", "p95=1000ms")
    without, found = planned(plan(*slow, "--no-shared-seed")), planned(plan(*slow))
    best, other = (row_of(one, "ours") for one in (found, without))
    assert best["option"].startswith("shared seed, K = ")
    assert best["text_risk"] == {"value": 0.0, "basis": "proved", "prompts": None, "low": 0.0, "high": 0.0}
    assert best["tokens_per_s_median"]["value"] > other["tokens_per_s_median"]["value"]
    assert "shared seed" not in {one["option"].split(",")[0] for one in without["menu"]}
    policy = read_policy(folder / "policy.json")
    assert type(policy.messages).__name__ == "SeededTokens"
    assert policy.rule.draft_length == best["draft_length"]["value"]


def test_one_prompt_is_too_few_to_calibrate_and_has_no_interval(tmp_path):
    rng = np.random.default_rng(0)
    for texts in (1, 3):
        path = tmp_path / str(texts)
        with TraceWriter(path, 20, {"texts": "corpus"}) as writer:
            for text in range(texts):
                rows = [(4.0 * rng.normal(size=(8, 20))).astype(np.float16) for _ in range(2)]
                tokens, index = np.zeros(8, np.int32), np.full(8, text, np.int32)
                writer.append(rows[0], rows[0] + 0.3 * rows[1], tokens, index, np.arange(8, dtype=np.int32))
        found = planned(run("plan", "--trace", path, "--risk", "text=.1", "--json"))
        best = row_of(found, "ours")
        assert best["text_risk"] == {"value": 0.0, "basis": "proved", "prompts": None, "low": 0.0, "high": 0.0}
        assert ("too few to split" in " ".join(found["notes"])) is (texts == 1)
        assert best["tokens_per_s_median"]["low"] is None
        assert "the target model did not write them" in found["notes"][0]


def test_nothing_sent_is_not_a_number(plan):
    """Where every draft is kept no residue of rounding stands for a size; all other numbers are of a usable size."""
    for words in ((), ("--risk", "text=1"), ("--rtt", "0ms", "--verify-time", "1ms", "--draft-time", "99ms")):
        found = planned(plan("--json", *words))
        for row in found["rows"]:
            values = [row[name]["value"] for name in ("k_mean", "k_p95", "bits", "kilobytes_per_token")]
            assert all(value is None or value > 1e-6 for value in values), row["policy"]
            assert (row["bits"]["value"] is None) == (row["counts"]["exchanges"] == 0.0)
            assert all(count == 0.0 or count > 1e-9 for count in row["counts"].values())
        assert min(min(option["top_k"]) for option in found["menu"]) >= 0.0


@pytest.fixture
def answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = {"num_spec_steps": 10, "num_accepted_draft_tokens": 8, "num_draft_tokens": 20}
    one["acceptance_histogram_by_draft_length"] = {"2": [5, 2, 3]}
    (tmp_path / "answers.jsonl").write_text("\n".join([json.dumps({"metrics": {"speculative_decoding": one}})] * 6))
    return tmp_path


def test_counts_of_an_engine(answers):
    words = ("plan", "--acceptance", "answers.jsonl", "--json", "--server-draft-time", "5ms", "--page", "counts.html")
    found = planned(result := run(*words, "--drafts", "probabilistic"))
    assert all(part in result.stderr for part in ("vocabulary 32,000 (assumed", "60 rounds of up to 2 drafts"))
    assert found["evidence"]["acceptance_by_depth"] == pytest.approx([0.5, 0.6])
    assert not {"HLM", "SQS", "CU-HLM"} & {row["policy"] for row in found["rows"]}
    best = max(tokens / (0.030 + k * 0.005) for k, tokens in {1: 1.5, 2: 1.8}.items())
    own = row_of(found, "server with its own draft")
    assert own["tokens_per_s_median"]["value"] == pytest.approx(best, rel=1e-4)
    expected = {  # of a round: tokens, drafts, passes, exchanges, verified, bits up, bits down, skipped, server drafts
        "server with its own draft": (1.8, 0, 1, 0, 3, 0, 1.8 * 15, 0, 2),
        "server alone": (1, 0, 1, 1, 1, 8, 15, 0, 0),
        "server alone, streaming": (1, 0, 1, 0, 1, 0, 15, 0, 0),
        "fixed K, full rows": (1.5, 1, 1, 1, 2, 16 + 15 + 32 * 32_000, 24, 0, 0),
        "FlexSpec": (1.5, 1, 1, 1, 2, 16 + 15 + 32, (24 + 16 + 32 * 32_000) / 2, 0, 0),
    }
    for policy, counts in expected.items():
        assert list(row_of(found, policy)["counts"].values()) == pytest.approx([each / counts[0] for each in counts])
    assert any("K = 2 is the longest" in note for note in found["notes"])  # so a longer one may be better
    ours = [option["option"] for option in found["menu"] if option["policy"] == "ours"]
    assert ours == ["q_d up, p down, K = 1", "q_d up, p down, K = 2"]  # drafts as if from q, since nothing says greedy


def test_users_of_counts_share_a_server(answers):
    """A server that drafts for all at once is always busy; devices far away hardly wait for it."""
    (answers / "users.csv").write_text("name,rate,rtt,draft_time\na,1G,700ms,12ms\nb,1G,900ms,6ms\n")
    words = ("--drafts", "greedy", "--server-draft-time", "5ms", "--rate", "8G", "--rtt", "800ms")
    words = (*words, "--users", "users.csv")
    found = planned(run("plan", "--acceptance", "answers.jsonl", *words, "--json"))
    server, device = (row_of(found, f"{one}greedy drafts")["decides"]["value"] for one in ("server with ", ""))
    rounds = 2 / (0.030 + 2 * 0.005)
    assert [server, found["users"]["total_tokens_per_s"]] == pytest.approx([1.8 * rounds] * 2, rel=1e-3)
    assert device == pytest.approx(1.8 / (0.7 + 0.024 + 0.03) + 1.8 / (0.9 + 0.012 + 0.03), rel=0.02)
    ends = re.search(r"95% [\w ]+: ([\d.,]+) to ([\d.,]+)", found["answer"][1]).groups()
    bounds = [rounds * end for end in found["evidence"]["tokens"]["2"][1:]]
    assert [float(end) for end in ends] == pytest.approx(bounds, rel=5e-3)
    assert "K = 1 to 2 are not told apart by these counts" in found["answer"][0]


def test_users_of_counts_have_the_interval_of_all_acceptances_between_the_ends_of_theirs():
    words = (EXAMPLES / "server.log", "--drafts", "greedy", "--passes", EXAMPLES / "passes.csv")
    found = planned(run("plan", "--acceptance", *words, "--json"))
    shown = run("plan", "--acceptance", *words).output
    said = re.search(r"([\d.]+) times \(95%: ([\d.]+) to ([\d.]+);", shown)
    users, *ends = map(float, said.groups())
    best, base = (found["aims"][1][name]["option"] for name in ("with_device", "without_device"))
    lengths = [int(option.removeprefix("K = ")) for option in (best, base)]
    assert lengths[0] > lengths[1] > 0
    tokens = np.array([(1.0, 1.0, 1.0), *found["evidence"]["tokens"].values()]).T  # (value and ends, lengths)
    gained = np.diff(tokens, axis=1, prepend=0.0)
    low, high = gained[1:, 1:] / gained[1:, :-1]  # acceptances at both ends
    drawn = np.random.default_rng(1).uniform(low, high, (4000, len(low)))
    rounds = 1.0 + np.cumsum(np.cumprod([low, high, *drawn], axis=1), axis=1)
    ratios = rounds[:, lengths[0] - 1] / rounds[:, lengths[1] - 1]
    several = users * ratios * tokens[0, lengths[1]] / tokens[0, lengths[0]]
    assert several[:2] == pytest.approx(ends, abs=0.011)
    assert ((several >= several[0]) & (several <= several[1])).all()
    texts, times = re.search(r"(\d+) texts in memory. As many in each pass, .* carry ([\d.]+) times", shown).groups()
    wide = planned(run("plan", "--acceptance", *words, "--server-batch", texts, "--json"))
    base, wider = (plan["aims"][1]["without_device"]["server_s_per_token"] for plan in (found, wide))
    assert float(times) == pytest.approx(base / wider, abs=0.006)


def test_lengths_are_not_told_apart_in_passes_of_all_users():
    words = (EXAMPLES / "server.log", "--drafts", "greedy", "--passes", EXAMPLES / "passes.csv", "--json")
    best = json.loads(run("acceptance", *words, "--batch", "64").stdout)
    found = planned(run("plan", "--acceptance", *words, "--users", "64", "--rate", "1G"))
    first, last = best["not_told_apart_by_batch"][-1][2:]
    assert [first, last] != best["not_told_apart"]
    assert f"K = {first} to {last} are not told apart by these counts" in found["answer"][0]


def test_two_scrapes_are_planned_by_their_difference(answers):
    """Also where a draft is lacking; then by the least acceptance that the counts allow. Also as a file of records."""
    (answers / "a.txt").write_text(scrape(10, 30, [8, 4, 2]))
    for drafted, said in ((3030, False), (3029, True)):
        (answers / "b.txt").write_text(scrape(1010, drafted, [738, 474, 302]))
        assert run("acceptance", "a.txt", "b.txt", "--records", "counts.jsonl").exit_code == 0
        for words in (("a.txt", "b.txt"), ("a.txt", "--acceptance", "b.txt"), ("counts.jsonl",)):
            result = run("plan", "--json", "--acceptance", *words)
            found = planned(result)
            assert found["evidence"]["acceptance_by_depth"] == pytest.approx([730 / 1000, 470 / 730, 300 / 470])
            assert ("planned is the least acceptance" in " ".join(found["notes"])) is said
            assert "totals only" not in result.output
        (answers / "counts.jsonl").unlink()


@pytest.mark.parametrize("words", [("--drafts", "greedy"), ("--verification", "match"), ()])
def test_greedy_drafts_and_drafts_that_are_matched_need_their_token_ids_alone(answers, words):
    """A file of records states the marks itself."""
    if not words:
        run("acceptance", "answers.jsonl", "--drafts", "greedy", "--records", "marked.jsonl")
        one_sentence(run("plan", "--acceptance", "marked.jsonl", "--drafts", "sampled"), "contradicts it")
    file = "answers.jsonl" if words else "marked.jsonl"
    words = ("--acceptance", file, *words, "--vocabulary", "100000", "--rate", "1M", "--rtt", "20ms")
    found = planned(run("plan", *words, "--draft-time", "5ms", "--down-rate", "1G", "--json"))
    matched = "match" in words
    own, device = ("server with its own draft", "ours") if matched else ("server with greedy drafts", "greedy drafts")
    servers = {"server alone", "server alone, streaming", own}
    assert {row["policy"] for row in found["rows"]} == servers | {"device alone", device}
    best = row_of(found, device)
    assert best["option"] == ("token ids, K = 2" if matched else "K = 2")
    assert best["bits"]["value"] == 16 + 2 * 17  # ⌈log₂ 100,000⌉ = 17
    assert best["text_risk"]["basis"] == "proved"
    tokens = 1 + 0.5 + 0.5 * 0.6
    seconds = 2 * 0.005 + 0.030 + 0.020 + 50 / 1e6 + 24 / 1e9
    assert best["tokens_per_s_median"]["value"] == pytest.approx(tokens / seconds, rel=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--acceptance", "answers.jsonl", "--policy", "policy.json"), "--acceptance and --policy cannot"),
        (("--acceptance", "answers.jsonl", "--trace", "trace"), "a plan is of one of them"),
        (("--users", "2", "--objective", "capacity"), "leave out --users, and say by --server-batch"),
        (("--alone",), "--alone belongs to --policy"),
        (("--snr", "5dB"), "--snr belongs to --fading"),
        (("--alone", "--drafts", "sampled", "--draft-length", "4"), "--draft-length belongs to --acceptance"),
        (("--trace", "trace", "answers.jsonl"), "FILES belongs to --acceptance"),
        (("--leak", "bits=1", "--page", "plan.html"), "--leak and --page cannot"),
        (("--run", "run.jsonl", "--block"), "from a trace (hlm validate or hlm import)"),
        (("--run", "run.jsonl", "--times", "times.json"), "has its own counts and times"),
        (("--trace", "trace", "--page", "."), "--page is ., which cannot be a file"),
        (("--trace", "trace", "--policy", "answers.jsonl/policy.json"), "which cannot be a file"),
        (("--trace", "trace", "--users", "none.csv"), "There is no file none.csv"),
    ],
)
def test_options_are_refused_before_anything_is_read(answers, monkeypatch, words, said):
    from validation.planning import planners

    def read(*_, **__):
        raise AssertionError("read too early")

    monkeypatch.setattr(planners, "planner_of_trace", read)
    monkeypatch.setattr(planners, "planner_of_acceptance", read)
    one_sentence(run("plan", *words), said)
