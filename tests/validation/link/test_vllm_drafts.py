"""Devices that draft for vLLM, also late, gone and hostile ones: a stand-in verifies, and calls the plugin, as 0.32."""

import json
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import pytest

from tests.validation.audit.test_engines import Server as Requests
from tests.validation.link.served import POSITIONS, Relayed, device_of, small_pair, until
from validation.audit.samplers import method_named
from validation.decoding.methods.base import tokens_message
from validation.decoding.methods.multi_draft import GreedyDrafts
from validation.decoding.session import Draft
from validation.link import vllm_drafts
from validation.link.formats import Terms
from validation.link.passes import Limits
from validation.link.relay import LinkModel
from validation.link.remote import RefusedError, Remote, ServerAwayError
from validation.link.vllm_drafts import ALLOWANCE_S, DeviceDrafts
from validation.link.wire import Opening, round_body

PAIR, WAIT_S, PASS_S = small_pair(5), 0.2, 0.002
TABLE = PAIR.target.table


def following(text):
    place = 0
    for token in text:
        place = place * 3 + token + 1 if place * 3 + token + 1 < len(TABLE) else place
    return int(TABLE[place].argmax())


def own(count=POSITIONS):
    text = []
    while len(text) < count:
        text.append(following(text))
    return text


class Api(BaseHTTPRequestHandler):
    log_message = staticmethod(lambda *given: None)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        row = self.server.vllm.add(asked["request_id"], asked["prompt"][1:], asked["max_tokens"])
        while not row.done.wait(0.01):
            with suppress(BlockingIOError):
                if not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    self.server.vllm.rows.pop(row.name, None)  # the client has gone
                    return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")


