"""Two scrapes of a running server, from a server on loopback; each answer without counters is refused by what it is."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from click.testing import CliRunner

from tests.validation.acceptance.test_engines import llama_scrape, scrape
from validation.acceptance.engines import read_server
from validation.acceptance.server import fetch
from validation.cli.commands import main
from validation.errors import UserError

Serve = Callable[..., str]


class Handler(BaseHTTPRequestHandler):
    """Answers with the next content, status and announced length of its server; the last one stays."""

    def do_GET(self) -> None:
        answers = self.server.answers  # type: ignore[attr-defined]
        content, status, length = answers.pop(0) if len(answers) > 1 else answers[0]
        body = content.encode() if isinstance(content, str) else content
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: object) -> None:
        """Print nothing."""


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that starts a server with answers and returns its address."""
    monkeypatch.setenv("no_proxy", "*")
    servers = []

    def started(*contents: str | bytes, status: int = 200, length: int | None = None) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.answers = [(content, status, length) for content in contents]  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/metrics"

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


BEFORE, AFTER = scrape(10, 30, [8, 4, 2]), scrape(14, 42, [11, 6, 2])


def created(text: str, at: str) -> str:
    return text.replace("1.7e+09", at)


def run(*words: object):
    return CliRunner().invoke(main, ["acceptance", *map(str, words)])


def test_two_scrapes_of_a_server_are_differenced(serve: Serve) -> None:
    address = serve(BEFORE, AFTER)
    (record,) = read_server(address, 0.01, 5.0).records
    assert record.counts() == {3: (1, 1, 2, 0)}
    assert record.source == f"{address} to {address} 0.01 s later"
    (record,) = read_server(serve(llama_scrape(10, 30, [8, 4, 2]), llama_scrape(14, 42, [11, 6, 2])), 0.01, 5.0).records
    assert (record.engine, record.num_spec_steps) == ("llama.cpp", 4)


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((BEFORE, scrape(4, 12, [3, 1, 0])), "a counter falls, vllm:spec_decode_num_drafts from 10 to 4"),
        ((BEFORE, created(AFTER, "1.8e+09")), "the counters began anew between the two scrapes"),
        ((BEFORE, AFTER.replace("accepted_tokens_total", "kept_tokens_total")), "the later scrape has no vllm:spec"),
        ((BEFORE, BEFORE), "drafted nothing in the 0.01 s between the two scrapes"),
        ((BEFORE, AFTER.rstrip("\n")), "ends without a line break, so the scrape may be cut off"),
        (("sglang:spec_accept_length 2.5\n",), "SGLang's, which counts no accepted drafts"),
        (("",), "has no counters of drafts"),
        ((b"\xff\xfe\x00",), "answers with bytes that are no text"),
    ],
)
def test_an_answer_that_has_no_counts_is_refused(serve: Serve, answers: tuple[str, ...], said: str) -> None:
    result = run(serve(*answers), "--wait", "0.01")
    assert (result.exit_code, said in " ".join(result.output.split())) == (2, True), result.output


def test_a_server_that_is_silent_or_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes the connection and says nothing
        with pytest.raises(UserError, match=r"does not answer within 0\.2 s; wait longer with --timeout"):
            fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics", 0.2)
        port = silent.getsockname()[1]
    with pytest.raises(UserError, match="No server answers at"):
        fetch(f"http://127.0.0.1:{port}/metrics", 5.0)
    for address in ("http:///metrics", "http://[", "https://"):
        with pytest.raises(UserError, match="names no host"):
            fetch(address, 5.0)
    with pytest.raises(UserError, match="No server answers at"):
        fetch("http://127.0.0.1:port/metrics", 5.0)
