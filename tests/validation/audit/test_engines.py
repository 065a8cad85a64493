"""Samplers that ask an engine: servers of both forms, which draw as a request says, and ``vllm.LLM`` in the process."""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import numpy as np
import pytest

from tests.validation.audit.test_repeats import drawn
from tests.validation.command_line import one_sentence, run
from tests.validation.link.served import looped
from tests.validation.tiny_texts import node, table_pair
from validation.audit import KEPT, Processors, TableLaw, keeps_law, server_sampler, vllm_sampler
from validation.audit.samplers import method_named
from validation.errors import UserError
from validation.link.completions import PROBED, PROBES, Completions, EngineDevice, vllm_noise
from validation.models.pair import PAIRS_FOLDER, load_single

D, END = 2, 3
ROWS = np.random.default_rng(3).dirichlet(np.ones(4), (2, 1 + 4))
SETTINGS = {"temperature": 0.8, "top_k": 3, "top_p": 0.8, "min_p": 0.2, "logit_bias": ((1, 0.5),)}
PENALTIES = {"presence_penalty": 0.2, "frequency_penalty": 0.9, "min_tokens": 1}
REFUSED = {"error": {"message": "Field 'repeat_last_n': Value must be between 0 <= value <= 2147483647, but got -1"}}


def law(**settings):
    return TableLaw(ROWS, [[0], [1]], (END,), Processors(**settings))


def texts_of(body, order, count):
    bias = body["logit_bias"] or []
    pairs = bias.items() if isinstance(bias, dict) else bias
    given = {name: body[name] for name in (*SETTINGS, *PENALTIES) if name in body and name != "logit_bias"}
    table = law(**given, order=order, logit_bias=tuple((int(token), b) for token, b in pairs)).table
    texts = drawn(table[body["prompt"][0]], D, count, np.random.default_rng(body["seed"])).tolist()
    return [text[:1] if text[0] == END else text for text in texts]


def listed(asked, *, known):
    """A token behind each prompt, which is the most probable one or wins the race of its seed, and the whole law."""
    for i, prompt in enumerate(asked["prompt"]):
        row, seed = np.log(ROWS[0, node(*prompt[1:], vocabulary=4) % 5]), asked.get("seed", 0)
        noise = vllm_noise(seed, 4) if known else np.random.default_rng(seed).gumbel(size=4)
        won = (row + asked["temperature"] * noise).argmax()
        law = {f"token_id:{token}": number for token, number in enumerate(row.tolist())}
        yield {"index": i, "finish_reason": "", "logprobs": {"tokens": [f"token_id:{won}"], "top_logprobs": [law]}}


