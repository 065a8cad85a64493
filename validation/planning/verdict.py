"""The sentences of a plan. Each one is derived from the rows of an aim, so none can contradict the table."""

from collections.abc import Sequence

from validation.planning.aims import FULL_SERVER, ONE_USER, Aim, Listed, Row, has_device
from validation.planning.plan import TIE

_ASKS = {
    "throughput": "The fastest for one user",
    "goodput": "The most tokens in time for one user",
    "cost": "The cheapest for one user",
}


def number_said(aim: Aim, listed: Listed) -> str:
    """Return the number that decides an aim, with its unit."""
    number = aim.number(listed)
    if aim.name == FULL_SERVER:
        return f"{1e3 * number:.3g} ms of the server for a token" if number > 1e-9 else "no time of the server"
    if aim.name != ONE_USER:
        return f"{number:.4g} tokens/s"
    return {
        "goodput": f"{number:.3g} tokens/s in time",
        "cost": f"a price of {number:.3g} for a token",
    }.get(aim.setting.objective, f"{number:.3g} tokens/s")


def answer_of(aim: Aim) -> str:
    """Return the sentence on the best row of an aim, and on the best of the other kind: with a device or without."""
    if aim.name == ONE_USER:
        asks = _ASKS.get(aim.setting.objective, _ASKS["throughput"])
    elif aim.name == FULL_SERVER:
        asks = "A full server carries most users with"
    else:
        each = "the geometric mean" if aim.setting.objective == "fair" else "together"
        asks = f"The fastest for {aim.name} of one server ({each})"
    verb = " " if aim.name == FULL_SERVER else ": "
    said = f"{asks}{verb}{aim.best.name}: {number_said(aim, aim.best)}"
    own = has_device(aim.best)
    other = aim.best_of(lambda one: has_device(one) is not own)
    if other is None:
        said += f"; no policy {'without' if own else 'with'} a device keeps the limits"
    else:
        said += f"; the best {'without' if own else 'with'} a device, {other.name}: {number_said(aim, other)}"
        share = aim.best.value / other.value
        said += f", so {share:.2f} times as many users" if aim.name == FULL_SERVER and 1.005 < share < 1e6 else ""
    exact = aim.best_of(lambda one: one.option.lossless)
    if aim.best.option.lossless:
        return f"{said}."
    return f"{said}. Without loss, {exact.name}: {number_said(aim, exact)}." if exact else f"{said}. None is lossless."


def verdict_of(aims: Sequence[Aim], asked: Aim, binds: str) -> str:
    """Return the answers of all aims, that of the aim that was asked for first, and what limits it."""
    first = f"{answer_of(asked)} In this plan {binds}."
    return " ".join([first, *(answer_of(aim) for aim in aims if aim is not asked)])


def loses_twice(row: Row, others: Sequence[Row]) -> str:
    """Return a warning if one of the others that keeps the limits is faster and takes less of a server; else ""."""
    speed, load = row.tokens_per_s_mean.value or 0.0, row.server_s_per_token.value or 0.0
    for other in others:
        fast, light = other.tokens_per_s_mean.value or 0.0, other.server_s_per_token.value or 0.0
        if not other.breaks and fast > speed * (1.0 + TIE) and light < load * (1.0 - TIE):
            return (
                f"{row.policy}, {row.option} loses twice: {other.policy}, {other.option} is faster for one user "
                f"({fast:.3g} tokens/s, against {speed:.3g}) and takes less of the server ({1e3 * light:.3g} ms for a "
                f"token, against {1e3 * load:.3g})."
            )
    return ""
