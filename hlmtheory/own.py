"""A user's own theorems: read from a file, tried on drawn instances, and listed beside the others."""

import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np

from hlmtheory._domains import DomainError
from hlmtheory.arguments import ARGUMENTS, example, instance
from hlmtheory.claims import COARSE, Attained, Claim, Instance, Status, Verdict
from hlmtheory.theorems import THEOREMS

BATCHES = 10


@dataclass(frozen=True, slots=True)
class Trial:
    """A claim with the tightest instance seen, the verdicts of its batches, and a small instance against it."""

    claim: Claim
    verdicts: tuple[Verdict, ...]
    counterexample: Instance | None


def read_theorems(path: Path) -> list[Claim]:
    """Return the claims that a Python file defines, without those of hlmtheory; raise if it has none, or fails."""
    spec = spec_from_file_location(path.stem, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        raise DomainError(f"There is no Python file {str(path)!r}; check the path.")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise DomainError(f"{path} cannot be imported ({type(error).__name__}): {error}; mend it.") from error
    own = [claim for claim in vars(module).values() if isinstance(claim, Claim)]
    own = [claim for claim in own if not claim.proof.file.startswith("hlmtheory/")]
    if not own:
        raise DomainError(f"{path} has no theorem of its own; put @theorem of hlmtheory.claims on a function.")
    return own


@contextmanager
def listed(claims: Iterable[Claim]) -> Iterator[None]:
    """Add claims to :func:`hlmtheory.all_claims` within the block; raise if an id is taken, or is no ``mine.bound``."""
    own = dict[str, Claim]()
    for claim in claims:
        if claim.id in THEOREMS or claim.id in own:
            raise DomainError(f"The claim {claim.id!r} exists already; choose another id.")
        if not re.fullmatch(r"[a-z]\w*\.[a-z]\w*", claim.id):
            raise DomainError(f"The id of a claim must have the form mine.bound; got {claim.id!r}; rename it.")
        own[claim.id] = claim
    THEOREMS.update(own)
    try:
        yield
    finally:
        for name in own:
            del THEOREMS[name]


def trial(claim: Claim, seed: int) -> Trial:
    """Check a claim on its recorded instance and on drawn ones; raise on one that cannot be checked."""
    for name in claim.takes:
        if name not in ARGUMENTS:
            near = get_close_matches(name, ARGUMENTS) or ARGUMENTS
            raise DomainError(f"{claim.id} takes {name!r}, which is no argument; use one of {', '.join(near)}")
    recorded = example(claim) if claim.attained or claim.refuted else {}
    batches = [{name: np.asarray(value)[None] for name, value in recorded.items()}] if recorded else []
    key = zlib.crc32(claim.id.encode())
    batches += [dict(instance(claim, np.random.default_rng([seed, key, batch]))) for batch in range(BATCHES)]
    verdicts, ratio, tightest = [_verdict(claim, values) for values in batches], -1.0, None
    against = list[tuple[bool, Instance]]()
    for values, verdict in zip(batches, verdicts, strict=True):
        with np.errstate(invalid="ignore"):  # infinite sides
            ratios = np.nan_to_num(verdict.lhs / np.where(verdict.rhs > COARSE, verdict.rhs, np.inf))
        if ratios.max() > ratio:
            ratio, tightest = float(ratios.max()), Attained(_at(values, int(ratios.argmax())), float(ratios.max()))
        if (violated := verdict.status == Status.VIOLATED).any():
            gap = np.where(violated, np.nan_to_num(-verdict.slack, nan=0.0, posinf=0.0), -1.0)  # 0/0 is the last choice
            against.append((bool(gap.max() <= 0), _at(values, int(gap.argmax()))))
    if not any(verdict.in_scope for verdict in verdicts):
        raise DomainError(f"No drawn instance is in the scope of {claim.id}; ask less of its arguments in assuming=")
    if claim.refuted:
        return Trial(claim, tuple(verdicts), None)
    against.sort(key=lambda pair: (pair[0], sum(map(np.size, pair[1].values()))))
    return Trial(replace(claim, attained=tightest), tuple(verdicts), against[0][1] if against else None)


def _verdict(claim: Claim, values: Instance) -> Verdict:
    """Check a batch; raise if the function fails, or if its first answer depends on the other instances."""
    try:
        if claim.standing != "true" and not claim.check(claim.refuted or {}).count(Status.VIOLATED):
            raise ValueError("false= must violate it; leave it out if the claim is true")
        verdict, alone = claim.check(values), claim.check({name: value[:1] for name, value in values.items()})
    except Exception as error:
        shapes = ", ".join(f"{name} {np.shape(value)}" for name, value in values.items())
        raise DomainError(f"{claim.id} fails on {shapes} ({type(error).__name__}): {error}") from error
    sides = [(verdict.lhs, alone.lhs), (verdict.rhs, alone.rhs)]
    if alone.status.shape != (1,) or not all(np.allclose(all_[:1], one, equal_nan=True) for all_, one in sides):
        raise DomainError(
            f"The sides of {claim.id} must be of each instance alone; they mix a batch, whose first axis counts the "
            "instances; reduce the last axis, as in .sum(-1)"
        )
    return verdict


def _at(values: Instance, place: int) -> Instance:
    return {name: value[place] for name, value in values.items()}
