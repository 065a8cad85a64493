"""The site is built offline without a warning; its links, anchors and sources hold; people can read it.

It is built once for all processes of a run, in a process of its own. Links to other places are checked in form alone.
"""

import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock

import hlmtheory
from validation.errors import UserError
from validation.report.results import site_pages
from validation.site.build import build
from validation.site.pages import pages
from validation.site.theory import anchor, claim_entry, topics

ROOT = Path(__file__).resolve().parent.parent
LINKED = ("link", "script", "img", "source", "iframe", "object", "video", "audio", "embed")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="Sphinx is not installed: python3 hlm setup validation test docs")
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared
    out = shared / "site"
    with FileLock(shared / "site.lock"):
        if not (out / "html" / "index.html").is_file():
            command = [sys.executable, "-m", "validation", "docs", "--out", str(out)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT), "no_proxy": "*", "https_proxy": "http://127.0.0.1:9"}
            done = subprocess.run(command, cwd=shared, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
            assert done.stdout.strip() == str(out / "html" / "index.html")
    return out / "html"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.anchors |= {str(named[key]) for key in ("id", "name") if named.get(key)}
        if tag == "a" and named.get("href") is not None:
            self.links.append(str(named["href"]))
        elif tag in LINKED and named.get("rel") not in ("next", "prev", "search", "index", "canonical"):
            self.fetched += [str(named[key]) for key in ("href", "src", "data", "srcset") if named.get(key)]


@cache
def page(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def built(site: Path) -> list[Path]:
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


def test_every_page_is_there(site):
    known = {path.relative_to(site).with_suffix("").as_posix() for path in built(site)}
    wanted = {*pages().values(), "theory/index", "theory/sources", "api/index", "examples/index"}
    wanted |= {page.removesuffix(".md") for page in site_pages(ROOT)}
    wanted |= {f"theory/{module}" for module in topics(hlmtheory.all_claims())}
    wanted |= {f"api/{module}" for module in hlmtheory.MODULES}
    wanted |= {f"examples/{path.stem}" for path in (ROOT / "examples").glob("*.py")}
    assert wanted <= known


def test_every_link_inside_leads_to_a_page_and_an_anchor(site):
    dead = []
    for path in built(site):
        for link in page(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                dead.append(f"{path.name}: {link}")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).anchors:
                dead.append(f"{path.name}: {link} (no anchor)")
    assert dead == []


def test_a_browser_fetches_nothing_from_outside(site):
    fetched = {address for path in built(site) for address in page(path).fetched}
    assert [address for address in fetched if urlsplit(address).netloc] == []
    for path in site.rglob("*.css"):
        assert re.findall(r"""(?:@import|url\()\s*["']?(?:https?:)?//""", path.read_text(encoding="utf-8")) == []


def test_every_claim_has_its_entry_and_every_public_name_its_place(site):
    for name, claim in hlmtheory.all_claims().items():
        assert anchor(name) in page(site / "theory" / f"{name.split('.')[0]}.html").anchors, name
        text = claim_entry(claim)
        assert ("**Counterexample.**" in text) == (claim.refuted is not None)
        assert ("**Tight case.**" in text) == (claim.attained is not None)
    for module in hlmtheory.MODULES:
        names = {f"hlmtheory.{module}.{name}" for name in getattr(hlmtheory, module).__all__}
        assert names <= page(site / "api" / f"{module}.html").anchors, module


def test_a_folder_of_others_is_left_alone(tmp_path):
    pytest.importorskip("sphinx", reason="Sphinx is not installed: python3 hlm setup validation test docs")
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="holds other files"):
        build(tmp_path)
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "mine"
