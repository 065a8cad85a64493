"""Assert in a test that a sampler keeps a law: three outcomes, each as an exception or a report."""

from __future__ import annotations

from validation.audit.driver import Sampler, audit_sampler
from validation.audit.laws import Law
from validation.audit.mechanisms import MECHANISMS
from validation.audit.report import KEPT, NOT_KEPT, ON_CELLS, AuditReport


class LawBrokenError(AssertionError):
    """The sampler does not keep the law. ``report`` says by how much, and where."""

    def __init__(self, report: AuditReport) -> None:
        super().__init__("\n".join([*report.sentences(), *_places(report), *_causes(report)]))
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
    sample : callable
        ``sample(prompts, n, seed)`` returns for each prompt n lists of new token ids, as
        :func:`validation.audit.audit_sampler` takes it. Its draws are independent.
    law : Law
        What the draws should follow: a ``TableLaw``, or a ``ModelLaw``, with the prompts.
    within : float
        The largest total variation that passes, in (0, 1).
    draws : int
        The most draws, of all prompts together. The test ends earlier where the answer is known.
    depth : int
        Tokens of each continuation that are looked at.
    level : float
        Probability that a sampler which keeps the law is ever called broken, whenever one looks; in (0, 1).
    seed : int
        From it comes the seed of each call, so a test gives the same answer each time if the sampler heeds its seeds.
    draft : Law, optional
        The draft model's law; with it a difference gets the name of its mechanism.
    whole : bool
        Whether the bound must hold for the whole law. With False it is enough that it holds for the law of the cells
        into which continuations are grouped. That is no proof: a sampler at a distance of 1/2 can pass.

    Returns
    -------
    AuditReport
        Its ``verdict`` is "kept", or with ``whole=False`` perhaps "no difference found in the cells".

    Raises
    ------
    LawBrokenError
        If the draws show a difference, of any size, with probability of error ``level`` at most.
    NotEnoughDrawsError
        If the draws do not show that the law is kept to within ``within``, or show it for the cells alone. It is a
        failure too, with a name of its own.
    UserError
        If an argument is outside its range, or the sampler returns other than asked.

    Examples
    --------
    >>> import numpy as np
    >>> from validation.audit import TableLaw, keeps_law
    >>> def sample(prompts, n, seed):
    ...     return [np.random.default_rng(seed).choice(2, size=(n, 1), p=[0.7, 0.3]) for _ in prompts]
    >>> keeps_law(sample, TableLaw([[0.7, 0.3]]), depth=1, draws=20_000).verdict
    'kept'
    >>> keeps_law(sample, TableLaw([[0.6, 0.4]]), depth=1, draws=20_000)
    Traceback (most recent call last):
    ...
    validation.audit.assertion.LawBrokenError: Not kept: the law of the next token is at least ...
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


def _causes(report: AuditReport) -> list[str]:
    return [f"  perhaps {fit.name}: {MECHANISMS[fit.name]}" for fit in report.mechanisms or ()]
