"""Figure 2 of flexspec by hand, and the running mean of Figure 1 of ours."""

import numpy as np

from validation.plots.flexspec import computed


def test_fig_2_parts_add_up_to_the_round_of_10_and_k_star_shifts_from_6_to_2():
    found = computed.simulate_lengths(1)
    weak, strong, exact, picks = found["series"]
    assert (weak["best"], strong["best"]) == (2, 6)
    draft = found["statistics"]["draft_ms"]
    for one in (weak, strong):
        total = np.add(one["communication"], one["computation"])
        emitted = np.array([sum(0.8**i for i in range(k + 1)) for k in one["x"]])
        np.testing.assert_allclose(total * emitted, 432.0 + np.array(one["x"]) * (draft + one["wait_ms"]), rtol=1e-3)
        np.testing.assert_allclose(one["computation"] * emitted, 104.6 + np.array(one["x"]) * draft, rtol=1e-3)
        assert one["x"][int(np.argmin(total))] == one["best"]
    assert strong["wait_ms"] == 0.0
    for wait, pick in zip(picks["x"], picks["y"], strict=True):
        assert pick == (8 if 1.25 * (draft + wait) < 432.0 else 1)
    assert np.all(np.diff(exact["y"]) <= 0)
