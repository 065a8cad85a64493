"""A user's own claims: the theorems of a file outside the repository, checked on drawn instances and on a trace."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import hlmtheory
from hlmtheory import theorems
from hlmtheory.arguments import ARGUMENTS, example, instance
from hlmtheory.claims import COARSE, Attained, Claim, Instance, Status, Verdict
from validation.claims import check
from validation.claims.instances import measured, scenario_rng
from validation.claims.results import Tally
from validation.errors import UserError, nearest
from validation.trace.reader import Trace

ID = re.compile(r"[a-z]\w*\.[a-z]\w*")


@dataclass(slots=True)
class Own:
    """A user's claim, the counts over drawn instances, and the smallest that violates it, if it is said to be true."""

    claim: Claim
    tally: Tally
    counterexample: Instance | None = None


def read_own(path: Path, seed: int = 1) -> dict[str, Own]:
    """Return the claims of a file by id, each checked on drawn instances; raise on one that cannot be checked."""
    known, own = hlmtheory.all_claims(), dict[str, Own]()
    claims = [value for value in vars(_imported(path)).values() if isinstance(value, Claim)]
    for claim in claims:
        if known.get(claim.id) is claim:  # imported there from hlmtheory
            continue
        if claim.id in known or claim.id in own:
            raise UserError(f"The claim {claim.id!r} of {path} exists already; choose another id.")
        if not ID.fullmatch(claim.id):
            raise UserError(f"The id of a claim must have the form mine.bound; got {claim.id!r} in {path}; rename it.")
        for name in claim.takes:
            if name not in ARGUMENTS:
                near = ", ".join(nearest(name, ARGUMENTS)) or ", ".join(ARGUMENTS)
                raise UserError(
                    f"{claim.id} takes {name!r}, which is no argument of hlmtheory.arguments; use one of {near}."
                )
        own[claim.id] = _on_drawn_instances(claim, seed)
    if not own:
        raise UserError(f"{path} has no theorem of its own; put @theorem of hlmtheory.claims on a function.")
    return own


@contextmanager
def registered(own: Mapping[str, Own]) -> Iterator[None]:
    """Add a user's claims to :func:`hlmtheory.all_claims` within the block."""
    theorems.THEOREMS.update({name: mine.claim for name, mine in own.items()})
    try:
        yield
    finally:
        for name in own:
            del theorems.THEOREMS[name]


def check_own(trace: Trace, own: Mapping[str, Own], seed: int, **options: Any) -> dict[str, Tally]:
    """Return the tally of each registered claim: measured if the trace serves its arguments, else that of the draws."""
    served = measured({name: mine.claim for name, mine in own.items()})
    found = check.check_trace(trace, seed=seed, claims=served, **options).tallies if served else {}
    return {name: found.get(name, mine.tally) for name, mine in own.items()}


def _imported(path: Path) -> ModuleType:
    spec = spec_from_file_location("own_claims", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise UserError(f"There is no Python file {str(path)!r}; check the path.")
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses of the file look it up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UserError(f"{path} cannot be imported ({type(error).__name__}): {error}; mend it.") from error
    return module


def _on_drawn_instances(claim: Claim, seed: int) -> Own:
    """Check a claim on its recorded instance and on drawn ones; the tightest of them becomes its attained instance."""
    own, ratio, tightest = Own(claim, Tally(claim.id, kind="simulated")), -1.0, None
    recorded = example(claim) if claim.attained or claim.refuted else {}
    batches = [{name: np.asarray(value)[None] for name, value in recorded.items()}] if recorded else []
    batches += [instance(claim, scenario_rng(seed, claim.id, batch)) for batch in range(check.SCENARIO_BATCHES)]
    for values in batches:
        verdict = _verdict(claim, values)
        own.tally.add(verdict)
        with np.errstate(invalid="ignore"):  # infinite sides
            ratios = np.nan_to_num(verdict.lhs / np.where(verdict.rhs > COARSE, verdict.rhs, np.inf))
        if ratios.max() > ratio:
            ratio, tightest = float(ratios.max()), _at(values, int(ratios.argmax()))
        if (violated := verdict.status == Status.VIOLATED).any() and not claim.refuted:
            smaller = [_at(values, int(violated.argmax())), own.counterexample]
            own.counterexample = min(filter(None, smaller), key=lambda one: sum(map(np.size, one.values())))
    if not own.tally.in_scope:
        raise UserError(f"No drawn instance is in the scope of {claim.id}; ask less of its arguments in assuming=.")
    if claim.refuted and not claim.check(claim.refuted).count(Status.VIOLATED):
        raise UserError(f"false= of {claim.id} must violate it, and does not; leave it out if the claim is true.")
    if not claim.refuted and tightest:
        own.claim = replace(claim, attained=Attained(tightest, ratio))
    return own


def _verdict(claim: Claim, values: Instance) -> Verdict:
    """Check a batch; raise if the function fails, or if its first answer depends on the other instances."""
    try:
        _ = claim.standing
        verdict, alone = claim.check(values), claim.check({name: value[:1] for name, value in values.items()})
    except Exception as error:
        shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in values.items())
        raise UserError(f"{claim.id} fails on {shapes} ({type(error).__name__}): {error}; mend it.") from error
    sides = [(verdict.lhs, alone.lhs), (verdict.rhs, alone.rhs)]
    if alone.status.shape != (1,) or not all(np.allclose(all_[:1], one, equal_nan=True) for all_, one in sides):
        raise UserError(
            f"The sides of {claim.id} must be of each instance alone; they mix a batch, whose first axis counts the "
            "instances; reduce the last axis, as in .sum(-1)."
        )
    return verdict


def _at(values: Instance, place: int) -> Instance:
    return {name: value[place] for name, value in values.items()}
