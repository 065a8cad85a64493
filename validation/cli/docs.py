"""The command ``hlm docs``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("site"), show_default=True, help="Folder to fill.")
@click.option("--verbose", is_flag=True, help="Show what Sphinx does.")
def docs(out: Path, verbose: bool) -> None:
    """Build the documentation as a site, offline; a warning is an error.

    Guides, the theory by topic from the claim records, the examples, the results and the API. The first page is
    OUT/html/index.html.
    """
    from validation.site.build import build

    click.echo(str(build(out, quiet=not verbose)))
