"""A device over an engine's completions endpoint, against servers that answer from a table, rightly and wrongly."""

import json
import threading

import numpy as np
import pytest

from tests.validation.audit.test_engines import Engine, Server
from tests.validation.command_line import one_sentence, run
from tests.validation.link.served import looped
from tests.validation.tiny_texts import node, nodes, table_pair
from validation.audit.samplers import method_named
from validation.errors import UserError
from validation.link.completions import PROBED, Completions, EngineDevice
from validation.models.pair import PAIRS_FOLDER, load_single

N, V = 5, 3
Q, P = np.random.default_rng(5).dirichlet(np.ones(V), (2, nodes(V, N)))
PAIR, CUT = table_pair(Q, P), table_pair(Q, np.where(np.sort(P)[:, 1:2] <= P, P, 0.0))
FEW = {"tokens": ["token_id:1"], "top_logprobs": [{"token_id:1": -0.1}]}


def choices(asked, **changed):
    """Answers by the table: each token is the most probable one, or wins the race of its place's seed."""
    for i, prompt in enumerate(asked["prompt"]):
        text, law = list(prompt), enumerate(np.log(P[node(*prompt[1:])]).tolist())
        while len(text) < min(len(prompt) + asked["max_tokens"], N + 1):
            noise = np.random.default_rng([asked.get("seed", 0), len(text)]).gumbel(size=V)
            text.append(int((np.log(P[node(*text[1:])]) + asked["temperature"] * noise).argmax()))
        names = [f"token_id:{token}" for token in text[len(prompt) :]]
        said = {"tokens": names, "top_logprobs": [{f"token_id:{token}": number for token, number in law}]}
        yield {"index": i, "finish_reason": "length", "logprobs": said} | changed


class Completing(Engine):
    def do_POST(self):
        self.server.seen.append(asked := json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.answer({"choices": [*self.server.answer(asked)][::-1]})


@pytest.fixture
def engine():
    with Server(("127.0.0.1", 0), Completing) as server:
        server.seen, server.answer = [], choices
        server.remote = Completions(f"openai:http://127.0.0.1:{server.server_port}/v1", answer_s=2.0)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def write(engine, method, name="a", top_k=0, pair=PAIR, **given):
    device = EngineDevice(pair, engine.remote, top_k=top_k)
    return device.generate(method_named(*method), [0], name=name, seed=2, new_tokens=N, **given).tokens


@pytest.mark.parametrize("method", [("fixed K", 2), ("shared seed", 4), ("block verification", 3)])
def test_the_text_is_the_servers(engine, method):
    """With top-k it is that of the loop in one process, whose target is cut alike; a place has a seed of its own."""
    for top_k, pair, warm in [(0, PAIR, 0), (3, PAIR, 1), (2, CUT, 0.7)] * 2:
        expected = looped(pair, method_named(*method), name := str(len(engine.seen)), N, temperature=warm).tokens
        assert write(engine, method, name, top_k, temperature=warm) == expected
    engine.seen.clear()
    texts = [write(engine, method, name, temperature=0.7) for name in "abcdef"]
    assert texts == [write(engine, ("fixed K", 1), name, pair=table_pair(P, P), temperature=0.7) for name in "abcdef"]
    places = {(asked["seed"], len(asked["prompt"][0])) for asked in engine.seen[4:]}
    assert len(places) == len({seed for seed, _ in places}) == 6 * N


@pytest.mark.parametrize(
    ("answer", "warm", "top_k", "said"),
    [
        (lambda asked: [*choices(asked)][:1], 0, 0, "does not answer 3 prompts"),
        (lambda asked: choices(asked, logprobs=FEW | {"tokens": [" the"]}), 0, 0, "the is not one of token_id:0"),
        (lambda asked: choices(asked, logprobs=FEW), 1, 2, "1 log-probabilities of mass 0.905"),
        (lambda asked: choices(asked, finish_reason="stop"), 0, 0, "unlike the draft model"),
        (lambda asked: choices(asked | {"seed": np.random.default_rng().integers(2**30)}), 1, 0, "ignores the seed"),
        (lambda asked: choices(asked | {"seed": 7}), 1, 0, "ignores the seed"),
        (lambda asked: threading.Event().wait(3) or [], 0, 0, "gave no answer (timed out)"),
    ],
)
def test_a_server_that_answers_wrongly_is_refused(engine, answer, warm, top_k, said):
    engine.answer = answer
    with pytest.raises(UserError) as refused:
        write(engine, ("fixed K", 2), top_k=top_k, temperature=warm)
    assert said in str(refused.value)


def test_the_command_writes_the_text_of_an_engine(engine):
    ours = load_single(str(PAIRS_FOLDER / "builtin" / "small")).tokenizer(PROBED).input_ids
    said = {"finish_reason": "length", "prompt_token_ids": ours, "logprobs": FEW}
    engine.answer = lambda asked: [{"index": i} | said for i in range(len(asked["prompt"]))]
    words = ("device", "--engine", f"openai:{engine.remote.address}", "--texts", "1", "--temperature", "0", "--json")
    (text,) = json.loads(run(*words, "--new-tokens", "6").stdout)["texts"]
    assert (text["tokens"], text["rounds"]) == ([1] * 6, len(engine.seen) - 1)
    said["prompt_token_ids"] = [1, 2]
    one_sentence(run(*words), "use a draft model with the server's tokenizer")
