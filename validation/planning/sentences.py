"""The sentences of a plan that need its planner: guarantee, risk, what is assumed, draft lengths, notes and bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from validation.acceptance.settings import TRIED, tied_lengths
from validation.acceptance.summary import FEWEST_CLUSTERS
from validation.decoding.methods import rows
from validation.estimates import three_digits
from validation.planning.aims import FULL_SERVER, LOSS_WORTH, ONE_USER, Aim, Aims, Listed, Number, has_device
from validation.planning.answer import has_engine_length, number_said, with_length
from validation.planning.engine_counts import tokens_ratio
from validation.planning.option import Option, error_of
from validation.planning.padding import said as padding_said
from validation.planning.plan import Planner, load
from validation.planning.profile import DRAFT_LENGTHS
from validation.planning.request import Request
from validation.planning.rounds import COUNTS
from validation.planning.shared import Shared
from validation.planning.token_time import length_pays, takes_no_longer
from validation.printable import counted

_AUDITED = {drafts: f"hlm audit tests it ({tried})" for drafts, tried in TRIED.items()}
_IF_KEPT = "lossless if the engine's verification, such as rejection sampling, has no fault (proved)"


def unplanned(planner: Planner, shared: Shared | None) -> str:
    if shared is not None:
        return "; shared seed, streamed, is planned for one user alone"
    if planner.streamed is not None and (planner.setting.latency_s or planner.setting.energy_j):
        return "; shared seed, streamed, is not planned under limits of latency or energy"
    return ""


def assumed_pass(planner: Planner, asked: Aim, users: int, full_pays: float | None, until_s: float | None) -> str:
    """Say which time of which pass is assumed, and from which time on drafts lose, or a full server's plan does."""
    setting, best = planner.setting, asked.best
    if asked.name == FULL_SERVER and full_pays:
        less = f"less than a server without {'devices' if has_device(best) else 'drafts'}"
        return f"{less} until {_wide_pass(best)} {full_pays:.2f} times as long as over one"
    none = best.option.threshold >= 1 or not best.option.draft_length  # such a plan has no passes, or of one token
    other = setting.objective in ("capacity", "cost") or best.family == rows.STREAMED
    if none or other or not takes_no_longer(setting):
        return ""
    verify_ms, batch = 1e3 * setting.verify_s, min(setting.server_batch, users)
    until = length_pays(planner, setting, best.option) if has_engine_length(best) else None
    loses = f"; from {three_digits(verify_ms * until)} ms plain decoding is as fast" if until else ""
    if until_s and has_device(best):
        loses = f"; if each token adds about {1e3 * until_s:.2g} ms (--verify-token-time), the answer is a server"
    tokens = f"{batch * (best.option.draft_length + 1):.0f} tokens{f' of {batch} users' if batch > 1 else ''}"
    return f"a pass over {tokens} is assumed to take {verify_ms:g} ms{loses}"


def _wide_pass(listed: Listed) -> str:
    return f"a pass over {listed.option.draft_length + 1:g} tokens of each text takes"


def as_good_lengths(planner: Planner, aims: Aims, counts: Mapping[str, Any] | None) -> list[str]:
    """Say which draft lengths are as good as the answer's of a server, and what it should do if it is full."""
    asked, best, said = aims.asked, aims.asked.best, []
    if not has_engine_length(best):
        return []
    speed = asked.name != FULL_SERVER and asked.setting.objective == "throughput"
    alone = speed and asked.name == ONE_USER
    if speed and counts is not None:
        ends = counts["not_told_apart"] or (0, 0)
        tied = tied_lengths(ends) if ends[0] <= best.option.draft_length <= ends[1] else ""
        said += [f"{tied} are not told apart by these counts"] if tied else []
    elif alone and planner.split.prompts["test"] > 1:
        tied = tied_lengths(planner.alike(best.option))
        said += [f"{tied} are not told apart by these prompts"] if tied else []
        longest = best.option.draft_length == DRAFT_LENGTHS[-1]
        said += ["the longest that is planned"] if longest else []
        plain = next((one.option for one in asked.rows if one.family == rows.STREAM), best.option)
        said += [] if planner.gain(best.option, plain).sign else ["not told apart from no drafts"]
    full = aims.full_server.best_of(lambda one: not has_device(one))
    if full is not None and full.option is not best.option:
        length = f"K = {full.option.draft_length:g}" if has_engine_length(full) else full.family
        said.append(f"where the server is full: {length}")
    return said


