"""The result of a request: the answer, rows, aims, notes and bounds, and all as plain values for JSON and the page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from validation.acceptance.settings import SAMPLED_FAILS, tied_lengths
from validation.acceptance.summary import FEWEST_CLUSTERS
from validation.decoding.methods.rows import (
    CERTIFIED,
    COLOCATED,
    DEVICE,
    OURS,
    OWN_DRAFTS,
    OWN_GREEDY,
    OWN_TREE,
    SERVER,
    STREAM,
    STREAMED,
    UNRUN,
)
from validation.estimates import three_digits
from validation.planning.aims import (
    FULL_SERVER,
    LOSS_WORTH,
    ONE_USER,
    Aim,
    Listed,
    Number,
    Row,
    aims_of,
    described,
    has_device,
)
from validation.planning.engine_counts import basis_said, counts_of, longest_recorded
from validation.planning.option import Note, Option
from validation.planning.padding import said as padding_said
from validation.planning.plan import Planner
from validation.planning.profile import DRAFT_LENGTHS
from validation.planning.request import Request
from validation.planning.rounds import COUNTS
from validation.planning.shared import Shared
from validation.planning.token_time import length_pays, takes_no_longer, wide_passes
from validation.planning.verdict import Said, answer_of, is_fixed_length, number_said, with_length

_DUAL = "dual bound in the model of mean rounds"
_AUDITED = f"hlm audit tests it ({SAMPLED_FAILS})"
_IF_KEPT = "lossless if the engine accepts drafts by standard rejection sampling or another lossless rule (proved)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    rows: list[Row]  # Of the aim that was asked for, the strongest policy that is not ours first
    aims: list[Aim]
    asked: Aim
    answer: list[str]  # What to use, its speed, its guarantee, the strongest rival, and what an allowed risk buys
    binds: str  # What takes the time of the answer
    gap: Number | None  # By how much a better plan of the class could be faster, relative
    message_gain: Number | None
    guarantee: str
    assumed: list[str]  # What stands for options that were left out
    notes: list[str]  # What the numbers rest on
    bounds: list[str]
    longest: float  # draft length that is planned
    full_pays: float | None  # how much longer than over one token a full server's widest pass may take in its best plan

    def row_of(self, listed: Listed) -> Row:
        """Return the row of a listed option of the aim that was asked for."""
        return next(row for row, own in zip(self.rows, self.asked.rows, strict=True) if own is listed)

    def plain(self, request: Request, planner: Planner, about: dict[str, Any]) -> dict[str, Any]:
        """Return the plan as plain values; see the documentation of ``hlm plan --json``."""
        link = planner.setting.link
        return {
            "format": "hlm plan",
            "version": 3,
            **about,
            "prompts": planner.split.prompts,
            "request": {
                name: getattr(request, name)
                for name in Request.__slots__
                if name not in ("recorded", "latency", "risk", "passes", "draft_passes")
            }
            | {
                "risk": {"kind": request.risk[0], "limit": request.risk[1]},
                **{name: (table := getattr(request, name)) and asdict(table) for name in ("passes", "draft_passes")},
                "latency": request.latency and dict(zip(("share", "seconds"), request.latency, strict=True)),
            },
            "link": {
                "name": link.name,
                "round_trip_s": link.round_trip_s,
                "down_bps": link.down_bps,
                "median_bps": link.quantile(0.5),
                "p95_bps": link.quantile(0.95),
                "late_bps": link.quantile(planner.setting.latency_share),
                "rates_bps": link.rates.tolist(),
            },
            "rows": [row.plain() for row in self.rows],
            "count_names": list(COUNTS),
            "menu": planner.menu(),
            "streamed": planner.streamed_menu(),
            "asked": self.asked.name,
            "aims": [_answer(planner, aim) for aim in self.aims],
            "answer": self.answer,
            "gap": self.gap and self.gap.plain(),
            "message_gain": self.message_gain and self.message_gain.plain(),
            "guarantee": self.guarantee,
            "assumed": self.assumed,
            "notes": self.notes,
            "bounds": self.bounds,
        }


def make(
    planner: Planner,
    request: Request,
    shared: Shared | None = None,
    evidence: Mapping[str, Any] | None = None,
    notes: Sequence[Note] = (),
) -> Result:
    """Return the best plan for a request; ``evidence`` and ``notes`` say what the planner was made of."""
    aims, evidence = aims_of(planner, planner.setting, shared), evidence or {}
    asked = aims[-1] if shared is not None else aims[0]
    if planner.setting.objective == "capacity":
        asked = next(aim for aim in aims if aim.name == FULL_SERVER)
    best = asked.best.option
    counts = evidence if "files" in evidence else None
    engine = None if counts is None else counts_of(counts, best, planner.setting.link.down_bps)
    gap, message_gain, ours = _bounds(planner)
    row = described(planner, asked, asked.best)
    each, load = ([], []) if shared is None else shared.said(best, planner.split.test)
    said = Said(
        guarantee=f"{_guarantee(planner, best, counts)} {_greedy_said(asked)}".rstrip(),
        basis=", ".join([*each, basis_said(evidence, planner.split, best)]),
        condition=_pass_said(planner, asked, request.users),
        lengths=_lengths_said(planner, aims, asked, counts),
        unplanned=_unplanned_said(planner, shared),
        risk=_risk_said(planner, asked),
    )
    return Result(
        rows=[described(planner, asked, one) for one in asked.rows],
        aims=aims,
        asked=asked,
        answer=answer_of(asked, row, said, engine),
        binds=planner.binding(best),
        gap=gap,
        message_gain=message_gain,
        guarantee=said.guarantee,
        assumed=_assumed(planner, request, counts),
        notes=[
            *load,
            *(note.text for note in notes if best.row.device or not note.of_device),
            *(longest_recorded(best, counts) if counts is not None else []),
            *_notes(planner, asked, few=counts is None and not planner.split.enough),
        ],
        bounds=[*_no_slower(planner, request), *_any_message(message_gain, ours)],
        longest=max(option.draft_length for option in planner.options if option.fixed_length),
        full_pays=_full_pays(planner, next(aim for aim in aims if aim.name == FULL_SERVER).best),
    )


def _full_pays(planner: Planner, best: Listed) -> float | None:
    if not (has_device(best) and best.option.fixed_length and takes_no_longer(planner.setting)):
        return None
    pool = planner.pool(planner.setting)
    kept = [option for option, keeps in zip(pool.options, pool.kept, strict=True) if keeps and not option.row.device]
    servers = {option for option in kept if option.family not in UNRUN}
    return length_pays(planner, planner.setting, best.option, servers.__contains__)


def _unplanned_said(planner: Planner, shared: Shared | None) -> str:
    if shared is not None:
        return " (shared seed, streamed, is planned for one user alone)"
    if planner.streamed is not None and (planner.setting.latency_s or planner.setting.energy_j):
        return " (shared seed, streamed, is not planned under limits of latency or energy)"
    return ""


def _greedy_said(asked: Aim) -> str:
    """Say what greedy drafts give where the answer is a server that samples its drafts."""
    greedy = asked.best_of(lambda listed: listed.family == OWN_GREEDY)
    if asked.best.family != COLOCATED or greedy is None:
        return ""
    return f"Greedy drafts, vLLM's default: {number_said(asked, greedy)}."


def _pass_said(planner: Planner, asked: Aim, users: int) -> str:
    """Say how many tokens a pass is taken to verify in the time of one for each text, and from when drafts lose."""
    setting, best = planner.setting, asked.best
    slow = asked.name == FULL_SERVER or setting.objective in ("capacity", "cost")
    if slow or not takes_no_longer(setting) or not best.option.draft_length or best.family == STREAMED:
        return ""
    verify_ms, batch = 1e3 * setting.verify_s, min(setting.server_batch, users)
    until = length_pays(planner, setting, best.option) if is_fixed_length(best) else None
    loses = f", and from {three_digits(verify_ms * until)} ms no drafts are as fast" if until else ""
    tokens = f"{batch * (best.option.draft_length + 1):.0f} tokens{f' of {batch} users' if batch > 1 else ''}"
    return f"a pass over {tokens} is assumed to take {verify_ms:g} ms{loses}"


def _lengths_said(planner: Planner, aims: Sequence[Aim], asked: Aim, counts: Mapping[str, Any] | None) -> list[str]:
    """Say which draft lengths are as good as the answer's of a server, and what it should do if it is full."""
    best, said = asked.best, []
    if not is_fixed_length(best):
        return []
    if counts is not None:
        ends = counts["not_told_apart"] or (0, 0)
        tied = tied_lengths(ends) if ends[0] <= best.option.draft_length <= ends[1] else ""
        said += [f"{tied} are not told apart by these counts"] if tied else []
    elif asked.name == ONE_USER and planner.split.prompts["test"] > 1 and asked.setting.objective == "throughput":
        tied = tied_lengths(planner.alike(best.option))
        said += [f"{tied} are not told apart by these prompts"] if tied else []
        longest = best.option.draft_length == DRAFT_LENGTHS[-1]
        said += ["the longest that is planned"] if longest else []
        plain = next((one.option for one in asked.rows if one.family == STREAM), best.option)
        said += [] if planner.gain(best.option, plain).sign else ["not told apart from no drafts"]
    full = next(aim for aim in aims if aim.name == FULL_SERVER).best_of(lambda one: not has_device(one))
    if full is not None and full.option is not best.option:
        length = f"K = {full.option.draft_length:g}" if is_fixed_length(full) else full.family
        said.append(f"where the server is full: {length}")
    return said


