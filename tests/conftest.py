"""Hypothesis profiles: HYPOTHESIS_PROFILE=few|dev|ci|deep, by default ci under CI and dev elsewhere."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The tests' arrays are small: threads would wait for each other and for other processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first call into torch or a module imports it; this is slow, but the property is not the cause.
settings.register_profile("few", max_examples=5, deadline=None, derandomize=True)  # for coverage
settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("deep", max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
settings.load_profile(PROFILE)


def pytest_report_header() -> str:
    """Name the profile in the header."""
    return f"hypothesis profile of this project: {PROFILE}"
