"""The command ``hlm plan``."""

from __future__ import annotations

import json

import pytest

from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from validation.decoding.policy_file import read_policy


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


def test_the_plan_is_the_best_of_its_pool_and_keeps_the_limits(plan):
    found = {row["policy"]: row for row in planned(plan("--json", "--latency", "p95=90ms"))["rows"]}
    best = found["ours"]
    assert best["breaks"] == []
    assert best["text_risk"]["value"] == 0.0
    assert best["text_risk"]["basis"] == "proved"
    for other in ("server alone", "FlexSpec"):
        if not found[other]["breaks"]:
            assert best["tokens_per_s_mean"]["value"] >= 0.98 * found[other]["tokens_per_s_mean"]["value"]


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
        if one["policy"] in ("ours", "server alone", "device alone")
        and one["allowed"]["text"] is not None
        and one["allowed"]["text"] <= 0.6
    ]
    best = max(pool, key=lambda one: speed(one["counts"]["train"]))
    row = next(row for row in found["rows"] if row["policy"] == "ours")
    assert row["option"].endswith(best["option"])
    assert row["tokens_per_s_median"]["value"] == pytest.approx(speed(best["counts"]["test"]), rel=1e-9)
    assert any(0 < (one["allowed"]["text"] or 0) <= 0.6 for one in pool)  # the limit has something to decide


def test_a_longer_round_trip_slows_the_server_alone_as_computed(plan):
    for milliseconds in (10, 40):
        rows = planned(plan("--json", "--rtt", f"{milliseconds}ms", "--down-rate", "1G", "--rate", "1G"))["rows"]
        alone = next(row for row in rows if row["policy"] == "server alone")
        seconds = 0.030 + milliseconds / 1e3 + (8 + 8) / 1e9  # a request of one byte, a token of one byte
        assert alone["tokens_per_s_median"]["value"] == pytest.approx(1 / seconds, rel=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rtt", "20"), "has no unit; write 20ms"),
        (("--rate", "0M"), "dead link"),
        (("--latency", "p95=1ms"), "the shortest round takes 50.0 ms; allow 5"),
        (("--objective", "goodput"), "give --latency"),
        (("--users", "many"), "--users is 'many'"),
    ],
)
def test_what_is_refused(plan, words, said):
    one_sentence(plan(*words), said)


def test_a_link_that_is_down_for_a_while(plan, folder):
    (folder / "down.csv").write_text("trace_id,time_s,throughput_mbps\na,0,5\na,1,0\na,2,5\na,3,5\n")
    found = planned(plan("--json", "--link-csv", "down.csv"))
    assert min(found["link"]["rates_bps"]) == 0.0
    best = next(row for row in found["rows"] if row["policy"] == "ours")
    assert best["tokens_per_s_p95"]["value"] == 0.0  # for a quarter of the time nothing arrives
    assert best["tokens_per_s_mean"]["value"] == pytest.approx(0.75 * best["tokens_per_s_median"]["value"], rel=1e-6)


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


@pytest.mark.parametrize(
    "words", [("--alone",), ("--risk", "text=.6"), ("--rtt", "0ms", "--verify-ms", "1", "--draft-ms", "99")]
)
def test_the_plan_is_written_as_a_policy(plan, folder, words):
    result = plan("--policy", "policy.json", "--json", *words)
    row = next(row for row in planned(result)["rows"] if row["policy"] == "ours")
    policy = read_policy(folder / "policy.json")
    assert policy.rule.draft_length == row["draft_length"]["value"]
    assert policy.alone == ("--alone" in words)
    assert policy.rule.skips == (row["threshold"]["value"] is not None)
    assert policy.guarantees[0].basis == ("calibrated" if policy.rule.skips else "proved")


def test_no_plan_beats_its_bound(plan):
    for words in ((), ("--risk", "text=.6")):
        gap = planned(plan("--json", *words))["gap"]
        assert gap is None or 0.0 <= gap["value"] < 0.2


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """A folder with six answers of an engine, half of whose first drafts are accepted, and 0.6 of the second."""
    monkeypatch.chdir(tmp_path)
    one = {"num_spec_steps": 10, "num_accepted_draft_tokens": 8, "num_draft_tokens": 20}
    one["acceptance_histogram_by_draft_length"] = {"2": [5, 2, 3]}
    lines = [json.dumps({"metrics": {"speculative_decoding": one}}) for _ in range(6)]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    return tmp_path


def test_counts_of_an_engine(answers):
    found = planned(run("plan", "--acceptance", "answers.jsonl", "--json", "--rate", "1G", "--rtt", "0ms"))
    row = next(row for row in found["rows"] if row["policy"] == "FlexSpec")
    assert row["draft_length"]["value"] in (1.0, 2.0)
    assert found["evidence"]["acceptance_by_depth"] == pytest.approx([0.5, 0.6])
    assert not {"HLM", "SQS", "CU-HLM"} & {row["policy"] for row in found["rows"]}


@pytest.mark.parametrize("words", [("--drafts", "greedy"), ("--verification", "match")])
def test_greedy_drafts_and_drafts_that_are_matched_need_their_token_ids_alone(answers, words):
    words = ("--acceptance", "answers.jsonl", *words, "--vocabulary", "100000", "--rate", "1M", "--rtt", "20ms")
    result = run("plan", *words, "--draft-ms", "5", "--down-rate", "1G", "--json")
    found = planned(result)
    best = next(row for row in found["rows"] if row["policy"] == "ours")
    assert best["option"] == "token ids, K = 2"
    assert best["bits"]["value"] == 16 + 2 * 17  # ⌈log₂ 100,000⌉ = 17
    assert best["text_risk"]["basis"] == "proved"
    tokens = 1 + 0.5 + 0.5 * 0.6
    seconds = 2 * 0.005 + 0.030 + 0.020 + 50 / 1e6 + 24 / 1e9
    assert best["tokens_per_s_median"]["value"] == pytest.approx(tokens / seconds, rel=1e-9)


@pytest.mark.parametrize("rule", ["relaxed", "threshold", "synthetic", "fly"])
def test_a_rule_that_loses_the_law_is_not_planned(answers, rule):
    said = f"verification {rule} loses the target's law"
    one_sentence(run("plan", "--acceptance", "answers.jsonl", "--verification", rule), said)


def test_a_seal_makes_every_exchange_longer(plan):
    """Over a slow link its bits are charged up and down; without an exchange nothing is."""
    words = ("--json", "--rate", "100k", "--rtt", "20ms")
    bare, tight = ({row["policy"]: row for row in planned(plan(*words, "--seal", s))["rows"]} for s in ("none", "hmac"))
    alone = [rows["server alone"]["tokens_per_s_mean"]["value"] for rows in (bare, tight)]
    assert 1 / alone[1] - 1 / alone[0] == pytest.approx(2 * 168 / 100e3, rel=1e-6)
    assert tight["device alone"] == bare["device alone"]
    assert tight["ours"]["tokens_per_s_mean"]["value"] <= bare["ours"]["tokens_per_s_mean"]["value"]
