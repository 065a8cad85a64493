"""The benchmark of the check measures what it says, on a small case."""

from validation.benchmarks import speeds


def test_the_check_is_measured_by_module():
    found = speeds(40, 50)
    assert {"read", "truncation", "verification"} <= set(found)
    assert all(speed > 0 for speed in found.values())
