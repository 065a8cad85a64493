"""A device over an engine's completions endpoint, against servers that answer from a table, rightly and wrongly."""

import json
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

from tests.validation.audit.test_engines import Engine, Server
from tests.validation.command_line import one_sentence, run
from tests.validation.link.served import looped
from tests.validation.tiny_texts import node, nodes, table_pair
from validation.decoding.methods.multi_draft import BlockVerification, FixedLength
from validation.decoding.methods.shared_seed import SharedSeed
from validation.errors import UserError
from validation.link.completions import Completions, EngineDevice
from validation.models.pair import PAIRS_FOLDER, load_single

N, V = 5, 3
Q, P = np.random.default_rng(5).dirichlet(np.ones(V), (2, nodes(V, N)))
PAIR = table_pair(Q, P)


def choices(asked, **changed):
    """Answers by the table: each token is the most probable one, or as the seed of its place draws it."""
    for i, prompt in enumerate(asked["prompt"]):
        text, listed = list(prompt), np.log(P[node(*prompt[1:])]).tolist()
        while len(text) < min(len(prompt) + asked["max_tokens"], N + 1):
            p, numbers = P[node(*text[1:])], np.random.default_rng([asked.get("seed", 0), len(text)])
            warm = p ** (1 / (asked["temperature"] or 1))
            text.append(int(numbers.choice(V, p=warm / warm.sum()) if asked["temperature"] else p.argmax()))
        best = {f"token_id:{token}": listed[token] for token in np.argsort(listed)[::-1][: max(1, asked["logprobs"])]}
        said = {"tokens": [f"token_id:{token}" for token in text[len(prompt) :]], "top_logprobs": [best]}
        yield {"index": i, "finish_reason": "length", "logprobs": said} | changed


@contextmanager
def engine(answer=lambda asked: [*choices(asked)][::-1]):
    class Completing(Engine):
        def do_POST(self):
            self.server.seen.append(asked := json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.answer({"choices": [*answer(asked)]})

    with Server(("127.0.0.1", 0), Completing) as server:
        server.seen = []
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with Completions(f"openai:http://127.0.0.1:{server.server_port}/v1", answer_s=2.0) as remote:
            yield remote, server.seen
        server.shutdown()


def write(remote, method, name="a", top_k=0, pair=PAIR, **given):
    return (
        EngineDevice(pair, remote, top_k=top_k).generate(method, [0], name=name, seed=2, new_tokens=N, **given).tokens
    )


@pytest.mark.parametrize("method", [FixedLength(2), SharedSeed(4), BlockVerification(3)])
def test_the_text_is_the_servers_or_that_of_the_loop_with_its_law(method):
    """With top-k it is that of the loop in one process, whose target is cut in the same way."""
    cut = table_pair(Q, np.where(np.sort(P)[:, 1:2] <= P, P, 0.0))
    with engine() as (remote, _):
        expected = looped(PAIR, method, new_tokens=N, temperature=0.0).tokens
        assert write(remote, method, temperature=0.0) == expected
        for name, top_k, pair in [(name, k, pair) for name in "abcdef" for k, pair in ((3, PAIR), (2, cut))]:
            expected = looped(pair, method, name, N, temperature=0.7).tokens
            assert write(remote, method, name, top_k, temperature=0.7) == expected


def test_a_seeded_text_has_the_servers_draw_at_every_position_whatever_was_drafted():
    """Each place of a text has a seed of its own, so the law is the server's."""
    with engine() as (remote, seen):
        one = [write(remote, FixedLength(4), name, temperature=0.7) for name in "abcdef"]
        own = table_pair(P, P)
        assert one == [write(remote, SharedSeed(1), name, pair=own, temperature=0.7) for name in "abcdef"]
    places = {(asked["seed"], len(asked["prompt"][0])) for asked in seen[4:]}
    assert len(places) == len({seed for seed, _ in places}) == 6 * N


FEW = {"tokens": ["token_id:1"], "top_logprobs": [{"token_id:1": -0.1}]}


@pytest.mark.parametrize(
    ("answer", "warm", "top_k", "said"),
    [
        (lambda asked: [*choices(asked)][:1], 0, 0, "does not answer 3 prompts"),
        (lambda asked: choices(asked, logprobs=None), 0, 0, "does not answer 3 prompts"),
        (lambda asked: choices(asked, logprobs=FEW | {"tokens": [" the"]}), 0, 0, "the is not one of token_id:0"),
        (lambda asked: choices(asked, logprobs=FEW | {"tokens": []}), 0, 0, "0 tokens, not 1 to 1"),
        (lambda asked: choices(asked, logprobs=FEW), 1, 2, "1 of the 2 largest"),
        (lambda asked: choices(asked, finish_reason="stop"), 0, 0, "unlike the draft model"),
        (lambda asked: choices(asked | {"seed": time.time_ns()}), 1, 0, "ignores the seed"),
        (lambda asked: choices(asked | {"seed": 7}), 1, 0, "ignores the seed"),
        (lambda asked: time.sleep(3) or [], 0, 0, "gave no answer (timed out)"),
    ],
)
def test_a_server_that_answers_wrongly_is_refused(answer, warm, top_k, said):
    with engine(answer) as (remote, _), pytest.raises(UserError) as refused:
        write(remote, FixedLength(2), top_k=top_k, temperature=warm)
    assert said in str(refused.value)


def test_the_command_writes_the_text_of_an_engine():
    tokenizer, more = load_single(str(PAIRS_FOLDER / "builtin" / "small")).tokenizer, []

    def answer(asked):
        if isinstance(asked["prompt"], str):
            return [{"prompt_token_ids": tokenizer(asked["prompt"]).input_ids + more}]
        names = [f"token_id:{40 + len(prompt) % 50}" for prompt in asked["prompt"]]
        said = [{"logprobs": {"tokens": [name], "top_logprobs": [{name: 0.0}]}} for name in names]
        return [{"index": i, "finish_reason": "length"} | one for i, one in enumerate(said)]

    with engine(answer) as (remote, seen):
        words = (
            "device",
            "--engine",
            f"openai:{remote.url}",
            "--texts",
            "1",
            "--new-tokens",
            "6",
            "--temperature",
            "0",
        )
        (text,) = json.loads(run(*words, "--json", "--draft-length", "2").stdout)["texts"]
        assert text["tokens"] == [40 + (len(seen[1]["prompt"][0]) + i) % 50 for i in range(6)]
        one_sentence(run(*words, "--record", "run.jsonl"), "leave options of `hlm serve` and --record out")
        more += [1, 2]
        one_sentence(run(*words), "use a draft model with the server's tokenizer")
    one_sentence(run("device", "--engine", "openai:http://127.0.0.1:1"), "start the server, or correct the address")
