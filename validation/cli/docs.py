"""The command ``hlm docs``."""

from __future__ import annotations

from pathlib import Path

import click

from validation.cli.options import FILE, option


@click.command()
@option("--out", "Folder to fill.", FILE, default=Path("site"))
@option("--verbose", "Show what Sphinx does.", is_flag=True)
def docs(out: Path, verbose: bool) -> None:
    """Build the documentation as a site, offline; a warning is an error.

    Guides, the theory by topic from the claim records, the examples, the results and the API. The first page is
    OUT/html/index.html.
    """
    from validation.site.build import build

    click.echo(str(build(out, quiet=not verbose)))