class Vllm:
    """Passes at temperature 0 over all requests, and the API that takes them."""

    def __init__(self):
        self.rows, self.asked, self.ended = {}, [], False
        self.api = Requests(("127.0.0.1", 0), Api)
        self.api.vllm = self

    def __enter__(self):
        speculative, parallel = SimpleNamespace(num_speculative_tokens=3), SimpleNamespace(world_size=1)
        model = SimpleNamespace(served_model_name="m", model="m")
        given = {"speculative_config": speculative, "parallel_config": parallel, "model_config": model}
        self.drafts = DeviceDrafts(SimpleNamespace(**given))
        self.address = "ws://{}:{}".format(*self.drafts.server.address)
        self.threads = [threading.Thread(target=one, daemon=True) for one in (self.run, self.api.serve_forever)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.ended = True
        self.api.shutdown()
        self.api.server_close()
        self.drafts.loop.call_soon_threadsafe(self.drafts.server.stop)

    def add(self, name, text, count):
        row = SimpleNamespace(name=name, text=list(text), left=count, drafts=[], done=threading.Event())
        self.asked.append(name)
        self.rows[name] = row
        return row

    def run(self):
        while not self.ended:
            time.sleep(PASS_S)
            rows = list(self.rows.values())
            sampled = [self.verified(row) for row in rows]
            self.input_batch = SimpleNamespace(req_ids=[f"cmpl-{row.name}-0-f00" for row in rows])
            found = self.drafts.propose(sampled, None, None)
            for row, drafts in zip(rows, found, strict=True):
                row.drafts = drafts
                if row.left <= 0:
                    self.rows.pop(row.name, None)
                    row.done.set()

    def verified(self, row):
        new = []
        for draft in [*row.drafts, None]:
            new.append(following([*row.text, *new]))
            if new[-1] != draft:
                break
        row.text, row.left = row.text + new, row.left - len(new)
        return new


@pytest.fixture
def vllm(monkeypatch):
    made = Vllm()
    monkeypatch.setattr(
        vllm_drafts, "described", lambda model: SimpleNamespace(vocabulary=3, context=64, end_tokens=(), tokenizer="t")
    )
    address = f"http://127.0.0.1:{made.api.server_port}"
    for name, value in {"LISTEN": "127.0.0.1:0", "WAIT": f"{1000 * WAIT_S}ms", "VLLM": address}.items():
        monkeypatch.setenv(f"HLM_{name}", value)
    with made:
        yield made


def write(address, method="greedy drafts", name="a", pace=0.0, temperature=0.0, **options):
    with device_of(PAIR, address, **options) as device:
        device.least_draft_s = pace
        made = method_named(method, 3, of_link=True)
        given = {"seed": 2, "new_tokens": POSITIONS, "temperature": temperature}
        return device.generate(made, [0], name=name, **given)


@pytest.mark.parametrize("method", ["greedy drafts", "shared seed", "fixed K", "DSSD", "prompt lookup"])
def test_the_text_is_vllms_own(vllm, method):
    found = write(vllm.address, method)
    assert found.tokens == own()
    assert found.total("accepted") > (-1 if method == "prompt lookup" else 1)
    assert len(vllm.asked) == 1


def test_devices_share_passes_and_a_late_one_costs_its_drafts_alone(vllm):
    """One device needs twice the wait for its drafts."""
    found = {}
    names = {"a": 0.0, "b": 0.0, "late": 2 * WAIT_S / 3}
    threads = [
        threading.Thread(target=lambda n, p: found.update({n: write(vllm.address, name=n, pace=p)}), args=given)
        for given in names.items()
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(vllm.asked) == len(names))
    plain = vllm.add("plain", [], 40)
    for thread in threads:
        thread.join(60)
    assert plain.done.wait(20)
    assert plain.text[:40] == own(40)
    assert [found[name].tokens for name in names] == [own()] * 3
    assert vllm.drafts.engine.waited_s < ALLOWANCE_S + 4 * WAIT_S


def opening(count=POSITIONS, session="s"):
    terms = [Terms.of(GreedyDrafts(3)).plain()]
    return Opening("t", "q", terms, "a", 2, 0.0, 1.0, count, [0], [], session)


@pytest.mark.parametrize("way", ["is silent", "sends wrong drafts slowly"])
def test_a_hostile_device_costs_a_bounded_time(vllm, way):
    """Without the allowance, each of 60 passes would wait for it."""
    with Remote(vllm.address, patience_s=5.0) as remote:
        remote._connected()
        remote._open_text(opening(60))
        text, plain = [], vllm.add("plain", [], 60)
        while way != "is silent" and not plain.done.is_set() and len(text) < 60:
            wrong = [(following(text) + 1) % 3] * min(3, 60 - len(text))
            time.sleep(WAIT_S / 2)
            payload = tokens_message([Draft(token) for token in wrong], 3).payload
            remote.opened = True
            remote.round(opening, round_body([], payload, 3))
            text.append(following(text))
        assert plain.done.wait(30)
        assert plain.text[:60] == own(60)
    assert vllm.drafts.engine.waited_s < ALLOWANCE_S + 4 * WAIT_S


def test_a_device_that_comes_back_reads_the_same_request(vllm):
    """The connection dies twice; vLLM writes on, and is asked once."""
    with Relayed(LinkModel(1e9, 1e9, cut_bytes=[900, 1700]), vllm.address) as relayed:
        found = write(relayed.address)
    assert (found.tokens, len(vllm.asked)) == (own(), 1)


def test_a_text_whose_device_stays_away_is_ended_when_others_wait(vllm):
    vllm.drafts.server.limits = Limits(parked=1)
    for name in "ab":
        with Remote(vllm.address) as remote:
            remote._connected()
            remote._open_text(opening(60, name))
        until(lambda: len(vllm.drafts.server.parked) == 1)
    until(lambda: len(vllm.drafts.engine.texts) <= 1)


def test_what_vllm_cannot_do_is_refused_and_its_absence_is_said(vllm):
    for method, warm in [("shared seed", 1.0), ("fixed K", 1.0), ("shared seed streamed", 0.0)]:
        with pytest.raises(RefusedError, match="vLLM verifies rounds of tokens alone"):
            write(vllm.address, method, temperature=warm)
    vllm.drafts.engine.place = "127.0.0.1:1"
    with pytest.raises(ServerAwayError, match="vLLM does not answer at"):
        write(vllm.address, patience_s=0.5)
