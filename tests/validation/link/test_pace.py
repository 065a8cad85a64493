"""Passes last a stated time: the mean does, also if a sleep ends late."""

from __future__ import annotations

import pytest

from validation.errors import UserError
from validation.link import pace
from validation.link.pace import Pace


class Clock:
    """A clock whose sleeps end late by stated times."""

    def __init__(self, *late: float) -> None:
        self.now, self.late = 0.0, list(late)

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + (self.late.pop(0) if self.late and seconds else 0.0)


def test_what_a_pass_was_late_the_next_one_is_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, made, ends = Clock(0.0, 0.5, 0.25, 0.0, 0.0), Pace(1.0), []
    monkeypatch.setattr(pace, "time", clock)
    for own in (0.0, 0.0, 0.25, 0.75, 0.25):  # what a pass takes by itself
        began = clock.now
        clock.now += own
        made.wait(began)
        ends.append(clock.now)
    assert ends == [1.0, 2.5, 3.25, 4.0, 5.0]


def test_a_pass_that_takes_longer_is_made_up_for_by_the_next_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, made, ends = Clock(), Pace(1.0), []
    monkeypatch.setattr(pace, "time", clock)
    for own in (5.0, 0.25, 0.25):
        began = clock.now
        clock.now += own
        made.wait(began)
        ends.append(clock.now)
    assert ends == [5.0, 5.25, 6.0]


def test_without_a_time_nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(1.0)
    monkeypatch.setattr(pace, "time", clock)
    Pace().wait(0.0)
    assert clock.now == 0.0


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(UserError, match="0 s or more"):
        Pace(seconds)
