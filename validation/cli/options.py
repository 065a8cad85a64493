"""Kinds of options that several commands use."""

from __future__ import annotations

import click


class Renamed(click.Option):
    """An option that also answers to its former names, which the help does not show."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The line of the help, with the first name alone."""
        names, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names
