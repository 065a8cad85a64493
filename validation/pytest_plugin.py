"""A plugin of pytest: the fixture ``keeps_law``, and "undecided" as an outcome of its own.

The wheel names this module, so an installed package is enough:

    def test_engine(keeps_law):
        keeps_law(sample, law, within=0.05, draws=20_000)

A test whose draws were not enough fails, so that it is no silent skip; pytest counts it as *undecided* and not as
*failed*. What each passed test showed stands in the summary. Nothing is imported before a test asks for the fixture.
"""

from collections.abc import Callable, Generator
from typing import Any

import pytest

SHOWN, UNDECIDED = "law shown", "law undecided"
"""The names under which a report of a test carries what was shown, and that nothing was."""


@pytest.fixture
def keeps_law(record_property: Callable[[str, object], None]) -> Callable[..., Any]:
    """Return :func:`validation.audit.keeps_law`, whose answer the summary repeats."""
    from validation.audit.assertion import keeps_law as assert_keeps_law

    def assert_and_record(*given: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        report = assert_keeps_law(*given, **options)
        record_property(SHOWN, f"{report.sentences()[0]} {report.draws:,} draws.")
        return report

    return assert_and_record


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Mark the report of a test whose draws were not enough."""
    report = yield
    if call.excinfo is not None and "keeps_law" in getattr(item, "fixturenames", ()):
        from validation.audit.assertion import NotEnoughDrawsError

        if call.excinfo.errisinstance(NotEnoughDrawsError):
            report.user_properties.append((UNDECIDED, str(call.excinfo.value)))
            report.longrepr = str(call.excinfo.value)
    return report


def _said(report: Any, name: str) -> list[str]:
    return [str(value) for key, value in getattr(report, "user_properties", ()) if key == name]


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Count such a test as undecided."""
    if report.failed and _said(report, UNDECIDED):
        return "undecided", "U", "UNDECIDED"
    return None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say what each test showed, and what the undecided ones lack."""
    shown = [
        (report.nodeid, "\n  ".join(said))
        for outcome, name in (("passed", SHOWN), ("undecided", UNDECIDED))
        for report in terminalreporter.stats.get(outcome, ())
        if getattr(report, "when", "call") == "call" and (said := _said(report, name))
    ]
    if shown:
        terminalreporter.section("laws that samplers keep")
        for test, words in shown:
            terminalreporter.write_line(f"{test}\n  {words}")
