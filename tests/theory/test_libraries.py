"""Every public function answers in the library and the floating type of its arrays, and a batch as one by one."""

import dataclasses
import inspect
import itertools

import numpy as np
import pytest

from .kinds import LIBRARIES, kind_of, numbers, to
from .test_bad_input import PUBLIC, target
from .valid_calls import VALID_CALLS

RICIAN = "density distribution quantile outage_probability rate_quantile latency_quantile mean_latency"


def reasons(table):
    return {name: why for why, names in table.items() for name in names.split()}


WIDE = reasons(
    {
        "the stream's numbers are the same bits everywhere": "exponentials race",
        "a guarantee for the float64 settings": "held_out_risk online_regret_bound regret_bound regret_bound_sharp",
        "from whole numbers": "distortion_bound_sharp payload_bits allocate rounds_leak",
        "a quadrature in float64": " ".join(f"Rician.{name}" for name in (*RICIAN.split(), "inverse_efficiency")),
        "an integral of a float64 trace": "TraceLink.transfer_time",
        "searched in float64": "stationary_draft_length draft_length_regret server_rates throughput_shares",
        "an estimate from counts": "acceptance_by_depth tokens_by_length split_tokens",
        "a state that is kept in float64": "ThresholdController.run MassBudgetController.run",
    }
)
"""Functions whose floating answer is always float64, each with the reason."""

NUMPY = {
    *("codec_hulls", "lower_hulls", "plan_user", "queue_rates", "peak_memory", "stage_times"),
    *("step_times", "decoding_steps", "round_line", "goodput", "crossover_batch", "load_batch", "fit_passes"),
    *("size_classes", "inference_latency", "upload_bits", "DevicePolicy.distribution", "DevicePolicy.draft"),
    *("DevicePolicy.decide", "ServerPolicy.verify"),
}
"""Planners and policies: their answers are numpy arrays in float64."""

OWN = {"ThresholdController.roll_back", "MassBudgetController.roll_back"}
"""Methods that answer in the library of their object; test_conformal and test_channel test them."""

ONE_INSTANCE = reasons(
    {
        "one list of thresholds": "confident_threshold threshold_losses calibrate_threshold",
        "one list of bets": "power_to_find smallest_found draws_to_find",
        "one regression": "fit_linear fit_device fit_passes",
        "one row of tasks": "decoding_steps expected_steps",
        "one table of sizes": "size_classes",
        "one text": "optimal_codecs",
        "one plan": "codec_hulls lower_hulls plan_user colocated_plan capacity_gain queue_rates",
        "one position": "DevicePolicy.distribution DevicePolicy.draft DevicePolicy.decide UncertaintyLine.rejection "
        "StreamedDevice.draft",
        "one message": "ServerPolicy.verify ServerSession.verify StreamedServer.verify message_bytes",
        "all counts are of one sample": "distance_ceiling",
        "each instance has random numbers of its own": "sample_uncertainty",
        "its instances are the tests that were announced": "LawTest.update",
        "a number beside rows is one for all": "partial_boxes softplus_gap step_times",
    }
)
"""Functions that take one instance, not a batch, each with the reason."""

TWO_STAGES = {"inference_latency"}
"""Functions whose two tables must have one shape."""

NOT_EMPTY = {"text_risk": "its losses are one sample"}
"""Functions that answer no empty batch so, each with the reason."""

BEYOND_HALF = {
    *("shannon_latency", "synchronisation_time", "TraceLink.transfer_time"),
    *("Rician.latency_quantile", "Rician.mean_latency"),
}
"""Functions whose valid call has a number beyond 65,504, the largest of float16."""


def taken(name):
    parameters = inspect.signature(PUBLIC[name]).parameters
    return [one for one in VALID_CALLS[name] if "Array" in str(parameters[one].annotation).split(".")[-1]]


FUNCTIONS = [name for name in VALID_CALLS if not inspect.isclass(PUBLIC[name]) and taken(name)]

SEVERAL = [name for name in FUNCTIONS if len(taken(name)) > 1]


def numbers_of(answer):
    if dataclasses.is_dataclass(answer):
        answer = [getattr(answer, field.name) for field in dataclasses.fields(answer)]
    if isinstance(answer, (list, tuple)):
        return [value for part in answer for value in numbers_of(part)]
    return [answer] if hasattr(answer, "dtype") or isinstance(answer, (int, float)) else []


