"""Devices that draft for vLLM, also late, gone and hostile ones: a stand-in verifies, and calls the plugin, as 0.32."""

import json
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace

import pytest

from tests.validation.audit.test_engines import Server
from tests.validation.link.served import POSITIONS, Relayed, device_of, small_pair
from tests.validation.stopping import until
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

PAIR, WAIT_S = small_pair(5), 0.2
TABLE = PAIR.target.table


def text_of(count, text=()):
    """The target's likeliest tokens behind a text."""
    place, found = 0, []
    while len(found) < len(text) + count:
        found.append(text[len(found)] if len(found) < len(text) else int(TABLE[place].argmax()))
        place = place * 3 + found[-1] + 1 if place * 3 + found[-1] + 1 < len(TABLE) else place
    return found[len(text) :]


class Api(BaseHTTPRequestHandler):
    log_message = staticmethod(lambda *given: None)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        row = self.server.vllm.add(asked["request_id"], asked["prompt"][1:], asked["max_tokens"])
        while not row.done.wait(0.01):
            with suppress(BlockingIOError):
                if not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT):
                    self.server.vllm.gone.append(self.server.vllm.rows.pop(row.name))  # its client has gone
                    return
        self.send_response(200)
        self.end_headers()


class Vllm:
    """Passes at temperature 0 over all requests."""

    def __init__(self, speculative):
        parallel, model = SimpleNamespace(world_size=1), SimpleNamespace(served_model_name="m", model="m")
        given = {"speculative_config": speculative, "parallel_config": parallel, "model_config": model}
        self.drafts, self.rows, self.asked, self.ended = DeviceDrafts(SimpleNamespace(**given)), {}, [], False
        self.gone, self.pass_s = [], 0.002
        self.address = "ws://{}:{}".format(*self.drafts.server.address)
        threading.Thread(target=self.run, daemon=True).start()

    def add(self, name, text, count):
        self.asked.append(name)
        row = SimpleNamespace(name=name, text=list(text), left=count, drafts=[], done=threading.Event())
        return self.rows.setdefault(name, row)

    def run(self):
        while not self.ended:
            time.sleep(self.pass_s)
            rows = list(self.rows.values())
            self.input_batch = SimpleNamespace(req_ids=[f"cmpl-{row.name}-0-f00" for row in rows])
            found = self.drafts.propose([self.verified(row) for row in rows], None, None)
            for row, row.drafts in zip(rows, found, strict=True):
                if row.left <= 0:
                    self.rows.pop(row.name, None)
                    row.done.set()

    def verified(self, row):
        own = text_of(len(row.drafts) + 1, row.text)
        same = next((i for i, draft in enumerate(row.drafts) if draft != own[i]), len(row.drafts))
        row.text, row.left = row.text + own[: same + 1], row.left - same - 1
        return own[: same + 1]


@pytest.fixture
def vllm(monkeypatch):
    model = SimpleNamespace(vocabulary=3, context=64, end_tokens=(), tokenizer="t")
    monkeypatch.setattr(vllm_drafts, "described", lambda _: model)
    with Server(("127.0.0.1", 0), Api) as api:
        address = f"http://127.0.0.1:{api.server_port}"
        for name, value in {"LISTEN": "127.0.0.1:0", "WAIT": f"{1000 * WAIT_S}ms", "VLLM": address}.items():
            monkeypatch.setenv(f"HLM_{name}", value)
        api.vllm = made = Vllm(SimpleNamespace(num_speculative_tokens=3))
        threading.Thread(target=api.serve_forever, daemon=True).start()
        yield made
        made.ended = True
        api.shutdown()
        made.drafts.loop.call_soon_threadsafe(made.drafts.server.stop)


def write(address, method="greedy drafts", name="a", pace=0.0, temperature=0.0, **options):
    with device_of(PAIR, address, **options) as device:
        device.least_draft_s, given = pace, {"seed": 2, "new_tokens": POSITIONS, "temperature": temperature}
        return device.generate(method_named(method, 3, of_link=True), [0], name=name, **given)


