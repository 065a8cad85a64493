"""Settings of the site; `python3 hlm docs` puts the sources together and runs Sphinx with these."""

import re
from pathlib import Path
from typing import Any

import hlmtheory

HERE = Path(__file__).resolve().parent

project = "hlmtheory"
author = "The hlmtheory contributors"
copyright = "The hlmtheory contributors, Apache-2.0"
version = release = hlmtheory.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "myst_parser", "sphinx_gallery.gen_gallery"]
root_doc = "index"
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["pictures"]
smartquotes = False  # the statements and the code of the pages stay as they are
nitpicky = False

autosummary_generate = False
autodoc_typehints = "none"  # the docstrings say the types, with shapes and units
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
suppress_warnings = [
    "config.cache",  # sphinx-gallery's settings hold objects that cannot be stored; every build is a fresh one
    "myst.header",  # a changelog may skip a level
]

sphinx_gallery_conf = {
    "examples_dirs": "../gallery",  # copies of examples/, each with its thumbnail
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "remove_config_comments": True,
    "write_computation_times": False,  # its page fetches scripts from outside
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "plot_gallery": True,
    "abort_on_example_error": True,
}

html_theme = "furo"
html_title = f"hlmtheory {release}"
html_static_path = [str(HERE / "_static")]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}


def escape_bars(app: Any, kind: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Keep absolute values such as |p_v - q_v| in a docstring, which reStructuredText would read as a substitution."""
    for place, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            lines[place] = "".join(part if part.startswith("``") else part.replace("|", r"\|") for part in parts)


def setup(app: Any) -> None:
    """Register the hook, and two formats that have no lexer: of /metrics, and tables."""
    from pygments.lexers.special import TextLexer

    for plain in ("prometheus", "csv"):
        app.add_lexer(plain, TextLexer)
    app.connect("autodoc-process-docstring", escape_bars, priority=400)