def answer(name, change, **fixed):
    """Return the numbers of the answer to the valid call with its arrays changed, or fixed."""
    call = {one: change(value) if one in taken(name) else value for one, value in VALID_CALLS[name].items()} | fixed
    fresh = {one: np.random.default_rng(1) for one, value in call.items() if isinstance(value, np.random.Generator)}
    return numbers_of(target(name)(**call | fresh))


def floats_to(library, dtype):
    return lambda value: to(library, value, dtype if np.asarray(value).dtype.kind == "f" else None)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OWN])
def test_an_answer_is_in_the_library_and_type_of_the_arguments(name):
    plain = answer(name, np.asarray)
    for library, dtype in itertools.product(LIBRARIES, ["float32", "float64"]):
        near = {"rtol": 1e-5 if dtype == "float32" else 1e-12, "err_msg": f"{library} {dtype}"}
        for expected, value in zip(plain, answer(name, floats_to(library, dtype)), strict=True):
            np.testing.assert_allclose(numbers(value), numbers(expected), **near)
            if hasattr(value, "dtype"):
                kind = (dtype if name not in WIDE else "float64") if expected.dtype.kind == "f" else str(expected.dtype)
                wanted = (library, kind) if name not in NUMPY else ("numpy", str(expected.dtype))
                assert kind_of(value) == wanted, (library, dtype)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ONE_INSTANCE])
def test_a_batch_is_answered_as_one_by_one(name):
    """Of two instances: the valid call, and one with the entries of each row in reverse, if that is valid, too."""
    changes = [np.asarray, lambda value: np.flip(np.asarray(value), -1) if np.ndim(value) else np.asarray(value)]
    alone = [answer(name, np.asarray)]
    try:
        alone.append(answer(name, changes[1]))
    except (ValueError, TypeError):
        changes, alone = [np.asarray] * 2, alone * 2
    batch = answer(name, lambda value: np.stack([change(value) for change in changes]))
    for i in range(2):
        for expected, values in zip(alone[i], batch, strict=True):
            value = values[i] if np.ndim(values) > np.ndim(expected) else values
            np.testing.assert_allclose(numbers(value), numbers(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", [name for name in SEVERAL if name not in {*ONE_INSTANCE, *TWO_STAGES}])
def test_leading_dimensions_broadcast(name):
    """Each argument in turn has the leading dimensions (3, 1), and the others (2,)."""
    alone = answer(name, np.asarray)
    for argument in taken(name):
        column = np.stack([np.asarray(VALID_CALLS[name][argument])] * 3)[:, None]
        table = answer(name, lambda value: np.stack([np.asarray(value)] * 2), **{argument: column})
        for expected, values in zip(alone, table, strict=True):
            lead = np.shape(values)[: np.ndim(values) - np.ndim(expected)]
            assert lead in ((3, 2), (3, 1), (2,), ())
            whole = np.broadcast_to(numbers(expected), np.shape(values))
            np.testing.assert_allclose(numbers(values), whole, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in {*ONE_INSTANCE, *NOT_EMPTY}])
def test_a_batch_of_none_has_no_answers(name):
    empty = answer(name, lambda value: np.zeros((0, *np.shape(value)), np.asarray(value).dtype))
    assert [np.shape(value) for value in empty] == [(0, *np.shape(value)) for value in answer(name, np.asarray)]


HALF = [("numpy", "float16"), ("torch", "float16"), ("torch", "bfloat16")]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in OWN])
def test_half_types_are_answered_in_float32(name):
    """Or in float64 where every answer is."""
    plain = answer(name, np.asarray)
    for library, dtype in HALF[2:] if name in BEYOND_HALF else HALF:
        near = {"rtol": 0.05, "atol": 0.02, "err_msg": f"{library} {dtype}"}
        for expected, value in zip(plain, answer(name, floats_to(library, dtype)), strict=True):
            np.testing.assert_allclose(numbers(value), numbers(expected), **near)
            if hasattr(value, "dtype") and expected.dtype.kind == "f":
                kind = "float64" if name in WIDE or name in NUMPY else "float32"
                assert kind_of(value)[1] == kind, (library, dtype)
