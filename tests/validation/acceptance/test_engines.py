"""Records of accepted drafts, read from files that are written field by field from the engines' documentation.

Short ones lie in ``samples``: ``later.log.txt`` is llama-server 0.5.0's of the built-in pair.
"""

import gzip
import json
import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from validation.acceptance.engines import read_acceptance
from validation.acceptance.record import AcceptanceRecord, add, marked, refuse_mixture
from validation.errors import UserError


def scrape(drafts: int, drafted: int, places: list[int], model: str = "m") -> str:
    labels, name = f'engine="0",model_name="{model}"', "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [
        "# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.",
        f"vllm:spec_decode_num_drafts_total{{{labels}}} {float(drafts)}",
        f"vllm:spec_decode_num_drafts_created{{{labels}}} 1.7e+09",
        f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {drafted:e}",
        f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} {sum(places)}",
        'vllm:num_requests_running{engine="0"} 2.0',
        *(f'{name}{{{labels},position="{i}"}} {float(count)}' for i, count in enumerate(places)),
    ]
    return "\n".join(lines) + "\n"


FIRST = (17, 11, 6, 4, 3, 2, 1)


def window(steps, places, drafted=None, prefix="(APIServer pid=911) INFO 08-05 09:12:07 [metrics.py:100]"):
    accepted, drafted = sum(places), drafted or steps * len(places)
    rates = ", ".join(f"{count / steps:.3f}" for count in places)
    return (
        f"{prefix} SpecDecoding metrics: Mean acceptance length: {1 + accepted / steps:.2f}, Accepted throughput: 4.40 "
        f"tokens/s, Drafted throughput: 16.10 tokens/s, Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
        f"Per-position acceptance rate: {rates}, Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%\n"
    )


def statistics(name, steps, drafted, places):
    rates = ", ".join(f"{count / steps:.3f}" for count in places)
    return (
        f"0.42.130.633 I spec common_specu: statistics {name:>16}: #calls(b,g,a) =    4    542 {steps:6}, #gen drafts "
        f"= {steps:6}, #acc drafts = {places[0]:5}, #gen tokens = {drafted:6}, #acc tokens = {sum(places):5}, #mean "
        f"acc len = {1 + sum(places) / steps:.2f}, #acc rate/pos = ({rates}), dur(b,g,a) = 0.688, 0.851, 0.021 ms\n"
    )


