"""Pairs and servers of several tests; a test of the link that waits for ever fails."""

import os
import signal

import pytest

from tests.validation.link.served import Running, small_pair
from validation.collection.fingerprint import marks_of_model
from validation.models.pair import load_pair

MOST_S = 1200 if os.environ.get("DEEP") == "1" else 240
"""More than any test takes on a busy machine."""


@pytest.fixture(autouse=True)
def bounded():
    """Interrupt what a test waits for, where the system has alarms; waits of fixtures have bounds of their own."""

    def late(*_):
        raise TimeoutError(f"the test did not end in {MOST_S} s")

    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, late)
        signal.alarm(MOST_S)
    yield
    if hasattr(signal, "alarm"):
        signal.alarm(0)


@pytest.fixture(scope="module")
def pair():
    return small_pair(5)


@pytest.fixture(scope="module")
def address():
    own = load_pair("builtin")
    tokenizer, target = marks_of_model(own)
    with Running(own, tokenizer=tokenizer, target=target) as running:
        yield running.address
