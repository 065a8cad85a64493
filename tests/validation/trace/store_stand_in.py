"""Servers on loopback that speak what traces need of the interface of S3, and fail on demand."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEY = "known"
PAGE = 3  # keys in one page of a list

Fault = Callable[[str, str], str | None]
"""From method and key to None, ``"503"``, ``"cut"`` or ``"lost"`` (written, but not answered)."""


class Bucket(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.objects: dict[str, bytes] = {}
        self.asked: list[tuple[str, str]] = []
        self.fault: Fault = lambda method, key: None
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that leaves."""


class Handler(BaseHTTPRequestHandler):
    server: Bucket
    disable_nagle_algorithm = True  # else each answer in two parts takes 40 ms
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = urlsplit(self.path)
        key = unquote(parts.path).lstrip("/").partition("/")[2]
        with self.server.lock:
            self.server.asked.append((self.command, key))
            fault = self.server.fault(self.command, key)
            if fault == "503":
                return self.answer(
                    503, b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
                )
            if refusal := self.denied():
                return self.answer(*refusal)
            if self.command == "GET" and "list-type" in parts.query:
                return self.answer(200, self.listed(parse_qs(parts.query)))
            if self.command == "POST":
                removed = re.findall(rb"<Key>(.*?)</Key>", body)
                for found in removed:
                    self.server.objects.pop(found.decode(), None)
                said = b"".join(b"<Deleted><Key>%s</Key></Deleted>" % found for found in removed)
                return self.answer(200, b"<DeleteResult>%s</DeleteResult>" % said)
            if self.command == "DELETE":
                self.server.objects.pop(key, None)
                return self.answer(204, b"")
            there = self.server.objects.get(key)
            if self.command == "PUT":
                if self.is_replaced(there):
                    return self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                self.server.objects[key] = body
                if fault == "lost":
                    return self.leave()
                return self.answer(200, b"", {"ETag": tag(body)})
        if there is None:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return self.answer(200, there, {"ETag": tag(there)}, cut=fault == "cut")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_request

    def denied(self) -> tuple[int, bytes] | None:
        signed = re.search(r"Credential=([^/]*)/", self.headers.get("authorization") or "")
        if signed is None or signed[1].partition("-")[0] == KEY:
            return None
        return 403, b"<Error><Code>InvalidAccessKeyId</Code></Error>"

    def is_replaced(self, there: bytes | None) -> bool:
        wanted = self.headers.get("if-match")
        created = self.headers.get("if-none-match") == "*" and there is not None
        return created or (wanted is not None and (there is None or wanted != tag(there)))

    def listed(self, query: dict[str, list[str]]) -> bytes:
        prefix, after = query.get("prefix", [""])[0], query.get("continuation-token", [""])[0]
        keys = [key for key in sorted(self.server.objects) if key.startswith(prefix) and key > after]
        more = len(keys) > PAGE
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key])}</Size>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for key in keys[:PAGE]
        )
        following = f"<NextContinuationToken>{escape(keys[PAGE - 1])}</NextContinuationToken>" if more else ""
        text = (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{entries}{following}</ListBucketResult>"
        )
        return text.encode()

    def answer(self, status: int, content: bytes, marks: dict[str, str] | None = None, *, cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        for name, value in (marks or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.leave()

    def leave(self) -> None:
        self.wfile.flush()
        self.close_connection = True


def tag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


def at(server: Bucket) -> dict[str, bytes]:
    return {key.removeprefix("mine/trace/"): value for key, value in server.objects.items()}


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def bucket(handler: type[Handler] = Handler) -> Iterator[Bucket]:
    server = Bucket(handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def access(address: str, key: str = KEY) -> dict[str, str]:
    given = {"ENDPOINT_URL": address, "ACCESS_KEY_ID": key, "SECRET_ACCESS_KEY": "s", "REGION": "r"}
    return {f"AWS_{name}": value for name, value in given.items()}