def assumptions(planner: Planner, request: Request, counts: Mapping[str, Any] | None) -> list[str]:
    """Return what stands for options that were left out, and what changes it most; ``counts`` are an engine's."""
    parts = []
    if counts is not None and counts["draft_sampling"] is None and counts["verification"] != "match":
        parts.append("drafts were sampled from the draft model's distribution (else --drafts)")
    if request.server_draft_basis != "given":
        own_draft = f"{1e3 * planner.setting.own_draft_s:.3g} ms"
        parts.append(f"a draft takes the server {own_draft}: {request.server_draft_basis} (else --server-draft-time)")
    flat = request.passes is None or len(set(request.passes.table[0])) == 1
    if flat and not request.verify_token_s:
        alone = request.passes is None or len(request.passes.batches) == 1
        wide = "with drafts or with more texts" if request.server_batch > 1 and alone else "with drafts"
        parts.append(f"a pass {wide} takes no longer (else --verify-token-time, --times or --passes)")
    if request.server_batch > 1 and request.draft_passes is None:
        parts.append("a draft of more texts takes the server no longer (else --times)")
    if counts is not None and counts["records"] < FEWEST_CLUSTERS:
        parts.append(f"requests are alike (else give {FEWEST_CLUSTERS} or more records: the interval is too narrow)")
    if request.batch_assumed:
        texts = "one text" if request.server_batch == 1 else f"{request.server_batch} texts, the most of --passes"
        room = f"has at most {texts}" if request.users > 1 else f"of a full server has {texts}"
        room = "has room for all users, in memory too" if 1 < request.users <= request.server_batch else room
        parts.append(f"a pass {room} (else --server-batch)")
    numbered = "; ".join(f"({n}) {part}" for n, part in enumerate(parts, 1))
    return [f"Assumes: {numbered}."] if parts else []


def risk(planner: Planner, asked: Aim, spent: float | None) -> str:
    """Return whether an allowed risk is used, how much of it is ``spent``, and what it buys; "" if none is allowed."""
    best, setting, n = asked.best.option, planner.setting, planner.split.prompts["calibrate"]
    kind, limit = setting.risk_kind, setting.risk_limit
    if limit <= 0:
        return ""
    if not best.lossless:
        exact = asked.best_of(lambda one: one.option.lossless)
        without = "nothing" if exact is None else f"{with_length(exact)}: {number_said(asked, exact)}"
        return f"used ({spent or 0.0:.2g} of {limit:g}); {_bought(planner, asked) or f'without loss {without}.'}"
    used = f"not used: no policy known to run is better by more than {LOSS_WORTH:.0%} with it"
    unrun = [one for one in asked.rows if one.family in rows.UNRUN and not one.breaks and not one.option.lossless]
    for one in unrun:
        if one.value > asked.best.value * (1.0 + LOSS_WORTH):
            gain = f"{one.value / asked.best.value - 1.0:.0%} ({number_said(asked, one)})"
            used += f"; {one.family}, which no engine runs, would be, by {gain}"
    if limit < 1 and planner.threshold(setting) == -np.inf:
        why = "no prompt calibrates"
        if n:
            why = f"the smallest threshold already loses more on the {n} calibration prompts"
        if n and (n + 1) * limit < 1:
            why = f"{n} calibration prompts, and {int(np.ceil(1 / limit)) - 1} are needed"
        used = f"no token may be skipped at --risk {kind}={limit:g}: {why}; the plan is lossless"
    return f"{used}. {_bought(planner, asked)}".rstrip()


def _bought(planner: Planner, asked: Aim) -> str:
    """Return what the loss buys in the plan, or else in one with a device; "" where no interval is known."""
    full = asked.name == FULL_SERVER
    speed = full or (asked.name == ONE_USER and asked.setting.objective == "throughput")
    if not speed or planner.split.prompts["test"] < 2:
        return ""
    lossy = asked.best if not asked.best.option.lossless else asked.best_of(has_device)
    exact = asked.best_of(lambda one: one.option.lossless and (lossy is asked.best or has_device(one)))
    if lossy is None or exact is None or lossy.option.lossless or not exact.value:
        return ""
    gain = planner.gain(lossy.option, exact.option, full=full)  # None where the server has nothing to do
    if gain.value is None or (lossy is not asked.best and lossy.value <= exact.value):
        return ""
    low, high = gain.low or 0.0, gain.high or 0.0
    noise = ", within the noise" if low <= 0.0 <= high else ""
    bought = f"{gain.value:.1%} ({low:.1%} to {high:.1%}){' more users' if full else ''}{noise}"
    if lossy is not asked.best:
        return f"With a device it buys {bought}: {lossy.name}, {number_said(asked, lossy)}."
    return f"it buys {bought}." if full else f"it makes the plan faster by {bought}."