class Engine(BaseHTTPRequestHandler):
    log_message = staticmethod(lambda *given: None)
    disable_nagle_algorithm = True  # else each answer in two parts takes 40 ms

    def answer(self, found, status=200):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def do_GET(self):
        self.answer({"data": [{"id": "the-model"}]} if self.path == "/v1/models" else {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen.append(body)
        if "return_tokens_as_token_ids" in body:
            self.answer({"choices": [one | self.server.changed for one in listed(body, known=self.server.known)][::-1]})
        elif isinstance(body["prompt"], str):
            self.answer({"choices": [{"prompt_token_ids": self.server.ids}]})
        elif body.get("top_k") == 1:
            self.answer({"error": {"message": "EngineCore encountered an issue.", "code": 500}}, 500)
        elif self.path == "/v1/completions" and body["model"] == "the-model" and body["return_token_ids"]:
            texts = enumerate(texts_of(body, "vllm", body["n"]))
            self.answer({"choices": [{"index": i, "token_ids": text} for i, text in texts][::-1]})
        elif body["repeat_last_n"] != len(body["prompt"]) + body["n_predict"]:  # it refuses -1
            self.answer(REFUSED, 400)
        else:
            order = ["repetition_penalty" if name == "penalties" else name for name in body["samplers"]]
            self.answer({"tokens": texts_of(body, tuple(order), 1)[0]} if body["return_tokens"] else {})


class Server(ThreadingHTTPServer):
    request_queue_size = 64


@pytest.fixture
def engine():
    with Server(("127.0.0.1", 0), Engine) as server:
        server.seen, server.changed, server.ids, server.known = [], {}, [1], False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def generate(prompts, params, use_tqdm):
    asked = [{"prompt": one["prompt_token_ids"]} | given for one, given in zip(prompts, params, strict=True)]
    texts = [[SimpleNamespace(token_ids=text) for text in texts_of(body, "vllm", body["n"])] for body in asked]
    return [SimpleNamespace(outputs=some) for some in texts]


def test_vllm_in_the_process_draws_all_prompts_in_one_call(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=dict))
    wanted = law(**SETTINGS, **PENALTIES, order="vllm")
    sample = vllm_sampler(SimpleNamespace(generate=generate), wanted.processors, new_tokens=D)
    assert keeps_law(sample, wanted, depth=D, draws=2_000, within=0.2).verdict == KEPT


@pytest.mark.parametrize(("kind", "more"), [("vllm", PENALTIES | {"order": "vllm"}), ("llama", {"order": "llama.cpp"})])
def test_a_server_gets_every_setting_and_keeps_the_law(engine, kind, more):
    """The two orders give other laws; no seed occurs twice in the 32 bits that are used, and prompts are in flight."""
    wanted = law(**SETTINGS, **more)
    assert np.abs(wanted.table - law(**SETTINGS, **more | {"order": "transformers"}).table).max() > 0.01
    sample = server_sampler(f"{kind}:http://127.0.0.1:{engine.server_port}/", wanted.processors)
    assert keeps_law(sample, wanted, depth=D, draws=3_000, within=0.2).verdict == KEPT
    seeds = [seed for body in engine.seen for seed in range(body["seed"], body["seed"] + body.get("n", 1))]
    assert len({seed % 2**32 for seed in seeds}) == len(seeds) > 500
    assert {body["prompt"][0] for body in engine.seen[:4]} == {0, 1}


def test_the_command_asks_a_server_in_its_own_order(engine, tmp_path):
    np.savez(tmp_path / "toy.npz", target=ROWS, prompts=[[0], [1]], end_tokens=[END])
    call = ("audit", "--table", str(tmp_path / "toy.npz"), "--depth", "2", "--draws", "500", "--json", "--sampler")
    server = f"vllm:http://127.0.0.1:{engine.server_port}"
    given = (server, "--top-k", "2", "--presence-penalty", "0.5", "--logit-bias", "1:0.5")
    assert json.loads(run(*call, *given).stdout)["at_least"] == 0
    assert [engine.seen[0][name] for name in ("top_k", "presence_penalty", "logit_bias")] == [2, 0.5, {"1": 0.5}]
    one_sentence(run(*call, *given, "--order", "transformers"), "vLLM has an order of its own")
    one_sentence(run(*call, server, "--logit-bias", "1=2"), "write TOKEN:BIAS")
    one_sentence(run(*call, server + "/not-here"), "has no data.0.id")
    one_sentence(run("audit", "--target", "missing", "--sampler", "llama:http://127.0.0.1:1"), "start the server")
    assert "The engine behind the server has died" in run(*call, server, "--top-k", "1").stderr


def test_what_a_server_says_against_a_request_is_shown_whole(engine, monkeypatch):
    monkeypatch.setattr(Engine, "do_POST", lambda handler: handler.answer(REFUSED, 400))
    with pytest.raises(UserError, match="between 0 <= value <= 2147483647, but got -1"):
        server_sampler(f"llama:http://127.0.0.1:{engine.server_port}", Processors())([[0]], 1, 1, 1)


@pytest.mark.parametrize(
    ("address", "settings", "said"),
    [
        ("llama:http://127.0.0.1:1", {"min_tokens": 2}, "no smallest length"),
        ("llama:http://127.0.0.1:1", {"presence_penalty": 1.0}, "counts the prompt"),
        ("127.0.0.1:8000", {}, "write vllm:http"),
    ],
)
def test_what_no_server_can_do_is_refused(address, settings, said):
    with pytest.raises(UserError, match=said):
        server_sampler(address, Processors(**settings))([[0]], 1, 1, 1)


def written(engine, method=("fixed K", 2), name="a", top_k=0, draft=ROWS[1], **given):
    pair, remote = table_pair(draft, ROWS[0]), Completions(f"openai:http://127.0.0.1:{engine.server_port}/v1")
    device = EngineDevice(pair, remote, top_k=top_k)
    return device.generate(method_named(*method), [0], name=name, seed=2, new_tokens=D, **given).tokens


@pytest.mark.parametrize("method", [("fixed K", 2), ("shared seed", 1), ("block verification", 2)])
def test_a_device_writes_the_text_of_an_engine(engine, method):
    """With top-k it is that of the loop whose target is cut alike; else the server draws it, whatever was drafted."""
    cut = np.where(np.sort(ROWS[0])[:, 2:3] <= ROWS[0], ROWS[0], 0.0)
    for name, top_k, target, warm in [(name, *one) for name in "abc" for one in ((0, ROWS[0], 0), (2, cut, 0.7))]:
        expected = looped(table_pair(ROWS[1], target), method_named(*method), name, D, temperature=warm).tokens
        assert written(engine, method, name, top_k, temperature=warm) == expected
        assert written(engine, method, name) == written(engine, ("fixed K", 1), name, draft=ROWS[0])
    places = {asked["seed"]: len(asked["prompt"][0]) for asked in engine.seen if asked.get("seed", 0) > 8}
    assert sorted(places.values()) == sorted([1, 2] * 3)


def test_a_device_races_with_the_noise_that_it_knows(engine):
    """A draft of the target's own law is then always the server's draw: a text is one round of D requests."""
    calls = []
    for engine.known in (False, True):
        engine.seen.clear()
        texts = [written(engine, ("fixed K", 1), str(name), draft=ROWS[0]) for name in range(8)]
        calls.append(len(engine.seen) - 8 * (1 + PROBES))
        assert texts == [written(engine, ("fixed K", 1), str(name)) for name in range(8)]
    assert calls[0] > calls[1] == 8 * D


def test_the_device_refuses_an_engine_that_answers_wrongly(engine):
    few, words = ({"logprobs": {"tokens": [name], "top_logprobs": [{name: -0.1}]}} for name in ("token_id:1", " the"))
    wrong = {"2 prompts": {"index": 0}, "the is not": words, "0.905": few, "unlike": {"finish_reason": "stop"}}
    for said, engine.changed in wrong.items():
        with pytest.raises(UserError, match=said):
            written(engine, top_k=2)
    engine.changed = few | {
        "logprobs": {"tokens": ["token_id:1"], "top_logprobs": [{f"token_id:{i}": -1.4 for i in range(4)}]}
    }
    with pytest.raises(UserError, match="ignores the seed"):
        written(engine)


@pytest.mark.parametrize(("pause", "said"), [(20.0, "timed out"), (0.05, "too slowly")], ids=["dead", "slow"])
def test_an_engine_that_does_not_answer_in_time_is_given_up(engine, monkeypatch, pause, said):
    ended = threading.Event()

    def answer(handler):
        handler.send_response(200)
        handler.end_headers()
        while not ended.wait(pause):
            handler.wfile.write(b" ")

    monkeypatch.setattr(Engine, "do_GET", answer)
    remote, began = Completions(f"openai:http://127.0.0.1:{engine.server_port}", answer_s=0.5), time.monotonic()
    with pytest.raises(UserError, match=said):
        remote.hello()
    ended.set()
    assert time.monotonic() - began < 10


def test_the_command_drafts_for_an_engine(engine):
    words = ("device", "--engine", f"openai:http://127.0.0.1:{engine.server_port}", "--texts", "1", "--json")
    one_sentence(run(*words), "use a draft model with the server's tokenizer")
    engine.ids = load_single(str(PAIRS_FOLDER / "builtin" / "small")).tokenizer(PROBED).input_ids
    (text,) = json.loads(run(*words, "--temperature", "0", "--new-tokens", "6").stdout)["texts"]
    assert (len(text["tokens"]), engine.seen[-1]["max_tokens"]) == (6, 1)
