"""Option classes shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


class Renamed(click.Option):
    """An option that also accepts its former names, which the help does not show."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the help line, with only the first name."""
        names, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


def version_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a target that is a version of a base model."""
    for option in (
        click.option(
            "--changed-anchor",
            is_flag=True,
            help="Accept an aligned draft whose target changed the anchor: exact, but slower.",
        ),
        click.option("--base", help="The base model of an adapter given as --target.  [default: as the adapter says]"),
    ):
        command = option(command)
    return command
