"""The sentence of every option of a menu says its fields: how many drafts, what is sent, what is kept."""

from __future__ import annotations

import json
import re

import pytest

from tests.validation.command_line import run
from tests.validation.stored_traces import stored
from validation.planning.menu import FAMILIES, STREAMED, WITHOUT_DEVICE
from validation.planning.positions import LATTICES
from validation.planning.profile import SEEDED


@pytest.fixture(scope="module")
def menu(tmp_path_factory):
    """The menu of ``hlm plan --json``."""
    folder = tmp_path_factory.mktemp("words")
    stored(folder / "trace")
    result = run("plan", "--trace", folder / "trace", "--verify-us-per-token", "50", "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)["menu"]


def label_of(option):
    """What the words say, written as the option's label."""
    drafts = re.search(r"drafts (\d+) tokens? a round", option["how"])[1]
    said = option["how"]
    if (top := re.search(r"with the (\d+) largest probabilities, in steps of 1/(\d+)\.", said)) is not None:
        sent = f"lattice k = {top[1]}, ℓ = {top[2]}"
    elif (above := re.search(r"with the probabilities of at least ([\d.]+), in steps of 1/(\d+)\.", said)) is not None:
        sent = f"lattice τ = {above[1]}, ℓ = {above[2]}"
    elif "with its token id alone, drawn by a seed that the server has too." in said:
        sent = "shared seed"
    else:
        assert "with its probability alone." in said
        sent = "q_d up, p down"
    kept = re.search(r"uncertainty at most ([\d.]+) is kept without verification\.$", said)
    return f"{sent}, K = {drafts}" + ("" if kept is None else f", u ≤ {kept[1]}")


def test_the_sentence_of_every_option_of_ours_is_its_label_in_words(menu):
    ours = [option for option in menu if option["policy"] == "ours"]
    sentences = {}
    for option in ours:
        if option["threshold"] == 1.0:
            assert option["how"] == "The device keeps every token of the draft model. The server is not asked."
            assert option["use"] == "Keep every draft"
            continue
        assert label_of(option) == option["option"]
        sentences.setdefault((option["use"], option["how"]), []).append(option["option"])
    assert len(ours) > 1600
    assert all(len(labels) == 1 for labels in sentences.values())  # no two options have the same words


def test_the_headline_of_every_option_of_ours_says_the_same(menu):
    for option in menu:
        if option["policy"] != "ours" or option["threshold"] == 1.0:
            continue
        seeded = option["codec"] == SEEDED
        lattice = LATTICES[option["codec"] - 1] if option["codec"] and not seeded else None
        sent, how = ("token ids", " by a shared seed") if seeded else ("one probability", "")
        if lattice is not None:
            sent = f"the top {lattice.k}" if lattice.k else f"q ≥ {lattice.threshold}"
        kept = "" if option["threshold"] is None else f", keep u ≤ {option['threshold']:g}"
        assert option["use"] == f"Draft {option['draft_length']:g}{how}, send {sent}{kept}"


def test_every_policy_is_described(menu):
    assert {option["policy"] for option in menu} == set(FAMILIES) - {STREAMED}  # it has other counts at other times
    for option in menu:
        assert option["how"].endswith(".")
        assert option["use"][0].isupper()
        assert "None" not in option["use"] + option["how"]
        assert "inf" not in option["use"] + option["how"]
        if option["policy"] not in (*WITHOUT_DEVICE, "ours", "device alone"):
            assert option["option"] in option["use"]
            assert option["use"].casefold().startswith(option["policy"].casefold())
