"""The result of a request: the answer, rows, aims, notes and bounds, and all as plain values for JSON and the page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from validation.decoding.methods.rows import OURS, SERVER, STREAMED, UNRUN
from validation.planning import sentences
from validation.planning.aims import Aim, Aims, Listed, Number, Row, aims_of, described, has_device
from validation.planning.answer import Said, answer_of
from validation.planning.engine_counts import basis_said, counts_of, longest_recorded
from validation.planning.option import Note
from validation.planning.plan import Planner
from validation.planning.request import Request
from validation.planning.rounds import COUNTS
from validation.planning.shared import Shared, ahead_from, ahead_until
from validation.planning.token_time import length_pays, takes_no_longer, wide_passes

_DUAL = "dual bound in the model of mean rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    rows: list[Row]  # Of the aim that was asked for, the strongest policy that is not ours first
    aims: Aims
    answer: list[str]  # What to use, its speed, its guarantee, the strongest rival, and what an allowed risk buys
    binds: str  # What takes the time of the answer
    gap: Number | None  # By how much a better plan of the class could be faster, relative
    message_gain: Number | None
    guarantee: str
    assumed: list[str]  # What stands for options that were left out
    notes: list[str]  # What the numbers rest on
    bounds: list[str]
    most_users: list[str]  # which policies carry most users of a full server
    full_pays: float | None  # how much longer than over one token a full server's widest pass may take in its best plan

    @property
    def asked(self) -> Aim:
        return self.aims.asked

    def row_of(self, listed: Listed) -> Row:
        """Return the row of a listed option of the aim that was asked for."""
        return next(row for row, own in zip(self.rows, self.asked.rows, strict=True) if own is listed)

    def plain(self, request: Request, planner: Planner, about: dict[str, Any]) -> dict[str, Any]:
        """Return the plan as plain values; see the documentation of ``hlm plan --json``."""
        link, aims = planner.setting.link, self.aims
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
            "aims": [_answer(planner, aim) for aim in (aims.one_user, aims.full_server, aims.together) if aim],
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
    asked, best = aims.asked, aims.asked.best.option
    counts = evidence if "files" in evidence else None
    engine = None if counts is None else counts_of(counts, best, planner.setting.link.down_bps)
    gap, message_gain, ours = _bounds(planner)
    row = described(planner, asked, asked.best)
    full_pays, pool = _full_pays(planner, aims.full_server.best), planner.pool(aims.full_server.setting)
    grows = shared is not None and request.batch_assumed and len(shared.users) <= request.server_batch
    ahead = None if grows or (full_pays and shared is None) else ahead_from(pool, planner.split.test, shared)
    until_s = None if shared is None else ahead_until(planner.pool(shared.setting), shared)
    each, load = ([], []) if shared is None else shared.said(best, planner.split.test)
    said = Said(
        guarantee=sentences.guarantee(planner, best, counts),
        basis=", ".join([*each, basis_said(evidence, planner.split, best)]),
        condition=sentences.assumed_pass(planner, asked, request.users, full_pays, until_s),
        lengths=sentences.as_good_lengths(planner, aims, counts),
        unplanned="" if "steps" in evidence else sentences.unplanned(planner, shared),
        risk=sentences.risk(planner, asked, getattr(row, f"{planner.setting.risk_kind}_risk").value),
    )
    return Result(
        rows=[described(planner, asked, one) for one in asked.rows],
        aims=aims,
        answer=answer_of(asked, row, said, engine),
        binds=planner.binding(best),
        gap=gap,
        message_gain=message_gain,
        guarantee=said.guarantee,
        assumed=sentences.assumptions(planner, request, counts),
        notes=[
            *load,
            *(note.text for note in notes if best.row.device or not note.of_device),
            *(longest_recorded(best, counts) if counts is not None else []),
            *sentences.notes(planner, asked, few=counts is None and not planner.split.enough),
        ],
        bounds=[
            *wide_passes(planner, planner.setting),
            *sentences.no_slower(planner, request),
            *sentences.any_message(message_gain, ours),
        ],
        most_users=sentences.most_users(planner, aims, full_pays, ahead, counts),
        full_pays=full_pays,
    )


def _full_pays(planner: Planner, best: Listed) -> float | None:
    if not (best.option.draft_length and best.option.fixed_length and takes_no_longer(planner.setting)):
        return None
    if not has_device(best):
        return length_pays(planner, planner.setting, best.option)
    pool = planner.pool(planner.setting)
    kept = [option for option, keeps in zip(pool.options, pool.kept, strict=True) if keeps and not option.row.device]
    servers = [option for option in kept if option.family not in UNRUN]
    return length_pays(planner, planner.setting, best.option, servers)


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
            "tokens_per_s_in_full_passes": listed.crowded if np.isfinite(listed.crowded) else None,
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
    other = setting.passes is not None or setting.objective != "throughput" or median <= 0
    if model is None or other or ours is None or ours.block or ours.family not in (OURS, STREAMED):
        return None, None, ""  # the bounds are those of drafts that are verified one by one, at times of one slope
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
