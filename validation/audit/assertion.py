"""Assert in a test that a sampler keeps a law: three outcomes, each as an exception or a report."""

from validation.audit.driver import Sampler, audit_sampler
from validation.audit.laws import Law
from validation.audit.mechanisms import MECHANISMS
from validation.audit.report import KEPT, NOT_KEPT, ON_CELLS, AuditReport


class LawBrokenError(AssertionError):
    """The sampler does not keep the law. ``report`` says by how much, and where."""

    def __init__(self, report: AuditReport) -> None:
        causes = [f"  perhaps {fit.name}: {MECHANISMS[fit.name]}" for fit in report.mechanisms or ()]
        super().__init__("\n".join([*report.sentences(), *_places(report), *causes]))
        self.report = report


class NotEnoughDrawsError(AssertionError):
    """The draws show neither. ``report`` says how many would."""

    def __init__(self, report: AuditReport) -> None:
        super().__init__("\n".join(report.sentences()))
        self.report = report


def keeps_law(
    sample: Sampler,
    law: Law,
    *,
    within: float = 0.05,
    draws: int = 100_000,
    depth: int = 4,
    level: float = 0.001,
    seed: int = 1,
    draft: Law | None = None,
    whole: bool = True,
) -> AuditReport:
    """Return a report if a sampler keeps a law, and raise if it does not or if that is not known.

    Parameters
    ----------
    sample, law, draws, depth, level, seed, draft
        As :func:`validation.audit.audit_sampler` takes them.
    within : float
        The largest total variation that passes, in (0, 1).
    whole : bool
        Whether the bound must hold for the whole law. With False the law of the cells, into which continuations are
        grouped, is enough. That is no proof: a sampler at a distance of 1/2 can pass.

    Raises
    ------
    LawBrokenError
        If the draws show a difference, of any size, with probability of error ``level`` at most.
    NotEnoughDrawsError
        If the draws do not show that the law is kept to within ``within``, or show it for the cells alone.
    """
    __tracebackhide__ = True  # pytest shows the line of the test, not these
    report = audit_sampler(law, sample, draws=draws, depth=depth, level=level, epsilon=within, seed=seed, draft=draft)
    if report.verdict == NOT_KEPT:
        raise LawBrokenError(report)
    if report.verdict == KEPT or (report.verdict == ON_CELLS and not whole):
        return report
    raise NotEnoughDrawsError(report)


def _places(report: AuditReport) -> list[str]:
    return [
        f"  prompt {one.prompt}, after {list(one.prefix)}: token {one.token} is {one.seen / max(1, one.draws):.4f} of "
        f"{one.draws:,} draws, and {one.expected:.4f} under the law"
        for one in report.witnesses
    ]
