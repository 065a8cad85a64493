"""Option classes shared by several commands."""

from __future__ import annotations

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