@contextmanager
def opened(vllm, count, name="s"):
    opening = Opening("t", "q", [Terms.of(GreedyDrafts(3)).plain()], name, 2, 0.0, 1.0, count, [0], [], name)
    with Remote(vllm.address, patience_s=5.0) as remote:
        remote.greeting()
        remote._open_text(opening)
        remote.opened = True
        yield lambda drafts: remote.round(
            lambda: opening, round_body([], tokens_message([Draft(token) for token in drafts], 3).payload, 3)
        )


@pytest.mark.parametrize("method", ["greedy drafts", "shared seed", "fixed K", "DSSD", "prompt lookup"])
def test_the_text_is_vllms_own(vllm, method):
    found = write(vllm.address, method)
    assert (found.tokens, len(vllm.asked)) == (text_of(POSITIONS), 1)
    assert found.total("accepted") > 1 or method == "prompt lookup"


def test_devices_share_passes_and_a_late_one_costs_its_drafts_alone(vllm):
    paces = {"a": 0.0, "b": 0.0, "late": 2 * WAIT_S / 3}
    with ThreadPoolExecutor(3) as pool:
        found = pool.map(lambda name: write(vllm.address, name=name, pace=paces[name]).tokens, paces)
        until(lambda: len(vllm.asked) == len(paces))
        plain = vllm.add("plain", [], 40)
        assert list(found) == [text_of(POSITIONS)] * 3
    assert plain.done.wait(20)
    assert plain.text[:40] == text_of(40)
    assert vllm.drafts.engine.waited_s < ALLOWANCE_S + 4 * WAIT_S


@pytest.mark.parametrize("way", ["is silent", "sends wrong drafts slowly"])
def test_a_hostile_device_costs_a_bounded_time(vllm, way):
    """Without the allowance, each of 60 passes would wait for it."""
    with opened(vllm, 60) as send:
        plain, count = vllm.add("plain", [], 60), 0
        while way != "is silent" and not plain.done.is_set() and count < 60:
            time.sleep(WAIT_S / 2)
            send([(text_of(count + 1)[-1] + 1) % 3] * min(3, 60 - count))
            count += 1
        assert plain.done.wait(30)
    assert plain.text[:60] == text_of(60)
    assert vllm.drafts.engine.waited_s < ALLOWANCE_S + 4 * WAIT_S


def test_a_device_that_comes_back_reads_the_same_request(vllm):
    """The connection dies twice; vLLM writes on, and is asked once."""
    with Relayed(LinkModel(1e9, 1e9, cut_bytes=[900, 1700]), vllm.address) as relayed:
        assert (write(relayed.address).tokens, len(vllm.asked)) == (text_of(POSITIONS), 1)


def test_a_text_whose_device_stays_away_is_ended_when_others_wait(vllm):
    vllm.drafts.server.limits, vllm.pass_s = Limits(parked=1), 0.2
    for name in "ab":
        with opened(vllm, 60, name):
            pass
        until(lambda: len(vllm.drafts.server.parked) == 1)
    until(lambda: vllm.gone)
    assert [row.name for row in vllm.gone] == vllm.asked[:1]


def test_what_vllm_cannot_do_is_refused_and_its_absence_is_said(vllm):
    for method, warm in [("shared seed", 1.0), ("fixed K", 1.0), ("shared seed streamed", 0.0)]:
        with pytest.raises(RefusedError, match="vLLM verifies rounds of tokens alone"):
            write(vllm.address, method, temperature=warm)
    vllm.drafts.engine.place = "127.0.0.1:1"
    with pytest.raises(ServerAwayError, match="vLLM does not answer at"):
        write(vllm.address, patience_s=0.5)


@pytest.mark.parametrize(("release", "warned"), [("0.32.1+cu130", False), ("0.33.0", True), (None, True)])
def test_another_release_is_said_at_the_start_and_a_fault_that_repeats_once(monkeypatch, caplog, release, warned):
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(**({"__version__": release} if release else {})))
    vllm_drafts.warn_of_release()
    assert ("vLLM 0.32.0" in caplog.text) is warned
    caplog.clear()
    drafts = SimpleNamespace(engine=None, most=3, fault="")  # called by no runner
    assert [DeviceDrafts.propose(drafts, [[1], [2]], None, None) for _ in range(3)] == [[[], []]] * 3
    assert caplog.text.count("devices draft nothing") == 1
