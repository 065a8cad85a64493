"""Up to which time of a token in a pass drafts pay: what a plan assumes that most decides it."""

import numpy as np
from numpy.typing import NDArray

from validation.decoding.methods.rows import COLOCATED, STREAM, UNRUN
from validation.planning.plan import Planner
from validation.planning.rounds import COUNTS
from validation.planning.setting import Setting
from validation.printable import counted

TIMES = np.geomspace(1e-6, 1.0, 2000)
"""Seconds of a token that are tried."""


def dear_tokens(planner: Planner, setting: Setting) -> list[str]:
    """Return the sentence, for the setting of a full server; nothing where passes are measured or tokens take time."""
    if setting.passes is not None or setting.verify_token_s > 0:
        return []
    pool = planner.pool(setting)
    each = pool.test / pool.test[:, :1]
    full = setting.server_seconds(each, setting.server_batch)
    one = setting.seconds(each, setting.link.quantile(0.5))
    runs = pool.kept & np.array([option.family not in UNRUN for option in pool.options])
    own, plain = (
        runs & np.array([option.family == family for option in pool.options]) for family in (COLOCATED, STREAM)
    )
    device = runs & np.array([option.row.device for option in pool.options])
    texts = counted(setting.server_batch, "text")
    parts = (
        ("a server's own drafts pay for one user", _until(one, each, own, plain)),
        (f"on a full server, {texts} a pass,", _until(full, each, own, plain)),
        ("devices carry more users of it", _until(full, each, device, runs & ~device)),
    )
    said = "; ".join(f"{what} up to {1e3 * time:.2g} ms" for what, time in parts if time)
    return [f"If each token adds time to a pass (--verify-token-time; here 0): {said}."] if said else []


def _until(
    seconds: NDArray[np.float64], each: NDArray[np.float64], some: NDArray[np.bool_], others: NDArray[np.bool_]
) -> float | None:
    """Return the time of a token from which the best of some options takes as long as the best of others."""
    if not (some.any() and others.any()):
        return None
    verified = each[:, COUNTS.index("verified")]
    best, rest = (np.min(seconds[part] + TIMES[:, None] * verified[part], axis=1) for part in (some, others))
    slower = best >= rest
    return float(TIMES[np.argmax(slower)]) if slower.any() and not slower[0] else None
