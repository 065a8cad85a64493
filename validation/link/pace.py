"""Passes that last a stated time, to stand for a slower machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from validation.errors import UserError


class Pace:
    """The least time of a pass.

    A sleep ends late where other processes have the core. What one pass was late, the next one is shorter, so that in
    the mean passes last as long as stated, if what they do takes less.

    Parameters
    ----------
    seconds : float
        0 changes nothing.

    Raises
    ------
    UserError
        If the time is negative or not finite.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        if not 0 <= seconds < float("inf"):
            raise UserError(f"A pass cannot last {seconds:g} s; give 0 s or more.")
        self.seconds, self.late_s = seconds, 0.0

    def wait(self, began: float, sleep: Callable[[float], object] | None = None) -> None:
        """Wait until a pass that began at this reading of ``time.perf_counter`` has lasted long enough.

        ``sleep`` takes seconds, in place of ``time.sleep``. It may return early; if it raises, the pass is given up.
        """
        if self.seconds:
            until = began + self.seconds - self.late_s
            while (left := until - time.perf_counter()) > 0:
                (sleep or time.sleep)(left)
            self.late_s = min(max(0.0, time.perf_counter() - until), self.seconds)