def _assumed(planner: Planner, request: Request, counts: Mapping[str, Any] | None) -> list[str]:
    """Return what stands for options that were left out, and what changes it most; ``counts`` are an engine's."""
    parts, grows = [], ""
    if counts is not None and counts["draft_sampling"] is None and counts["verification"] != "match":
        parts.append("drafts were sampled from the draft model's distribution (else --drafts)")
    if request.server_draft_basis != "given":
        own_draft = f"{1e3 * planner.setting.own_draft_s:.3g} ms"
        parts.append(f"a draft takes the server {own_draft}: {request.server_draft_basis} (else --server-draft-time)")
    flat = request.passes is None or len(set(request.passes.table[0])) == 1
    if flat and not request.verify_token_s:
        alone = request.passes is None or len(request.passes.batches) == 1
        wide = "with drafts or with more texts" if request.server_batch > 1 and alone else "with drafts"
        grows = wide_passes(planner, planner.setting)
        parts.append(f"a pass {wide} takes no longer (else --verify-token-time, --times or --passes)")
    if request.server_batch > 1 and request.draft_passes is None:
        parts.append("a draft of more texts takes the server no longer (else --times)")
    if counts is not None and counts["records"] < FEWEST_CLUSTERS:
        parts.append(f"requests are alike (else give {FEWEST_CLUSTERS} or more records: the interval is too narrow)")
    if request.batch_assumed:
        texts = "one text" if request.server_batch == 1 else f"{request.server_batch} texts, the most of --passes"
        room = f"of a full server has {texts}" if request.users == 1 else "has room for all users, in memory too"
        parts.append(f"a pass {room} (else --server-batch)")
    numbered = "; ".join(f"({n}) {part}" for n, part in enumerate(parts, 1))
    return [f"Assumes: {numbered}.", *([grows] if grows else [])] if parts else []


