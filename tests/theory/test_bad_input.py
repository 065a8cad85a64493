"""No public function accepts a wrong value silently: every argument of every function gets every kind of bad input.

The answer to a stray is a ValueError or TypeError that names the argument and ends with a remedy, or a right answer:
finite, with no warning, within 2 s of CPU and 500 MB. A new public name is tested automatically when `valid_calls.py`
holds one valid call of it.
"""

import dataclasses
import inspect
import math
import re
import resource
import signal
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from hlmtheory import codec, draft_length, serving, uncertainty, wire
from hlmtheory.arguments import ARGUMENTS
from hlmtheory.codec.messages import MixedDraft
from hlmtheory.draft_length.rates import etgr_profile
from hlmtheory.lattice.payload import exact_payload_bits
from hlmtheory.ofdma.shares import kkt_residual, sum_shares

from .public import BY_EITHER, NAMES, PUBLIC, RECORDS
from .strays import Stray, is_number, strays
from .valid_calls import ALLOWED, INFINITE, RECEIVERS, UNDEFINED, VALID_CALLS

SECONDS, BYTES = 2, 500 * 2**20
STATM = Path("/proc/self/statm")


def target(name):
    """Return the object to call: a function, a class, or a method of a new object."""
    if "." not in name:
        return NAMES[name]
    owner, method = name.split(".")
    receiver = RECEIVERS.get(name, RECEIVERS.get(owner))
    return getattr(receiver() if inspect.isfunction(receiver) else receiver, method)


