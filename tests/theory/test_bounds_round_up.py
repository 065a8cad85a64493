"""Every public bound is rounded up to the caller's type: in float32 it is never below the float64 answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .kinds import kind_of, numbers, to
from .public import theory

EPSILON = {"epsilon": 0.1, "learning_rate": 0.3, "threshold": 0.2, "steps": np.array([1, 9, 100])}
"""Settings that are not rows: numbers and int64, answered in float64 whatever the rows."""


def _lists(p, q):
    """Two lists of the two largest entries of each row, with log-probabilities that are the same in both types."""
    return (*_top(p), *_top(q), p.shape[-1])


def _wider(row):
    return (2.0 * row).clip(0.0, 1.0)  # exact in both types


def _top(row):
    token = (-row).argsort(-1)[:, :2]
    if isinstance(row, np.ndarray):
        return token, np.log(np.take_along_axis(row, token, -1).astype(np.float32)).astype(row.dtype)
    return token, row.gather(-1, token).float().log().to(row.dtype)


BOUNDS = {
    "tail_deviation": lambda p, q, u: theory.tail_deviation(q),
    "message_deviation": lambda p, q, u: theory.message_deviation(q),
    "tvd_bound": lambda p, q, u: theory.tvd_bound(p, q, 2),
    "tvd_bound_sharp": lambda p, q, u: theory.tvd_bound_sharp(p, q, 2),
    "online_bound": lambda p, q, u: theory.online_bound(q, 0, u[:, 0], 2, sharpness=5.0),
    "distortion_bound_sharp": lambda p, q, u: theory.distortion_bound_sharp(3, 7),
    "holder_bound": lambda p, q, u: theory.holder_bound(q, 1.0, 0.1, non_acceptance=0.7),
    "holder_bound_discrete": lambda p, q, u: theory.holder_bound_discrete(q, 1.0, 0.1, non_acceptance=0.7),
    "audit_bound": lambda p, q, u: theory.audit_bound(u, 0.5, 0.1),
    "distance_bound": lambda p, q, u: -theory.distance_bound(u, q, 0.9),  # from below: rounded down
    "message_value": lambda p, q, u: theory.message_value(u),
    "match_floor": lambda p, q, u: -theory.match_floor(u),
    "list_match_bound": lambda p, q, u: -theory.list_match_bound(p, q, 2),
    "largest_distance": lambda p, q, u: theory.largest_distance(8 * u),
    "acceptance_after_update": lambda p, q, u: theory.acceptance_after_update(u, q[..., :1]).upper,
    "acceptance_after_update.lower": lambda p, q, u: -theory.acceptance_after_update(u, q[..., :1]).lower,
    "text_distance": lambda p, q, u: theory.text_distance(u, 5),
    "position_bill": lambda p, q, u: theory.position_bill(p, q, u, q[:, None, :]),
    "bill_bound": lambda p, q, u: theory.bill_bound(p, q, u, u),
    "bill_bound_on_device": lambda p, q, u: theory.bill_bound_on_device(q, u, u),
    "cheapest_codec": lambda p, q, u: theory.cheapest_codec(q, 0.3).bias,
    "online_regret_bound": lambda p, q, u: theory.online_regret_bound([9, 5], error=u[..., 0]),
    "regret_bound": lambda p, q, u: theory.regret_bound(**EPSILON),
    "regret_bound_sharp": lambda p, q, u: theory.regret_bound_sharp(**EPSILON),
    "allocate": lambda p, q, u: theory.allocate(q, 40.0).distortion,
    "partial_distance": lambda p, q, u: theory.partial_distance(*_lists(p, q)).total_variation.upper,
    "partial_distance.lower": lambda p, q, u: -theory.partial_distance(*_lists(p, q)).total_variation.lower,
    "partial_deviation": lambda p, q, u: theory.partial_deviation(_lists(p, q)[3], 1, 6).upper,
    "partial_bias": lambda p, q, u: theory.partial_bias(*_lists(p, q), top_k=1).upper,
    "box_distance": lambda p, q, u: theory.box_distance(p / 2, _wider(p), q / 2, _wider(q)).upper,
    "box_deviation": lambda p, q, u: theory.box_deviation(q / 2, _wider(q), 1).upper,
    "box_bias": lambda p, q, u: theory.box_bias(p / 2, _wider(p), q / 2, _wider(q), 1).upper,
    "partial_boxes": lambda p, q, u: theory.partial_boxes(*_lists(p, q), target_error=0.25).target.upper,
}
"""What has the word in its name: lower bounds in Python's own floats, and classes whose fields are tried."""


@pytest.mark.parametrize("name", BOUNDS)
@given(st.sampled_from(("numpy", "torch")), st.integers(0, 2**32 - 1), st.sampled_from((0.2, 1.0, 10.0)))
def test_a_bound_in_float32_is_at_least_that_in_float64(name, library, seed, flat):
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.full(6, flat), size=4).astype(np.float32) + np.float32(1e-30) for _ in range(2))
    u = rng.random((4, 6)).astype(np.float32)
    narrow = BOUNDS[name](*(to(library, value) for value in (p, q, u)))
    wide = BOUNDS[name](*(to(library, value.astype(np.float64)) for value in (p, q, u)))
    assert (numbers(narrow) >= numbers(wide)).all()
    np.testing.assert_allclose(numbers(narrow), numbers(wide), rtol=3e-7, atol=1e-30)
    assert kind_of(narrow)[1] in ("float32", "float64")


def test_the_deviation_of_a_narrow_row_is_no_smaller_than_itself():
    """2 Δ_0 of (.75 + 6e-8, .25) is above .5, and was .5 to the nearest float32."""
    draft = np.float32([0.75 + 6e-8, 0.25])
    assert int((2 * theory.tail_deviation(draft) > 0.5).sum(-1)) == int(theory.certified_size(draft, 0.5)) == 1