def _answer(planner: Planner, aim: Aim) -> dict[str, Any]:
    def plain(listed: Listed | None) -> dict[str, Any] | None:
        if listed is None:
            return None
        row = described(planner, aim, listed)
        return {
            "policy": row.policy,
            "option": row.option,
            "number": aim.number(listed),
            "tokens_per_s": row.tokens_per_s_mean.value,
            "server_s_per_token": row.server_s_per_token.value,
            "text_risk": row.text_risk.value,
        }

    return {
        "aim": aim.name,
        "objective": aim.setting.objective,
        "best": plain(aim.best),
        "with_device": plain(aim.best_of(has_device)),
        "without_device": plain(aim.best_of(lambda one: not has_device(one))),
    }


def _bounds(planner: Planner) -> tuple[Number | None, Number | None, str]:
    """Return the largest relative gains in speed over our best policy that two bounds allow, and its name."""
    setting, model = planner.setting, planner.model
    ours = planner.ours(setting)
    median = setting.link.quantile(0.5)
    if ours is None or ours.block:  # the bounds are those of drafts that are verified one by one
        return None, None, ""
    measured = setting.passes is not None or setting.objective != "throughput" or median <= 0
    if model is None or measured or ours.family not in (OURS, STREAMED):
        return None, None, ""
    streams = planner.candidates(STREAMED, setting)
    if ours.family == STREAMED:
        total = planner.totals([ours])[0]
        rate, risk = float(total[0] / setting.seconds(total, median)), 0.0
    else:
        rate, risk = model.rate(ours, setting)
    alone = next(server for server in planner.options if server.family == SERVER)
    speed = float(setting.speeds(planner.totals([alone])[0], np.array([median]))[0])
    own, every = (
        max(
            model.upper_bound(setting, risk, speed, tokens_alone=tokens_alone),
            planner.streamed_bound(setting, tokens_alone=tokens_alone) if streams else 0.0,
            speed,
        )
        / rate
        - 1.0
        for tokens_alone in (False, True)
    )
    prompts = planner.split.prompts["train"]
    gap, message_gain = (Number(gain, basis=_DUAL, prompts=prompts) for gain in (own, every))
    return gap, message_gain, f"{ours.family}, {ours.label}"


