"""Each row of the benchmark measures what it says, on a small case."""

from validation.benchmarks import measure_check


def test_the_check_is_measured_by_module():
    measured = {line.what: line for line in measure_check(40, 50)}
    assert measured["read"].ratio == 1
    assert {"truncation", "verification"} <= set(measured)
    assert all(line.value > 0 for line in measured.values())
