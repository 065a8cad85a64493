"""The OpenAI-compatible door, by the package openai as it is."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import openai
import pytest
import uvicorn

from tests.validation.link.served import LONGEST_S, Running, device_of, ended
from tests.validation.stopping import until
from validation.collection.collect import prompt_ids
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.shared_seed import SharedSeed
from validation.link import door as door_module
from validation.link import door_requests
from validation.link.door import NAME, Door, Progress, headers_in_time
from validation.models.pair import Pair, load_pair

PROMPT = "Tom has three apples and"
HEAD = ["POST /v1/completions HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"


@pytest.fixture(scope="module")
def pair():
    return load_pair("builtin")


@contextmanager
def opened(pair: Pair, **options: Any) -> Iterator[SimpleNamespace]:
    with Running(pair) as running, device_of(pair, running.address, patience_s=0.3) as device:
        device.pair.tokenizer.chat_template = TEMPLATE
        door = Door(device, lambda: SharedSeed(3), model="builtin", **options)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            settings: dict[str, Any] = {"http": headers_in_time(), "log_level": "error", "lifespan": "off"}
            server = uvicorn.Server(uvicorn.Config(door.application(), **settings))
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
            thread.start()
            url = f"http://127.0.0.1:{port}/v1"
            with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=20) as client:
                yield SimpleNamespace(client=client, pair=pair, running=running, url=url, device=device, door=door)
            server.should_exit = True
            ended(thread)
            door.close()


@pytest.fixture(scope="module")
def door(pair):
    with opened(pair) as found:
        yield found


def expected(pair: Pair, count: int, seed: int) -> str:
    (record,) = decode(pair, [Prompt(NAME, PROMPT, "")], SharedSeed(3), new_tokens=count, seed=seed)
    return str(pair.tokenizer.decode(record.tokens, skip_special_tokens=True))


def ask(door: SimpleNamespace, count: int = 8, **more: Any) -> Any:
    settings = {"model": "builtin", "prompt": PROMPT, "max_tokens": count, "seed": 5} | more
    return door.client.completions.create(**settings)


def text_of(parts: Any) -> str:
    return "".join(part.choices[0].text for part in parts if part.choices)


def test_a_completion_and_a_stream_are_the_loops_text(door):
    ids = prompt_ids(door.pair.tokenizer, [PROMPT])[0]
    wanted = expected(door.pair, 8, 5)
    for prompt in (PROMPT, ids):
        found = ask(door, prompt=prompt)
        assert found.choices[0].text == wanted
    assert found.choices[0].finish_reason == "length"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (len(ids), 8)
    assert [one.id for one in door.client.models.list()] == ["builtin"]
    parts = list(ask(door, stream=True, stream_options={"include_usage": True}))
    assert text_of(parts) == wanted
    assert parts[-2].choices[0].finish_reason == "length"
    assert parts[-1].usage.completion_tokens == 8
    assert len(parts) > 3


def test_a_stop_ends_the_text_before_it(door):
    whole = ask(door).choices[0].text
    stop = whole[4:7]
    found = ask(door, stop=[stop, "never"])
    assert found.choices[0].text == whole[: whole.index(stop)] == text_of(ask(door, stop=stop, stream=True))
    assert found.choices[0].finish_reason == "stop"


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ({"n": 2}, "n"),
        ({"temperature": 1e-300}, "temperature"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"extra_body": {"top_k": 3}}, "top_k"),
        ({"temperature": -1}, "temperature"),
        ({"prompt": ["a", "b"]}, "prompt"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(door, asked, name):
    with pytest.raises(openai.BadRequestError) as refused:
        ask(door, 2, **asked)
    assert refused.value.param == name


@pytest.mark.parametrize(
    ("headers", "data", "status"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415),
        ({"Content-Type": "application/json"}, b"{", 400),
        ({"Content-Type": "application/json"}, b" " * (2**20 + 1), 413),
        ({"Content-Type": "application/json", "Host": "evil.example"}, b"{}", 400),
    ],
)
def test_other_requests_are_refused(door, headers, data, status):
    request = urllib.request.Request(f"{door.url}/completions", data, headers)
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(request, timeout=10):
        pass
    refused.value.close()
    assert refused.value.code == status


def connected(door: SimpleNamespace) -> socket.socket:
    host, port = door.url.removeprefix("http://").removesuffix("/v1").split(":")
    return socket.create_connection((host, int(port)), timeout=LONGEST_S)


def test_a_request_that_does_not_come_is_refused_in_time(door, monkeypatch):
    monkeypatch.setattr(door_requests, "SLOWEST_S", 0.2)
    with connected(door) as client:
        client.sendall("\r\n".join([*HEAD, "Content-Length: 9", "", "{"]).encode())
        said = client.recv(65536)
    assert said.startswith(b"HTTP/1.1 408")
    with connected(door) as client, pytest.raises(ConnectionError):
        until(lambda: not client.send(b"x"))  # a header without an end


def test_a_client_that_leaves_within_its_request_is_no_error_of_the_door(door, caplog):
    for way in ("Content-Length: 9", "Transfer-Encoding: chunked"):
        with connected(door) as client:
            client.sendall("\r\n".join([*HEAD, way, "", "9"]).encode())
    until(lambda: not door.door.taken)
    assert ask(door, 2).usage.completion_tokens == 2
    assert not caplog.records


def test_a_client_that_leaves_ends_its_text(door, monkeypatch):
    monkeypatch.setattr(door.running.engine, "stretch_s", 0.05)  # the whole text would take 10 s
    before = door.running.server.metrics.value("hlm_tokens_total")
    stream = ask(door, 200, stream=True)
    next(iter(stream))
    stream.close()
    assert ask(door, 1).usage.completion_tokens == 1
    assert door.running.server.metrics.value("hlm_tokens_total") - before < 150


def test_an_error_within_a_text_ends_it_with_a_status(door, monkeypatch):
    monkeypatch.setattr(door.door, "make", lambda: 1 / 0)
    with pytest.raises(openai.InternalServerError):
        ask(door, 2)


def test_texts_are_written_at_the_same_time(pair):
    with opened(pair, at_once=2) as door:
        door.running.engine.stretch_s = 0.05  # the long text takes half a second at least
        stream = iter(ask(door, 40, seed=2, stream=True))
        first = next(stream)
        found = ask(door, 2)
        assert found.choices[0].text == expected(pair, 2, 5)
        assert door.door.taken == 1  # the long text was begun before, and is not complete
        assert found.model_extra["hlm"] == {"writers": [[0, "target"]]}
        assert text_of([first, *stream]) == expected(pair, 40, 2)
        assert door.running.server.metrics.value("hlm_devices") == 2


def test_requests_beyond_the_queue_are_told_when_to_come_again(pair, monkeypatch):
    monkeypatch.setattr(door_module, "MOST_WAITING", 0)
    with opened(pair) as door:
        door.running.engine.stretch_s = 0.05
        stream = iter(ask(door, 40, stream=True))
        next(stream)
        with pytest.raises(openai.RateLimitError, match="no more may") as refused:
            ask(door, 1)
        assert refused.value.response.headers["retry-after"] == "1"
        assert len(list(stream)) > 1
        until(lambda: door.door.taken == 0)  # the door lets go of a text after its last part is read
        assert ask(door, 1).usage.completion_tokens == 1


def test_text_is_held_back_where_a_stop_or_a_character_may_begin():
    words = {1: "ab", 2: "c", 3: "d", 4: "\ufffd"}
    progress = Progress(lambda ids: "".join(words[one] for one in ids), ["bcx", "d"])
    assert [progress.more([1]), progress.more([2])] == ["a", ""]
    assert progress.more([4]) == ""
    assert (progress.more([3]), progress.reason, progress.rest()) == ("bc\ufffd", "stop", "")
    ended = Progress(lambda ids: "".join(words[one] for one in ids), ["bcx"])
    assert (ended.more([1, 2]), ended.rest()) == ("a", "bc")
    texts = iter(("日", "\ufffd" * 4, "日本"))  # byte fallback: a run of bytes is text only as a whole
    hidden = Progress(lambda ids: next(texts), [])
    assert [hidden.more([token]) for token in range(3)] == ["日", "", "本"]


def test_text_that_a_decoder_changes_after_it_was_sent_ends_a_stream_with_an_error():
    def decode(ids):
        return "".join(("do", " n", "'t", " go")[one] for one in ids).replace(" n't", "n't")

    streamed, whole = Progress(decode, []), Progress(decode, [], streamed=False)
    assert [streamed.more([0]), streamed.more([1])] == ["do", " n"]
    with pytest.raises(door_requests.RequestError, match="ask without stream"):
        streamed.more([2])
    assert [*(whole.more([token]) for token in range(4)), whole.rest()] == ["", "", "", "", "don't go"]