def _risk_said(planner: Planner, asked: Aim) -> str:
    """Return whether a risk that is allowed is used, and what it buys; "" if none is allowed."""
    best, setting, n = asked.best.option, planner.setting, planner.split.prompts["calibrate"]
    kind, limit = setting.risk_kind, setting.risk_limit
    if limit <= 0:
        return ""
    if not best.lossless:
        exact = asked.best_of(lambda one: one.option.lossless)
        without = "nothing" if exact is None else f"{with_length(exact)}: {number_said(asked, exact)}"
        return _bought(planner, asked) or f"used; without loss {without}."
    used = "not used: no policy known to run is better by more than 0.5% with it"
    if limit < 1 and planner.threshold(setting) == -np.inf:
        used = (
            f"the smallest threshold already loses more on the {n} calibration prompts" if n else "no prompt calibrates"
        )
        if n and (n + 1) * limit < 1:
            used = f"{n} calibration prompts, and {int(np.ceil(1 / limit)) - 1} are needed"
        used = f"no token may be skipped at --risk {kind}={limit:g}: {used}; the plan is lossless"
    return f"{used}. {_bought(planner, asked)}".rstrip()


def _bought(planner: Planner, asked: Aim) -> str:
    """Return how much faster the loss makes the plan, or else one with a device; "" where no interval is known."""
    if asked.name != ONE_USER or asked.setting.objective != "throughput" or planner.split.prompts["test"] < 2:
        return ""
    lossy = asked.best if not asked.best.option.lossless else asked.best_of(has_device)
    exact = asked.best_of(lambda one: one.option.lossless and (lossy is asked.best or has_device(one)))
    if lossy is None or exact is None or lossy.option.lossless or not exact.value:
        return ""
    if lossy is not asked.best and lossy.value <= exact.value * (1.0 + LOSS_WORTH):
        return ""
    gain = planner.gain(lossy.option, exact.option)
    low, high = gain.low or 0.0, gain.high or 0.0
    noise = ", within the noise" if low <= 0.0 <= high else ""
    bought = f"{gain.value:.1%} ({low:.1%} to {high:.1%}){noise}"
    if lossy is asked.best:
        return f"used; it makes the plan faster by {bought}."
    return f"With a device it buys {bought}: {lossy.name}, {number_said(asked, lossy)}."


def _no_slower(planner: Planner, request: Request) -> list[str]:
    setting = planner.setting
    if request.reads_again or setting.own_draft_s > setting.draft_s or setting.between_s > setting.link.round_trip_s:
        return []
    return [
        "The server is no slower at a draft than the device. So for one user no lossless policy that drafts and waits "
        "in turn, with a length that is independent of what would be accepted, is faster than a server that draws the "
        "same drafts if the downlink carries the tokens; nor are the lengths and skips that are listed here."
    ]


def _any_message(gain: Number | None, ours: str) -> list[str]:
    if gain is None or gain.value is None:
        return []
    return [
        "Even a message as short as token ids makes a device that draws one draft a position from its model, in rounds "
        "of a fixed length, or a lossless one that drafts each position once while the server verifies what it gets, "
        f"at most {1.0 + gain.value:.2f} times as fast as {ours} ({gain.basis})."
    ]


def _notes(planner: Planner, asked: Aim, *, few: bool) -> list[str]:
    notes = []
    if few:
        notes.append(
            "Fewer than 3 prompts or records are too few to split: numbers are measured on those that the plan was "
            "chosen on, and no threshold is calibrated."
        )
    if planner.setting.leak_bits is not None:
        option = asked.best.option
        own = planner.ours(planner.setting) if option.family not in (OURS, SERVER, DEVICE) else None
        shown = own or option
        notes.append(padding_said(shown, shown.counts[:, COUNTS.index("tokens")]) if shown.sizes or not own else "")
    return [note for note in notes if note]


def _guarantee(planner: Planner, option: Option, counts: Mapping[str, Any] | None) -> str:
    if not option.lossless:
        return _promise(planner, option)
    if counts is not None and option.draft_length:
        kept = f": {_AUDITED if counts['draft_sampling'] == 'sampled' else 'hlm audit tests it'}"
        return f"{_IF_KEPT}{kept if counts['verification'] else '; say which by --verification'}."
    if option.family in (*OWN_DRAFTS, OWN_TREE):
        kept = "lossless if the engine verifies by block, as Sun et al. (proved)" if option.block else _IF_KEPT
        return f"{kept}: {'hlm audit tests it' if option.family == OWN_GREEDY else _AUDITED}."
    return "lossless: each text has the target model's distribution (proved)."


def _promise(planner: Planner, option: Option) -> str:
    """Return what holds of the texts of an option that loses something."""
    kind, limit = planner.setting.risk_kind, planner.setting.risk_limit
    if limit <= 0:
        return "none: what is lost has no limit (--risk)"
    if option.family == CERTIFIED:
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
