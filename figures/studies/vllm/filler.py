"""Drafters for vLLM whose passes last a stated time at least: devices, and one that times passes by batch and width."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from validation.link.vllm_drafts import DeviceDrafts

PASS_S, TOKEN_S = 0.1, 0.002
"""A pass lasts so long, and so much longer for each token that it reads: a slower server than this machine."""
EACH, WIDEST = 6, 8
"""Passes of one width, one after the other, and the widest."""


class Paced:
    """The time since drafts were handed over, stretched to that of the pass that reads them."""

    handed_s, rows, tokens = 0.0, 0, 0

    def stretch(self) -> float:
        time.sleep(max(0.0, self.handed_s + PASS_S + TOKEN_S * self.tokens - time.perf_counter()))
        return time.perf_counter() - self.handed_s

    def hand(self, drafts: list[list[int]]) -> list[list[int]]:
        self.rows, self.tokens = len(drafts), sum(1 + len(some) for some in drafts)
        self.handed_s = time.perf_counter()
        return drafts


class PacedDevices(Paced, DeviceDrafts):
    def propose(self, sampled_token_ids: Any, *given: Any, **more: Any) -> list[list[int]]:
        self.stretch()
        return self.hand(super().propose(sampled_token_ids, *given, **more))


class Filler(Paced):
    """Repeats the last token; a line of the file ``FILLER`` is a pass: batch, tokens of all and milliseconds."""

    def __init__(self, vllm_config: Any) -> None:
        self.file, self.calls = Path(os.environ["FILLER"]), 0

    def load_model(self, *given: Any, **more: Any) -> None:
        pass

    def propose(self, sampled_token_ids: Any, *given: Any, **more: Any) -> list[list[int]]:
        seconds, width = self.stretch(), 1 + self.calls // EACH % WIDEST
        if self.rows == len(sampled_token_ids):
            with self.file.open("a") as lines:
                lines.write(f"{self.rows},{self.tokens // self.rows},{1e3 * seconds:.3f}\n")
        self.calls += 1
        return self.hand([[tokens[-1]] * (width - 1) if tokens else [] for tokens in sampled_token_ids])
