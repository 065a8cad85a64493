"""The study of `figures/experiments/plan`: its clock against the loop's, its methods against the options they play."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from hlmtheory.channel import TraceLink
from tests.validation.tiny_texts import quarters
from validation.collection.prompts import Prompt
from validation.decoding.links import TracedLink, Way
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import Dssd
from validation.decoding.methods.single_draft import CloudOnly
from validation.decoding.retiming import retime
from validation.models.tables import table_pair
from validation.planning.menu import COLOCATED, CU_HLM, FIXED, FLEXSPEC, HLM, OURS, SQS, U_HLM, Line, Option
from validation.planning.positions import LATTICES
from validation.planning.rounds import Wire, expected_counts

EXPERIMENT = Path(__file__).resolve().parents[3] / "figures" / "experiments" / "plan"
README = (EXPERIMENT / "README.md").read_text(encoding="utf-8")
sys.path.insert(0, str(EXPERIMENT))
sessions = importlib.import_module("plan_sessions")
methods = importlib.import_module("plan_options")
study = importlib.import_module("plan_study")
sys.path.remove(str(EXPERIMENT))

PROMPTS = [Prompt(name, "0", "test") for name in ("one", "two", "three", "four", "five")]
TIMES, ROUND_TRIP_S, DOWN_BPS = (0.0125, 0.03125), 0.25, 4096.0


def links(count=7):
    """Recorded links of several lengths, with slots in which nothing arrives."""
    rng = np.random.default_rng(5)
    found = {}
    for number in range(count):
        slots = int(rng.integers(3, 9))
        rates = rng.choice([0.0, 100.0, 1000.0, 50000.0], slots)
        rates[0] = 500.0
        found[f"link {number}"] = TraceLink(np.cumsum(rng.uniform(0.25, 2.0, slots)), rates)
    return found


def test_transfers_over_all_links_are_those_of_each():
    own = links()
    side = sessions.Links(own)
    rng = np.random.default_rng(6)
    for bits in (1.0, 777.0, 123456.0):
        start = rng.uniform(0, 40, len(own))
        each = [float(link.transfer_time(bits, s)) for link, s in zip(own.values(), start, strict=True)]
        np.testing.assert_allclose(side.transfer(bits, start), each, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", [Dssd(2), CloudOnly()])
def test_a_session_of_one_text_takes_as_long_as_in_the_loop(method):
    rng = np.random.default_rng(7)
    pair = table_pair(quarters(rng, 40), quarters(rng, 40))
    records = decode(pair, PROMPTS[:1], method, new_tokens=3, times=TIMES)
    own = links()
    down = np.full(len(own), DOWN_BPS)
    seconds, _ = sessions.session_seconds(
        sessions.Rounds.of(records, real_bytes=True), sessions.Links(own), TIMES, ROUND_TRIP_S, down
    )
    for number, (name, source) in enumerate(own.items()):
        link = TracedLink(name, source, Way(ROUND_TRIP_S / 2, DOWN_BPS))
        (timed,) = retime(records, link, [method], times=TIMES)
        assert seconds[number, 0] == pytest.approx(timed.seconds, rel=1e-9)


def test_texts_follow_each_other_on_a_link():
    own = links()
    rounds = sessions.Rounds.alone(np.array([3.0, 2.0]), server=True, width=12)
    both, _ = sessions.session_seconds(rounds, sessions.Links(own), TIMES, ROUND_TRIP_S, np.full(len(own), DOWN_BPS))
    whole = sessions.Rounds.alone(np.array([5.0]), server=True, width=12)
    one, _ = sessions.session_seconds(whole, sessions.Links(own), TIMES, ROUND_TRIP_S, np.full(len(own), DOWN_BPS))
    np.testing.assert_allclose(both.sum(axis=1), one[:, 0], rtol=1e-12)


@pytest.mark.parametrize("k", [0, 1, 2, 4])
def test_the_clairvoyant_is_never_slower_than_a_fixed_length(k):
    rng = np.random.default_rng(9)
    accepted, length, costs = rng.random((4, 6)), np.array([6, 5, 3, 6]), study.Costs(0.05, 0.012, 0.02)
    counts = expected_counts(accepted.T, np.zeros((6, 4)), length, k, wire=Wire(0.0, 0.0, 1.0))
    expected = (counts.exchanges * 0.05 + counts.drafts * 0.012 + counts.down_bits * 0.02).sum()
    fixed = study.text_seconds(accepted, length, [k], costs)
    assert fixed == pytest.approx(expected, rel=1e-12)
    assert study.text_seconds(accepted, length, range(5), costs) < fixed


def option(family, label="", *, k=2, threshold=-np.inf, codec=None):
    """An option without counts."""
    none = np.zeros(1)
    return Option(family, label, np.zeros((1, 8)), k, threshold, none, none, (1, 1), codec)


@pytest.mark.parametrize(
    "one",
    [
        option(FIXED, "K = 2"),
        option(HLM, k=1),
        option(U_HLM, "u ≤ 0.5", k=1, threshold=0.5),
        option(CU_HLM, "offline k = 2, u ≤ 0.5", k=1, threshold=0.5),
        option(CU_HLM, "online, u ≤ 0.5", k=1, threshold=0.5),
        option(CU_HLM, "certified, Bias ≤ 0.5, u ≤ 0.5", k=1, threshold=0.5),
        option(SQS, f"{LATTICES[6].name}, B = 1000"),
        option(SQS, f"{LATTICES[6].name}, K = 2"),
        option(FLEXSPEC, "K = 3", k=3, codec=0),
        option(OURS, "a", codec=0, threshold=0.5),
        option(OURS, "b", codec=7),
        option(OURS, "c", codec=8, threshold=0.5, k=3),
    ],
)
def test_every_option_is_played(one):
    rng = np.random.default_rng(8)
    pair = table_pair(quarters(rng, 1100), quarters(rng, 1100))
    method = methods.method_of(one, Line(0.5, 0.0, 0.1, 0.9))
    records = decode(pair, PROMPTS, method, new_tokens=6, times=TIMES, risk=True)
    assert all(len(record.tokens) <= 6 for record in records)
    if one.threshold == -np.inf:
        assert sum(record.total("skipped") for record in records) == 0
    if one.family in (FIXED, FLEXSPEC, OURS):
        assert max(round_.drafted for record in records for round_ in record.rounds) == one.draft_length
    else:
        assert method.name


def test_a_server_with_its_own_draft_plays_the_rounds_of_a_device():
    lattice = LATTICES[6].name
    device = [option(FLEXSPEC, "K = 3"), option(SQS, f"{lattice}, K = 3"), option(SQS, f"{lattice}, B = 250")]
    labels = ("K = 3", f"K = 3, drafts from {lattice}", f"drafts from {lattice}, B = 250")
    assert [methods.twin_of(option(COLOCATED, label), device) for label in labels] == [0, 1, 2]


def test_a_server_that_streams_takes_no_round_trips():
    own = links()
    rounds = sessions.Rounds(
        *(np.array(x) for x in ([2.0, 1.0, 2.0], [1.0] * 3, [80.0] * 3, [16.0] * 3, [0, 0, 1], [4.0, 3.0]))
    )
    down = np.full(len(own), DOWN_BPS)
    found, _ = sessions.session_seconds(rounds.streamed(0.5, 12), sessions.Links(own), TIMES, ROUND_TRIP_S, down)
    expected = [2 * TIMES[1] + 3 * TIMES[0] / 2 + 4 * 16 / DOWN_BPS, TIMES[1] + TIMES[0] + 3 * 16 / DOWN_BPS]
    np.testing.assert_allclose(found, np.tile(expected, (len(own), 1)), rtol=1e-12)


def test_the_readme_says_what_the_study_stored():
    """Every number of the README's table, to the two digits that it prints."""
    found = json.loads((EXPERIMENT / "builtin.json").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| (lossless|text \.3|token \.05)(, free downlink)? \|(.+)\|$", README, flags=re.M)
    assert len(rows) == 6
    baselines = (
        "server with its own draft",
        "server alone, streaming",
        "server alone",
        "fixed K, full rows",
        "HLM",
        "U-HLM",
        "CU-HLM",
        "SQS",
        "FlexSpec",
    )
    for limit, free, cells in rows:
        part = found["downlink 1 Gbit/s" if free else "downlink as the uplink's median"][limit]
        speed, *shown = (cell.strip(" *") for cell in cells.split("|"))
        assert float(speed) == pytest.approx(part["policies"]["ours"]["decoded_tokens_per_s"]["median"], abs=0.051)
        for baseline, cell in zip(baselines, shown, strict=True):
            row = part["policies"].get(baseline)
            if row is None:
                assert cell == "–"
            else:
                assert float(cell) == pytest.approx(row["ours_over_it"]["median"], abs=0.0051), (limit, baseline)
        links = part["by_link"]
        pairs = zip(links["decoded"], links["best_in_hindsight"], strict=True)
        assert all(own <= best * (1 + 1e-6) + 1e-4 for own, best in pairs if own is not None)