MANY = 1e6  # times as many users, which no server takes time for


def times_said(times: float) -> str:
    return "no limit" if times > MANY else f"{times:.2f}"


def base_server(full: Aim) -> Listed:
    """Return the best of a full server without a device, within the limits if any is."""
    alone = [one for one in full.rows if not has_device(one) and one.family not in rows.UNRUN]
    return full.best_of(lambda one: not has_device(one)) or max(alone, key=lambda one: one.value)


def _users_interval(planner: Planner, listed: Listed, base: Listed, counts: Mapping[str, Any] | None) -> str:
    """Return the 95% interval of the users of a full server with one policy, over those with another."""
    gain = planner.gain(listed.option, base.option, full=True)
    ends = [1.0 + end for end in (gain.low, gain.high) if end is not None]
    if counts is not None:
        ends = [listed.value / base.value * end for end in tokens_ratio(counts, listed.option, base.option) or ()]
    return f"95%: {ends[0]:.2f} to {ends[1]:.2f}" if len(ends) > 1 and f"{ends[0]:.2f}" != f"{ends[1]:.2f}" else ""


def most_users(
    planner: Planner, aims: Aims, full_pays: float | None, ahead_from: int | None, counts: Mapping[str, Any] | None
) -> list[str]:
    """Say what a full server should use and with how many users, the strongest that is not ours first."""
    aim, shared, base = aims.full_server, aims.asked.shared, base_server(aims.full_server)

    def times(listed: Listed) -> str:
        return times_said(listed.value / base.value)

    def named(listed: Listed, others: Sequence[Listed]) -> tuple[str, Listed]:
        """Name the policies with as many users, and return the first of them."""
        equal = [one for one in others if not one.breaks and times(one) == times(listed)]
        rivals = [base] if base in equal else [one for one in equal if not one.option.row.ours]
        best = sorted(rivals, key=lambda one: (one.second, one.family == rows.DEVICE))[-1:]
        ours = [one for one in equal if one.option.row.ours and base not in equal]
        first = (best + ours)[0]
        return f"{with_length(first)}{' or ours' if best and ours else ''}", first

    def each_said(listed: Listed) -> str:
        if shared is not None or not np.isfinite(listed.crowded):
            return ""
        other = "" if not has_device(listed) else f" ({three_digits(base.crowded)} without devices)"
        speed, held = f"{three_digits(listed.crowded)} tokens/s{other}", listed.value / listed.crowded
        said = f". Each of its users gets at most {speed}, with {held:,.0f} texts in memory"
        if not has_device(listed) or listed.value > MANY * base.value:
            return said
        wide, test = replace(aim.setting, server_batch=round(held)), planner.split.test
        kept = [one for one in aim.listed if not (has_device(one) or one.breaks or one.family in rows.UNRUN)]
        most = max(1.0 / float(load(wide, one.option.counts[test].sum(axis=0))) for one in kept)
        first = ": widen passes first" if most > listed.value else ""
        return f"{said}. As many in each pass, without devices, carry {times_said(most / base.value)} times{first}"

    names, first = named(aim.best, aim.rows)
    off = f"plans of devices were up to {error_of(aim.best.family):.0%} too fast"
    interval = "; ".join(filter(None, [_users_interval(planner, first, base, counts), off]))
    many = f"{times(aim.best)} times ({interval}) the users of {with_length(base)}"
    many = many if aim.best.value <= MANY * base.value else "no limit of users"
    texts = f"with {counted(aim.setting.server_batch, 'text')} a pass (--server-batch)"
    exact, device = aim.best_of(lambda one: one.option.lossless), aim.best_of(has_device)
    if full_pays and has_device(aim.best):
        wide = _wide_pass(aim.best)
        said = [f"Full server: {texts} {names} may carry {many}, if {wide} no longer than over one"]
        said += [f"If it takes {full_pays:.2f} times as long, no more: give --passes"]
    else:
        said = [f"Full server: {texts} use {names}{'' if first is base else f': {many}'}{each_said(first)}"]
    if device is not None and not has_device(aim.best) and device.value > aim.best.value:
        error = f"less than plans of devices were too fast (up to {error_of(device.family):.0%})"
        said.append(f"With devices: {named(device, aim.listed)[0]}: {times(device)} times as many users, {error}")
    if exact is not None and not aim.best.option.lossless:
        exact_names, first = named(exact, [one for one in aim.listed if one.option.lossless])
        said.append(f"Without loss: {exact_names}: {times(exact)} times{each_said(first)}")
    if has_device(aim.best) and aim.best.family != rows.DEVICE:
        said.append("vLLM cannot do so: its plugin keeps each text in all passes, which wait for drafts")
    if ahead_from and has_device(aim.best):
        users = f"{float(f'{ahead_from:.2g}'):,.0f} users{' who share this link' if shared else ''}"
        said.append(f"From about {users} on devices win at that batch, in tokens/s of all, by more than this error")
    return [f"{line}." for line in said]


