"""flexspec's tables from counted rounds: the replay against the loop, times by hand, and the stored counts."""

import importlib
from typing import Any

import numpy as np
import pytest

from tests.validation.tiny_texts import nodes, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength, FlexSpec
from validation.decoding.methods.single_draft import Hlm
from validation.decoding.studies import flexspec_links
from validation.plots.flexspec import counted as c

rows = importlib.import_module("figures.studies.flexspec_tables.decode_rows")

NEW_TOKENS, DEPTH = 14, 8


def columns(records: list[Any]) -> c.Texts:
    return c.Texts(*np.asarray([rows.counts(record) for record in records], dtype=np.float64).T)


def same(one: c.Texts, other: c.Texts) -> None:
    for name in c.Texts.__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("seed", range(4))
def test_the_replayed_counts_at_temperature_0_are_those_of_the_loop(seed: int) -> None:
    target, other = np.random.default_rng(seed).dirichlet(np.full(3, 0.6), (2, nodes(3, DEPTH)))
    pair = table_pair(0.7 * target + 0.3 * other, target)
    prompts = [Prompt(f"{i:03}", "0", "GSM8K") for i in range(3)]
    settings: dict[str, Any] = {"temperature": 0.0, "new_tokens": NEW_TOKENS, "times": (0.0, 0.0)}
    fates = [c.fate_of(rows.flags(one), NEW_TOKENS) for one in decode(pair, prompts, Hlm(), **settings)]
    for length in (1, 3, 5):
        decoded = columns(decode(pair, prompts, FixedLength(length), **settings))
        same(c.replayed(fates, [c.fixed(length)] * 3, vocabulary=3, lossless=False, method=c.NO_AVERAGE), decoded)
    link = flexspec_links()[2]
    costs = {"propagation_s": 2.0 * link.way.propagation_s, "edge_slope_s": 0.4, "header_bits": 0.0}
    for policy, make, method in (("exact", c.by_optimum, "consistent"), ("linear", c.by_surrogate, "ema_printed")):
        decoded = columns(decode(pair, prompts, FlexSpec(policy, costs=costs), link=link, **settings))
        rule = make(*c.cost("WiFi", 0.4, 2.0), 8)
        same(c.replayed(fates, [rule] * 3, vocabulary=3, lossless=False, method=method), decoded)
