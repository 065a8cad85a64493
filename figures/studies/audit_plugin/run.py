"""Run the tests of ``test_packages.py`` with the plugin, and store each outcome; those of other tests stay."""

from __future__ import annotations

import json
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PACKAGES = {
    "mini_infer": "mini-infer",
    "sequential": "sequential-speculative-decoding",
    "llm_samplers": "llm-samplers",
    "transformers": "transformers",
}


class Outcomes:
    """A plugin of pytest that keeps the report of each audit."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, object]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        """Wrap the fixture of each test, so that its report is stored whatever it says."""
        audit = pyfuncitem.funcargs["keeps_law"]

        def stored(*given, **options):
            try:
                report = audit(*given, **options)
            except AssertionError as error:
                self.keep(pyfuncitem.name, error.report, options)
                raise
            self.keep(pyfuncitem.name, report, options)
            return report

        pyfuncitem.funcargs["keeps_law"] = stored
        return (yield)

    def keep(self, name, report, options):
        """Keep what a report says."""
        said = report.as_json()
        package = next(value for key, value in PACKAGES.items() if name.startswith(f"test_{key}"))
        kept = ("verdict", "draws", "at_least", "at_most", "at_most_on_cells", "cells", "witnesses", "mechanisms")
        self.found[name] = {"package": package, "version": version(package), "within": options["within"]}
        self.found[name] |= {key: said.get(key) for key in kept} | {"words": report.sentences()}

    def pytest_runtest_logreport(self, report):
        """Keep the outcome that pytest counts."""
        if report.when == "call":
            from validation.pytest_plugin import pytest_report_teststatus

            named = pytest_report_teststatus(report)
            self.found[report.location[2]]["outcome"] = named[0] if named else report.outcome


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent / "audit_software"))  # tiny_models.py
    outcomes = Outcomes()
    options = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(HERE), *sys.argv[2:]]
    pytest.main([*options, str(HERE / "test_packages.py")], plugins=[outcomes])
    out = Path(sys.argv[1])
    before = json.loads(out.read_text(encoding="utf-8"))["tests"] if out.exists() else {}
    stored = {"date": date.today().isoformat(), "tests": before | outcomes.found}
    out.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