@contextmanager
def limits():
    """Turn warnings into errors; raise if the limits of time and memory are exceeded."""

    def late(*_):
        raise TimeoutError(f"more than {SECONDS} s of CPU")

    before, (soft, hard) = signal.signal(signal.SIGVTALRM, late), resource.getrlimit(resource.RLIMIT_AS)
    if STATM.exists():  # Linux; elsewhere time alone is limited
        held = int(STATM.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + BYTES, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def numbers_in(answer):
    if dataclasses.is_dataclass(answer) and not hasattr(answer, "__array__"):  # a stored array is one of zarr's
        answer = [getattr(answer, field.name) for field in dataclasses.fields(answer)]
    if isinstance(answer, (list, tuple)):
        return [number for part in answer for number in numbers_in(part)]
    kind = np.asarray(answer).dtype.kind
    return np.asarray(answer, dtype=np.float64).ravel().tolist() if kind in "fiub" else []


def named(argument, words):
    return re.search(rf"(?<![A-Za-z_]){argument}(?![A-Za-z_])", words)


def fault(name, call, stray, argument, allowed=False):
    to_blame = [argument] if stray.hopeless else list(call)  # if two numbers do not fit, either may be named
    try:
        with limits():
            answer = target(name)(**call)
    except (ValueError, TypeError) as error:
        words = str(error)
        if not any(named(one, words) for one in to_blame):
            return f"{type(error).__name__} that names no argument: {words}"
        if "; " not in words:
            return f"{type(error).__name__} with no remedy: {words}"
        return f"refused though allowed: {words}" if allowed else None
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    numbers = numbers_in(answer)
    if any(map(math.isnan, numbers)) and name not in UNDEFINED:
        return f"NaN in {answer}"
    if stray.hopeless and not allowed:
        return f"taken, the answer is {answer}"
    if any(map(math.isinf, numbers)) and not allowed and name not in INFINITE:
        return f"infinity in {answer}"
    return None


def faults(name, argument):
    """Return the strays for which an argument's answer is wrong."""
    allowed = ALLOWED.get((name, argument), {})
    target(name)(**VALID_CALLS[name])  # imports do not count as the cost of a stray
    default = inspect.signature(PUBLIC[name]).parameters[argument].default
    for stray in strays(argument, VALID_CALLS[name][argument]):
        optional = default is None and not (name in BY_EITHER and argument == "spectral_efficiency")
        good = stray.label in allowed or (stray.label == "None" and optional)
        if wrong := fault(name, {**VALID_CALLS[name], argument: stray.value}, stray, argument, good):
            yield f"{name}({argument}={stray.label}): {wrong}"


@pytest.mark.parametrize("name", VALID_CALLS)
def test_every_stray_is_refused_by_name_or_answered(name):
    found = [words for argument in VALID_CALLS[name] for words in faults(name, argument)]
    assert not found, "\n".join(found)


WIDER = {
    **dict.fromkeys(("TokenDraft", "MixedDraft"), "token probability"),  # the vocabulary comes later
    **dict.fromkeys(("calibrate_threshold", "held_out_risk"), "losses risk"),  # losses up to any bound
    **dict.fromkeys(("peak_memory", "upload_bits"), "input_tokens output_tokens batch_size"),
    **dict.fromkeys(("acceptance_interval", "AcceptanceTracker"), "accepted"),  # a share
    **dict.fromkeys(("optimal_codecs", "lower_hulls"), "bits"),  # an empty message
    **dict.fromkeys(("goodput", "load_batch", "UncertaintyLine"), "slope batch_size"),
    **{"typical_acceptance": "epsilon", "acceptance_after_update": "distance", "StageCosts": "fixed_s"},
    **{"fit_linear": "groups", "quantised_box": "error", "softplus_gap": "z", "size_classes": "weights"},
    **dict.fromkeys(("LatticeRows", "distortion_bound_sharp"), "top_k"),  # no vocabulary yet, or none
    **{"log_distance_gain": "exponent", "threshold_losses": "uncertainty"},
}
"""Arguments whose domain is wider than that of the claims' argument of the same name."""


@pytest.mark.parametrize("name", VALID_CALLS)
def test_a_value_outside_the_domain_is_refused_by_name(name):
    call = VALID_CALLS[name]
    for argument in (set(call) & set(ARGUMENTS)) - set(WIDER.get(name, "").split()):
        for value in ARGUMENTS[argument].values.wrong(np.asarray(call[argument])) if is_number(call[argument]) else ():
            assert fault(name, {**call, argument: value}, Stray("outside", value), argument) is None, (argument, value)


@pytest.mark.parametrize("name", VALID_CALLS)
def test_instances_that_do_not_broadcast_are_refused_by_name(name):
    """Two of one argument and three of every other. Or answered: 2 steps of 3 stages are a table."""
    taken = {argument: value for argument, value in VALID_CALLS[name].items() if is_number(value)}
    for argument in taken if len(taken) > 1 else ():
        call = VALID_CALLS[name] | {one: [value] * (2 if one == argument else 3) for one, value in taken.items()}
        assert fault(name, call, Stray("two instances", call[argument], hopeless=False), argument) is None, argument


LONGER = {
    name: [argument for argument, value in call.items() if is_number(value) and np.shape(value)[-1:] > (1,)]
    for name, call in VALID_CALLS.items()
}


@pytest.mark.parametrize("name", [name for name, arguments in LONGER.items() if len(arguments) > 1])
def test_rows_of_different_length_are_refused_by_name(name):
    """One of two rows has one more entry, such as a vocabulary with one more token."""
    for argument in LONGER[name]:
        value = np.asarray(VALID_CALLS[name][argument])
        longer = np.concatenate([value, np.zeros_like(value[..., :1])], axis=-1)
        call = {**VALID_CALLS[name], argument: longer}
        assert fault(name, call, Stray("one entry longer", longer, hopeless=False), argument) is None


def test_every_public_name_has_a_valid_call():
    missing = sorted(set(PUBLIC) - set(VALID_CALLS))
    assert not missing, f"add a valid call for {', '.join(missing)} to VALID_CALLS in tests/theory/valid_calls.py"
    assert set(VALID_CALLS) <= set(PUBLIC)


@pytest.mark.parametrize("name", VALID_CALLS)
def test_a_valid_call_names_every_argument_and_is_answered(name):
    other = {"snr"} & set(inspect.signature(PUBLIC[name]).parameters) if name in BY_EITHER else set()
    assert set(VALID_CALLS[name]) | other == set(inspect.signature(PUBLIC[name]).parameters) - {"self"}
    with limits():
        numbers = numbers_in(target(name)(**VALID_CALLS[name]))
    assert all(map(math.isfinite, numbers)) or name in INFINITE


def test_what_is_allowed_is_a_stray_with_a_reason():
    for (name, argument), labels in ALLOWED.items():
        known = {stray.label for stray in strays(argument, VALID_CALLS[name][argument])}
        assert set(labels) <= known, (name, argument)
        assert all(labels.values())
    assert {*INFINITE, *UNDEFINED} <= set(PUBLIC)


CHECKED_WHERE_TAKEN = {"CodecChoice", "DeviceDraft", "DeviceRule", "ServerAnswer"}
"""Records that a function takes and checks itself; test_codec_menu and test_device_policy give it false ones."""


def test_a_record_is_an_answer_alone():
    """No public function takes a record unchecked, so its constructor needs no checks."""
    taken = {
        word
        for function in PUBLIC.values()
        for parameter in inspect.signature(function).parameters.values()
        for word in re.findall(r"\w+", str(parameter.annotation))
    }
    assert RECORDS & taken == CHECKED_WHERE_TAKEN


LONGEST = wire.TruncatedMessage(2**18, [MixedDraft("top-k", [], [], None, 1, 0, 0.5)] * 2**12)
"""The batch of most drafts over the largest vocabulary: 47 kilobytes."""

NAMED = {
    "fit_linear of subnormal β": lambda: uncertainty.fit_linear([0.1, 0.2, 0.3], [1e-310, 2e-310, 3e-310]),
    "fit_linear of one β": lambda: uncertainty.fit_linear([0.1, 0.2, 0.3], [0.5, 0.5, 0.5]),
    "fit_device of one time": lambda: serving.fit_device([1.0, 2.0, 3.0], 1, [0.5, 0.5, 0.5]),
    "sum_shares of tiny bits": lambda: sum_shares([1e-310] * 2, [1.0, 1.0]),
    "kkt_residual of tiny bits": lambda: kkt_residual([1e-310] * 2, [1.0, 1.0], [0.5, 0.5]),
    "optimal_draft_length of 2⁶³ - 1": lambda: draft_length.optimal_draft_length(1.0, 1.0, 0.0, 2**63 - 1),
    "etgr_profile of a number": lambda: etgr_profile(0.5, 1.0, 1.0),
    "exact_payload_bits of V and K of 2⁶²": lambda: exact_payload_bits(2**62, 2**61, 100),
    "exact_payload_bits of K = V = 2⁶²": lambda: exact_payload_bits(2**62, 2**62, 2**24),
    "exact_payload_bits of the most that is sent": lambda: exact_payload_bits(2**18, 2**18, 2**24),
    "exact_payload_bits of K = V = 2⁶² and few units": lambda: exact_payload_bits(2**62, 2**62, 100),
    "decoded_rows of 8 GiB": lambda: codec.decoded_rows(codec.decode(codec.encode(LONGEST))),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_case_found_by_hand(name):
    """The function returns finite numbers, or refuses with the usual message."""
    try:
        with limits():
            found = numbers_in(NAMED[name]())
    except (ValueError, TypeError) as error:
        found = [math.nan] if re.search(r"^[a-z_]+.* must .*; ", str(error)) is None else [0.0]
    assert found
    assert all(map(math.isfinite, found))


def as_tensor(value):
    numeric = isinstance(value, (list, tuple, float)) and np.asarray(value, dtype=object).size
    return torch.as_tensor(np.asarray(value)) if numeric and np.asarray(value).dtype.kind in "fiub" else value


@pytest.mark.parametrize("name", VALID_CALLS)
def test_tensors_beside_lists_are_answered_or_refused_in_words(name):
    """Each argument alone, and all but it, is a tensor; the rest stay lists."""
    call = VALID_CALLS[name]
    tensors = {argument: as_tensor(value) for argument, value in call.items()}
    for argument in call:
        for given in ({**call, argument: tensors[argument]}, {**tensors, argument: call[argument]}):
            with suppress(ValueError, TypeError):
                target(name)(**given)