def no_slower(planner: Planner, request: Request) -> list[str]:
    setting = planner.setting
    if request.reads_again or setting.own_draft_s > setting.draft_s or setting.between_s > setting.link.round_trip_s:
        return []
    return [
        "The server is no slower at a draft than the device. So for one user no lossless policy that drafts and waits "
        "in turn, with a length that is independent of what would be accepted, is faster than a server that draws the "
        "same drafts if the downlink carries the tokens; nor are the lengths and skips that are listed here."
    ]


def any_message(gain: Number | None, ours: str) -> list[str]:
    if gain is None or gain.value is None:
        return []
    return [
        "Even a message as short as token ids makes a device that draws one draft a position from its model, in rounds "
        "of a fixed length, or a lossless one that drafts each position once while the server verifies what it gets, "
        f"at most {1.0 + gain.value:.2f} times as fast as {ours} ({gain.basis})."
    ]


def notes(planner: Planner, asked: Aim, *, few: bool) -> list[str]:
    notes = []
    if few:
        notes.append(
            "Fewer than 3 prompts or records are too few to split: numbers are measured on those that the plan was "
            "chosen on, and no threshold is calibrated."
        )
    if planner.setting.leak_bits is not None:
        option = asked.best.option
        own = planner.ours(planner.setting) if option.family not in (rows.OURS, rows.SERVER, rows.DEVICE) else None
        shown = own or option
        notes.append(padding_said(shown, shown.counts[:, COUNTS.index("tokens")]) if shown.sizes or not own else "")
    if asked.name == FULL_SERVER and has_device(asked.best):
        notes.append(f"Where devices ran, their plans were up to {error_of(asked.best.family):.0%} too fast.")
    return [note for note in notes if note]


def guarantee(planner: Planner, option: Option, counts: Mapping[str, Any] | None) -> str:
    if not option.lossless:
        return _promise(planner, option)
    if counts is not None and option.draft_length:
        audited = _AUDITED.get(counts["draft_sampling"], "hlm audit tests it")
        return f"{_IF_KEPT}{f': {audited}' if counts['verification'] else '; say which by --verification'}."
    if option.family in (*rows.OWN_DRAFTS, rows.OWN_TREE):
        kept = "lossless if the engine verifies by block, as Sun et al. (proved)" if option.block else _IF_KEPT
        return f"{kept}: {_AUDITED['greedy' if option.family == rows.OWN_GREEDY else 'sampled']}."
    return "lossless: each text has the target model's distribution (proved)."


def _promise(planner: Planner, option: Option) -> str:
    """Return what holds of the texts of an option that loses something."""
    kind, limit = planner.setting.risk_kind, planner.setting.risk_limit
    if limit <= 0:
        return "none: what is lost has no limit (--risk)"
    if option.family == rows.CERTIFIED:
        return (
            f"the law of each token, given those before it, is within {option.answer_limit:g} of the target's, "
            f"and that of a text as long as these within {option.loss.max():.3g}, whatever the models are (proved)."
        )
    if limit >= 1:
        return "a total variation is never above 1, so this limit promises nothing."
    what = "total variation of texts from the target model" if kind == "text" else "one-step risk of tokens"
    return (
        f"the mean {what} is at most {limit:g}; the mean is over texts and over the draw of the "
        f"{planner.split.prompts['calibrate']} calibration prompts. So a single text, or a single calibration, may be "
        "above it."
    )
