"""How much longer a wider pass may take while drafts pay: what a plan assumes that most decides it.

A pass over one token of each text keeps its time, and each further token adds as much: so the texts of a pass cancel.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from validation.decoding.methods.rows import OWN_DRAFTS, STREAM, UNRUN
from validation.planning.option import Option
from validation.planning.plan import Planner
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting

RATIOS = np.geomspace(1.0, 100.0, 4000)
"""Times of a pass over two tokens of each text over one token that are tried."""


def wide_passes(planner: Planner, setting: Setting, best: Option) -> str:
    """Return what a plan says of it; nothing where passes are measured, or a token takes time."""
    if setting.passes is not None or setting.verify_token_s > 0:
        return ""
    pool = planner.pool(replace(setting, objective="capacity"))
    each = pool.test / pool.test[:, :1]
    seconds = setting.server_seconds(each) + setting.verify_s * (RATIOS[:, None] - 1.0) * _wider(each)
    runs = pool.kept & np.array([option.family not in UNRUN for option in pool.options])
    own, plain = (
        runs & np.array([option.family in families for option in pool.options]) for families in (OWN_DRAFTS, (STREAM,))
    )
    device = runs & np.array([option.row.device for option in pool.options])
    chosen = length_pays(planner, setting, best) if best.family in OWN_DRAFTS and best.draft_length > 1 else None
    parts = (
        ("a server's drafts pay", _until(seconds, own, plain), 2.0),
        (f"K = {best.draft_length:g}", chosen, best.draft_length + 1.0),
        ("devices with the best K then carry more users", _until(seconds, device, runs & ~device), 2.0),
    )
    said = [f"{what} until it takes {ratio:.2f} times as long over {n:g}" for what, ratio, n in parts if ratio]
    return f"If a pass takes longer than over one token of each text: {', '.join(said)}." if said else ""


def length_pays(planner: Planner, setting: Setting, option: Option) -> float | None:
    """Return how much longer a pass over K + 1 tokens of each text may take than over one until no drafts are as fast.

    None if drafts pay at no such time.
    """
    plain = next((other for other in planner.options if other.family == STREAM), None)
    if plain is None:
        return None
    totals = np.stack([each.counts[planner.split.test].sum(axis=0) for each in (option, plain)])
    each = totals / totals[:, :1]
    (seconds, without), (wider, narrow) = setting.server_seconds(each), _wider(each)
    token = (without - seconds) / (setting.verify_s * (wider - narrow))
    return float(1.0 + option.draft_length * token) if token > 0 else None


def _wider(each: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the tokens in passes beyond the first of each pass, for each token of the text."""
    return np.asarray(each[:, COUNTS.index("verified")] - each[:, COUNTS.index("passes")])


def _until(seconds: NDArray[np.float64], some: NDArray[np.bool_], others: NDArray[np.bool_]) -> float | None:
    """Return the first ratio at which some options no longer save time; None if they never do, or always.

    ``seconds`` is (ratios, options).
    """
    if not (some.any() and others.any()):
        return None
    slower = seconds[:, some].min(axis=1) >= seconds[:, others].min(axis=1)
    return float(RATIOS[np.argmax(slower)]) if slower.any() and not slower[0] else None
