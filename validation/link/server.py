"""The server: its models, keys and versions, and the devices that are connected.

If a device sends something that is not expected, the server says why and closes the connection; the others go on.
A text is opened with the version in use. After a switch the server closes the connections of texts of the earlier
version between two of their rounds; devices open them again with the new one.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlmtheory.wire import ChecksumError
from validation.errors import UserError
from validation.link.addresses import MOST_KEYS, is_loopback, keys_of
from validation.link.connection import Connection, Shared, SwitchedError
from validation.link.engine import Engine
from validation.link.formats import REFUSED
from validation.link.passes import SharedPasses
from validation.link.wire import ENDED_KEY, LONGEST_OPENING, WithdrawnError, error_frame

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

LOG = logging.getLogger("hlm.link")
LOOK_S, LONGEST_FILE = 0.5, 2**16
"""Seconds between two looks at a file of keys or of the version in use, and its bytes that are read."""
REFUSAL, TRY_AGAIN, SWITCHED = 1008, 1013, 1012
"""Close codes of RFC 6455 and its registry."""


class Server(Shared):
    """A target model behind a socket; its parameters are those of :class:`validation.link.connection.Shared`."""

    passes_of: type[SharedPasses] = SharedPasses

    def __init__(self, engine: Engine, **options: Any) -> None:
        super().__init__(engine, **options)
        self.address: tuple[str, int] = ("", 0)
        self._closing: set[asyncio.Task[None]] = set()
        self._files: list[tuple[Path, Callable[[bytes | None], None]]] = []
        self._ready, self._stop = asyncio.Event(), asyncio.Event()

    def take_keys(self, keys: tuple[bytes, ...]) -> None:
        """Serve only devices with these keys from now on; the connections of others end. Call it in the event loop."""
        earlier = dict.fromkeys((*(self.keys or ()), *self.withdrawn))
        self.withdrawn = tuple(key for key in earlier if key not in keys)[:MOST_KEYS]
        self.keys = keys
        for one in self.connections:
            if one.proved and one.pipe.key not in keys:
                error = self._refuse(one.socket, WithdrawnError.__name__, ENDED_KEY, REFUSAL)
                task = asyncio.get_running_loop().create_task(error)
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    def follow_keys(self, path: Path) -> None:
        """Read the keys of a file again while the server runs; without a valid key in it, every device is refused."""

        def take(content: bytes | None) -> None:
            keys: tuple[bytes, ...] = ()
            try:
                keys = keys_of(path, content or b"")
            except UserError as error:
                LOG.warning("No device is served: %s", error)
            if self.keys is None or set(keys) != set(self.keys):
                self.take_keys(keys)

        self._files.append((path, take))

    def follow_version(self, path: Path) -> None:
        """Use the version that a file names, also while the server runs; another content changes nothing."""

        def take(content: bytes | None) -> None:
            try:
                self.switch((content or b"").decode(errors="replace").strip())
            except UserError as error:
                LOG.warning("The version stays %s: %s", self.version.name, error)

        self._files.append((path, take))

    async def serve(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Serve until :meth:`stop`; port 0 takes a free one, which :attr:`address` names."""
        from websockets.asyncio.server import serve

        self.passes = self.passes_of(self.limits, self.metrics)
        beside = [asyncio.create_task(one) for one in (self.passes.run(), *(follow(*file) for file in self._files))]
        options: dict[str, Any] = {"ssl": tls, "compression": None, "logger": LOG}
        options |= {"max_size": LONGEST_OPENING, "max_queue": 4}
        times = {"open_timeout": self.limits.opening_s, "close_timeout": 1.0}
        try:
            async with serve(self._connection, host, port, process_request=self._metrics, **options, **times) as server:
                self.address = server.sockets[0].getsockname()[:2]
                self._ready.set()
                await self._stop.wait()
        finally:
            for task in beside:
                task.cancel()
            self.passes.thread.shutdown(wait=True)

    async def ready(self) -> tuple[str, int]:
        await self._ready.wait()
        return self.address

    def stop(self) -> None:
        """End :meth:`serve`; call it within its event loop."""
        self._stop.set()

    async def _connection(self, socket: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        one, connected = Connection(self, socket), len(self.connections)
        unproved = sum(other.place == one.place and not other.proved for other in self.connections)
        if connected >= self.limits.devices:
            await self._refuse(socket, "Busy", f"{connected} devices are served, as many as may be", TRY_AGAIN)
            return
        if self.keys is not None and unproved >= self.limits.unproved:
            await self._refuse(socket, "Busy", f"{unproved} connections of {one.place} have shown no key", TRY_AGAIN)
            return
        self.connections.add(one)
        try:
            await one.serve()
        except ConnectionClosed:
            pass
        except SwitchedError:
            await socket.close(SWITCHED, "another version is in use")
        except TimeoutError as error:
            said = str(error) or "nothing came, or was read, in time; connect again"
            await self._refuse(socket, "Silent", said, TRY_AGAIN)
        except ChecksumError as error:
            await self._refuse(socket, type(error).__name__, f"{error}, and connect again", TRY_AGAIN)
        except REFUSED as error:
            await self._refuse(socket, type(error).__name__, str(error), REFUSAL)
        except Exception as error:
            LOG.exception("a text could not be served")
            await self._refuse(socket, type(error).__name__, "the server could not serve the text", REFUSAL)
        finally:
            self.connections.remove(one)

    def _metrics(self, socket: ServerConnection, request: Request) -> Response | None:
        if request.path != "/metrics":
            return None
        if not is_loopback(socket.remote_address[0]):
            return socket.respond(403, "The numbers are for this machine.\n")
        kind, text = self.metrics.page()
        response = socket.respond(200, text)
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = kind
        return response

    async def _refuse(self, socket: ServerConnection, name: str, message: str, code: int) -> None:
        from websockets.exceptions import ConnectionClosed

        self.metrics.refused.labels(name).inc()
        retry = self.limits.retry_s if code == TRY_AGAIN else None
        try:
            async with asyncio.timeout(self.limits.opening_s):
                await socket.send(error_frame(name, message, retry))
                await socket.close(code, name)
        except (ConnectionClosed, TimeoutError):
            pass


async def follow(path: Path, take: Callable[[bytes | None], None]) -> None:
    """Call a function with a file's content, None if unreadable, when it has changed and was the same at two looks."""
    taken: object = ...
    last = _content(path)
    while True:
        await asyncio.sleep(LOOK_S)
        now = _content(path)
        if now == last and now != taken:
            taken = now
            take(now)
        last = now


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_FILE)
    except OSError:
        return None
