"""Build the site: put its sources together in a folder, and run Sphinx over them with warnings as errors."""

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import hlmtheory
from validation.errors import UserError
from validation.planning.page import write_page
from validation.provenance import REPOSITORY
from validation.report import results
from validation.report.publish import published
from validation.site.interface import api_pages, api_targets
from validation.site.pages import ROOT, contents, pages, relinked
from validation.site.theory import anchor, theory_pages

GALLERY = """\
Examples
========

Short scripts that use the library alone. Each runs as it stands; its output is from the build of this page. The scripts
are in ``examples/`` of the repository.
"""

EXAMPLES = {
    "check_a_claim": ("Check published statements on your own distributions", "figures/ours-fig1.svg"),
    "device_and_server": ("A device and a server run one policy", "docs/overview.svg"),
    "how_many_drafts": ("How many tokens to draft on your link", "figures/flexspec-fig2.svg"),
    "send_fewer_probabilities": ("Send fewer probabilities for a guaranteed bias", "figures/cu-hlm-fig5a.svg"),
}
"""Title of each example, and the picture that stands for it."""

PLAN = "figures/studies/plan/smollm2_page.json.gz"
"""The plan that the site shows as a page with sliders."""


def write_examples(folder: Path, root: Path = ROOT) -> None:
    """Write copies of the examples into a folder, each with a title and the picture that stands for it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "GALLERY_HEADER.rst").write_text(GALLERY, encoding="utf-8")
    for path in sorted((root / "examples").glob("*.py")):
        title, picture = EXAMPLES[path.stem]
        text = path.read_text(encoding="utf-8").replace('"""', f'"""{title}\n{"=" * len(title)}\n\n', 1)
        mark = f'# sphinx_gallery_thumbnail_path = "../gallery/{path.stem}.svg"\n'
        shutil.copyfile(root / picture, folder / f"{path.stem}.svg")
        (folder / path.name).write_text(text + mark, encoding="utf-8")


def write_sources(folder: Path, root: Path = ROOT) -> list[str]:
    """Write the sources of all pages into a folder; return the names of the pages."""
    names = pages(root)
    targets = api_targets() | {name: anchor(name) for name in hlmtheory.all_claims()}

    def copied(path: str) -> str:
        target = folder / "pictures" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, target)
        return target.relative_to(folder).as_posix()

    written = {}
    for file, name in names.items():
        text = (root / file).read_text(encoding="utf-8")
        written[f"{name}.md"] = relinked(
            text, file, names, root=root, picture=copied, targets=targets, sections=results.sections()
        )
    made = results.site_pages(root)
    known = names | {f"docs/{page}": page.removesuffix(".md") for page in made}
    for page, text in made.items():
        written[page] = relinked(text, f"docs/{page}", known, root=root, picture=copied, targets=targets)
    written["index.md"] = _with_both_figures(written["index.md"], copied)
    written["index.md"] += "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(found) + "\n```\n"
        for caption, found in contents(list(known.values())).items()
        if found
    )
    for path, text in (written | theory_pages(results=published(root)) | api_pages()).items():
        file_path = folder / path
        file_path.parent.mkdir(parents=True, exist_ok=True)
        file_path.write_text(text, encoding="utf-8")
    return [Path(path).with_suffix("").as_posix() for path in written]


def _with_both_figures(text: str, copied: Callable[[str], str]) -> str:
    """Return the first page with the figure in two forms; the style sheet shows one, by the width of the screen."""
    narrow = copied("docs/overview-narrow.svg")
    return re.sub(r"!\[([^]]*)\]\((\S*overview)\.svg\)", rf"![\1](\2.svg){{.wide}}\n![\1]({narrow}){{.narrow}}", text)


def accessible(text: str) -> str:
    """Return a page that a keyboard and a screen reader can use: what scrolls has a tab stop, what is there a name.

    >>> accessible('<p class="caption" role="heading">')
    '<p class="caption" role="heading" aria-level="2">'
    >>> accessible('<img alt="ours 1" src="_images/ours-fig1.svg" />')
    '<a class="picture" href="_images/ours-fig1.svg"><img alt="ours 1" src="_images/ours-fig1.svg" /></a>'
    """
    for old, new in (
        ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
        ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Pages">'),
        ('<aside class="toc-drawer">', '<aside class="toc-drawer" aria-label="On this page">'),
        ("<pre>", '<pre tabindex="0">'),
        ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ):
        text = text.replace(old, new)
    shown = r'(<img alt="[^"]+" [^>]*?src="([^"]+\.svg)"[^>]*>)'  # a thumbnail of the gallery has no name
    text = re.sub(shown, r'<a class="picture" href="\2">\1</a>', text)
    text = re.sub(r'(?<="pre">)[a-z_\d.]+(?=</span>)', lambda at: re.sub("(?<=.)[._](?=.)", r"\g<0><wbr>", at[0]), text)
    link = r'(<a class="reference internal" href="[^"]*")(><span class="doc">([^<]*)</span>)'  # of the gallery
    return re.sub(link, r'\1 aria-label="\3"\2', text)


def build(out: Path) -> Path:
    """Build the site in a folder, which is replaced; return its first page."""
    if not (ROOT / "docs" / "conf.py").is_file():
        raise UserError("The documentation is built from a clone of the repository; this is an installed package.")
    try:
        from sphinx.cmd.build import build_main
    except ImportError as error:
        raise UserError("The documentation needs Sphinx; `python3 hlm setup validation docs` installs it.") from error
    if out.exists() and any(out.iterdir()) and not (out / "source" / "index.md").is_file():
        raise UserError(f"{out} holds other files; choose an empty or new folder with --out.")
    for part in ("source", "gallery", "html", "doctrees"):
        shutil.rmtree(out / part, ignore_errors=True)
    write_sources(out / "source", ROOT)
    write_examples(out / "gallery", ROOT)
    command = ["-q", "-W", "--keep-going", "-b", "html", "-j", "auto", "-c", str(ROOT / "docs")]
    if build_main([*command, "-d", str(out / "doctrees"), str(out / "source"), str(out / "html")]):
        raise UserError("The documentation has warnings; they are above.")
    plan = out / "html" / "plan-smollm2.html"
    for page in (out / "html").rglob("*.html"):
        here = os.path.relpath(plan, page.parent)
        text = page.read_text(encoding="utf-8").replace(f"{REPOSITORY}/blob/main/{PLAN}", here)
        page.write_text(accessible(text), encoding="utf-8")
    write_page(plan, json.loads(gzip.decompress((ROOT / PLAN).read_bytes())))
    return out / "html" / "index.html"
