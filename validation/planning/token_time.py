"""How much longer a wider pass may take while drafts pay: what a plan assumes that most decides it.

A pass over one token of each text keeps its time, and each further token adds as much: so the texts of a pass cancel.
"""

from dataclasses import replace

import numpy as np

from validation.arrays import Array
from validation.decoding.methods.rows import OWN_DRAFTS, STREAM, UNRUN
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting


def wide_passes(planner: Planner, setting: Setting) -> list[str]:
    """Return the sentence of a plan on it; none where passes are measured, or a token takes time."""
    if not takes_no_longer(setting):
        return []
    pool = planner.pool(replace(setting, objective="capacity"))
    listed = [one for one, kept in zip(pool.options, pool.kept, strict=True) if kept and one.family not in UNRUN]
    servers = [option for option in listed if not option.row.device]
    own = [option for option in servers if option.family in OWN_DRAFTS]
    plain = [option for option in servers if option.family == STREAM]
    devices = [option for option in listed if option.row.device]
    parts = (("on the server", own, plain), ("on devices of a full server", devices, servers))
    said = []
    for what, some, others in parts:
        tokens = _tokens(planner, setting, some, others)
        if len(tokens) and 0 < tokens.max() < np.inf:
            length = some[int(tokens.argmax())].draft_length
            said.append(f"{1.0 + tokens.max():.2f} times ({what}, with K = {length:.2g})")
    until = f"until a pass over 2 tokens of each text takes {' or '.join(said)} as long as over one"
    return [f"Drafting pays {until}."] if said else []


def takes_no_longer(setting: Setting) -> bool:
    """Return whether a setting takes a pass over more tokens to last no longer than one over a single token."""
    return setting.passes is None and not setting.verify_token_s


def length_pays(planner: Planner, setting: Setting, option: Option, others: list[Option] | None = None) -> float | None:
    """Return how much longer a pass over K + 1 tokens of each text may take than over one until others are as fast.

    The others are servers without drafts, if not given. None if the option never saves the server's time, or always.
    """
    plain = [other for other in planner.options if other.family == STREAM]
    (token,) = _tokens(planner, setting, [option], plain if others is None else others)
    return float(1.0 + option.draft_length * token) if 0 < token < np.inf else None


def _tokens(planner: Planner, setting: Setting, some: list[Option], others: list[Option]) -> Array:
    """Return for each option the largest time of a token, over that of a pass, at which it saves time; 0: never.

    Seconds of the server are linear in that time. So an option is quicker than each narrower one up to a crossing, and
    than each wider one from a crossing on.
    """
    if not some or not others:
        return np.zeros(len(some))
    test = planner.split.test

    def lines(options: list[Option]) -> tuple[Array, Array]:
        totals = np.stack([option.counts[test].sum(axis=0) for option in options])
        each = totals / totals[:, :1]
        wider = each[:, COUNTS.index("verified")] - each[:, COUNTS.index("passes")]
        return setting.server_seconds(each), setting.verify_s * wider

    (seconds, wider), (their_seconds, their_wider) = lines(some), lines(others)
    saved, more = their_seconds - seconds[:, None], wider[:, None] - their_wider
    crossing = np.divide(saved, more, out=np.where(saved > 0, 0.0, np.inf), where=more != 0)
    until = np.where(more > 0, crossing, np.inf).min(axis=1)
    since = np.where(more > 0, 0.0, crossing).max(axis=1)
    return np.asarray(np.where(until > since, until, 0.0))
