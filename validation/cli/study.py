"""The command ``hlm study``: run the main script of a study in ``figures/studies``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from validation.errors import UserError
from validation.installed import is_clone

ROOT = Path(__file__).resolve().parents[2]


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("name", default="--help")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def study(name: str, words: tuple[str, ...]) -> None:
    """Run a study of figures/studies; its README says what it measures and what it reads.

    WORDS are the script's own arguments; `hlm study NAME --help` lists them.
    """
    if not is_clone():
        raise UserError("The studies are in a clone of the repository; this is an installed package.")
    sys.path.insert(0, str(ROOT))
    main_scripts = importlib.import_module("figures.studies.kit").MAIN
    if name in ("-h", "--help"):
        click.echo(f"{click.get_current_context().get_help()}\n\nStudies: {', '.join(main_scripts)}.")
        return
    if name not in main_scripts:
        raise click.BadParameter(f"{name!r} is none of the studies that can run: {', '.join(main_scripts)}.")
    script = importlib.import_module(f"figures.studies.{name}.{main_scripts[name]}")
    sys.argv = [str(script.__file__), *words]
    script.main()
