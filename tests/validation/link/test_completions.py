"""A device over an engine's completions endpoint, against servers that answer from a table, rightly and wrongly."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from tests.validation.command_line import one_sentence, run
from tests.validation.link.served import looped
from tests.validation.tiny_texts import node, nodes, table_pair
from validation.decoding.methods.multi_draft import BlockVerification, FixedLength
from validation.decoding.methods.shared_seed import SharedSeed
from validation.errors import UserError
from validation.link.completions import Completions, EngineDevice
from validation.models.pair import PAIRS_FOLDER, load_single

N, V = 5, 3
SMALL = str(PAIRS_FOLDER / "builtin" / "small")
TABLES = np.random.default_rng(5).dirichlet(np.ones(V), (2, nodes(V, N)))
PAIR = table_pair(*TABLES)


def own(prompt, asked):
    """The server's token behind a prompt: as its seed draws it, or the most probable one."""
    p = TABLES[1][node(*prompt[1:])] ** (1 / (asked["temperature"] or 1))
    return int(np.random.default_rng(asked["seed"]).choice(V, p=p / p.sum()) if asked["temperature"] else p.argmax())


def choices(asked):
    for i, prompt in enumerate(asked["prompt"]):
        text = list(prompt)
        while len(text) < min(len(prompt) + asked["max_tokens"], N + 1):
            text.append(own(text, asked | {"seed": asked.get("seed", 0) * 10 + len(text)}))
        listed = np.log(TABLES[1][node(*prompt[1:])]).tolist()
        first = {f"token_id:{token}": listed[token] for token in np.argsort(listed)[::-1][: max(1, asked["logprobs"])]}
        said = {"tokens": [f"token_id:{token}" for token in text[len(prompt) :]], "top_logprobs": [first]}
        yield {"index": i, "finish_reason": "length", "logprobs": said}


@contextmanager
def engine(answer=lambda asked: {"choices": [*choices(asked)][::-1]}, status=200, **given):
    class Handler(BaseHTTPRequestHandler):
        protocol_version, log_message = "HTTP/1.1", staticmethod(lambda *said: None)

        def do_POST(self, asked=None):
            if self.command == "POST":
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found = json.dumps(answer(asked) if asked else {"data": [{"id": "the-model"}]}).encode()
            self.send_response(status if asked else 200)
            self.send_header("content-length", str(len(found)))
            self.end_headers()
            self.wfile.write(found)

        do_GET = do_POST

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Completions(f"openai:http://127.0.0.1:{server.server_port}/v1", **given) as remote:
            yield remote
        server.shutdown()


def write(remote, method, name="a", top_k=0, pair=PAIR, **given):
    device = EngineDevice(pair, remote, top_k=top_k)
    return device.generate(method, [0], name=name, seed=2, new_tokens=N, **given)


@pytest.mark.parametrize("method", [FixedLength(2), SharedSeed(4), BlockVerification(3)])
def test_the_text_is_the_servers_or_that_of_the_loop_with_its_law(method):
    """With top-k it is, for each method, the text of the loop in one process whose target is cut in the same way."""
    cut = np.where(TABLES[1] >= np.sort(TABLES[1])[:, 1:2], TABLES[1], 0.0)
    with engine() as remote:
        assert (
            write(remote, method, temperature=0.0).tokens == looped(PAIR, method, new_tokens=N, temperature=0.0).tokens
        )
        for name in "abcdefgh":
            for top_k, other in ((3, PAIR), (2, table_pair(TABLES[0], cut))):
                found = write(remote, method, name, top_k, temperature=0.7)
                assert found.tokens == looped(other, method, name, N, temperature=0.7).tokens