REQUEST = {"mean_acceptance_length": 1.2325581395348837, "draft_acceptance_rate": 0.07751937984496124}
REQUEST |= {"acceptance_histogram": [39, 1, 0, 3], "acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3]}}
REQUEST |= {"num_spec_steps": 43, "num_accepted_draft_tokens": 10, "num_draft_tokens": 129, "num_spec_tokens": 3}
"""The example of vLLM's documentation."""
VLLM = {"usage": {"completion_tokens": 53}, "metrics": {"speculative_decoding": REQUEST}}
LLAMA_LOG_PLACES = (  # as the server of release b11549 wrote it for SmolLM2, at verbosity 4
    "0.11.497.928 I slot print_timing: id  0 | task 0 | draft acceptance = 0.23684 (    9 accepted /    38 generated), "
    "mean len =  1.69\n0.11.497.934 I slot print_timing: id  0 | task 0 |      acc per pos = (0.462, 0.231, 0.000)\n"
)
TIMED = (  # before llama.cpp printed lengths, in both spellings
    "prompt eval time =  210.1 ms /  34 tokens (6.18 ms per token, 161.82 tokens per second)\n"
    "       eval time = 2680.0 ms / 134 tokens (20.00 ms per token, 50.00 tokens per second)\n"
    "      total time = 2890.1 ms / 168 tokens\ndraft acceptance{} = 0.57576 (   76 accepted /   132 generated)\n"
)
OLD = "statistics draft: #calls = 60, #gen drafts = 57, #acc drafts = 40, #gen tokens = 132, #acc tokens = 76\n"
EXAMPLE = "n_draft   = 8\nn_predict = 130\nn_drafted = 240\nn_accept  = 99\naccept    = 41.250%\n"
OLDEST = (  # vLLM's of 2024: totals that grow
    "INFO Speculative metrics: Draft acceptance rate: 0.588, System efficiency: {}, Number of speculative tokens: "
    "3, Number of accepted tokens: {}, Number of draft tokens: {}, Number of emitted tokens: 160.\n"
)
ITERATIONS = "".join(  # of two ranks that repeat one another's counts, as a Python dictionary behind a prefix
    f"[TRT-LLM] [I] {{'iter': {i}, 'attentionDpRank': {rank}, 'specDecodingStats': {{'numDraftTokens': 24, "
    f"'numAcceptedTokens': {12 + i}, 'numRequestsWithDraftTokens': 8, 'acceptanceLength': {2.5 + i / 8}}}}}\n"
    for i in range(2)
    for rank in range(2)
)
EVALUATED = "[I] Spec-dec stats: AL (decoded tokens/step, iteration-weighted) 2.562 (per-request min 1.2, max 3, n=4)\n"
EVALUATED += "[I] Spec-dec stats: AR (corpus draft acceptance) 25/48 = 52.1%\n"
SPECDEC = [{"Request_AL": {}, "Average_AL": 9.9, "Acceptance_Length_Histogram": {"1": 40, "2": 30, "4": 30}}]
SPEC_BENCH = {"question_id": 81, "choices": [{"turns": ["a"], "accept_lengths": [3, 1]}, {"accept_lengths": [2]}]}
SAMPLES = Path(__file__).parent / "samples"
CASES = {
    # content, or None for that of a sample, and (engine, steps, accepted, drafts, histogram)
    "vllm.log": (window(23, FIRST), ("vllm", 23, 44, 161, None)),
    "several.log": (window(1000, (500, 250)), ("vllm", 1000, 750, 2000, None)),  # 1,001 steps fit the digits, too
    "shorter.log": (window(643, (354, 64), 1226), ("vllm", 643, 418, 1226, None)),  # 642 fit, and are no nearer
    "oldest.log": (OLDEST.format(0.4, 60, 102) + OLDEST.format(0.4, 120, 204), ("vllm", 68, 120, 204, None)),
    "windows.log": (OLDEST.format("nan", 60, 102) * 2, ("vllm", 68, 120, 204, None)),
    "statistics.log": (statistics("draft-mtp", 200, 399, (170, 141)), ("llama.cpp", 200, 311, 399, None)),
    "choice.json": (None, ("tensorrt-llm", 20, 30, 60, {0: 8, 2: 6, 3: 6})),
    "prometheus.txt": (None, ("tensorrt-llm", 20, 28, 60, None)),
    "iterations.log": (ITERATIONS, ("tensorrt-llm", 16, 25, 48, None)),
    "iterations.jsonl": (
        ITERATIONS.replace("'", '"').replace("[TRT-LLM] [I] ", ""),
        ("tensorrt-llm", 16, 25, 48, None),
    ),
    "evaluated.log": (EVALUATED, ("tensorrt-llm", 16, 25, 48, None)),
    "vllm.json": (VLLM, ("vllm", 43, 10, 129, {0: 39, 1: 1, 3: 3})),
    "bench.json": (None, ("vllm", 5, 9, 14, None)),
    "sglang.json": (None, ("sglang", 2, 2, None, {0: 1, 2: 1})),
    "openai.json": (None, ("sglang", 2, 2, None, {0: 1, 2: 1})),
    "sglext.json": (None, ("sglang", 2, 2, None, {0: 1, 2: 1})),
    "llama.txt": (None, ("llama.cpp", 10, 14, 30, None)),
    "llama_without_total.txt": (None, ("llama.cpp", 10, 14, 30, None)),
    "old.json": (None, ("sglang", 2, 2, None, {0: 1, 2: 1})),
    "tensorrt.json": (None, ("tensorrt-llm", 10, 15, 30, None)),
    "llama.json": (None, ("llama.cpp", 9, 10, 14, None)),
    "server.log": (None, ("llama.cpp", 1449, 1797, 2898, None)),
    "later.log": (None, ("llama.cpp", 18, 29, 53, None)),
    "places.log": (LLAMA_LOG_PLACES, ("llama.cpp", 13, 9, 38, None)),
    "timed.log": (TIMED.format(""), ("llama.cpp", 57, 76, 132, None)),
    "rate.log": (TIMED.format(" rate"), ("llama.cpp", 57, 76, 132, None)),
    "old.log": (TIMED.format(" rate") + OLD, ("llama.cpp", 57, 76, 132, None)),
    "example.txt": (EXAMPLE, ("llama.cpp", 31, 99, 240, None)),
    "acceptance_rate.json": (SPECDEC, ("specdec_bench", 100, 120, None, {0: 40, 1: 30, 3: 30})),
    "spec_bench.jsonl": (SPEC_BENCH, ("spec-bench", 3, 3, None, {0: 1, 1: 1, 2: 1})),
    "profile_export.jsonl": (None, ("vllm", 43, 10, 129, {0: 39, 1: 1, 3: 3})),
    "metrics.txt": (scrape(10, 30, [8, 4, 2]), ("vllm", 10, 14, 30, None)),
    "get_metrics.json": (None, ("vllm", 10, 14, 30, None)),
}
COUNTS = {"vllm.json": (39, 1, 0, 3), "profile_export.jsonl": (39, 1, 0, 3)}
COUNTS |= dict.fromkeys(("metrics.txt", "llama.txt", "get_metrics.json"), (2, 4, 2, 2))


def records_of(*paths: Path) -> list[AcceptanceRecord]:
    return list(read_acceptance(*paths).records)


def stored(folder: Path, name: str, content: object) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def sample(folder: Path, name: str) -> Path:
    return stored(folder, name, CASES[name][0] or (SAMPLES / f"{name}.txt").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_each_format_is_found_and_read(tmp_path, name):
    (record,) = records_of(sample(tmp_path, name))
    histogram = record.acceptance_histogram and {i: n for i, n in record.acceptance_histogram.items() if n}
    totals = (record.num_spec_steps, record.num_accepted_draft_tokens, record.num_draft_tokens)
    assert (record.engine, *totals, histogram) == CASES[name][1]
    assert str(tmp_path / name) in record.source


@pytest.mark.parametrize("name", COUNTS)
def test_counts_by_depth_follow_where_the_lengths_are_known(tmp_path, name):
    (record,) = records_of(sample(tmp_path, name))
    assert record.counts() == {3: COUNTS[name]}


def test_what_a_scrape_of_llama_cpp_lacks_is_said(tmp_path):
    """Tokens of rounds without drafts, as p_min leaves them, are named; counts of six digits are refused."""
    text = (SAMPLES.parent / "llama_server" / "metrics.txt").read_text(encoding="utf-8")
    few, many = (stored(tmp_path, f"{n}.txt", f"{text}llamacpp:tokens_predicted_total {n}\n") for n in (400, 1000))
    assert (len(read_acceptance(few).notes), len(read_acceptance(many).notes)) == (0, 1)
    earlier = stored(tmp_path, "b.txt", re.sub(r"\d+$", "0", text, flags=re.M) + "llamacpp:tokens_predicted_total 50\n")
    assert "610 of 950 tokens" in read_acceptance(earlier, many).notes[0]
    with pytest.raises(UserError, match=r"1.23457e\+06: from a million on llama.cpp prints six digits"):
        records_of(stored(tmp_path, "late.txt", text.replace("tokens_total 637", "tokens_total 1.23457e+06")))


@pytest.mark.parametrize("name", ["sglang.json", "acceptance_rate.json", "spec_bench.jsonl"])
def test_counts_by_depth_need_an_assumption_where_lengths_are_not_recorded(tmp_path, name):
    (record,) = records_of(sample(tmp_path, name))
    with pytest.raises(UserError, match="does not contain the draft lengths"):
        record.counts()
    (row,) = record.counts(assumed_length=3).values()
    assert sum(row) == record.num_spec_steps
    with pytest.raises(UserError, match=r"K cannot be 0|contradicts --draft-length 0"):
        record.counts(assumed_length=0)
    for totals in ("tensorrt.json", "llama.json", "server.log"):
        with pytest.raises(UserError, match="totals only"):
            records_of(sample(tmp_path, totals))[0].counts()


def test_the_log_gives_counts_by_position_where_its_rates_leave_one_choice(tmp_path):
    (record,) = records_of(stored(tmp_path, "a.log", LLAMA_LOG_PLACES))
    assert (record.num_spec_steps, record.accepted_per_position) == (13, (6, 3, 0))
    (record,) = records_of(stored(tmp_path, "b.log", LLAMA_LOG_PLACES.replace("38 generated", "39 generated")))
    assert record.counts() == {3: (7, 3, 3, 0)}  # every step drafted three
    for other in ("(0.462, 0.309, 0.000)", "(0.470, 0.231, 0.000)", "(0. 462, 0.231, 0.000)"):  # no counts fit these
        (record,) = records_of(stored(tmp_path, "c.log", LLAMA_LOG_PLACES.replace("(0.462, 0.231, 0.000)", other)))
        assert (record.num_spec_steps, record.accepted_per_position) == (13, None)
    later = LLAMA_LOG_PLACES.replace("\n", "\nslot 1: another line\n", 1)  # rates of another request, for all one knows
    assert records_of(stored(tmp_path, "d.log", later))[0].accepted_per_position is None
    many = "draft acceptance = 0.5 ( 1500 accepted / 3000 generated), mean len = 2.50\nacc per pos = (0.8, 0.5, 0.2)\n"
    assert records_of(stored(tmp_path, "e.log", many))[0].accepted_per_position is None  # three digits leave several


def test_counts_that_no_steps_have_are_refused_by_name(tmp_path):
    """Ten tokens in one step of three drafts; an answer whose accepted drafts leave no step."""
    ten = "draft acceptance = 0.90000 ( 9 accepted / 10 generated), mean len = 10.00\nacc per pos = (1.0, 1.0, 1.0)\n"
    with pytest.raises(UserError, match=r"line 1 has 10 tokens a step, but a step drafts at most 3"):
        read_acceptance(stored(tmp_path, "a.log", ten))
    answer = {"timings": {"predicted_n": 10, "draft_n": 12, "draft_n_accepted": 9}}
    with pytest.raises(UserError, match="10 tokens with 9 accepted drafts leave no token for a step"):
        read_acceptance(stored(tmp_path, "a.json", answer))
    one = {"num_spec_steps": 2, "num_accepted_draft_tokens": 9, "num_draft_tokens": 10, "num_spec_tokens": 3}
    for change, said in (
        ({}, "9 drafts are accepted in 2 steps of at most 3"),
        ({"num_accepted_draft_tokens": 5}, "10 drafts are made in 2 steps of at most 3"),
        ({"num_draft_tokens": 20, "num_spec_steps": 9, "acceptance_histogram": [8] + [0] * 8 + [1]}, "a step of 9"),
    ):
        with pytest.raises(UserError, match=said):
            read_acceptance(stored(tmp_path, "b.json", {"metrics": {"speculative_decoding": one | change}}))


def test_two_scrapes_are_differenced(tmp_path):
    before = stored(tmp_path, "a.txt", scrape(10, 30, [8, 4, 2]))
    after = stored(tmp_path, "b.txt", scrape(14, 42, [11, 6, 2]))
    (record,) = records_of(before, after)
    assert record.counts() == {3: (1, 1, 2, 0)}
    assert (record.num_spec_steps, record.num_draft_tokens) == (4, 12)
    for later, said in (
        (scrape(4, 12, [3, 1, 0]), r"a counter falls, vllm:spec_decode_num_drafts_total\{engine=\S+ from 10 to 4"),
        (after.read_text().replace("1.7e+09", "1.8e+09"), "the counters began anew between the two scrapes"),
        (after.read_text().replace("accepted_tokens_total", "kept_tokens_total"), "the later scrape has no vllm:spec"),
        (after.read_text().rstrip("\n"), "ends without a line break, so the scrape may be cut off"),
    ):
        with pytest.raises(UserError, match=said):
            records_of(before, stored(tmp_path, "later.txt", later))
    second = [
        stored(tmp_path, "one.txt", scrape(50, 150, [30, 9, 1])),
        stored(tmp_path, "two.txt", scrape(3, 9, [2, 0, 0])),
    ]
    texts = [
        first.read_text() + other.read_text().replace('engine="0"', 'engine="1"')
        for first, other in zip(
            (before, stored(tmp_path, "more.txt", scrape(90, 270, [80, 40, 20]))), second, strict=True
        )
    ]
    with pytest.raises(UserError, match=r'engine="1"\S+ from 50 to 3'):  # though the sum over both engines rises
        records_of(stored(tmp_path, "f.txt", texts[0]), stored(tmp_path, "g.txt", texts[1]))
    for text, said in (("sglang:spec_accept_length 2.5\n", "counts no accepted drafts"), ("<html>", "is a web page")):
        with pytest.raises(UserError, match=said):
            records_of(stored(tmp_path, "other.txt", text))
    with pytest.raises(UserError, match="give two"):
        records_of(before, after, stored(tmp_path, "c.txt", scrape(20, 60, [11, 6, 2])))
    other = scrape(14, 42, [11, 6, 2], model="other")
    with pytest.raises(UserError, match=r"d.txt lacks \w+; give two"):
        records_of(before, stored(tmp_path, "d.txt", other))
    both = stored(tmp_path, "e.txt", after.read_text() + other)
    assert [(one.engine[-5:], one.num_spec_steps) for one in records_of(both)][1] == ("other", 14)


def test_a_server_is_asked_for_its_counters(tmp_path):
    before = stored(tmp_path, "before.txt", scrape(10, 30, [8, 4, 2]))
    stored(tmp_path, "metrics", scrape(14, 42, [11, 6, 2]))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        (record,) = records_of(before, address + "metrics")
        assert (record.num_spec_steps, record.counts()) == (4, {3: (1, 1, 2, 0)})
        for page, said in (("", "is a web page"), ("nothing", "gave no answer .*404.*correct the address")):
            with pytest.raises(UserError, match=said):
                records_of(address + page)
        server.shutdown()


def test_a_folder_a_packed_file_and_many_requests(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    stored(folder, "acceptance_rate.json", SPECDEC)
    assert records_of(folder)[0].engine == "specdec_bench"
    with gzip.open(tmp_path / "many.jsonl.gz", "wt") as file:
        file.write("\n".join(json.dumps(VLLM) for _ in range(3)) + "\n\n")
    records = records_of(tmp_path / "many.jsonl.gz")
    assert [record.source[-6:] for record in records] == ["line 1", "line 2", "line 3"]
    assert add(record.counts() for record in records) == {3: (117, 3, 0, 9)}


def test_several_samples_are_left_out_and_named(tmp_path):
    """vLLM's answer for n > 1 is null; other answers with two choices have steps that share a prompt."""
    null = {"choices": [{}, {}], "metrics": {"speculative_decoding": None}}
    two = {"choices": [{"index": 0}, {"index": 1}], **VLLM}
    alone = stored(tmp_path, "null.jsonl", "\n".join(map(json.dumps, (null, two))))
    with pytest.raises(UserError, match=r"no acceptance to read.*line 1: it has several samples \(n > 1\)"):
        records_of(alone)
    lines = [{"metrics": {"speculative_decoding": None}}, null, VLLM | {"choices": [{}]}, two]
    found = read_acceptance(stored(tmp_path, "mixed.jsonl", "\n".join(map(json.dumps, lines))))
    assert [record.counts() for record in found.records] == [{3: (39, 1, 0, 3)}]
    said = [(one.source[-6:], "n > 1" in one.reason) for one in found.left_out]
    assert said == [(f"line {number}", True) for number in (1, 2, 4)]
    assert len(records_of(stored(tmp_path, "spec_bench.jsonl", SPEC_BENCH))) == 1  # its choices are turns of one answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"acceptance_histogram": [39, 1, 0, 4]}, "has 44 steps"),
        ({"acceptance_histogram_by_draft_length": {"3": [39, 1, 3]}}, "4 are needed"),
        ({"acceptance_histogram_by_draft_length": {"3": [40, 0, 0, 3]}}, "9 accepted drafts"),
        ({"acceptance_histogram_by_draft_length": {"999999999999": [1]}}, "has the key '999999999999'"),
        ({"num_draft_tokens": 9}, "only 9 were made"),
        ({"num_spec_steps": None}, "has no num_spec_steps"),
        ({"num_spec_steps": 43.5}, "a whole number"),
        ({"num_spec_steps": True}, "a whole number"),
        ({"num_spec_steps": float("nan")}, "a whole number"),
        ({"acceptance_histogram": 3}, "a list of counts"),
        ({"per_step_accepted": [3, 3], "per_step_drafted": [3]}, "differ in length"),
        ({"per_step_accepted": [3], "per_step_drafted": [2]}, "accepted 3 of 2"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(tmp_path, change, message):
    path = stored(tmp_path, "bad.json", {"metrics": {"speculative_decoding": REQUEST | change}})
    with pytest.raises(UserError, match=message) as refused:
        records_of(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("name", CASES)
def test_every_cut_and_flipped_byte_is_refused_or_read(tmp_path, name):
    """No other error than a sentence that names the file; what is read has steps and consistent sums."""
    whole = sample(tmp_path, name).read_bytes()
    cuts = [whole[:end] for end in range(0, len(whole), 7)]
    flips = [whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :] for at in range(0, len(whole), 3)]
    for content in (*cuts, *flips):
        (tmp_path / name).write_bytes(content)
        try:
            found, said = records_of(tmp_path / name), name
        except UserError as error:
            found, said = [], str(error)
        assert all(record.num_spec_steps > 0 for record in found)
        assert name in said


def plain_record(**fields):
    fields = {"engine": "vllm", "source": "a", "num_spec_steps": 2, "num_accepted_draft_tokens": 1} | fields
    return AcceptanceRecord(**fields)


def test_a_file_that_is_given_twice_is_refused():
    log = Path(__file__).resolve().parents[3] / "examples" / "server.log"
    with pytest.raises(UserError, match=r"server\.log is given twice"):
        read_acceptance(log, log)


def test_records_that_must_not_be_averaged_are_refused():
    for change in ({"engine": "sglang"}, {"draft_sampling": "greedy"}, {"verification": "block"}):
        with pytest.raises(UserError, match="read them separately"):
            refuse_mixture([plain_record(), plain_record(source="b", **change)])
    refuse_mixture([plain_record(), plain_record()])


def test_marks_are_added_and_not_contradicted():
    record = marked(plain_record(), drafts="sampled", verification="fly")
    assert (record.draft_sampling, record.verification) == ("sampled", "fly")
    assert marked(record, drafts="sampled", verification=None) == record
    assert marked(plain_record(), drafts=None, verification=None) == plain_record()
    copied = marked(plain_record(), drafts="copied", verification=None)
    assert (copied.draft_sampling, copied.copied) == ("greedy", True)
    with pytest.raises(UserError, match="a states sampled; --drafts copied contradicts it"):
        marked(record, drafts="copied", verification=None)
    with pytest.raises(UserError, match="a states fly; --verification standard contradicts it"):
        marked(record, drafts=None, verification="standard")


@pytest.mark.parametrize(
    ("config", "marks"),
    [
        ({"method": "eagle3"}, ("greedy", "standard")),
        ({"draft_sample_method": "probabilistic", "rejection_sample_method": "fly"}, ("sampled", "fly")),
        ({"draft_sample_method": "gumbel"}, ("gumbel", "standard")),
        (None, (None, None)),
    ],
)
def test_the_configuration_beside_an_answer_marks_it(tmp_path, config, marks):
    (record,) = records_of(stored(tmp_path, "a.json", VLLM | ({"speculative_config": config} if config else {})))
    assert (record.draft_sampling, record.verification) == marks


def test_the_record_has_the_names_of_aiperf(tmp_path):
    (record,) = records_of(stored(tmp_path, "vllm.json", VLLM))
    told = marked(record, drafts="greedy", verification="fly")
    text = "\n".join(json.dumps({"spec_decode_acceptance": one.as_json()}) for one in (record, told))
    back, told = records_of(stored(tmp_path, "again.jsonl", text))
    assert (back.counts(), back.completion_tokens) == (record.counts(), 53)
    assert (told.draft_sampling, told.verification) == ("greedy", "fly")
    assert record.as_json()["mean_acceptance_length"] == REQUEST["mean_acceptance_length"]
    assert record.as_json()["draft_acceptance_rate"] == REQUEST["draft_acceptance_rate"]


def test_three_outputs_of_one_llama_server_agree():
    """Its answers, log and metrics of 20 requests; the log lacks one whose 18 drafts, in six steps, were rejected."""
    files = ("answers.json", "log.txt", "metrics.txt")
    answers, log, metrics = read = [read_acceptance(Path(__file__).parent / "llama_server" / name) for name in files]
    steps, accepted, drafted = (
        [sum(getattr(record, name) or 0 for record in reading.records) for reading in read]
        for name in ("num_spec_steps", "num_accepted_draft_tokens", "num_draft_tokens")
    )
    assert [len(reading.records) + len(reading.left_out) for reading in read] == [20, 17, 1]
    assert ["nothing was drafted" in one.reason for one in answers.left_out] == [True] * 3
    assert "0 of 18 drafts were accepted" in log.left_out[0].reason
    places = [record.accepted_per_position for record in log.records]
    assert tuple(map(sum, zip(*places, strict=True))) == metrics.records[0].accepted_per_position == (75, 28, 16)
    assert (accepted, drafted[2] - drafted[1], steps[2] - steps[1]) == ([119] * 3, 18, 6)
    assert 75 / steps[1] > 75 / steps[2] + 0.009
    assert 0 <= steps[0] - steps[2] <= 17  # answers count the steps that drafted nothing too: at most one a request
