"""The steps from a request and a planner to a plan, in the one order that is right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from validation.acceptance.summary import READS_AGAIN
from validation.planning.option import Note, reading_again
from validation.planning.plan import Planner
from validation.planning.request import Request
from validation.planning.result import Result, make
from validation.planning.shared import User
from validation.planning.users import equal_users, plan_band


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan with what it was made from: the request and the planner hold what the evidence added."""

    request: Request
    planner: Planner
    result: Result
    users: dict[str, Any] | None  # of several users our plan for each, of counts what each gets; as plain values


def prepared(request: Request, planner: Planner, evidence: Mapping[str, Any]) -> tuple[Request, Planner]:
    """Return the request with what the evidence says of the server's draft model, and a planner for that request."""
    again = request.reads_again or bool(evidence.get("reads_again"))
    request = replace(request.with_server_draft(evidence.get("parameter_ratio")), reads_again=again)
    options = reading_again(planner.options, request.draft_passes) if again else planner.options
    return request, replace(planner, options=options, setting=request.setting())


def plan_for(
    request: Request, planner: Planner, about: Mapping[str, Any], said: Sequence[str] = (), listed: Sequence[User] = ()
) -> Plan:
    """Return the plan for a request; ``about`` came with the planner, ``said`` is what else its numbers rest on.

    ``listed`` are the users of a file; several others are equal.
    """
    request, planner = prepared(request, planner, about["evidence"])
    again = [READS_AGAIN] if request.reads_again else []
    notes = [*map(Note, [*said, *again]), *about["notes"]]
    shared = users = None
    if listed or request.users > 1:
        planner = replace(planner, streamed=None)  # it takes more of a server than a device in rounds
        each = [*listed] or equal_users(request.users, planner.setting)
        planner, shared, users = plan_band(planner, each, request.server_batch)
    result = make(planner, request, shared, about["evidence"], notes)
    if shared is not None and users is None:
        users = shared.plain(result.asked.best.option, planner.split.test)
    return Plan(request, planner, result, users)
