"""Hypothesis profiles: HYPOTHESIS_PROFILE=few|dev|ci|deep, by default dev. Long tests run where DEEP=1."""

import gc
import os
import re
from fnmatch import fnmatch, translate

import pytest
from hypothesis import HealthCheck, settings

# The tests' arrays are small: threads would wait for each other and for other processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"  # a name that is no folder would be asked for on the hub, again and again

CI = bool(os.environ.get("CI"))
# The first call into torch or a module imports it; this is slow, but the property is not the cause.
settings.register_profile("few", max_examples=5, deadline=None, derandomize=True)  # for coverage
settings.register_profile("dev", max_examples=25, deadline=None, derandomize=CI, print_blob=CI)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("deep", max_examples=10_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or "dev"
settings.load_profile(PROFILE)

DEEP = (
    "tests/test_adapters.py::test_an_adapter_*",
    "tests/test_hlm.py::test_set_up_runs_no_file_*False?",
    "tests/test_on_device.py*",
    "tests/test_site.py*",
    "*_browser.py*",
    "tests/test_stub.py::test_mypy_*",
    "tests/theory/test_batching.py::test_improved_is_within_*True?",
    "tests/theory/test_batching_facilities.py::test_hundred_*",
    "tests/theory/test_batching_facilities.py::test_what_was_learned_*together?",
    "tests/theory/test_batching_waves.py::test_cp_sat_*",
    "tests/theory/test_lossless.py::test_the_power_is_reached*",
    "tests/theory/test_policy.py::test_the_mean_time_*?[02].[01]-100.0-4.0?",
    "tests/validation/acceptance/test_summary.py::test_the_interval_of_a_depth_*",
    "tests/validation/acceptance/test_summary.py::test_the_widened_intervals_*",
    "tests/validation/audit/test_controls.py::test_drafts_by_a_shared_seed_*tree?",
    "tests/validation/audit/test_document.py::test_the_first_example_*",
    "tests/validation/audit/test_repeats.py::test_independent_draws_*",
    "tests/validation/audit/test_session.py::test_an_[eu]*_is_[ar]*",
    "tests/validation/claims/test_check.py::test_the_check_needs_no_package_*",
    "tests/validation/claims/test_cluster.py*",
    "tests/validation/claims/test_large_vocabulary.py::*_millionth?[23]*",
    "tests/validation/claims/test_memory.py*",
    "tests/validation/collection/test_import_logits.py::test_memory_*",
    "tests/validation/decoding/test_every_method.py::test_texts_are_counted_*?top-p-*",
    "tests/validation/decoding/test_tree_defects.py::test_the_audit_finds_*",
    "tests/validation/decoding/test_versions.py::test_by_position_*switches[01]*",
    "tests/validation/decoding/test_versions.py::test_by_round_*switched*",
    "tests/validation/planning/test_page_script.py::*?cost?",
    "tests/validation/planning/test_page_script.py::*_chooses?[gr]*",
    "tests/validation/planning/test_sweep.py::test_no_listed_row_*?1?",
    "tests/validation/plots/test_drawing.py::*/*",
    "tests/validation/plots/test_drawing.py::test_a_figure_has_few_*frame?[efou]*",
    "tests/validation/plots/test_exhibits.py::*_without_a_model_*edge-sd-fig[789][bc]*",
    "tests/validation/plots/test_hlm_decoded.py::test_many_links_*None?",
    "tests/validation/test_processes.py::test_ctrl_c_ends_the_command_*",
    "tests/validation/test_processes.py::test_figures_are_the_same_*",
    "tests/validation/trace/test_faults.py::test_rounds_of_kill_9*",
    "tests/validation/training/test_training.py::test_an_instructed_pair_*",
    "tests/validation/training/test_training.py::test_a_pair_has_the_licence_*",
)
"""Long tests that no law rests on alone; a pattern, unlike the marker ``deep``, can name some parameters of a test."""
COLLECTED = pytest.StashKey[list[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[COLLECTED] = [item.nodeid for item in items]
    deep = re.compile("|".join(map(translate, DEEP)))
    for item in items:
        if deep.match(item.nodeid):
            item.add_marker(pytest.mark.deep)
    if os.environ.get("DEEP") != "1":
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("deep")])
        items[:] = [item for item in items if not item.get_closest_marker("deep")]


def pytest_collection_finish() -> None:
    gc.freeze()  # the modules and the thousands of tests stay: no collection need look at them again
    gc.set_threshold(10_000)  # what tests import later stays too


@pytest.fixture
def patterns_of_no_test(pytestconfig: pytest.Config) -> list[str]:
    if pytestconfig.args != pytestconfig.getini("testpaths"):
        pytest.skip("only some of the tests are collected")
    collected = pytestconfig.stash[COLLECTED]
    return [pattern for pattern in DEEP if not any(fnmatch(item, pattern) for item in collected)]


def pytest_report_header() -> str:
    return f"hypothesis profile of this project: {PROFILE}"
