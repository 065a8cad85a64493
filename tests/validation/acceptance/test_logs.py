"""Logs without step counts, and means without counts: the counts are found again, or said to be missing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.validation.acceptance.test_engines import FIRST, records_of, statistics, stored, window
from validation.acceptance.engines import read_acceptance
from validation.acceptance.means import read_means
from validation.acceptance.sanity import sanity
from validation.acceptance.summary import summarise
from validation.errors import UserError

SECOND = window(55, (38, 23, 21, 10, 7, 4, 3))
LOG = window(23, FIRST) + "(APIServer pid=911) INFO another line\n" + SECOND


def test_windows_of_a_log_add_up_to_the_counts_of_a_scrape(tmp_path):
    """161 drafts of 23 steps show little; 27.3% of all drafts is 1.91 accepted of 7."""
    (record,) = records_of(stored(tmp_path, "server.log", LOG))
    assert record.accepted_per_position == (55, 34, 27, 14, 10, 6, 4)
    assert (record.num_spec_steps, record.num_draft_tokens) == (78, 546)
    docker = "".join(json.dumps({"log": line, "stream": "stdout"}) + "\n" for line in LOG.splitlines(keepends=True))
    assert records_of(stored(tmp_path, "container.log", docker))[0].counts() == record.counts()
    records = records_of(stored(tmp_path, "short.log", window(23, FIRST)))
    said = " ".join(sanity(records, summarise(records)))
    for part in ("27.3% of all drafts is 1.91 accepted of 7", "23 steps show little", "drafts = K x steps: holds"):
        assert part in said


@pytest.mark.parametrize("steps", [1, 7, 100, 499, 5000])
@pytest.mark.parametrize("longest", [1, 4, 9])
def test_counts_are_found_from_rounded_rates(tmp_path, steps, longest):
    """Exactly where a digit is finer than a step; else up to the digit. Also where the last draft was cut short."""
    places = np.cumprod(np.random.default_rng(steps * longest).random((steps, longest)) < 0.7, axis=1).sum(axis=0)
    for drafted in {steps * longest, max(steps * longest - longest + 1, int(places.sum()))}:
        (record,) = records_of(stored(tmp_path, "a.log", window(steps, places.tolist(), drafted)))
        assert record.num_spec_steps == steps
        assert np.abs(np.array(record.accepted_per_position) - places).max() <= (0.001 * steps if steps > 499 else 0)


def test_logs_of_several_servers_cut_and_damaged_logs(tmp_path):
    several = stored(tmp_path, "a.log", window(23, FIRST, prefix="a-1  | INFO") + SECOND.replace("(API", "b-1  | (API"))
    assert [record.engine for record in records_of(several)] == ["vllm a-1", "vllm b-1"]
    with pytest.raises(UserError, match="2 largest draft lengths"):
        summarise(records_of(stored(tmp_path, "b.log", LOG + window(10, (5, 2)))))
    ranks = read_acceptance(stored(tmp_path, "c.log", LOG + window(23, FIRST, prefix="(ApiServer_1 pid=7) INFO")))
    assert (ranks.records[0].num_spec_steps, "2 server processes" in ranks.notes[0]) == (101, True)
    cut = read_acceptance(stored(tmp_path, "d.log", LOG[:-60]))
    assert (cut.records[0].num_spec_steps, "cut off" in cut.left_out[0].reason) == (23, True)
    models = "INFO config: served_model_name=one, x\nINFO config: served_model_name=two, x\n"
    for text, said in (
        (models + LOG, r"serves 2 models \(one, two\)"),
        (LOG.replace("Accepted: 44", "Accepted: 45"), "no number of steps gives 45 accepted of 161"),
    ):
        with pytest.raises(UserError, match=said):
            records_of(stored(tmp_path, "e.log", text))


def test_totals_of_llama_drafters_grow_and_restart(tmp_path):
    early, late = statistics("draft-mtp", 20, 60, (15, 9, 4)), statistics("draft-mtp", 50, 150, (40, 22, 9))
    assert records_of(stored(tmp_path, "a.log", early + late))[0].counts() == {3: (10, 18, 13, 9)}
    (record,) = records_of(stored(tmp_path, "b.log", late + early))  # the server was restarted
    assert (record.num_spec_steps, record.num_accepted_draft_tokens) == (70, 99)
    both = records_of(stored(tmp_path, "c.log", late + statistics("ngram-mod", 8, 24, (3, 3, 3))))
    assert [(r.engine, r.copied) for r in both] == [("llama.cpp draft-mtp", False), ("llama.cpp ngram-mod", True)]


GOLDEN = "# key = num_speculative_tokens\nmodel:\n  thinking_off:\n    1: 1.81\n    2: 2.47\n    3: 2.95\n"


def test_golden_lengths_have_no_interval_and_the_nearest_curve_does_not_fall(tmp_path):
    found = read_means(stored(tmp_path, "golden.yaml", GOLDEN + "    4: 3.33\n    5: 3.52\n    6: 3.49\n    7: 3.71\n"))
    assert [point.nearest for point in found.points][3:] == pytest.approx([3.33, 3.505, 3.505, 3.71])
    assert "falls at K = 6 (3.52 to 3.49)" in found.remarks[0]
    assert read_means(stored(tmp_path, "b.yaml", GOLDEN)).points[-1].nearest is None
    for text, said in ((GOLDEN.replace("2.47", "3.2"), "emits 1 to 3"), (GOLDEN.replace("1.81", "0.81"), "AL - 1")):
        with pytest.raises(UserError, match=said):
            read_means(stored(tmp_path, "c.yaml", text))
    with pytest.raises(UserError, match="means without counts"):
        read_acceptance(stored(tmp_path, "d.yaml", GOLDEN))
    assert read_means(stored(tmp_path, "e.json", {"model": {"off": {"1": 1.5}}})).points[0].draft_length == 1


def test_a_matrix_and_a_log_of_means(tmp_path):
    found = read_means(stored(tmp_path, "m.csv", "Model,coding,math,Overall\nm,2.34,N/A,2.2\n"))
    assert [(point.name, point.length) for point in found.points] == [("m coding", 2.34), ("m Overall", 2.2)]
    line = "[2026-07-30 13:35:13 TP0] Decode batch, #running-req: {}, #token: 257, token usage: 0.00, accept len: {}, "
    line += "accept rate: {}, cuda graph: True, gen throughput (token/s): 93.65, #queue-req: 0\n"
    for rates in ((0.61, 0.45), (0.71, 0.59)):  # accepted over drafts; in older versions tokens over K + 1
        lines = line.format(1, 2.83, rates[0]) + line.format(3, 2.35, rates[1])
        (point,) = read_means(stored(tmp_path, "s.log", lines)).points
        assert (point.length, point.draft_length) == (2.47, 3)
