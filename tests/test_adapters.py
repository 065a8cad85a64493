"""The adapters of examples/audits keep the law or break it as the table of their study says."""

import ast
import importlib
import json
import re
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from figures.studies.audit_software import audit_software as study

STORED = json.loads((study.README.parent / "audits.json").read_text(encoding="utf-8"))["audits"]
ROWS = {(row["package"], row["call"], str(row["settings"])): row for row in STORED}
ADAPTERS = sorted(path.stem for path in study.ADAPTERS.glob("audit_*.py"))
VERDICTS = (("kept",), ("not kept", "raises"), ("not enough draws", "no difference found in the cells"))


@pytest.fixture
def adapters(monkeypatch):
    monkeypatch.syspath_prepend(str(study.ADAPTERS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(study.ADAPTERS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_says_of_its_package_what_the_table_says(name, adapters):
    package = name.removeprefix("audit_").replace("_", "-")
    try:
        installed = version(package)
    except PackageNotFoundError:
        pytest.skip(f"package {package} is not installed")
    module = adapters(name)
    for sampler, (call, settings) in module.CALLS.items():
        row = ROWS[package, call, str(settings)]
        found = study.audited(module, sampler, settings, draws=row["draws"] if row["verdict"] == "not kept" else 150)
        if row["version"] != installed:
            continue
        if "exact" in row:
            assert found["exact"] == pytest.approx(row["exact"], abs=1e-5)
        else:
            assert (found["verdict"] == "not kept") == (row["verdict"] == "not kept")


def test_enumeration_gives_the_law_of_the_standard_rule_and_of_a_broken_one(adapters):
    toy, torch = adapters("toy"), adapters("torch")
    law = study.TableLaw(toy.tables()["target"], toy.PROMPTS)

    def draw(text, right=True):
        drafts, q, p = toy.drafted(text)
        for place, token in enumerate(drafts):
            if not torch.rand(1).item() < p[place, token] / q[place, token]:
                rest = (p[place] - q[place]).clamp(min=0) if right else p[place]
                return [*drafts[:place], int(torch.multinomial(rest / rest.sum(), 1))]
        return [*drafts, int(torch.multinomial(p[-1], 1))]

    assert study.exact_distance(law, draw) == pytest.approx(0, abs=1e-6)
    assert study.exact_distance(law, lambda text: draw(text, right=False)) > 0.1


def test_the_table_of_the_readme_is_made_of_the_results():
    assert study.table(STORED) in study.README.read_text(encoding="utf-8")


def test_the_list_of_adapters_has_their_versions_and_verdicts():
    listed = (study.ADAPTERS / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\|`(audit_\w+)\.py`[^|]*\|(.*)\|$", listed, re.MULTILINE)
    assert [name for name, _ in table] == ADAPTERS
    for name, line in table:
        release, *columns = line.split("|")
        source = (study.ADAPTERS / f"{name}.py").read_text(encoding="utf-8")
        for sampler, call, settings in re.findall(r'"(\w+)": \("([^"]+)", (\{[^}]*\})\)', source):
            row = ROWS[name.removeprefix("audit_").replace("_", "-"), call, str(ast.literal_eval(settings))]
            assert row["version"] == release
            assert [f"`{sampler}`" in column for column in columns] == [row["verdict"] in each for each in VERDICTS]
