"""The audit of a sampler: whether speculative decoding, or any other sampler, keeps the target's law.

Start with :func:`audit_sampler`; the command is ``hlm audit``:

>>> import numpy as np
>>> rows = np.array([[0.5, 0.5]])
>>> def sample(prompts, n, seed):
...     return [np.random.default_rng(seed).integers(2, size=(n, 1)) for _ in prompts]
>>> audit_sampler(TableLaw(rows), sample, depth=1, draws=20_000).verdict
'kept'
"""

from validation.audit.assertion import LawBrokenError, NotEnoughDrawsError, keeps_law
from validation.audit.driver import audit_sampler
from validation.audit.engines import server_sampler, vllm_sampler
from validation.audit.laws import Processors, TableLaw
from validation.audit.mechanisms import MECHANISMS
from validation.audit.models import ModelLaw
from validation.audit.report import KEPT, NOT_KEPT, ON_CELLS, UNDECIDED, AuditReport
from validation.audit.samplers import transformers_sampler
from validation.audit.session import Audit

__all__ = [
    "KEPT",
    "MECHANISMS",
    "NOT_KEPT",
    "ON_CELLS",
    "UNDECIDED",
    "Audit",
    "AuditReport",
    "LawBrokenError",
    "ModelLaw",
    "NotEnoughDrawsError",
    "Processors",
    "TableLaw",
    "audit_sampler",
    "keeps_law",
    "server_sampler",
    "transformers_sampler",
    "vllm_sampler",
]
