"""The one error a user is meant to read."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend; the command line prints the message alone, without a traceback.

    The message is one clear sentence: what was wrong, the value, and the remedy.
    """
