"""A plugin within vLLM's engine: devices draft over the link's own protocol, and vLLM verifies.

    vllm serve TARGET --speculative-config '{"method": "custom_class", "num_speculative_tokens": 4,
        "model": "validation.link.vllm_drafts.DeviceDrafts"}'

For each text that a device opens the plugin sends vLLM a request; the tokens of this request are the answers to the
device's rounds. Between two passes vLLM waits for drafts, ``HLM_WAIT`` at most. A text whose drafts come later goes on
without them, and its device reads the tokens that it missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from validation.audit.engines import SEEDS, vllm_settings
from validation.audit.laws import Processors
from validation.collection.fingerprint import tokenizer_mark
from validation.decoding.methods.rows import Format
from validation.errors import UserError
from validation.link.addresses import read_address, read_keys
from validation.link.connection import AwayError
from validation.link.engine import ReceivedRound, ServedText, Version
from validation.link.formats import Terms
from validation.link.passes import SharedPasses
from validation.link.server import LOG, Server
from validation.link.wire import LinkError, Opening, answer_body
from validation.models.sources import ModelSource
from validation.planning.quantities import read_time

ALLOWANCE_S, ANSWER_S = 1.0, 3600.0
"""What waiting for a text may cost beyond what its drafts save, and how long vLLM may take for a request."""
ALONE = (Format.TOKENS, Format.ROWS, Format.PROBABILITIES)
"""Messages that are tokens alone at temperature 0."""
RELEASE = "0.32.0"
"""The release of vLLM in which the plugin ran."""


class DraftedText(ServedText):
    """A text that vLLM writes: ``written`` are its tokens, of which the device has ``told``.

    ``credit_s`` falls by the time that other requests wait for the text's drafts, and rises by the time of a pass for
    each accepted draft. Below 0 the text is not waited for.
    """

    def __init__(self, engine: VllmEngine, opening: Opening, *terms: Terms) -> None:
        super().__init__(engine.pair, opening, *terms)
        self.engine, self.name = engine, secrets.token_hex(16)
        self.written, self.told, self.failed = list(opening.text), len(opening.text), ""
        self.drafts, self.rest = list[int](), list[int]()
        self.asked: Future[bytes] | None = None  # the round that waits for its answer
        self.present, self.late, self.came_s, self.credit_s = True, False, 0.0, ALLOWANCE_S
        self.request: HTTPConnection | None = None

    @property
    def whole(self) -> bool:
        ends, new = self.session.pair.end_tokens, self.written
        return len(new) >= self.opening.new_tokens or bool(new and new[-1] in ends)

    @property
    def awaited(self) -> bool:
        return self.present and not self.late and self.credit_s > 0

    def take_cache(self, other: ServedText) -> None:
        """Go on with the request of an earlier connection, if it writes the same text."""
        assert isinstance(other, DraftedText)
        names = ("prompt", "seed", "temperature", "top_p", "new_tokens")
        same = all(getattr(self.opening, name) == getattr(other.opening, name) for name in names)
        with self.engine.changed:
            if not same or other.failed or other.written[: self.told] != self.opening.text:
                other.close()
                return
            self.name, self.written, self.credit_s = other.name, other.written, other.credit_s
            self.request = other.request
            if self.name in self.engine.texts:
                self.engine.texts[self.name] = self

    def take(self, tokens: Sequence[int], pass_s: float) -> None:
        """Add the tokens of a pass that took so long, up to the end of the text."""
        self.credit_s += pass_s * max(len(tokens) - 1, 0)
        for token in tokens:
            self.written += [] if self.whole else [int(token)]
        self.settle()

    def settle(self) -> None:
        """Answer the round that waits, if vLLM's tokens decide it; else keep the drafts that are still to verify."""
        if self.asked is None:
            return
        ahead, asked, drafts = self.written[self.told :], self.asked, self.drafts
        other = (i for i, two in enumerate(zip(ahead, drafts, strict=False)) if two[0] != two[1])
        same = next(other, min(len(ahead), len(drafts)))
        self.rest, over = drafts[same:], same == len(ahead)
        if over and not (self.whole or self.failed):
            return
        self.asked, self.rest = None, []
        if over and (same < len(drafts) or not self.whole):
            asked.set_exception(AwayError(self.failed or "the text has ended before its drafts"))
            return
        self.extend(ahead[: same + 1])
        self.told += same + (not over)
        token, least = -1 if over else ahead[same], self.terms.least_answer(self.session.vocabulary)
        asked.set_result(answer_body(same, len(drafts), token, self.session.vocabulary, least=least))

    def close(self) -> None:
        """End the request: nobody will read the text."""
        with contextlib.suppress(OSError, AttributeError):
            self.request.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


