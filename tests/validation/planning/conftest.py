"""A stored trace of noisy models that tests of plans share, and its profile."""

import pytest

from tests.validation.stored_traces import stored
from validation.planning.profile import profile_of


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("plans")


@pytest.fixture(scope="session")
def trace(folder):
    return stored(folder / "trace", noise=0.5)


@pytest.fixture(scope="session")
def profile(folder, trace):
    return profile_of(trace, folder / "profile.npz")
