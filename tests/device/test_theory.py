"""Every claim's check and every public function that takes arrays, on the stand-in accelerator's tensors."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import array_api_compat.torch
import numpy as np
import pytest
import torch

import hlmtheory
from hlmtheory.claims import Claim
from tests.device.stand_in import Far, far
from tests.theory.test_bad_input import PUBLIC, target
from tests.theory.valid_calls import VALID_CALLS

Move = Callable[[Any], torch.Tensor]

LEFT_OUT = {
    "takes numbers of Python": {
        "AcceptanceTracker",
        "AcceptanceTracker.update",
        "CodecMenu",
        "Device",
        "ModelShape",
        "SharedServer",
        "StageCosts",
        "Task",
        "exact_payload_bits",
        "CertifiedAnswers",
        "CertifiedRows",
        "DevicePolicy",
        "DraftProbabilities",
        "Guarantee",
        "LatticeRows",
        "SeededTokens",
        "StreamedDevice",
        "StreamedServer",
        "StreamedTokens",
        "DeviceSession",
        "ServerPolicy",
        "ServerSession",
        "UncertaintyLine",
        "envelope_bits",
        "threshold_rule",
    },
    "takes objects made of numbers of Python": {
        "Service",
        "SharedServer.alone_s",
        "SharedServer.load_s",
        "StageCosts.fixed_time",
        "lower_bound",
        "plan",
        "plan_latency",
        "plan_served",
        "plan_users",
    },
    "takes messages, whose arrays are on the host, or bytes": {
        "LatticeMessage",
        "MixedMessage",
        "TruncatedMessage",
        "TokenDraft",
        "TokenMessage",
        "DevicePolicy.message",
        "DevicePolicy.server_row",
        "DevicePolicy.tokens",
        "DeviceSession.message",
        "DeviceSession.tokens",
        "ServerPolicy.received",
        "ServerSession.received",
        "StreamedDevice.tokens",
        "StreamedServer.receive",
        "decode",
        "decoded_rows",
        "encode",
    },
    "is for one link, and a link of the trials is two": {"GilbertElliott.sample"},
    "takes a path": {"open_trace"},
}
"""The public functions that are not tried, by reason."""

BEFORE = {
    "ThresholdController.roll_back": "ThresholdController.step",
    "MassBudgetController.roll_back": "MassBudgetController.step",
    "StreamedServer.verify": "StreamedServer.receive",
}
"""The calls that an object needs before a method."""


def near(value: Any) -> torch.Tensor:
    """Return the values as a tensor of the host."""
    return torch.asarray(np.array(value))


@pytest.mark.parametrize("claim", hlmtheory.all_claims().values(), ids=lambda claim: claim.id)
def test_a_claim_has_the_verdict_of_the_host(claim: Claim) -> None:
    one = claim.refuted or claim.attained.instance
    instance = {name: np.stack([value, value]) for name, value in one.items()}  # a number may be on either device
    ours, theirs = (claim.check({name: to(value) for name, value in instance.items()}) for to in (near, far))
    assert ours.status.tolist() == theirs.status.tolist(), (ours, theirs)
    np.testing.assert_allclose(theirs.lhs, ours.lhs, rtol=1e-9)
    np.testing.assert_allclose(theirs.rhs, ours.rhs, rtol=1e-9)


def test_every_public_function_is_tried_or_left_out() -> None:
    left_out = set().union(*LEFT_OUT.values())
    missing = sorted(set(PUBLIC) - set(tried()) - left_out)
    assert not missing, f"annotate an array of {', '.join(missing)} as Array, or name them in LEFT_OUT of {__file__}"
    assert left_out <= set(PUBLIC)


def test_what_is_left_out_takes_no_array() -> None:
    taking = {name for reason in LEFT_OUT.values() for name in reason if takes(name) or takes(name.partition(".")[0])}
    assert taking == {"GilbertElliott.sample"}, f"try {', '.join(sorted(taking))}: an argument is annotated as an array"


def takes(name: str) -> list[str]:
    """Return the arguments of a public function that are annotated as arrays: Array, Integers or Any."""
    parameters = inspect.signature(PUBLIC[name]).parameters
    given = (parameters[one] for one in VALID_CALLS.get(name, ()))
    return [one.name for one in given if re.search(r"\b(Array|Integers|Any)\b", str(one.annotation))]


def tried() -> list[str]:
    """Return the functions that take an array, themselves or in their object's constructor, and are not left out."""
    left_out = set().union(*LEFT_OUT.values())
    return [name for name in PUBLIC if name not in left_out and (takes(name) or takes(name.partition(".")[0]))]


