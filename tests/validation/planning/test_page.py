"""The page of a plan, as a file: what it holds and what it cannot do. test_page_browser.py opens it."""

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.validation.command_line import run
from tests.validation.html_elements import Elements
from tests.validation.stored_traces import stored
from validation.planning.page import TEMPLATES, page_data, write_page

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\u2028'\""


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    stored(folder / "trace")
    result = run("plan", "--trace", folder / "trace", "--page", folder / "sub" / "plan.html", "--json")
    assert result.exit_code == 0, result.output
    assert "Page: " in result.stderr
    return json.loads(result.stdout), (folder / "sub" / "plan.html").read_text(encoding="utf-8")


def test_nothing_comes_from_outside(plan):
    _, page = plan
    loads = {"src", "href", "srcset", "action", "data", "poster", "style", "background"}
    for tag, attributes in Elements(page).found:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "a", "form")
        assert not loads & set(attributes), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    assert not re.search(r"https?:|\burl\(|@import|@font-face", page)
    words = "fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import|eval|Function|Worker|innerHTML|outerHTML|"
    words += "insertAdjacentHTML|localStorage|cookie"
    assert not re.search(rf"\b({words})\b|document\.write", (TEMPLATES / "plan.js").read_text())


def test_the_policy_of_the_page_forbids_every_connection_and_admits_its_own_script_alone(plan):
    found = Elements(plan[1])
    policy = next(a["content"] for tag, a in found.found if tag == "meta" and "http-equiv" in a)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    style, _, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in found.inside)
    none = dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
    assert rules == none | {"script-src": f"'sha256-{script}'", "style-src": f"'sha256-{style}'"}


def test_hostile_names_are_text(plan, tmp_path):
    said, _ = plan
    hostile = json.loads(json.dumps(said))
    hostile["evidence"]["trace"] = HOSTILE
    hostile |= {"answer": [HOSTILE] * 4, "notes": [HOSTILE]}
    hostile["menu"][5]["option"] = HOSTILE
    found = Elements(write_page(tmp_path / "plan.html", hostile).read_text(encoding="utf-8"))
    assert [tag for tag, _ in found.found].count("script") == 2
    assert not any(tag == "img" for tag, _ in found.found)
    assert json.loads(found.inside[1])["menu"][5]["option"] == HOSTILE


def test_a_stored_plan_of_an_older_version_becomes_a_page(plan, tmp_path):
    old = {name: value for name, value in plan[0].items() if name not in ("answer", "assumed", "notes", "bounds")}
    page = Elements(write_page(tmp_path / "old.html", old).read_text(encoding="utf-8"))
    assert json.loads(page.inside[1])["interval"] is None
    site = Path(__file__).resolve().parents[3] / "figures" / "studies" / "plan" / "smollm2_page.json.gz"
    stored_plan = json.loads(gzip.decompress(site.read_bytes()))
    page = Elements(write_page(tmp_path / "site.html", stored_plan).read_text(encoding="utf-8"))
    assert len(json.loads(page.inside[1])["menu"]) == len(stored_plan["menu"]) > 1


def test_a_number_that_was_not_given_has_a_mark(plan):
    assert {"rate", "ownDraft", "token", "batch"} <= set(page_data(plan[0])["bases"])
    request = plan[0]["request"] | {"server_draft_basis": "given", "verify_token_s": 1e-4}
    assert not page_data(plan[0] | {"defaults": [], "request": request})["bases"]


def test_the_command_of_the_page_is_the_command_that_was_given(tmp_path):
    stored(tmp_path / "trace")
    words = "--latency p90=300ms --energy 400mJ --bias 0.1 --down-rate 2M --k-factor 5x --between-time 1.5ms"
    words = [*words.split(), "--no-shared-seed"]
    result = run("plan", "--trace", tmp_path / "trace", "--page", tmp_path / "plan.html", *words)
    assert result.exit_code == 0, result.output
    data = json.loads(Elements((tmp_path / "plan.html").read_text(encoding="utf-8")).inside[1])
    again = run(*data["command"].partition("hlm ")[2].split(), "--json")
    assert again.exit_code == 0, again.output
    given = run("plan", "--trace", tmp_path / "trace", "--json", *words)
    assert json.loads(again.stdout)["request"] == json.loads(given.stdout)["request"]
