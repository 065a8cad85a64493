"""The command ``hlm plan``."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from tests.validation.acceptance.test_engines import scrape
from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from validation.cli.plan import BINDS
from validation.decoding.policy_file import read_policy
from validation.trace.reader import TraceWriter


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a trace, whose profile is kept after the first plan."""
    path = tmp_path_factory.mktemp("plan")
    stored(path / "trace")
    return path


@pytest.fixture
def plan(folder, monkeypatch):
    """Run the command in that folder."""
    monkeypatch.chdir(folder)
    return lambda *words: run("plan", "--trace", "trace", *words)


def planned(result):
    """The JSON object of a result, which must have succeeded."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_is_shown(plan):
    result = plan("--rate", "10M", "--fading", "rayleigh", "--rtt", "20ms")
    assert result.exit_code == 0, result.output
    for policy in ("server alone", "device alone", "fixed K", "HLM", "U-HLM", "CU-HLM", "SQS", "FlexSpec", "ours"):
        assert f" {policy}" in result.output
    assert "predicted on 13 held-out prompts" in result.output
    assert "of round trip" in result.output or "every round trip" in result.output
    assert "Of the defaults, --" in result.output


def test_every_number_names_what_it_rests_on(plan):
    found = planned(plan("--json", "--risk", "text=.5"))
    bases = set()
    for row in found["rows"]:
        for value in row.values():
            if isinstance(value, dict) and "basis" in value:
                bases.add(value["basis"])
                assert value["basis"] in ("proved", "measured") or value["basis"].startswith("calibrated on 13 ")
    assert {"proved", "measured"} <= bases
    assert found["prompts"] == {"train": 14, "calibrate": 13, "test": 13}
    names = [name for part in found["split"].values() for name in part]
    assert sorted(names) == sorted(set(names))  # no prompt is in two parts


def test_the_menu_gives_the_rows_of_any_limit(plan):
    words = ("--rate", "2M", "--rtt", "35ms", "--risk", "text=.6")
    found = planned(plan("--json", *words))
    places = {name: column for column, name in enumerate(found["count_names"])}

    def speed(counts):
        c = {name: counts[column] for name, column in places.items()}
        asked, link = found["request"], found["link"]
        seconds = c["drafts"] * asked["draft_s"] + c["passes"] * asked["verify_s"] + c["exchanges"] * 0.035
        return 1.0 / (seconds + c["up_bits"] / 2e6 + c["down_bits"] / link["down_bps"])

    pool = [
        one
        for one in found["menu"]
        if one["policy"] == "ours" and one["allowed"]["text"] is not None and one["allowed"]["text"] <= 0.6
    ]
    best = max(pool, key=lambda one: speed(one["counts"]["train"]))
    row = next(row for row in found["rows"] if row["policy"] == "ours")
    shown = next(one for one in pool if one["option"] == row["option"])
    assert row["tokens_per_s_median"]["value"] == pytest.approx(speed(shown["counts"]["test"]), rel=1e-9)
    assert speed(shown["counts"]["test"]) >= speed(best["counts"]["test"])
    assert any(0 < (one["allowed"]["text"] or 0) <= 0.6 for one in pool)  # the limit has something to decide


def test_a_longer_round_trip_slows_the_server_alone_as_computed(plan):
    for milliseconds in (10, 40):
        rows = planned(plan("--json", "--rtt", f"{milliseconds}ms", "--down-rate", "1G", "--rate", "1G"))["rows"]
        alone = next(row for row in rows if row["policy"] == "server alone")
        seconds = 0.030 + milliseconds / 1e3 + (8 + 8) / 1e9  # a request of one byte, a token of one byte
        assert alone["tokens_per_s_median"]["value"] == pytest.approx(1 / seconds, rel=1e-9)


def test_the_sensitivity_is_of_what_was_left_out(plan):
    found = planned(plan("--json", "--rtt", "20ms", "--draft-ms", "12"))
    options = {line["option"] for line in found["sensitivity"]}
    assert "--verify-ms" in options
    assert not options & {"--rtt", "--draft-ms"}
    assert set(found["defaults"]) >= options
    for line in found["sensitivity"]:
        assert 0.0 <= line["regret"] <= 1.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rtt", "20"), "has no unit; write 20ms"),
        (("--rate", "10MB/s"), "not bytes"),
        (("--rate", "0M"), "dead link"),
        (("--snr", "10", "--fading", "rayleigh"), "10dB, or 10x for a ratio"),
        (("--down-rate", "0M"), "no answer arrives"),
        (("--latency", "p95=1ms"), "the shortest round takes 30.0 ms; allow 30.1"),
        (("--risk", ".1"), "write text=.1 for a whole text"),
        (("--objective", "goodput"), "give --latency"),
        (("--objective", "fair"), "give --users 2 or more, or a CSV"),
        (("--verify-ms", "0"), "--verify-ms is 0: a model"),
        (("--link-csv", "none.csv"), "There is no file none.csv"),
        (("--acceptance", "none.json"), "not both"),
        (("--users", "0"), "--users is '0'"),
        (("--users", "many"), "--users is 'many'"),
        (("--users", "none.csv"), "none.csv cannot be read"),
    ],
)
def test_what_is_refused(plan, words, said):
    one_sentence(plan(*words), said)


def test_a_refusal_prints_no_plan_and_no_bar(plan):
    plan()  # the profile is kept, so nothing is measured below
    for words in (("--users", "none.csv"), ("--latency", "p95=1ms")):
        assert plan(*words).stdout == ""


def test_the_nearest_limit_can_be_kept(plan):
    said = plan("--latency", "p95=1ms").output
    nearest = said.rsplit("allow ", 1)[1].rstrip(".\n")
    assert plan("--latency", f"p95={nearest}").exit_code == 0


def test_a_link_that_is_down_for_a_while(plan, folder):
    (folder / "down.csv").write_text("trace_id,time_s,throughput_mbps\na,0,5\na,1,0\na,2,5\na,3,5\n")
    found = planned(plan("--json", "--link-csv", "down.csv"))
    assert min(found["link"]["rates_bps"]) == 0.0
    best = next(row for row in found["rows"] if row["policy"] == "FlexSpec")
    assert best["tokens_per_s_p95"]["value"] == 0.0  # for a quarter of the time nothing arrives
    assert best["tokens_per_s_mean"]["value"] == pytest.approx(0.75 * best["tokens_per_s_median"]["value"], rel=1e-6)


def test_a_link_that_is_always_down(plan, folder):
    (folder / "dead.csv").write_text("trace_id,time_s,throughput_mbps\na,0,0\na,1,0\n")
    one_sentence(plan("--link-csv", "dead.csv"), "over a dead link nothing arrives")


def test_users_share_a_band(plan, folder):
    (folder / "users.csv").write_text("name,rate,draft_ms\nnear,40M,8\nfar,400k,20\nmid,4M,\n")
    found = planned(plan("--json", "--users", "users.csv", "--objective", "fair"))["users"]
    assert sum(one["share"] for one in found["users"]) == pytest.approx(1.0, abs=1e-9)
    shares = {one["name"]: one["share"] for one in found["users"]}
    assert shares["far"] > shares["near"]  # the slow link needs more of the band for the same
    assert found["upper_bound"] >= found["value"]
    equal = planned(plan("--json", "--users", "3"))["users"]
    assert equal["server"]["most_tokens_per_s"] >= 1 / 0.030  # a round gives at least one token
    assert [one["share"] for one in equal["users"]] == pytest.approx([1 / 3] * 3, abs=1e-3)


def test_users_of_one_server_draft_in_rounds(plan, folder):
    words = ("--json", "--risk", "text=.3", "--policy", "policy.json", "--row", "ours")
    alone, several = planned(plan(*words)), planned(plan(*words, "--users", "3"))
    names = [{row["policy"] for row in one["rows"]} for one in (alone, several)]
    assert "shared seed, streamed" in names[0] - names[1]
    assert type(read_policy(folder / "policy.json").messages).__name__ != "StreamedTokens"
    assert several["streamed"] is None


def test_policies_that_are_not_ours_have_the_same_users_batches_and_waiting(plan):
    words = (
        "--users",
        "8",
        "--server-batch",
        "4",
        "--down-rate",
        "1G",
        "--rate",
        "1G",
        "--server-draft-ms",
        "5",
        "--json",
    )
    found = planned(plan(*words))
    assert [one["aim"] for one in found["aims"]] == ["one user", "a full server", "8 users"]
    assert found["asked"] == "8 users"
    rows = {row["policy"]: row for row in found["rows"]}
    for name in ("server alone, streaming", "server with its own draft"):  # no time away: two full groups take turns
        c = rows[name]["counts"]
        seconds = 0.030 * c["passes"] + 0.005 * c["server_drafts"]
        assert rows[name]["decides"]["value"] == pytest.approx(4 / seconds, rel=0.03)
    kept = [row["decides"]["value"] for row in found["rows"] if not row["breaks"]]
    assert found["aims"][2]["best"]["number"] == pytest.approx(max(kept), rel=1e-12)
    far = planned(plan(*words, "--rtt", "500ms"))
    rows = {row["policy"]: row for row in far["rows"]}
    assert rows["server alone"]["decides"]["value"] < 8 / 0.53 * 1.01


def test_users_wait_for_one_server(plan):
    words = ("--down-rate", "1G", "--rate", "100M", "--rtt", "5ms")
    few, many = (planned(plan("--json", "--users", count, *words))["users"] for count in ("2", "24"))
    assert few["server"]["binds"] != "server" or few["server"]["binds_from_users"] <= 2
    server = many["server"]
    assert server["binds"] == "server"
    assert server["binds_from_users"] <= 24
    assert server["price"] > 0
    assert 0.95 < server["utilisation"] <= 1.0
    assert many["total_tokens_per_s"] <= many["upper_bound"]
    assert many["gap"] < 0.05
    assert many["total_tokens_per_s"] < many["free_server_tokens_per_s"]
    assert max(one["draft_length"] for one in many["users"]) > max(one["draft_length"] for one in few["users"])
    assert min(one["wait_s"] for one in many["users"]) > 0.1
    batched = planned(plan("--json", "--users", "24", "--server-batch", "8", *words))["users"]
    assert batched["total_tokens_per_s"] > 2.0 * many["total_tokens_per_s"]
    assert 1.0 < batched["server"]["rounds_of_a_pass"] <= 8.0
    assert batched["total_tokens_per_s"] <= batched["upper_bound"]
    shown = plan("--users", "24", *words).output
    assert "it binds, with at most" in shown
    assert f"The server binds from {server['binds_from_users']} such users on (now 24)." in shown


def test_what_binds_is_named_with_the_number_that_says_so(plan):
    """At 500 Mbit/s the air takes nothing, and a server with time left does not bind."""
    words = ("--down-rate", "1G", "--rtt", "20ms", "--users", "4", "--server-batch", "4")
    fast = planned(plan("--json", "--rate", "500M", *words))["users"]["server"]
    assert fast["round_parts"]["air"] < 0.01
    assert fast["binds"] in ("drafts", "round trip", "pass")
    shown = plan("--rate", "500M", *words).output
    assert "the band" not in shown.splitlines()[-1]
    assert f"What takes longest is {BINDS[fast['binds']]}" in shown
    assert f"Full passes are enough for {fast['binds_from_users'] - 1} such users (now 4)." in shown
    assert "The server binds from" not in shown


def test_a_pass_that_should_wait_for_rounds_says_so(plan):
    words = ("--down-rate", "1G", "--rate", "100M", "--rtt", "20ms", "--users", "8", "--server-batch", "4")
    found = planned(plan("--json", *words))["users"]
    server = found["server"]
    assert 1 < server["waits_for_rounds"] <= 4
    assert server["rounds_of_a_pass"] >= server["waits_for_rounds"] - 0.1
    assert server["at_once_tokens_per_s"] < found["total_tokens_per_s"] <= found["upper_bound"]
    assert f"Let it wait for {server['waits_for_rounds']} of them, but for " in plan(*words).output


def test_a_limit_with_confidence(plan):
    mean, sure = (plan("--risk", "text=.6", *words).output for words in ((), ("--confidence", ".8")))
    assert "in the mean over prompts and over calibrations on 13 prompts" in mean
    assert re.search("for 0.8 of all calibrations on 13 prompts|No token may be skipped|The plan is lossless: no", sure)
    found = [planned(plan("--json", "--risk", "text=.6", *words)) for words in ((), ("--confidence", ".8"))]
    thresholds = [
        next(row for row in one["rows"] if row["policy"] == "ours")["threshold"]["value"] or 0.0 for one in found
    ]
    assert thresholds[1] <= thresholds[0]
    assert found[1]["request"]["confidence"] == 0.8
    few = plan("--risk", "token=.1", "--confidence", ".99")
    assert "13 calibration prompts are too few at confidence 0.99" in few.output or "already loses more" in few.output


@pytest.mark.parametrize("value", ["0", "1", "95", "-1", "x"])
def test_a_wrong_confidence(plan, value):
    one_sentence(plan("--risk", "text=.5", "--confidence", value), "--confidence")


def test_the_page_of_several_users_says_that_it_plans_for_one(plan, folder):
    result = plan("--users", "3", "--page", "users.html")
    assert result.exit_code == 0, result.output
    assert "planned 3 users of one\nserver together" in (folder / "users.html").read_text()


@pytest.mark.parametrize("value", ["0", "x", "-1", "1.5"])
def test_a_wrong_batch_of_the_server(plan, value):
    one_sentence(plan("--users", "3", "--server-batch", value), "--server-batch")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,rate\na,10\n", "line 2: rate 10 has no unit"),
        ("name\na\n", "the columns name, rate"),
        ("name,rate\na,0M\n", "line 2: the rate is 0"),
        ("name,rate,weight\na,1M,x\n", "line 2: weight is 'x'"),
        ("name,rate,weight\na,1M,0\n", "line 2: weight is 0"),
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
        ("--rtt", "0ms", "--verify-ms", "1", "--draft-ms", "99", "--row", "server alone"),
        ("--objective", "capacity"),
    ],
)
def test_the_plan_is_written_as_a_policy(plan, folder, words):
    result = plan("--policy", "policy.json", "--json", *words)
    found = planned(result)
    name = words[-1] if "--row" in words else found["aims"][1]["best"]["policy"]
    row = next(row for row in found["rows"] if row["policy"] == name)
    policy = read_policy(folder / "policy.json")
    assert policy.rule.draft_length == row["draft_length"]["value"]
    assert policy.alone == ("--alone" in words)
    assert policy.rule.skips == (row["threshold"]["value"] is not None)
    assert policy.guarantees[0].basis == ("calibrated" if policy.rule.skips else "proved")


def test_a_policy_that_loses_is_written_by_name_alone(plan, folder):
    """By default a server with its own draft is the fastest for one user, and needs no device."""
    (folder / "policy.json").unlink(missing_ok=True)
    refused = plan("--policy", "policy.json")
    assert refused.exit_code == 2
    assert "policy.json is not written: server with its own draft, K = " in refused.output
    assert "name it: --row ours" in refused.output
    assert not (folder / "policy.json").exists()
    one_sentence(plan("--policy", "policy.json", "--row", "SQS2"), "the rows that a device runs are: ours, ")
    one_sentence(plan("--policy", "policy.json", "--row", "device alone"), "breaks the limit of risk")
    given = plan("--policy", "policy.json", "--row", "server alone")
    assert (given.exit_code, read_policy(folder / "policy.json").rule.draft_length) == (0, 0)
    assert "Warning: server alone, one exchange a token loses twice: server with its own draft" in given.output


def test_no_plan_beats_its_bound(plan):
    for words in ((), ("--risk", "text=.6")):
        gap = planned(plan("--json", *words))["gap"]
        assert gap is None or 0.0 <= gap["value"] < 0.2


def test_the_plan_says_what_messages_could_still_add(plan):
    found = planned(plan("--json", "--rate", "1M"))
    said = f"at most {1 + found['message_gain']['value']:.2f} times as fast"
    assert said in " ".join(found["notes"])
    assert found["message_gain"]["value"] >= found["gap"]["value"] >= 0
    own = [row for row in found["rows"] if row["policy"] in ("ours", "shared seed, streamed")]
    best = max(own, key=lambda row: row["tokens_per_s_median"]["value"])
    for row in found["rows"]:
        if row["policy"] in ("FlexSpec", "fixed K, full rows"):  # rounds of a fixed length
            most = best["tokens_per_s_median"]["value"] * (1 + found["message_gain"]["value"])
            assert row["tokens_per_s_median"]["value"] <= 1.1 * most  # on other prompts


def test_a_shared_seed_is_planned_and_left_out(plan, folder):
    slow = ("--rate", "20k", "--json", "--policy", "policy.json")
    planned(plan(*slow, "--row", "shared seed, streamed"))
    policy = read_policy(folder / "policy.json")
    assert (type(policy.messages).__name__, policy.rule.draft_length, policy.bonus) == ("StreamedTokens", 1, False)
    slow = (*slow, "--row", "ours", "--latency", "p95=1000ms")
    found, without = planned(plan(*slow)), planned(plan(*slow, "--no-shared-seed"))
    best, other = (next(row for row in one["rows"] if row["policy"] == "ours") for one in (found, without))
    assert best["option"].startswith("shared seed, K = ")
    assert best["text_risk"] == {"value": 0.0, "basis": "proved", "prompts": None, "low": 0.0, "high": 0.0}
    assert best["tokens_per_s_median"]["value"] > other["tokens_per_s_median"]["value"]
    assert "shared seed" not in {one["option"].split(",")[0] for one in without["menu"]}
    assert (found["request"]["shared_seed"], without["request"]["shared_seed"]) == (True, False)
    planned(plan(*slow))
    policy = read_policy(folder / "policy.json")
    assert type(policy.messages).__name__ == "SeededTokens"
    assert policy.rule.draft_length == best["draft_length"]["value"]
    page = plan("--no-shared-seed", "--page", "plain.html")
    assert page.exit_code == 0
    assert "--no-shared-seed" in (folder / "plain.html").read_text()


def test_one_prompt_is_too_few_to_calibrate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with TraceWriter(tmp_path / "one", 20) as writer:
        rows = [rng.normal(size=(8, 20)).astype(np.float16) for _ in range(2)]
        writer.append(*rows, np.zeros(8, np.int32), np.zeros(8, np.int32), np.arange(8, dtype=np.int32))
    result = run("plan", "--trace", "one", "--risk", "text=.1", "--json")
    found = planned(result)
    best = next(row for row in found["rows"] if row["policy"] == "ours")
    assert best["text_risk"] == {"value": 0.0, "basis": "proved", "prompts": None, "low": 0.0, "high": 0.0}
    assert "too few to split" in " ".join(found["notes"])
    assert "Still proved" in " ".join(found["notes"])


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """A folder with six answers of an engine, half of whose first drafts are accepted, and 0.6 of the second."""
    monkeypatch.chdir(tmp_path)
    one = {
        "num_spec_steps": 10,
        "num_accepted_draft_tokens": 8,
        "num_draft_tokens": 20,
        "acceptance_histogram_by_draft_length": {"2": [5, 2, 3]},
    }
    lines = [json.dumps({"metrics": {"speculative_decoding": one}}) for _ in range(6)]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_counts_of_an_engine(answers):
    found = planned(run("plan", "--acceptance", "answers.jsonl", "--json", "--rate", "1G", "--rtt", "0ms"))
    row = next(row for row in found["rows"] if row["policy"] == "FlexSpec")
    assert row["draft_length"]["value"] in (1.0, 2.0)
    assert found["evidence"]["acceptance_by_depth"] == pytest.approx([0.5, 0.6])
    assert not {"HLM", "SQS", "CU-HLM"} & {row["policy"] for row in found["rows"]}
    one_sentence(run("plan", "--acceptance", "answers.jsonl", "--only", "eagle"), "the engines are: vllm")


def test_two_scrapes_are_planned_by_their_difference(answers):
    """Also where a draft is lacking; then by the least acceptance that the counts allow."""
    (answers / "a.txt").write_text(scrape(10, 30, [8, 4, 2]))
    for drafted, said in ((3030, False), (3029, True)):
        (answers / "b.txt").write_text(scrape(1010, drafted, [738, 474, 302]))
        for words in (("a.txt", "b.txt"), ("a.txt", "--acceptance", "b.txt")):
            found = planned(run("plan", "--json", "--acceptance", *words))
            assert found["evidence"]["acceptance_by_depth"] == pytest.approx([730 / 1000, 470 / 730, 300 / 470])
            assert ("planned is the least acceptance" in " ".join(found["notes"])) is said
    one_sentence(run("plan", "a.txt"), "belongs to no option")


@pytest.mark.parametrize("words", [("--drafts", "greedy"), ("--verification", "match")])
def test_greedy_drafts_and_drafts_that_are_matched_need_their_token_ids_alone(answers, words):
    words = ("--acceptance", "answers.jsonl", *words, "--vocabulary", "100000", "--rate", "1M", "--rtt", "20ms")
    result = run("plan", *words, "--draft-ms", "5", "--down-rate", "1G", "--json")
    found = planned(result)
    assert {row["policy"] for row in found["rows"]} == {
        "server alone",
        "server alone, streaming",
        "server with its own draft",
        "device alone",
        "ours",
    }
    best = next(row for row in found["rows"] if row["policy"] == "ours")
    assert best["option"] == "token ids, K = 2"
    assert best["bits"]["value"] == 16 + 2 * 17  # ⌈log₂ 100,000⌉ = 17
    assert best["text_risk"]["basis"] == "proved"
    tokens = 1 + 0.5 + 0.5 * 0.6
    seconds = 2 * 0.005 + 0.030 + 0.020 + 50 / 1e6 + 24 / 1e9
    assert best["tokens_per_s_median"]["value"] == pytest.approx(tokens / seconds, rel=1e-9)
    assert "token ids alone are sent" in " ".join(found["notes"])
    said = next(option for option in found["menu"] if option["option"] == best["option"])
    assert said["use"] == "Draft 2, send token ids"
    assert said["how"].startswith("The device drafts 2 tokens a round and sends each with its token id alone. ")


def test_the_batch_from_which_drafts_lose_is_said_where_tokens_take_time(answers):
    """Acceptances .5 and .6: one draft makes 1.5 tokens in 23.1 + 4B ms, against 20 + 2B for each."""
    words = ("--acceptance", "answers.jsonl", "--verify-ms", "20", "--server-draft-ms", "3.1")
    said = "Drafts of a server's own model lose from a batch of "
    assert said not in run("plan", *words).output
    (note,) = [
        one for one in planned(run("plan", *words, "--verify-us-per-token", "2000", "--json"))["notes"] if said in one
    ]
    assert note.startswith(f"{said}7 on")


def test_the_page_of_an_engine_repeats_how_its_counts_are_read(answers):
    words = ("--acceptance", "answers.jsonl", "--drafts", "greedy", "--only", "vllm", "--draft-length", "2")
    result = run("plan", *words, "--page", "counts.html", "--json")
    assert result.exit_code == 0, result.output
    page = (answers / "counts.html").read_text(encoding="utf-8")
    command = json.loads(page.split('id="data">')[1].split("</script>")[0])["command"]
    assert planned(run(*command.split()[1:], "--json"))["rows"] == planned(result)["rows"]


def test_marks_that_the_records_state_are_read(answers):
    """A file of records states its marks; nothing need be given, and a contradiction is refused."""
    run("acceptance", "answers.jsonl", "--drafts", "greedy", "--records", "marked.jsonl")
    found = planned(run("plan", "--acceptance", "marked.jsonl", "--json"))
    assert "token ids" in next(row for row in found["rows"] if row["policy"] == "ours")["option"]
    one_sentence(run("plan", "--acceptance", "marked.jsonl", "--drafts", "sampled"), "contradicts it")


def test_drafts_that_are_not_stated_are_planned_with_their_probability(answers):
    found = planned(run("plan", "--acceptance", "answers.jsonl", "--json"))
    assert "--drafts greedy" in " ".join(found["notes"])
    ours = [option["option"] for option in found["menu"] if option["policy"] == "ours"]
    assert ours == ["q_d up, p down, K = 1", "q_d up, p down, K = 2"]


@pytest.mark.parametrize("rule", ["relaxed", "threshold", "synthetic", "fly"])
def test_a_rule_that_loses_the_law_is_not_planned(answers, rule):
    said = f"verification {rule} loses the target's law"
    one_sentence(run("plan", "--acceptance", "answers.jsonl", "--verification", rule), said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--acceptance", "answers.jsonl", "--policy", "policy.json"), "--policy needs a trace"),
        (("--alone",), "--alone is about the policy that --policy writes"),
        (("--row", "ours"), "--row is about the policy that --policy writes"),
        (("--trace", "trace", "answers.jsonl"), "answers.jsonl belongs to no option"),
        (("--acceptance", "answers.jsonl", "--users", "2"), "--users needs a trace"),
        (("--block", "--users", "2"), "--block plans the rounds of one user from a trace"),
        (("--run", "run.jsonl", "--block"), "--block needs a trace"),
        (("--trace", "trace", "--only", "eagle"), "--only reads an engine's counts"),
        (("--trace", "trace", "--draft-length", "3"), "--draft-length reads an engine's counts"),
        (("--trace", "trace", "--drafts", "greedy"), "--drafts reads an engine's counts"),
        (("--trace", "trace", "--link", "a"), "--link names a trace of --link-csv"),
        (("--trace", "trace", "--page", "."), "--page is ., which cannot be a file"),
        (("--trace", "trace", "--policy", "answers.jsonl/policy.json"), "which cannot be a file"),
        (("--trace", "trace", "--users", "none.csv"), "none.csv cannot be read"),
        (("--trace", "trace", "--risk", "text=.1", "--confidence", "2"), "--confidence is 2"),
    ],
)
def test_options_are_refused_before_anything_is_read(answers, monkeypatch, words, said):
    from validation.planning import measure

    def read(*_, **__):
        raise AssertionError("read too early")

    monkeypatch.setattr(measure, "planner_of_trace", read)
    monkeypatch.setattr(measure, "planner_of_acceptance", read)
    one_sentence(run("plan", *words), said)


def test_the_folder_of_a_run_is_taken_for_its_trace(folder, plan):
    found = planned(run("plan", "--trace", folder, "--json"))
    assert found["evidence"]["trace"] == str(folder / "trace")
    assert found["rows"] == planned(plan("--json"))["rows"]


def test_nothing_sent_is_not_a_number(plan):
    """Where every draft is kept no residue of rounding stands for a size; all other numbers are of a usable size."""
    for words in ((), ("--risk", "text=1"), ("--rtt", "0ms", "--verify-ms", "1", "--draft-ms", "99")):
        found = planned(plan("--json", *words))
        for row in found["rows"]:
            sizes = ("k_mean", "k_p95", "bits", "kilobytes_per_token")
            values = [row[name]["value"] for name in sizes]
            assert all(value is None or value > 1e-6 for value in values), row["policy"]
            assert (row["bits"]["value"] is None) == (row["counts"]["exchanges"] == 0.0)
            assert all(count == 0.0 or count > 1e-9 for count in row["counts"].values())
        for option in found["menu"]:
            assert min(option["top_k"]) >= 0.0
    shown = plan().output
    device = next(line for line in shown.splitlines() if line.startswith(" device alone"))
    assert device.split()[3:7] == ["–", "–", "–", "–"]


def test_what_a_policy_breaks_stands_beside_its_name(plan):
    lines = plan().output.splitlines()
    for policy in ("device alone", "U-HLM", "CU-HLM"):
        line = next(line for line in lines if line.startswith(f" {policy} "))
        assert line.removeprefix(f" {policy} ").split()[0] == "risk"


def test_at_80_columns_the_least_important_columns_are_left_out_and_named(plan, monkeypatch):
    from io import StringIO

    from rich.console import Console

    from validation.cli import plan as command

    shown = {}
    for width in (80, 110, 200):
        screen = StringIO()
        monkeypatch.setattr(
            command, "open_console", lambda width=width, screen=screen, **_: Console(file=screen, width=width)
        )
        assert plan("--rate", "10M").exit_code == 0
        shown[width] = screen.getvalue()
        table = shown[width].split("Not shown" if width < 200 else "p: proved")[0]
        assert max(map(len, table.splitlines())) <= width
        assert "…" not in table
        for policy in ("server alone, streaming", "ours"):
            assert f" {policy} " in table
    assert "Not shown at 80 columns: k 95%, k mean, tok/s 95%, kB/token, bits, threshold" in shown[80]
    assert "Not shown at 200" not in shown[200]
    heads = next(line for line in shown[80].splitlines() if line.startswith(" policy"))
    assert {"breaks", "tok/s", "server"} <= set(heads.split())


def test_one_prompt_has_no_interval(tmp_path):
    rng = np.random.default_rng(0)
    with TraceWriter(tmp_path / "three", 20) as writer:
        for text in range(3):
            rows = [(4.0 * rng.normal(size=(8, 20))).astype(np.float16) for _ in range(2)]
            tokens, index = np.zeros(8, np.int32), np.full(8, text, np.int32)
            writer.append(rows[0], rows[0] + 0.3 * rows[1], tokens, index, np.arange(8, dtype=np.int32))
    result = run("plan", "--trace", tmp_path / "three", "--rtt", "60ms", "--draft-ms", "1")
    assert result.exit_code == 0, result.output
    assert " to 1." not in result.output
    assert "(one prompt)" in next(line for line in result.output.splitlines() if line.startswith(" ours "))


@pytest.mark.parametrize("texts", ["corpus", "target"])
def test_a_plan_from_a_corpus_says_that_the_target_did_not_write_the_text(tmp_path, texts):
    rng = np.random.default_rng(0)
    with TraceWriter(tmp_path / "trace", 20, {"texts": texts}) as writer:
        rows = [rng.normal(size=(40, 20)).astype(np.float16) for _ in range(2)]
        writer.append(*rows, np.zeros(40, np.int32), np.repeat(np.arange(5, dtype=np.int32), 8), np.arange(40) % 8)
    found = planned(run("plan", "--trace", tmp_path / "trace", "--json"))
    assert ("the target model did not write them" in " ".join(found["notes"])) == (texts == "corpus")


def test_a_seal_makes_every_exchange_longer(plan):
    """Over a slow link its bits are charged up and down; without an exchange nothing is."""
    words = ("--json", "--rate", "100k", "--rtt", "20ms")
    bare, tight = ({row["policy"]: row for row in planned(plan(*words, "--seal", s))["rows"]} for s in ("none", "hmac"))
    alone = [rows["server alone"]["tokens_per_s_mean"]["value"] for rows in (bare, tight)]
    assert 1 / alone[1] - 1 / alone[0] == pytest.approx(2 * 168 / 100e3, rel=1e-6)
    assert tight["device alone"] == bare["device alone"]
    assert tight["ours"]["tokens_per_s_mean"]["value"] <= bare["ours"]["tokens_per_s_mean"]["value"]