class VllmEngine:
    """vLLM, as :class:`validation.link.engine.Engine` is to a server: :meth:`step` has its tokens, and takes drafts."""

    def __init__(self, pair: Any, *, model: str, url: str, wait_s: float, key: str = "") -> None:
        self.pair, self.model, self.place, self.wait_s = pair, model, urlsplit(url).netloc, wait_s
        self.headers = {"content-type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.texts: dict[str, DraftedText] = {}  # by the request that writes them
        self.changed = threading.Condition()  # held by whoever reads or changes a text
        self.handed_s, self.waited_s = time.monotonic(), 0.0  # when a pass got its drafts, and all waits for drafts

    def open(self, opening: Opening, terms: Sequence[Terms]) -> DraftedText:
        cold = opening.temperature == 0
        for one in terms:
            exact = one.format == Format.TOKENS and not (one.shared_seed or one.by_argmax or one.samples_target)
            if one.streamed or not (one.format in ALONE if cold else exact):
                raise LinkError(
                    "vLLM verifies rounds of tokens alone; give the device --method 'greedy drafts', or --temperature 0"
                )
        return DraftedText(self, opening, *terms)

    def prefill(self, text: DraftedText) -> None:
        """Send vLLM the request of a text, unless it has it."""
        if text.whole or text.name in self.texts:
            return
        text.request = HTTPConnection(self.place, timeout=ANSWER_S)
        try:
            text.request.connect()
        except OSError as error:
            raise AwayError(f"vLLM does not answer at {self.place} ({error}); HLM_VLLM names its address") from error
        with self.changed:
            self.texts[text.name] = text
        threading.Thread(target=self._request, args=(text.name, text.request, self._asked(text)), daemon=True).start()

    def _asked(self, text: DraftedText) -> dict[str, Any]:
        one = text.opening
        made = Processors(temperature=one.temperature, top_p=one.top_p, order="vllm")
        asked: dict[str, Any] = {"model": self.model, "prompt": [*one.prompt, *one.text], "request_id": text.name}
        asked |= vllm_settings(made, one.new_tokens - len(one.text))
        asked |= {"ignore_eos": True, "stop_token_ids": list(self.pair.end_tokens)}
        return asked | ({"seed": (int(text.session.stream_keys[0]) + len(one.text)) % SEEDS} if one.temperature else {})

    def _request(self, name: str, connection: HTTPConnection, asked: dict[str, Any]) -> None:
        try:
            connection.request("POST", "/v1/completions", json.dumps(asked), self.headers)
            answer = connection.getresponse()
            said = "" if answer.status == 200 else answer.read(500).decode(errors="replace")
            answer.read()
        except (OSError, HTTPException) as error:
            said = f"{type(error).__name__} {error}"
        connection.close()
        with self.changed:
            text = self.texts.pop(name)
            if not text.whole:
                text.failed = f"vLLM ended the request: {said}"
            text.settle()

    def answer(self, text: DraftedText, one: ReceivedRound) -> Future[bytes]:
        """Hand over the drafts of a round; the future has its answer."""
        if one.skipped:
            raise LinkError("vLLM verifies every draft, and some were skipped; use another method")
        found: Future[bytes] = Future()
        found.set_running_or_notify_cancel()
        with self.changed:
            text.asked, text.drafts = found, [draft.token for draft in one.drafts]
            text.late, text.came_s = False, time.monotonic()
            text.settle()
            self.changed.notify_all()
        return found

    def step(self, names: Sequence[str], sampled: Sequence[Sequence[int]], most: int) -> list[list[int]]:
        """Take the tokens of a pass by request, wait for drafts of connected devices, and return those to verify."""
        began = time.monotonic()
        with self.changed:
            rows = [(self.texts.get(name), tokens) for name, tokens in zip(names, sampled, strict=True)]
            for text, tokens in rows:
                if text is not None:
                    text.take(tokens, began - self.handed_s)
            here = [text if len(tokens) and text is not None and not text.whole else None for text, tokens in rows]
            slow = [text for text in here if text is not None and text.asked is None and text.awaited]
            self.changed.wait_for(lambda: all(text.asked or not text.present for text in slow), self.wait_s)
            self.handed_s = time.monotonic()
            self.waited_s += self.handed_s - began
            for text in slow:
                text.late = text.asked is None
                spent = (self.handed_s if text.late else text.came_s) - began
                text.credit_s -= spent * len(names) / len(slow)
            return [[] if text is None else text.rest[:most] for text in here]


class _EnginePasses(SharedPasses):
    """vLLM's passes, which it shares among requests by itself."""

    async def verify(self, engine: Any, text: Any, one: Any) -> Any:
        return await asyncio.wrap_future(engine.answer(text, one))

    async def run(self) -> None:
        await asyncio.Event().wait()


class DraftServer(Server):
    passes_of = _EnginePasses

    def park(self, text: Any, version: Version) -> None:
        with text.engine.changed:
            text.present = False
            text.engine.changed.notify_all()
        super().park(text, version)


class DeviceDrafts:
    """What vLLM calls; ``HLM_LISTEN``, ``HLM_WAIT``, ``HLM_KEY`` and ``HLM_VLLM`` (its own address) set it."""

    def __init__(self, vllm_config: Any) -> None:
        if vllm_config.parallel_config.world_size > 1:
            raise UserError("Drafts of devices need vLLM in one process; give no tensor or pipeline parallelism.")
        warn_of_release()
        given, model = os.environ, vllm_config.model_config
        keys = read_keys(Path(given["HLM_KEY"]) if "HLM_KEY" in given else None)
        host, port = read_address("HLM_LISTEN", given.get("HLM_LISTEN", "127.0.0.1:7070"), key=(keys or (None,))[0])
        name = model.served_model_name
        self.engine = VllmEngine(
            described(model),
            model=name if isinstance(name, str) else name[0],
            url=given.get("HLM_VLLM", "http://127.0.0.1:8000"),
            wait_s=read_time("HLM_WAIT", given.get("HLM_WAIT", "50ms")),
            key=given.get("VLLM_API_KEY", ""),
        )
        self.most, self.fault = int(vllm_config.speculative_config.num_speculative_tokens), ""
        options: dict[str, Any] = {"tokenizer": self.engine.pair.tokenizer, "target": f"vllm {model.model}"}
        self.server = DraftServer(self.engine, keys=keys, **options)  # type: ignore[arg-type]
        if keys is not None:
            self.server.follow_keys(Path(given["HLM_KEY"]))
        started: Future[None] = Future()
        threading.Thread(target=lambda: asyncio.run(self._serve(host, port, started)), daemon=True).start()
        started.result(60)

    async def _serve(self, host: str, port: int, started: Future[None]) -> None:
        self.loop = asyncio.get_running_loop()
        serving = asyncio.ensure_future(self.server.serve(host, port))
        ready = asyncio.ensure_future(self.server.ready())
        await asyncio.wait((serving, ready), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            started.set_exception(serving.exception() or UserError(f"Nothing listens on {host}:{port}."))
            return
        started.set_result(None)
        await serving

    def load_model(self, *given: Any, **more: Any) -> None:
        pass

    def propose(
        self, sampled_token_ids: Any, num_tokens_no_spec: Any, token_ids_cpu: Any, slot_mappings: Any = None
    ) -> list[list[int]]:
        try:
            names = [re.search("[0-9a-f]{32}", name) for name in requests_of_runner()]
            found = self.engine.step([name.group() if name else "" for name in names], sampled_token_ids, self.most)
        except Exception as error:  # it would end vLLM
            if repr(error) != self.fault:
                LOG.exception("devices draft nothing for this pass")
            self.fault = repr(error)
            return [[] for _ in sampled_token_ids]
        self.fault = ""
        return found


def warn_of_release() -> None:
    """Say in the log that another release of vLLM runs than the one in which the plugin ran."""
    found = getattr(sys.modules.get("vllm"), "__version__", "of an unknown release")
    if found.split(".")[:2] != RELEASE.split(".")[:2]:
        LOG.warning("This is vLLM %s. Devices drafted for vLLM %s; here their drafts may be lost.", found, RELEASE)


def requests_of_runner() -> list[str]:
    """Return the names of the requests of a pass, which vLLM does not hand over: from the runner that calls."""
    frame = sys._getframe(1)
    while frame is not None:
        if (batch := getattr(frame.f_locals.get("self"), "input_batch", None)) is not None:
            return list(batch.req_ids)
        frame = frame.f_back  # type: ignore[assignment]
    raise UserError(f"This release of vLLM does not call its drafter as {RELEASE} does; use that.")


def described(model: Any) -> Any:
    tokenizer = ModelSource.parse(str(model.tokenizer)).load_tokenizer()
    known = (model.try_get_generation_config() or {}).get("eos_token_id"), tokenizer.eos_token_id
    ends: Any = next((end for end in known if end is not None), [])
    return SimpleNamespace(
        vocabulary=max(tokenizer.get_vocab().values()) + 1,
        context=model.max_model_len,
        end_tokens=tuple(ends) if isinstance(ends, list | tuple) else (ends,),
        tokenizer=tokenizer_mark(tokenizer),
    )
