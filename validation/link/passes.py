"""What a server allows and counts, and the passes of the target model that its texts share."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from validation.link.engine import Engine, ReceivedRound, ServedText, WaitingDrafts


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server allows: rounds of a pass, connections (``unproved``: of one address without a key), and waits."""

    batch: int = 4
    wait_s: float = 0.0
    devices: int = 64
    unproved: int = 8
    parked: int = 16
    opening_s: float = 10.0
    idle_s: float = 300.0
    retry_s: float = 1.0


class Metrics:
    """What a server counts, in the format of Prometheus."""

    def __init__(self, devices: Callable[[], int]) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        to = {"registry": self.registry}
        bounds = tuple(0.001 * 2.0**step for step in range(14))
        self.passes = Histogram("hlm_pass_seconds", "Time of a pass of the target model.", buckets=bounds, **to)
        self.rounds = Counter("hlm_rounds", "Rounds that were verified.", **to)
        self.drafts = Counter("hlm_drafts", "Drafts that were verified.", **to)
        self.tokens = Counter("hlm_tokens", "New tokens, skipped ones too.", **to)
        self.refused = Counter("hlm_refused", "Connections that were refused, by reason.", ["reason"], **to)
        Gauge("hlm_devices", "Devices that are connected.", **to).set_function(devices)
        self.versions = Gauge("hlm_version", "1 for the version of the target in use, else 0.", ["version"], **to)

    def page(self) -> tuple[str, str]:
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return CONTENT_TYPE_LATEST, generate_latest(self.registry).decode()

    def value(self, name: str, **labels: str) -> float:
        return float(self.registry.get_sample_value(name, labels) or 0.0)


class SharedPasses:
    """Rounds that wait, and the one thread that runs the models."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self.waiting: list[tuple[Engine, ServedText, ReceivedRound | WaitingDrafts, asyncio.Future[Any]]] = []
        self.open = 0  # texts
        self.thread = ThreadPoolExecutor(1, "passes")
        self.arrived = asyncio.Event()

    async def verify(self, engine: Engine, text: ServedText, one: ReceivedRound | WaitingDrafts) -> Any:
        """Return the answer to a round, from a pass that it may share."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.append((engine, text, one, future))
        self.arrived.set()
        return await future

    async def call(self, function: Any, *arguments: Any) -> Any:
        """Run a function between two passes."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function, *arguments)

    async def run(self) -> None:
        """Run passes until cancelled: each takes the rounds that came first, of one version of the target."""
        while True:
            await self._company()
            engine = self.waiting[0][0]
            taken = [entry for entry in self.waiting if entry[0] is engine][: self.limits.batch]
            self.waiting = [entry for entry in self.waiting if not any(entry is other for other in taken)]
            _, texts, rounds, futures = zip(*taken, strict=True)
            try:
                answers: Sequence[Any] = await self.call(engine.run, texts, rounds)
            except Exception as error:
                answers = [error] * len(taken)
            self.metrics.passes.observe(engine.pass_s)
            self.metrics.rounds.inc(len(taken))
            for future, answer in zip(futures, answers, strict=True):
                if not future.done():
                    (future.set_exception if isinstance(answer, Exception) else future.set_result)(answer)

    async def _company(self) -> None:
        """Wait for a round, then for others, until the pass is full, nobody else can come, or the time is over."""
        loop, deadline = asyncio.get_running_loop(), None
        while True:
            self.arrived.clear()
            if self.waiting and deadline is None:
                deadline = loop.time() + self.limits.wait_s
            left = None if deadline is None else deadline - loop.time()
            if left is not None and (left <= 0 or len(self.waiting) >= min(self.limits.batch, self.open)):
                return
            try:
                async with asyncio.timeout(left):
                    await self.arrived.wait()
            except TimeoutError:
                return
