"""Ranks of torchrun as real processes: killed, restarted, lost and frozen ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.validation.collection import rank_process as process
from tests.validation.collection.test_shards import PROMPTS, assert_same, shard
from tests.validation.command_line import one_sentence, run
from validation.collection import ranks as ranks_module
from validation.collection.ranks import Link, Rank, collect_as_rank, this_rank
from validation.collection.shards import ShardNumber, comparable
from validation.errors import UserError
from validation.models.pair import Pair
from validation.trace.reader import Trace

NEVER = r"Nothing was heard from (rank 1 of 2|127\.0\.0\.1:\d+) for 1 s"  # of the store on a machine that is busy
HERE = r"127\.0\.0\.1:\d+"
VARIABLES = {"RANK": "1", "WORLD_SIZE": "3", "MASTER_ADDR": "here", "MASTER_PORT": "29500"}


@pytest.fixture(scope="module")
def context() -> Any:
    """The server that forks the ranks, once it has imported the libraries."""
    found = process.server()
    first = found.Process(target=process.free_port)
    first.start()
    first.join(process.PATIENCE)
    return found


@pytest.fixture
def ranks(context: Any) -> Iterator[list[Any]]:
    """The processes of a test; what is left of them is killed at its end."""
    started: list[Any] = []
    yield started
    process.end(started)


@pytest.fixture(scope="module")
def expected(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    """A trace that one process collected by ``hlm collect``, and the options; five batches are needed."""
    base = tmp_path_factory.mktemp("one")
    (base / "prompts.txt").write_text("".join(f"{i} apples and {'four ' * (i % 5)}\n" for i in range(96)))
    words = ("collect", "--draft", str(folders[0]), "--target", str(folders[1]), "--positions", "900")
    words += ("--new-tokens", "8", "--prompts", str(base / "prompts.txt"), "--device", "cpu", "--quiet")
    assert run(*words, "--out", base / "trace").exit_code == 0
    return base / "trace", words


def start(context: Any, ranks: list[Any], target: Any, *args: Any) -> Any:
    """Start one process."""
    found = context.Process(target=target, args=args)
    found.start()
    ranks.append(found)
    return found


def code(rank: Any) -> int:
    """Wait for a process and return its exit code."""
    rank.join(process.PATIENCE)
    assert rank.exitcode is not None, "the process did not end"
    return int(rank.exitcode)


def batches(log: Path) -> list[int]:
    """Return the numbers of the batches that a rank finished, in order."""
    return [int(number) for number in re.findall(r"^collected (\d+)$", log.read_text(), re.M)]


def test_validate_by_three_ranks_of_which_one_is_killed_and_started_again(
    context: Any, ranks: list[Any], expected: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    one, words = expected
    port = process.free_port()
    words = ("validate", *words[1:-1], "--out", str(tmp_path / "run"))

    def begin(rank: int) -> Any:
        variables = process.environment(rank, 3, port)
        return start(
            context, ranks, process.command, variables, tmp_path / f"{rank}.log", words, 4 if rank == 1 else -1
        )

    first, killed, third = (begin(rank) for rank in range(3))
    assert code(killed) == -9
    assert batches(tmp_path / "1.log") == [1]
    again = begin(1)  # alone; the other two wait for it
    assert [code(rank) for rank in (first, again, third)] == [0, 0, 0], (tmp_path / "0.log").read_text()
    assert [batches(tmp_path / f"{rank}.log") for rank in range(3)] == [[0, 3], [1, 4], [2, 5]]
    assert_same(tmp_path / "run" / "trace", one)
    assert {file.name for file in (tmp_path / "run").iterdir()} == {"claims.json", "figures", "report.html", "trace"}
    assert [(tmp_path / f"{rank}.log").read_text().count("Report: ") for rank in range(3)] == [1, 0, 0]


def test_two_ranks_of_torchruns_agent_which_restarts_them(
    context: Any, expected: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    one, words = expected
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        max_restarts=1,
        monitor_interval=0.2,
        start_method=context.get_start_method(),
    )
    words = (*words, "--out", str(tmp_path / "trace"))
    elastic_launch(config, process.agent_command)(str(tmp_path), words, (1, 3))
    assert "killed 3" in (tmp_path / "1.log").read_text()
    assert batches(tmp_path / "1.log").count(1) == 1  # what was stored before the signal is not collected again
    assert_same(tmp_path / "trace", one)


@pytest.mark.parametrize(
    ("lost", "deed", "sentence"),
    [
        (1, process.hello_and_die, rf"Nothing was heard from (rank 1 of 2|{HERE}) for 2 s.*"),
        (0, process.hello_and_die, rf"The ranks cannot reach each other at {HERE} \(.+\)"),
        (0, process.hello_and_freeze, rf"Nothing was heard from (rank 0 of 2|{HERE}) for 2 s.*"),
    ],
    ids=["dead", "dead host of the store", "frozen host of the store"],
)
def test_a_lost_rank_ends_the_others(
    context: Any, ranks: list[Any], tmp_path: Path, lost: int, deed: Any, sentence: str
) -> None:
    port = process.free_port()
    two = [Rank(i, 2, i, "127.0.0.1", port, hosts=i == 0, attempt=0) for i in (0, 1)]
    start(context, ranks, process.meet, two[lost], 300.0, tmp_path / "lost", deed)
    left = start(context, ranks, process.meet, two[1 - lost], 300.0, tmp_path / "left", process.hello_and_wait)
    assert code(left) == 2
    said = (tmp_path / "left").read_text()
    assert re.fullmatch(
        f"UserError: {sentence}; what is stored is safe, and the same command continues from it\\.", said
    )


def test_a_rank_that_never_comes_ends_the_others() -> None:
    alone = Rank(0, 2, 0, "127.0.0.1", process.free_port(), hosts=True, attempt=0)
    with Link(alone, wait=1.0) as link, pytest.raises(UserError, match=NEVER):
        link.wait_until(lambda facts: 1 in facts)
    nobody = Rank(1, 2, 0, "127.0.0.1", process.free_port(), hosts=False, attempt=0)
    with Link(nobody, wait=1.0) as link, pytest.raises(UserError, match=HERE):
        link.wait_until(lambda facts: 0 in facts)


def test_a_refusal_ends_the_others() -> None:
    port = process.free_port()
    first, second = (Rank(i, 2, i, "127.0.0.1", port, hosts=i == 0, attempt=0) for i in (0, 1))

    def fail() -> None:
        with Link(second, wait=30.0):
            raise UserError("The disk is full.")

    with Link(first, wait=30.0) as link:
        with pytest.raises(UserError, match="The disk is full"):
            fail()
        with pytest.raises(UserError, match=r"Rank 1 of 2 stopped \(The disk is full\); what is stored is safe"):
            link.wait_until(lambda facts: "counts" in facts.get(1, {}))


def test_ranks_with_other_settings_are_refused(
    context: Any, ranks: list[Any], expected: tuple[Path, tuple[str, ...]], tmp_path: Path
) -> None:
    _, words = expected
    port = process.free_port()
    for rank, seed in enumerate(("1", "2")):
        more = (*words, "--out", str(tmp_path / "trace"), "--seed", seed)
        start(context, ranks, process.command, process.environment(rank, 2, port), tmp_path / f"{rank}.log", more)
    assert [code(rank) for rank in ranks] == [2, 2]
    logs = [(tmp_path / f"{rank}.log").read_text() for rank in (0, 1)]
    assert any("Ranks 0 and 1 have different settings (seed: 1 and 2)" in log for log in logs)
    assert all(log.count("Error: ") == 1 and "Traceback" not in log for log in logs)
    assert not (tmp_path / "trace").exists()


def test_the_variables_of_torchrun_are_read() -> None:
    assert this_rank({}) is None
    assert this_rank({"RANK": "0", "WORLD_SIZE": "1"}) is None
    found = this_rank(VARIABLES | {"LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "2"})
    assert found == Rank(1, 3, 1, "here", 29500, hosts=False, attempt=2)
    assert found.place == ShardNumber(2, 3)
    first = this_rank(VARIABLES | {"RANK": "0"})
    assert first is not None
    assert first.hosts
    under_agent = this_rank(VARIABLES | {"RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert under_agent is not None
    assert not under_agent.hosts


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"RANK": "x"}, "RANK is 'x', which is not a number"),
        ({"RANK": "3"}, "RANK is 3, but WORLD_SIZE is 3; number the ranks from 0 to 2"),
        ({"WORLD_SIZE": "-1"}, "WORLD_SIZE is '-1', which is not a number"),
        ({"MASTER_ADDR": ""}, "RANK and WORLD_SIZE are set, but MASTER_ADDR is not"),
        ({"MASTER_PORT": "http"}, "MASTER_PORT is 'http', which is not a number"),
    ],
)
def test_wrong_variables_are_refused(changed: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        this_rank(VARIABLES | changed)


def test_commands_that_run_alone_refuse_torchrun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    one_sentence(run("validate", "--trace", tmp_path), "--trace checks a stored trace in one process")
    one_sentence(run("collect", "--shard", "1/2", "--out", tmp_path / "s"), "torchrun gives each rank its shard")


def test_shards_and_merge_on_the_command_line(expected: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    one, words = expected
    for number in (1, 2):
        result = run(*words[:-1], "--shard", f"{number}/2", "--out", tmp_path / str(number), "--batches", "4")
        assert f"Shard {number}/2: 2 batches" in result.output
    result = run("merge", tmp_path / "2", tmp_path / "1", "--out", tmp_path / "merged")
    assert f"python3 hlm validate --trace {tmp_path / 'merged'}" in result.output
    assert_same(tmp_path / "merged", one)
    one_sentence(run("merge", tmp_path / "2", "--out", tmp_path / "m"), "Of 2 shards, number 1 is missing")
    one_sentence(run(*words, "--batches", "4", "--out", tmp_path / "m"), "give it with --shard")
    one_sentence(run(*words, "--shard", "5/2", "--out", tmp_path / "m"), "give I/N with I from 1 to N")


def alone(attempt: int = 0) -> Rank:
    """Return the only rank of a world of one, which needs no other process."""
    return Rank(0, 1, 0, "127.0.0.1", process.free_port(), hosts=True, attempt=attempt)


def collected(pair: Pair, path: Path, attempt: int = 0, **more: Any) -> tuple[list[tuple[int, int, str]], Trace]:
    """Collect as the only rank; return the calls of the progress and the trace."""
    calls: list[tuple[int, int, str]] = []
    settings = {"positions": 60, "new_tokens": 8, "batch": 2, "seed": 1}
    with Link(alone(attempt)) as link:
        trace = collect_as_rank(
            link, pair, PROMPTS, path, **settings, progress=lambda *call: calls.append(call), **more
        )
    assert trace is not None
    return calls, trace


def test_a_finished_trace_is_not_collected_again_and_fresh_counts_once(pair: Pair, tmp_path: Path) -> None:
    first, trace = collected(pair, tmp_path / "t")
    assert first[0] == (0, 60, "target model writes token 1 of 8")
    made = trace.manifest["created"]
    calls, _ = collected(pair, tmp_path / "t")
    assert not calls
    assert collected(pair, tmp_path / "t", attempt=1, fresh=True)[0] == []  # a restart continues
    calls, again = collected(pair, tmp_path / "t", fresh=True)
    assert calls == first
    assert again.manifest["created"] >= made
    assert [file.name for file in tmp_path.iterdir()] == ["t"]


def test_what_lies_there_is_refused_before_anything_is_collected(pair: Pair, tmp_path: Path) -> None:
    collected(pair, tmp_path / "t")
    other = r"A trace of other settings lies at .*positions: 60 there, 61 now"
    with Link(alone()) as link, pytest.raises(UserError, match=other):
        collect_as_rank(link, pair, PROMPTS, tmp_path / "t", positions=61, new_tokens=8, seed=1, batch=2)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="Something other than a trace lies at"):
        collected(pair, tmp_path / "mine")
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    assert not (tmp_path / "mine-shards").exists()


def test_shards_of_another_number_of_ranks_are_removed_at_the_end(pair: Pair, tmp_path: Path) -> None:
    shard(pair, tmp_path / "t-shards" / "2-of-3", ShardNumber(2, 3), 3)
    (tmp_path / "t-shards" / "mine").mkdir()
    collected(pair, tmp_path / "t")
    assert [file.name for file in (tmp_path / "t-shards").iterdir()] == ["mine"]


def test_a_shard_that_rank_0_does_not_see_is_named(pair: Pair, tmp_path: Path) -> None:
    shard(pair, tmp_path / "a", ShardNumber(1, 2), 2)
    ranks_module._wait_for_shards([tmp_path / "a"], [1], 0.0)
    with pytest.raises(UserError, match=r"rank 0 does not see all shards \(.*a holds fewer than 2 batches\); if the"):
        ranks_module._wait_for_shards([tmp_path / "a"], [2], 0.0)
    with pytest.raises(UserError, match=r"\(There is no shard at .*b; collect.*\); .* run `hlm merge`\.$"):
        ranks_module._wait_for_shards([tmp_path / "a", tmp_path / "b"], [1, 1], 0.0)


def test_each_rank_of_a_machine_takes_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    five = [Rank(i, 5, i, "here", 1, hosts=False, attempt=0) for i in range(5)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert five[1].device("auto") == "auto"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [rank.device("auto") for rank in five] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]
    assert five[1].device("cpu") == "cpu"
    assert comparable({"device": "cuda:1", "seed": 1}) == comparable({"device": "cuda:0", "seed": 1})