def test_a_seeded_text_has_the_servers_draw_at_every_position_whatever_was_drafted():
    """The text of any drafts is that of no drafts; its draws have seeds of their own, so its law is the server's."""
    other = table_pair(TABLES[1], TABLES[1])
    asked = []
    with engine(lambda given: asked.append(given) or {"choices": [*choices(given)]}) as remote:
        texts = []
        for name in "abcdefgh":
            alone = write(remote, FixedLength(1), name, temperature=0.7)
            for method, pair in ((FixedLength(4), PAIR), (SharedSeed(2), other)):
                assert write(remote, method, name, pair=pair, temperature=0.7).tokens == alone.tokens
            texts.append(tuple(alone.tokens))
    assert len(set(texts)) > 4
    own_seed = {}
    for one in asked[4:]:
        own_seed.setdefault(one["seed"], set()).add(len(one["prompt"][0]))
    assert len(own_seed) == 8 * N
    assert all(len(places) == 1 for places in own_seed.values())  # a seed belongs to one position
    assert all(one["temperature"] == 0.7 and one["max_tokens"] == len(one["prompt"]) == 1 for one in asked[4:])
    assert remote.calls == len(asked)


def changed(**given):
    """Answers whose choices are changed."""
    return lambda asked: {"choices": [one | {n: f(one) for n, f in given.items()} for one in choices(asked)]}


WORDS = {"tokens": [" the"], "top_logprobs": [{" the": 0.0}]}
FEW = {"tokens": ["token_id:1"], "top_logprobs": [{"token_id:1": -0.1}]}


@pytest.mark.parametrize(
    ("answer", "given", "said"),
    [
        (lambda asked: {"choices": [*choices(asked)][:1]}, {}, "does not answer 3 prompts"),
        (changed(logprobs=lambda one: WORDS), {}, "the token the is not one of token_id:0"),
        (changed(logprobs=lambda one: None), {}, "does not answer 3 prompts"),
        (changed(logprobs=lambda one: FEW | {"tokens": ["token_id:1"] * 2}), {}, "wrote 2 tokens behind a prompt"),
        (changed(finish_reason=lambda one: "stop"), {}, "unlike the draft model"),
        (changed(logprobs=lambda one: FEW), {"top_k": 2, "temperature": 1.0}, "must list the 2 largest"),
        (
            lambda asked: {"choices": [*choices(asked | {"seed": time.time_ns()})]},
            {"temperature": 1.0},
            "ignores the seed",
        ),
        (lambda asked: {"choices": [*choices(asked | {"seed": 7})]}, {"temperature": 1.0}, "ignores the seed"),
        (lambda asked: time.sleep(2), {}, "gave no answer (TimeoutError"),
    ],
)
def test_a_server_that_answers_wrongly_is_refused(answer, given, said):
    with engine(answer, answer_s=1.0) as remote, pytest.raises(UserError) as refused:
        write(remote, FixedLength(2), **{"temperature": 0.0} | given)
    assert said in str(refused.value)


def test_the_command_writes_the_text_of_an_engine():
    tokenizer, asked = load_single(SMALL).tokenizer, []

    def answer(given):
        asked.append(given)
        if isinstance(given["prompt"], str):
            return {"choices": [{"prompt_token_ids": tokenizer(given["prompt"]).input_ids}]}
        names = [f"token_id:{40 + len(prompt) % 50}" for prompt in given["prompt"]]
        said = [{"tokens": [name], "top_logprobs": [{name: 0.0}]} for name in names]
        return {"choices": [{"index": i, "finish_reason": "length", "logprobs": one} for i, one in enumerate(said)]}

    with engine(answer) as remote:
        words = ("device", "--engine", f"openai:{remote.address}", "--texts", "1", "--new-tokens", "6", "--json")
        (text,) = json.loads(run(*words, "--temperature", "0", "--draft-length", "2").stdout)["texts"]
        first = len(asked[1]["prompt"][0])
        assert text["tokens"] == [40 + (first + i) % 50 for i in range(6)]
        assert text["rounds"] == len(asked) - 1
        one_sentence(run(*words, "--record", "run.jsonl"), "leave options of `hlm serve` and --record out")
        one_sentence(run(*words, "--method", "U-HLM"), "got --method 'U-HLM'")
    one_sentence(run("device", "--engine", "http://127.0.0.1:1"), "write openai:http://HOST:PORT")
    one_sentence(run("device", "--engine", "openai:http://127.0.0.1:1"), "gave no answer (ConnectionRefusedError")
    one_sentence(run("device", "--top-k", "2"), "--top-k is about --engine")
