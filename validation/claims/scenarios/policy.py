"""Simulated instances for the claims of policy: users with few rows, users of one band, and fading links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlmtheory.claims import Instance

Rng = np.random.Generator
Row = np.ndarray[Any, Any]

COUNT = 60
"""Instances in a batch; those of users are solved one by one."""
FEW = 20
"""Instances in a batch of claims whose sides solve many plans."""

USERS, ROWS, MESSAGES, LONGEST, PLANS, TASKS, TOKENS = 5, 4, 5, 4, 6, 4, 5


def _between(rng: Rng, low: float, high: float, shape: Any = COUNT) -> Row:
    """Return log-uniform numbers."""
    return np.asarray(np.exp(rng.uniform(np.log(low), np.log(high), shape)))


def _shares(rng: Rng) -> dict[str, Row]:
    """Return users with tokens, fixed times of 10 to 300 ms, and air times of 1 ms to 1 s."""
    shape = (COUNT, USERS)
    return {
        "tokens": rng.uniform(1.0, 6.0, shape),
        "fixed_s": _between(rng, 0.01, 0.3, shape),
        "band_s": _between(rng, 0.001, 1.0, shape),
        "weights": _between(rng, 0.25, 4.0, shape),
    }


def _competing_shares(rng: Rng) -> Instance:
    return {**_shares(rng), "parts": _between(rng, 0.01, 1.0, (COUNT, USERS))}


def _messages(rng: Rng) -> dict[str, Row]:
    shape = (COUNT, ROWS, MESSAGES)
    risk = rng.beta(0.5, 3.0, shape) * (rng.random(shape) < 0.8)
    return {"bits": np.floor(_between(rng, 10.0, 1e4, shape)), "risk": risk}


def _user(rng: Rng) -> dict[str, Row]:
    """Return users with four rows, at 0.1 to 30 Mbit/s."""
    return {
        **_messages(rng),
        "rejection": rng.beta(0.5, 1.5, (COUNT, ROWS)),
        "acceptances": rng.uniform(0.2, 1.0, (COUNT, LONGEST)),
        "draft_s": _between(rng, 0.003, 0.03),
        "verify_s": _between(rng, 0.01, 0.1),
        "seconds_per_bit": _between(rng, 3e-8, 1e-5),
    }


def _competing_plan(rng: Rng) -> dict[str, Row]:
    return {
        **_user(rng),
        "draft_length": rng.integers(0, LONGEST + 1, (COUNT, 2)),
        "skips": rng.integers(0, 2, (COUNT, ROWS)),
        "first": rng.integers(0, MESSAGES, (COUNT, ROWS)),
        "later": rng.integers(0, MESSAGES, (COUNT, LONGEST - 1, ROWS)),
        "mix": np.where(rng.random(COUNT) < 0.5, 1.0, rng.random(COUNT)),
    }


def _world(rng: Rng) -> Instance:
    """Return two positions of both models; at half of them the draft model is sure of a safe token."""
    shape = (COUNT, 2, TOKENS)
    safe = np.where(rng.random((COUNT, 2, 1)) < 0.5, 0.0, rng.uniform(0.5, 1.0, (COUNT, 2, 1)))
    rows = [safe * np.eye(1, TOKENS) + (1.0 - safe) * rng.dirichlet(np.full(TOKENS, 0.5), shape[:2]) for _ in range(2)]
    user = _user(rng)
    return {
        "target_rows": rows[0],
        "draft_rows": rows[1],
        "kind": rng.integers(0, 4, COUNT),
        "draft_length": rng.integers(0, 3, COUNT),
        **{name: user[name] for name in ("draft_s", "verify_s")},
        "seconds_per_bit": _between(rng, 1e-6, 1e-3),
        "limit": _between(rng, 0.003, 0.3),
    }


def _limited(of: Callable[[Rng], dict[str, Row]]) -> Callable[[Rng], Instance]:
    return lambda rng: {**of(rng), "limit": _between(rng, 0.01, 1.0)}


def _line(rng: Rng) -> Instance:
    shape = (COUNT, PLANS)
    return {
        "tokens": rng.uniform(1.0, 6.0, shape),
        "fixed_s": _between(rng, 0.01, 0.3, shape),
        "plan_bits": _between(rng, 10.0, 1e5, shape),
        "z": _between(rng, 1e-8, 1e-5),
        "stretch": _between(rng, 1.0, 100.0),
        "mix": rng.random(COUNT),
    }


def _band(rng: Rng) -> dict[str, Row]:
    """Return users of one band with several plans each; the seconds of a bit on the whole band are the unit of bits."""
    shape = (COUNT, USERS, PLANS)
    return {
        "tokens": rng.uniform(1.0, 6.0, shape),
        "fixed_s": _between(rng, 0.01, 0.3, shape),
        "plan_bits": _between(rng, 1e-4, 1.0, shape),
        "weights": _between(rng, 0.25, 4.0, (COUNT, USERS)),
        "parts": _between(rng, 0.01, 1.0, (COUNT, USERS)),
        "choice": rng.integers(0, PLANS, (COUNT, USERS)),
    }


def _at_price(rng: Rng) -> Instance:
    return {**_band(rng), "band_price": _between(rng, 0.1, 1e3)}


def _with_server(rng: Rng) -> dict[str, Row]:
    shape = (COUNT, USERS)
    return {
        **_band(rng),
        "band_price": _between(rng, 0.1, 1e3),
        "plan_load": _between(rng, 0.003, 0.3, (*shape, PLANS)),
        "use": np.where(rng.random(shape) < 0.7, 1.0, rng.random(shape)),
        "server_price": np.where(rng.random(COUNT) < 0.2, 0.0, _between(rng, 0.1, 1e3)),
    }


def _with_anchor(rng: Rng) -> Instance:
    return {**_with_server(rng), "anchor": _between(rng, 1.0, 100.0, (COUNT, USERS))}


def _at_server(rng: Rng) -> dict[str, Row]:
    """Return users who need 0 to 3% of a server for each token a second; some need none."""
    shape = (COUNT, USERS)
    return {
        "most": _between(rng, 1.0, 100.0, shape),
        "load_s": np.where(rng.random(shape) < 0.1, 0.0, _between(rng, 1e-3, 0.03, shape)),
        "weights": _between(rng, 0.25, 4.0, shape),
        "use": np.where(rng.random(shape) < 0.7, 1.0, rng.random(shape)),
    }


def _queue(rng: Rng) -> Instance:
    return {
        "away_s": _between(rng, 1e-3, 0.3, (COUNT, USERS, MESSAGES)),
        "draft_lengths": rng.integers(0, 8, (COUNT, USERS)),
        "pass_s": _between(rng, 0.01, 0.1),
        "token_s": np.where(rng.random(COUNT) < 0.5, 0.0, _between(rng, 1e-4, 1e-2)),
        "batch": rng.integers(1, USERS + 2, COUNT),
    }


def _own_draft(rng: Rng) -> dict[str, Row]:
    """Return servers with passes of 10 to 100 ms, and draft tokens of 1 to 30 ms there."""
    return {
        "acceptances": rng.uniform(0.2, 1.0, (COUNT, LONGEST)),
        "server_draft_s": _between(rng, 0.001, 0.03),
        "pass_s": _between(rng, 0.01, 0.1),
        "token_s": np.where(rng.random(COUNT) < 0.5, 0.0, _between(rng, 1e-4, 1e-2)),
    }


def _slower_device(rng: Rng) -> Instance:
    own, shape = _own_draft(rng), (COUNT, ROWS)
    rounds = {"draft_lengths": rng.integers(0, LONGEST + 1, shape), "parts": _between(rng, 0.01, 1.0, shape)}
    other = np.where(rng.random(shape) < 0.3, 0.0, _between(rng, 1e-4, 0.1, shape))
    return {**own, **rounds, "other_s": other, "draft_s": own["server_draft_s"] * rng.uniform(1.0, 4.0, COUNT)}


def _full_server(rng: Rng) -> Instance:
    own, users, length = _own_draft(rng), rng.integers(1, USERS + 1, COUNT), rng.integers(0, 8, COUNT)
    del own["acceptances"]
    most = (users - 1) * (own["pass_s"] + own["token_s"] * (length + 1))
    return {**own, "users": users, "draft_length": length, "away_s": most * rng.uniform(0.0, 0.99, COUNT)}


def _batched_server(rng: Rng) -> Instance:
    return {**_own_draft(rng), "batch": rng.integers(1, 9, COUNT)}


def _patient(rng: Rng) -> Instance:
    return {**_queue(rng), "company": rng.integers(1, USERS + 2, COUNT), "patience_s": _between(rng, 1e-3, 0.5)}


def _fading(rng: Rng) -> Instance:
    return {
        "mean_snr": _between(rng, 0.1, 1e3),
        "k_factor": np.where(rng.random(COUNT) < 0.3, 0.0, _between(rng, 0.1, 30.0)),
        "bits": _between(rng, 100.0, 1e6),
        "bandwidth_hz": _between(rng, 1e5, 1e8),
        "server_s": _between(rng, 1e-3, 0.1),
        "worth_s": _between(rng, 1e-3, 3.0),
        "cut": _between(rng, 1e-3, 1e3),
    }


def _priced(rng: Rng) -> Instance:
    return {**_messages(rng), "bit_price": _between(rng, 1e-6, 1.0), "risk_price": _between(rng, 1e-3, 1e3)}


def _block_fading(rng: Rng) -> dict[str, Row]:
    return {
        "mean_snr": _between(rng, 0.5, 100.0),
        "k_factor": np.where(rng.random(COUNT) < 0.5, 0.0, _between(rng, 0.1, 10.0)),
        "bandwidth_hz": _between(rng, 1e5, 1e7),
    }


def _without(of: Callable[[Rng], dict[str, Row]], *names: str) -> Callable[[Rng], dict[str, Row]]:
    return lambda rng: {name: value for name, value in of(rng).items() if name not in names}


def _with_limit(of: Callable[[Rng], dict[str, Row]], least: float = 0.01) -> Callable[[Rng], dict[str, Row]]:
    return lambda rng: {**of(rng), "limit": _between(rng, least, 1.0)}


def _late(rng: Rng) -> Instance:
    user = _without(_with_limit(_user), "seconds_per_bit")(rng)
    return {**user, **_block_fading(rng), "round_limit_s": _between(rng, 0.03, 1.0)}


def _late_rival(rng: Rng) -> Instance:
    rival = _without(_with_limit(_competing_plan, 0.1), "seconds_per_bit")(rng)
    return {**rival, **_block_fading(rng), "round_limit_s": _between(rng, 0.1, 1.0)}


def _money(rng: Rng) -> dict[str, Row]:
    prices = {name: _between(rng, 0.01, 10.0) for name in ("server_price", "joule_price")}
    return {**_user(rng), "round_j": _between(rng, 0.01, 1.0), **prices}


def _money_rival(rng: Rng) -> Instance:
    return {**_without(_competing_plan, "skips")(rng), **_money(rng)}


def _blocks(rng: Rng) -> Instance:
    user = _without(_with_limit(_user), "seconds_per_bit")(rng)
    return {**user, **_block_fading(rng), "coherence_s": _between(rng, 1e-3, 0.1)}


def _blocks_rival(rng: Rng) -> Instance:
    user = _without(_with_limit(_competing_plan, 0.1), "seconds_per_bit")(rng)
    return {**user, **_block_fading(rng), "coherence_s": _between(rng, 1e-3, 0.1)}


def _batched(rng: Rng) -> dict[str, Row]:
    return {
        **_messages(rng),
        "acceptance": rng.uniform(0.2, 0.95, COUNT),
        "seconds_per_bit": _between(rng, 3e-8, 1e-5),
        "input_tokens": rng.integers(1, 60, (COUNT, TASKS)),
        "output_tokens": rng.integers(1, 40, (COUNT, TASKS)),
    }


def _batched_rival(rng: Rng) -> Instance:
    return {
        **_with_limit(_batched)(rng),
        "draft_length": rng.integers(0, 3, COUNT),
        "first": rng.integers(0, MESSAGES, (COUNT, ROWS)),
        "later": rng.integers(0, MESSAGES, (COUNT, ROWS)),
        "labels": rng.integers(0, TASKS, (COUNT, TASKS)),
    }


def _few(of: Callable[[Rng], Instance]) -> Callable[[Rng], Instance]:
    """Take the first instances of a batch, for claims whose sides solve many plans."""
    return lambda rng: {name: value[:FEW] for name, value in of(rng).items()}


INSTANCES: dict[str, Callable[[Rng], Instance]] = {
    **dict.fromkeys(("policy.linear_shares", "policy.log_shares", "policy.even_shares"), _competing_shares),
    **dict.fromkeys(("policy.linear_kkt", "policy.log_kkt", "policy.even_kkt"), _shares),
    "policy.share_loss": _competing_shares,
    "policy.hull": _priced,
    "policy.user_bound": _limited(_competing_plan),
    "policy.user_optimum": _competing_plan,
    "policy.user_residual": _user,
    **dict.fromkeys(("policy.user_rate", "policy.user_risk", "policy.user_limit"), lambda rng: _few(_world)(rng)),
    "policy.rate_chord": _line,
    "policy.log_rate_chord": _line,
    "policy.band_price": _at_price,
    "policy.band_log_price": _at_price,
    "policy.band_grid": _band,
    "policy.band_even": _band,
    "policy.fading_cut": _fading,
    "policy.served_price": _with_server,
    "policy.served_log_price": _with_anchor,
    **dict.fromkeys(("policy.server_linear", "policy.server_log", "policy.server_even"), _at_server),
    **dict.fromkeys(
        ("policy.server_linear_dual", "policy.server_log_dual", "policy.server_even_dual"), _without(_at_server, "use")
    ),
    **dict.fromkeys(("policy.server_capacity", "policy.server_response"), _queue),
    "policy.colocated_speed": _slower_device,
    "policy.colocated_capacity": _full_server,
    **dict.fromkeys(("policy.colocated_gain", "policy.colocated_gain_floor"), _batched_server),
    "policy.server_patience": _patient,
    "policy.goodput_bound": _few(_late_rival),
    "policy.goodput_residual": _few(_late),
    "policy.cost_optimum": _money_rival,
    "policy.cost_residual": _money,
    "policy.coherence_floor": _few(_blocks_rival),
    "policy.coherence_ceiling": _few(_blocks),
    "policy.batched_bound": _few(_batched_rival),
    "policy.batched_residual": _few(_batched),
}
"""Generator of a batch of instances, by claim id."""
