"""Every name of the theory that refuses bad input, with its object: the public ones, and those of claims alone."""

from __future__ import annotations

import inspect
from importlib import import_module

import hlmtheory

INNER = {
    "channel.latency": "mean_round_throughput",
    "draft_length.optimum": "stationary_draft_length",
    "draft_length.rates": "etgr_profile",
    "lattice.payload": "exact_payload_bits",
    "ofdma.shares": "kkt_residual sum_latency sum_shares",
    "serving.pipeline": "step_times",
    "serving.costs": "steps_distribution",
    "skipping.bill": "bill_bound_on_device",
    "truncation.multi_draft": "multi_draft_distribution",
    "truncation.softplus": "softplus_distance",
    "verification.misdeclared": "misdeclared_distribution",
    "verification.tokens": "expected_tokens_profile",
    "verification.tree": "sibling_acceptance tree_distribution",
}
"""Not public, because claims and tests alone use them; they check their arguments as public ones do."""


def public_names() -> dict[str, object]:
    """Return the names in ``__all__`` of every module without the claims, and the inner ones; each has one object."""
    found: dict[str, object] = {}
    for module in (import_module(f"hlmtheory.{name}") for name in hlmtheory.MODULES):
        for name in sorted(set(module.__all__) - {"CLAIMS"}):
            assert found.setdefault(name, getattr(module, name)) is getattr(module, name), name
    for module, names in ((import_module(f"hlmtheory.{place}"), names) for place, names in INNER.items()):
        found.update({name: getattr(module, name) for name in names.split()})
    return found


NAMES = public_names()
BY_EITHER = {"finish_times", "minmax_shares", "minmax_latency"}
"""They take an SNR, or else a spectral efficiency."""


UNCHECKED = ("CertifiedAnswers", "SeededTokens", "StreamedTokens")
"""Records that check what they hold; a text of JSON with other values is tested with the policy."""


def is_record(name: str) -> bool:
    """Return whether a class says what it holds, and not what it takes."""
    fields = getattr(NAMES[name], "_fields", getattr(NAMES[name], "__dataclass_fields__", ()))
    return bool(fields) and (name in UNCHECKED or not hasattr(NAMES[name], "__post_init__"))


RECORDS = set(filter(is_record, NAMES))
"""Answers: made by the library alone, and no function takes one."""


def public() -> dict[str, object]:
    found = {}
    for name, item in NAMES.items():
        if not callable(item) or name in RECORDS or (inspect.isclass(item) and issubclass(item, Exception)):
            continue
        found[name] = item
        own = [base for base in getattr(item, "__mro__", ()) if base is item or base.__name__.startswith("_")]
        for method, function in ((one, getattr(item, one)) for base in own for one in vars(base)):
            if (
                inspect.isfunction(function)
                and not method.startswith("_")
                and len(inspect.signature(function).parameters) > 1
            ):
                found[f"{name}.{method}"] = function
    return found


PUBLIC = public()
