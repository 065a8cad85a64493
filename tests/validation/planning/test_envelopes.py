"""The bits of envelopes in a plan: those of real sealed messages and answers, for each exchange."""

import numpy as np
import pytest

from hlmtheory import wire
from validation.decoding.methods.rows import OURS
from validation.planning.option import SEALS, exact, sealed
from validation.planning.rounds import COUNTS


@pytest.mark.parametrize(("seal", "key"), [("checksum", None), ("hmac", b"k" * 16)])
def test_a_plan_charges_what_a_session_adds(seal, key):
    rng = np.random.default_rng(0)
    bare = wire.DevicePolicy(8, 1.0, wire.threshold_rule(2), wire.LatticeRows(16, top_k=4))
    device, server = (side(bare, session=b"text 0001", key=key) for side in (wire.DeviceSession, wire.ServerSession))
    for n in range(128):
        drafts = [bare.draft(rng.normal(size=8), rng=rng)]
        message = device.message(drafts)
        answer = server.verify(message, np.full((2, 8), 0.125), rng=rng)
        device.tokens(answer, rng=rng)
        if n in (0, 127):
            assert 8 * (len(message) - len(bare.message(drafts))) == SEALS[seal]
            assert 8 * (len(answer) - 1) == SEALS[seal]  # 4 bits: how many of one draft, and a token of 8
    before = exact(OURS, "K = 3", np.arange(1.0, 2 * len(COUNTS) + 1).reshape(2, -1))
    (after,) = sealed([before], seal)
    grown = after.counts - before.counts
    for column, name in enumerate(COUNTS):
        many = before.counts[:, COUNTS.index("exchanges")] if name in ("up_bits", "down_bits") else 0.0
        np.testing.assert_array_equal(grown[:, column], SEALS[seal] * many + np.zeros(2))