@pytest.mark.parametrize("name", tried())
def test_a_call_gives_the_answer_of_the_host(name: str) -> None:
    """The answer on the device equals the host's, and is on the device if the host's answer is a tensor."""
    _compare(*(_called(name, to) for to in (near, far)))


def _called(name: str, to: Move) -> Any:
    """Return the answer to the valid call; methods' objects and links are made on the device."""
    owner, _, method = name.partition(".")
    values = _moved(name, to)
    if "link" in values:
        values["link"] = _called("Rician", to)
    if not method:
        return target(name)(**values)
    receiver = _called(owner, to)
    if name in BEFORE:
        getattr(receiver, BEFORE[name].partition(".")[2])(**_moved(BEFORE[name], to))
    return getattr(receiver, method)(**values)


def _moved(name: str, to: Move) -> dict[str, Any]:
    """Return the valid call with lists as tensors; without lists, numbers that may be arrays as tensors of two."""
    values = copy.deepcopy(VALID_CALLS[name])  # with generators in their initial state
    lists = {one: values[one] for one in takes(name) if _is_numbers(values[one])}
    if not lists:
        lists = {one: [values[one]] * 2 for one in takes(name) if type(values[one]) in (int, float)}
    return {**values, **{one: to(value) for one, value in lists.items()}}


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list | np.ndarray) and np.asarray(value).dtype.kind in "bif"


def _compare(ours: Any, theirs: Any) -> None:
    """Compare two answers, tensor by tensor."""
    if isinstance(ours, torch.Tensor):
        assert isinstance(theirs, Far), f"the answer lies on {getattr(theirs, 'device', type(theirs))}"
        np.testing.assert_allclose(theirs.host, ours, rtol=1e-9)
    elif isinstance(ours, tuple):
        for one, other in zip(ours, theirs, strict=True):
            _compare(one, other)
    elif dataclasses.is_dataclass(ours):
        for field in dataclasses.fields(ours):
            _compare(getattr(ours, field.name), getattr(theirs, field.name))
    elif isinstance(ours, np.ndarray):
        np.testing.assert_allclose(theirs, ours, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(tried()))
def test_an_array_of_the_call_is_on_the_device(name: str) -> None:
    owner = name.partition(".")[0]
    given = [*_moved(name, far).values(), *(_moved(owner, far).values() if owner in VALID_CALLS else ())]
    assert any(isinstance(value, Far) for value in given), f"no argument of {name} is an array: see VALID_CALLS"


# ------------------------------------------------------------------------------------------------------ mutants

MUTANTS = {
    "arange": (
        "output_distribution",
        "tree_distribution",
        "audit_bound",
        "rejection_risk",
        "tail_deviation",
        "allocate",
        "ThresholdController.step",
        "MassBudgetController.step",
        "split_tokens",
        "optimal_draft_length_profile",
        "etgr_profile",
        "distance_bound",
        "law_wealth",
    ),
    "asarray": ("confident_threshold", "acceptance_interval", "payload_bits", "Rician.mean_latency", "fading_skip"),
}
"""Functions that use a constructor of the array API with the device of their arguments; at least one of each module."""


@pytest.mark.parametrize(("constructor", "name"), [(key, name) for key, names in MUTANTS.items() for name in names])
def test_an_array_that_stays_on_the_host_is_refused(
    constructor: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The constructor is broken so that it forgets the device, as code without ``device=`` does."""
    made = getattr(array_api_compat.torch, constructor)

    def forgets(*values: Any, device: Any = None, **options: Any) -> Any:
        return made(*values, **options, **({} if device is None else {"device": "cpu"}))

    _called(name, far)  # works
    monkeypatch.setattr(array_api_compat.torch, constructor, forgets)
    with pytest.raises((RuntimeError, TypeError, AttributeError), match=r"device|'contiguous'|far:0"):
        _called(name, far)


# ------------------------------------------------------------------------- objects that hold what arrays gave
