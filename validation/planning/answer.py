"""The first lines of a plan. Their numbers come from the rows of an aim, so these cannot contradict the table."""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from validation.decoding.methods import rows
from validation.estimates import three_digits
from validation.planning.aims import FULL_SERVER, ONE_USER, Aim, Listed, Number, Row, has_device
from validation.planning.engine_counts import CountsSaid
from validation.planning.option import error_of
from validation.planning.request import Request

NAMES = {rows.OURS: "ours, in rounds", rows.KEEPING: "sure drafts kept (no engine)"}
NAMES[rows.GREEDY] = "greedy drafts of a device"
NAMES[rows.OWN_TREE] = "own tree (no engine)"
SYMBOLS = {
    "K": "drafts of a round",
    "k": "likeliest tokens that a row of the draft model keeps",
    "τ": "least probability that a row of the draft model keeps",
    "ℓ": "kept probabilities are multiples of 1/ℓ",
    "B": "bits after which a round ends",
    "u": "uncertainty (share of draws at random temperatures unlike the draft) up to which a first draft is kept",
    "ε": "largest distance of a token's law from the target model's",
    "tree": "drafts of each node, by depth",
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
    down = f"down {float(f'{request.link().down_bps / 1e6:.3g}'):g} Mbit/s"
    of_link = basis("--rate" if request.recorded is None else "--link-csv")
    if request.fading != "none":
        link += " (fading given)" if of_link == "default" else " (SNR by default)" if "--snr" in left_out else ""
    by_basis = {of_link: [link]}
    by_basis.setdefault(basis("--down-rate"), []).append(down)
    for what, seconds, why in times:
        if seconds or what == "round trip":
            by_basis.setdefault(why, []).append(f"{what} {1e3 * seconds:.3g} ms")
    if request.energy_j is not None:
        for what, watts, power in (("device", request.device_w, "device"), ("radio", request.transmit_w, "transmit")):
            by_basis.setdefault(basis(f"--{power}-power"), []).append(f"{what} {watts:.3g} W")
    words = {"default": "defaults, not measured"}
    return "; ".join(f"{', '.join(parts)} ({words.get(why, why)})" for why, parts in by_basis.items())


LIMITS = {"risk": (1.0, ""), "latency": (1e3, " ms a round"), "leak": (1.0, " bits"), "energy": (1e3, " mJ a token")}
"""Limits of a plan, by their options: the scale of what is shown of them, and its unit."""


def limits_said(given: Mapping[str, Any], asked: Aim, table: Sequence[Row]) -> str:
    """Return the limits as given, and behind each what the answer and the best with a device have by the aim's rows."""
    setting, device = asked.setting, asked.best_of(has_device)
    values = (setting.risk_limit, setting.latency_s, setting.leak_bits, setting.energy_j)
    shown = [(one, row) for one, row in zip(asked.rows, table, strict=True) if one is asked.best or one is device]
    shown.sort(key=lambda pair: pair[0] is not asked.best)
    parts = [] if setting.risk_limit else ["nothing is lost (--risk)"]
    for name, limit in zip(LIMITS, values, strict=True):
        if given[name] is not None and (limit or name != "risk"):
            held = ", ".join(_held_of(name, limit or 0.0, asked, *pair) for pair in shown)
            parts.append(f"{name} {given[name]}: {held}")
    return "; ".join(parts)


def _held_of(name: str, limit: float, asked: Aim, listed: Listed, row: Row) -> str:
    """Say what a row has of a limit."""
    scale, unit = LIMITS[name]
    risk: Number = getattr(row, f"{asked.setting.risk_kind}_risk")
    numbers = {"risk": risk.value, "latency": row.round_s.value, "energy": row.joules_per_token.value}
    number = (listed.option.leak_bits if name == "leak" else numbers[name]) or 0.0
    above = ", above it: it was chosen on other prompts" if float(f"{number:.3g}") > limit else ""
    alone = "" if asked.name == ONE_USER else ", if it waits for no other text (not checked)"
    link = "" if name != "latency" else alone if has_device(listed) else ", no link"
    whose = "here" if listed is asked.best else "with a device"
    return f"{whose} {scale * number:.3g}{unit}{link}{above}"


def number_said(aim: Aim, listed: Listed) -> str:
    number = aim.number(listed)
    if aim.name == FULL_SERVER:
        milliseconds = three_digits(1e3 * number)
        return f"{milliseconds} ms of the server for a token" if number > 1e-9 else "no time of the server"
    if aim.name != ONE_USER:
        how = ", weighted" if aim.shared and len({user.weight for user in aim.shared.users}) > 1 else ""
        each = " each, the geometric mean" if aim.setting.objective == "fair" else ""
        return f"{three_digits(number)} tokens/s{each}{how}"
    speed = f"{three_digits(number)} tokens/s"
    words = {"goodput": f"{speed} in time", "cost": f"a price of {number:.3g} for a token"}
    return words.get(aim.setting.objective, speed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the lines of an answer say besides the numbers of its aim; "" is left out."""

    guarantee: str
    basis: str  # of the speed: users, prompts or rounds
    condition: str = ""  # under which the speed is at most so large, or the server's time the least
    lengths: Sequence[str] = ()  # which other draft lengths are as good
    unplanned: str = ""  # a rival that could not be planned
    risk: str = ""  # what an allowed risk buys


def answer_of(asked: Aim, row: Row, said: Said, counts: CountsSaid | None = None) -> list[str]:
    """Return the first lines of a plan: what to use, its speed, its guarantee, the strongest rival, and its risk.

    ``row`` is that of the option to use; ``counts`` are an engine's.
    """
    best = asked.best
    use, tied = plainest(asked, best)
    flags = _flags_said(asked, counts)
    if has_engine_length(best):
        length = f"{best.option.draft_length:g}"
        use += f", K = {length} {'draft' if length == '1' else 'drafts'} a round"
    use += f" ({'; '.join(said.lengths)})" if said.lengths else ""
    use += "; ours is as good" if tied else ""
    title = {"capacity": "Server time", "cost": "Cost"}.get(asked.setting.objective, "Speed")
    number = f"{number_said(asked, best)}{interval_said(asked, row, counts)}"
    if asked.name == FULL_SERVER:
        whole = f"{three_digits(best.value)} tokens/s of all; " if asked.number(best) > 1e-9 else ""
        number += f" ({whole}a single user gets {three_digits(row.tokens_per_s_mean.value or 0.0)})"
        number += f", {said.condition}" if said.condition else ""
    elif said.condition:
        number = f"up to {number}: {said.condition}"
    return [
        "\n".join([f"Use: {use}; it needs {_needs(best)}{_server_said(asked)}", *flags, *_without_loss(asked)]),
        f"{title}: {number}; {asked.name}, {said.basis}",
        f"Guarantee: {said.guarantee}",
        f"{rival_said(asked, counts)}{said.unplanned}",
        *([f"Risk: {said.risk}"] if said.risk else []),
    ]


def interval_said(asked: Aim, row: Row, counts: CountsSaid | None = None) -> str:
    """Return the interval of a policy's speed, to stand behind it; "" if it has none."""
    speed = row.decides if asked.shared else row.tokens_per_s_mean
    if asked.name == FULL_SERVER or (not asked.shared and asked.setting.objective != "throughput"):
        return ""
    ends, of = [end for end in (speed.low, speed.high) if end is not None], "over prompts"
    if counts is not None:
        each, of = (speed.value or 0.0) * row.counts["passes"], counts.interval  # rounds a second, which do not vary
        ends = [each * bound for bound in (counts.tokens or ())[1:]] if row.policy in rows.OWN_DRAFTS else []
    if len({*map(three_digits, ends)}) < 2:
        return ""
    return f" (95% {of}: {' to '.join(map(three_digits, ends))})"


def has_engine_length(listed: Listed) -> bool:
    """Return whether a policy is a server that drafts for itself, with a draft length and nothing else."""
    return listed.family in rows.OWN_DRAFTS and listed.option.fixed_length and not listed.option.block


@dataclass(frozen=True, slots=True)
class Rivals:
    """The policies that an answer is compared with."""

    other_side: bool  # ``best`` is that with a device, of an answer without one, or that without, of one with a device
    best: Listed | None
    server: Listed | None  # of another kind than an answer without a device, and better than ``best``
    among_lossless: bool  # ``best`` is the best of those that lose nothing
    exact: Sequence[Listed | None]  # the best without loss, where the others do not show it; empty where they do


def rivals_of(asked: Aim) -> Rivals:
    """Return the strongest rivals: of another kind; if the answer is the strongest, with or without a device."""
    best, own = asked.best, has_device(asked.best)
    other_side = best is asked.rival or plainest(asked, best)[1] or (has_device(asked.rival) and not own)
    rival = asked.best_of(lambda one: has_device(one) is not own) if other_side else asked.rival
    kind, exact = rows.OWN_DRAFTS if best.family in rows.OWN_DRAFTS else (best.family,), None
    server = None if own else asked.best_of(lambda one: not has_device(one) and one.family not in kind)
    if server is not None and rival is not None and rival.value >= server.value:
        server = None
    if server is not None and best.option.lossless and rival is not None and not rival.option.lossless:
        exact = asked.best_of(lambda one: one.option.lossless and has_device(one))
    unshown = _unshown(asked, [one for one in (exact or rival, server) if one is not None])
    return Rivals(other_side, exact or rival, server, exact is not None, unshown)


def _unshown(asked: Aim, named: Sequence[Listed]) -> list[Listed | None]:
    """Return the best rival without loss where the answer, or the rival that is named first, loses something."""
    best, own = asked.best, has_device(asked.best)
    if best.option.lossless and (not named or named[0].option.lossless):
        return []
    exact = asked.best_of(lambda one: one.option.lossless and (not best.option.lossless or has_device(one) is not own))
    shown = exact and any(one.option.lossless and one.value >= exact.value * (1 - AS_GOOD) for one in named)
    return [] if shown else [exact]


def rival_said(asked: Aim, counts: CountsSaid | None = None) -> str:
    """Say what the rivals of an answer give, need, and lose by a rejection."""
    rivals, best, own = rivals_of(asked), asked.best, has_device(asked.best)
    rival, server, other_side = rivals.best, rivals.server, rivals.other_side
    title = f"Best {'without' if own else 'with'} a device" if other_side else "Strongest rival"
    title += " within the limits"
    if server is not None:
        drafts = ", without drafts" if server.family in (rows.SERVER, rows.STREAM) else ""
        title = f"Strongest rival of another kind: {with_length(server)}{drafts}: {_priced(asked, server)}"
        title += f"; best with a device{', without loss' if rivals.among_lossless else ''}"
    if other_side and not own and rival is not None and rival.family not in (rows.DEVICE, rows.SEED_TREE):
        runs = "hlm serve or vLLM's plugin" if runs_in_vllm(asked, rival) else "hlm serve, not vLLM"
        title += f" ({runs}{'' if counts is None else '; counts cannot price SQS or shared seeds'})"
    exact = [f"{plainest(asked, one)[0]}: {_priced(asked, one)}" if one else "none" for one in rivals.exact]
    without = "".join(f"; without loss: {said}" for said in exact)
    if rival is None:
        return f"{title}: none{without}"
    name, tied = plainest(asked, rival)
    said = f"{title}: {name}{', or ours' if tied else ''}: {_priced(asked, rival)}"
    if not (best.option.lossless and rival.option.lossless):
        said += " (lossless)" if rival.option.lossless else " (not lossless)"
    said += f"; it needs {_needs(rival)}" if own or not other_side else ""
    if counts is not None and rival.option.codec == 0:  # the target's distribution after a rejection
        said += counts.rejection
    return said + without


def _priced(asked: Aim, listed: Listed) -> str:
    words = {"capacity": "times as many users", "cost": "times as cheap"}.get(asked.setting.objective, "times as fast")
    share = f", {listed.value / asked.best.value:.2f} {words}" if asked.best.value > 0 else ""
    shared, both = asked.shared, (listed.option, asked.best.option)
    if shared is not None and shared.seconds.keys() >= {*both} and len(shared.seconds[both[0]]) > 1:
        times = shared.times(*both)
        share += f" ({times.low:.2f} to {times.high:.2f})"
    if has_device(listed) and not has_device(asked.best) and listed.value > asked.best.value:
        share += f", less than plans of devices were too fast (up to {error_of(listed.family):.0%}): not chosen"
    return f"{number_said(asked, listed)}{share}"


def _needs(listed: Listed) -> str:
    if listed.family in (rows.SERVER, rows.STREAM):
        return "no draft model"
    return f"the draft model on the {'device' if has_device(listed) else 'server'}"


def _server_said(asked: Aim) -> str:
    """Say which server runs the rounds of a device, as docs/run.md has it."""
    best = asked.best
    if not has_device(best) or best.option.threshold >= 1:  # which skips everything
        return ""
    if best.family == rows.SEED_TREE:
        serve = asked.best_of(lambda one: has_device(one) and one.family != rows.SEED_TREE)
        return f", and a server that reads trees (hlm serve does not: {_said(asked, serve)})"
    return f", and hlm serve{' or vLLM with its plugin' if runs_in_vllm(asked, best) else ''}"


def runs_in_vllm(asked: Aim, listed: Listed) -> bool:
    """Return whether vLLM runs a policy, with its plugin or alone; with the plugin each pass has all texts."""
    fits = asked.name == ONE_USER or (asked.shared and len(asked.shared.users) <= asked.setting.server_batch)
    return not has_device(listed) or (listed.family == rows.GREEDY and bool(fits))


def _flags_said(asked: Aim, counts: CountsSaid | None) -> list[str]:
    """Return the line of vLLM: its flags for the answer. Where it cannot run the answer: the best that it can run."""
    best, drawn = asked.best, counts is None or counts.sampled
    if counts is not None and not counts.engine.startswith("vllm"):
        return []
    if has_engine_length(best):
        flags = f"vLLM: num_speculative_tokens = {best.option.draft_length:g}"
        flags += "" if asked.setting.passes is None else " (for each batch: hlm acceptance --settings vllm)"
        flags += ", draft_sample_method = probabilistic" if drawn and best.family == rows.COLOCATED else ""
        greedy = asked.best_of(lambda one: one.family == rows.OWN_GREEDY) if best.family == rows.COLOCATED else None
        return [
            flags if greedy is None else f"{flags} (audit it; its default, greedy drafts: {number_said(asked, greedy)})"
        ]
    if runs_in_vllm(asked, best) or best.option.threshold >= 1:
        return []
    return [f"vLLM: at best {_said(asked, asked.best_of(lambda one: runs_in_vllm(asked, one)))}"]


def _said(asked: Aim, listed: Listed | None) -> str:
    return "nothing" if listed is None else f"{with_length(listed)}: {_priced(asked, listed)}"


def _without_loss(asked: Aim) -> list[str]:
    """Say how near a plan without loss comes."""
    exact = None if asked.best.option.lossless else asked.best_of(lambda one: one.option.lossless)
    return [] if exact is None else [f"Without loss: {plainest(asked, exact)[0]}: {_priced(asked, exact)}"]


def with_length(listed: Listed) -> str:
    name = NAMES.get(listed.family, listed.family)
    return f"{name} (K = {listed.option.draft_length:g})" if listed.option.fixed_length else name


AS_GOOD = 0.005  # relative: so much may differ what decides between policies with the same printed number


def plainest(asked: Aim, listed: Listed) -> tuple[str, bool]:
    """Name a policy; ours by one of others that is as good, with its draft length, and say whether there is one."""
    least, number = listed.second - AS_GOOD * abs(listed.second), three_digits(listed.value)
    others = [one for one in asked.rows if not (one.option.row.ours or one.breaks)]
    others = [one for one in others if one.option.lossless is listed.option.lossless]
    same = [one for one in others if one.second >= least and three_digits(one.value) == number]
    if not listed.option.row.ours or not same:
        return NAMES.get(listed.family, listed.family), False
    return with_length(max(same, key=lambda one: one.second)), True
