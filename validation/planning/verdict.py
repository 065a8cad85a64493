"""The sentences of a plan. Each one is derived from the rows of an aim, so none can contradict the table."""

import re
from collections.abc import Sequence, Set

import numpy as np

from validation.planning.aims import FULL_SERVER, ONE_USER, Aim, Listed, Row, has_device
from validation.planning.plan import TIE
from validation.planning.request import Request

_ASKS = {
    "throughput": "The fastest within the limits for one user",
    "goodput": "The most tokens in time for one user",
    "cost": "The cheapest for one user",
}
SYMBOLS = {
    "K": "drafts of a round",
    "k": "likeliest tokens that a row of the draft model keeps",
    "τ": "least probability that a row of the draft model keeps",
    "ℓ": "kept probabilities are multiples of 1/ℓ",
    "B": "bits after which a round ends",
    "u": "uncertainty (share of draws at random temperatures unlike the draft) up to which a first draft is kept",
    "ε": "largest distance of a token's law from the target model's",
    "q_d up, p down": "a draft's probability is sent, and the target's distribution after a rejection",
}


def symbols_said(text: str) -> str:
    """Return what the symbols mean that a text gives a value to; "" if it has none."""
    there = [symbol for symbol in SYMBOLS if re.search(rf"(?<!\w){symbol}{' [=≤]' if len(symbol) == 1 else ''}", text)]
    return "; ".join(f"{symbol}: {SYMBOLS[symbol]}" for symbol in there)


def setting_said(request: Request, link: str, left_out: Set[str], measured: Set[str], exchange_s: float = 0.0) -> str:
    """Return the link and the times of a plan, and of each whether it is a default, given, measured or assumed.

    ``exchange_s`` is what was measured besides and is in the request's round trip.
    """

    def basis(option: str) -> str:
        return "measured" if option in measured else "default" if option in left_out else "given"

    verify, token_s = request.verify_s, request.verify_token_s
    if request.passes is not None:
        verify, token_s = float(request.passes.seconds(np.array(1.0))), 0.0
    server_draft = basis("--server-draft-time")
    if server_draft != "measured" and request.server_draft_basis != "given":
        server_draft = "assumed"
    times = (
        ("round trip", request.round_trip_s - exchange_s, basis("--rtt")),
        ("other work of an exchange", exchange_s, "measured"),
        ("draft", request.draft_s, basis("--draft-time")),
        ("verify", verify, basis("--verify-time")),
        ("each token of it", token_s, basis("--verify-token-time")),
        ("server's draft", request.server_draft_s or request.draft_s, server_draft),
    )
    by_basis = {basis("--rate" if request.recorded is None else "--link-csv"): [link]}
    for what, seconds, why in times:
        if seconds or what == "round trip":
            by_basis.setdefault(why, []).append(f"{what} {1e3 * seconds:.3g} ms")
    words = {"default": "defaults, not measured"}
    return "; ".join(f"{', '.join(parts)} ({words.get(why, why)})" for why, parts in by_basis.items())


def three_digits(number: float) -> str:
    """Return a number with three digits, zeros at the end too: 20.0."""
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:#.3g}".rstrip(".")


def number_said(aim: Aim, listed: Listed) -> str:
    number = aim.number(listed)
    if aim.name == FULL_SERVER:
        milliseconds = three_digits(1e3 * number)
        return f"{milliseconds} ms of the server for a token" if number > 1e-9 else "no time of the server"
    if aim.name != ONE_USER:
        return f"{number:.4g} tokens/s"
    speed = f"{three_digits(number)} tokens/s"
    words = {"goodput": f"{speed} in time", "cost": f"a price of {number:.3g} for a token"}
    return words.get(aim.setting.objective, speed)


def asked_of(aim: Aim) -> str:
    """Return the words before the best row of an aim."""
    if aim.name == ONE_USER:
        return f"{_ASKS.get(aim.setting.objective, _ASKS['throughput'])}: "
    if aim.name == FULL_SERVER:
        return "A full server carries most users with "
    each = "the geometric mean" if aim.setting.objective == "fair" else "together"
    return f"The fastest for {aim.name} of one server ({each}): "


def answer_of(aim: Aim, *, in_rounds: bool = False) -> str:
    """Return the sentence on the best row of an aim, and on the best of the other kind: with a device or without.

    ``in_rounds``: no device drafts on while it waits.
    """
    rival, number = aim.rival, number_said(aim, aim.best)
    tied = rival is not aim.best and not rival.breaks and number_said(aim, rival) == number
    text = f"{asked_of(aim)}{aim.best.name}{f' ({rival.name}, is as good)' if tied else ''}: {number}"
    device = has_device(aim.best)
    other = aim.best_of(lambda row: has_device(row) is not device)
    if other is None:
        text += f"; no policy {'without' if device else 'with'} a device keeps the limits"
    else:
        kind = "without a device" if device else "with a device in rounds" if in_rounds else "with a device"
        text += f"; the best {kind}, {other.name}: {number_said(aim, other)}"
        share = aim.best.value / other.value
        text += f", so {share:.2f} times as many users" if aim.name == FULL_SERVER and 1.005 < share < 1e6 else ""
    exact = aim.best_of(lambda row: row.option.lossless)
    if aim.best.option.lossless:
        return f"{text}."
    return f"{text}. Without loss, {exact.name}: {number_said(aim, exact)}." if exact else f"{text}. None is lossless."


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
