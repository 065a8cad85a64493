"""What an audit says: its verdict, the bounds behind it, and the same in words."""

from dataclasses import asdict, dataclass
from typing import Any

from validation.audit.naming import Fit

KEPT, NOT_KEPT, UNDECIDED = "kept", "not kept", "not enough draws"
ON_CELLS = "no difference found in the cells"


@dataclass(frozen=True)
class DepthBound:
    """What is known of one depth: at least this far apart, with simultaneous confidence over depths, kinds and time."""

    depth: int
    kind: str  # "token": given the sampler's own prefixes; "joint": the first ``depth`` tokens together
    at_least: float
    log_wealth: float


@dataclass(frozen=True)
class Witness:
    """A prefix and a token whose share in the draws is far from the target's probability."""

    prompt: int
    prefix: tuple[int, ...]
    token: int
    seen: int
    draws: int
    expected: float  # the target's probability
    z: float


@dataclass(frozen=True)
class AuditReport:
    verdict: str
    draws: int
    depth: int
    level: float
    epsilon: float
    bounds: tuple[DepthBound, ...]
    at_least: float
    at_most: float  # on the distance of the whole laws
    at_most_on_cells: float
    shared: tuple[float, ...]  # by depth, the target's probability of cells that hold several continuations
    cells: int
    prompts: int
    smallest_found: float
    draws_to_find: int
    draws_to_keep: int
    found_after: int | None
    repeats: float  # lower bound on the distance, given the draws before, that repeats alone show
    excluded: int = 0  # draws that are impossible under the target's law
    witnesses: tuple[Witness, ...] = ()
    mechanisms: tuple[Fit, ...] | None = None  # not excluded, likeliest first; None if none was tried
    draft_known: bool = False  # whether mechanisms were tried that need the draft model's law
    notes: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        """Return the answer in words; the first sentence is the verdict."""
        said = f"the law of the next {self.depth} tokens" if self.depth > 1 else "the law of the next token"
        if self.prompts > 1:
            said += f", in the mean over {self.prompts} prompts,"
        words = {NOT_KEPT: self._not_kept, KEPT: self._kept, ON_CELLS: self._on_cells, UNDECIDED: self._undecided}
        return [*words[self.verdict](said), *self.notes]

    @property
    def _risk(self) -> str:
        return f"This is wrong with probability {self.level:g} at most, whenever one looks."

    @property
    def _assumed(self) -> str:
        mixed = "" if self.prompts > 1 else " One prompt cannot show a mix-up of the distributions of several."
        return f"{self._risk} It assumes independent draws of one law; no repeats were found.{mixed}"

    @property
    def _power(self) -> str:
        return (
            f"With {self.draws:,} draws, a distance of {self.smallest_found:.4f} that a single tested event shows is "
            "found with probability 0.9."
        )

    @property
    def _where(self) -> str:
        return f" on {self.cells:,} cells of continuations"

    def _not_kept(self, said: str) -> list[str]:
        given, least = ("", self.at_least) if self.at_least else ("given the draws before, ", self.repeats)
        first = f"Not kept: {given}{said} is at least {least:.2g} (total variation) from the target's."
        impossible = f"{self.excluded:,} of {self.draws:,} draws are impossible under the target's law."
        lines = [first if least else f"Not kept: {impossible}"]
        lines.append(f"Shown after {self.found_after:,} of {self.draws:,} draws. {self._risk}")
        if self.excluded and least:
            lines.append(impossible)
        if self.mechanisms is not None and not self.mechanisms:
            more = "" if self.draft_known else " Most need the draft model's law: give it (--draft)."
            lines.append(f"None of the known mechanisms explains the draws.{more}")
        if self.at_most <= self.epsilon and not self.repeats:
            lines.append(f"Yet it is at most {self.at_most:.4f} from it, which is within {self.epsilon:g}.")
        return lines

    def _kept(self, said: str) -> list[str]:
        lines = [f"Kept: {said} is at most {self.at_most:.4f} (total variation) from the target's."]
        if self.shared[-1]:
            lines.append(
                f"This holds for all continuations: it is at most {self.at_most_on_cells:.4f}{self._where}, and those "
                f"with several continuations have {self.shared[-1]:.4f} of the target's probability."
            )
        return [*lines, f"No difference was found. {self._power}", self._assumed]

    def _on_cells(self, said: str) -> list[str]:
        return [
            f"No difference found in the cells: {said} is at most {self.at_most_on_cells:.4f} (total variation) from "
            f"the target's{self._where}.",
            f"This is no proof for the whole law, which may be up to {self.at_most:.4f} away: {self.shared[-1]:.4f} of "
            "the target's probability lies in cells of several continuations, whose shares may differ.",
            self._more(),
            f"{self._power} {self._assumed}",
        ]

    def _more(self) -> str:
        if provable := [t for t, shared in enumerate(self.shared, 1) if shared <= 0.5 * self.epsilon]:
            return (
                f"To prove more, ask for less: --depth {provable[-1]} leaves {self.shared[provable[-1] - 1]:.4f} in "
                "such cells."
            )
        return (
            "To prove more, let the engine draw from fewer tokens, by a lower --top-k, --top-p or --temperature, or "
            "plan more --draws: the cells become finer."
        )

    def _undecided(self, said: str) -> list[str]:
        whole = self.shared[-1] < self.epsilon
        where, what = ("", "") if whole else (self._where, " on the cells")
        most = self.at_most if whole else self.at_most_on_cells
        aim = f"that the law is kept to within {self.epsilon:g}{what}"
        keep = f"to show {aim} takes about {self.draws_to_keep:,} in all."
        if not self.draws_to_keep:
            keep = f"no number up to a billion shows {aim}."
        return [
            f"Not enough draws: no difference was found, and {said} may be up to {most:.4f} away{where}.",
            self._power,
            f"A distance of {self.epsilon:g} would be found with {self.draws_to_find:,} draws; {keep}",
        ]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
