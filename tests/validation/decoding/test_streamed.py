"""A device that never stops drafting: the same text, and the times of a simulation that has its own formula."""

import numpy as np
import pytest

from hlmtheory.channel import Rayleigh
from hlmtheory.shared_seed import streamed_rate
from tests.validation.tiny_texts import PROMPTS
from tests.validation.unpacking import Unpacker
from validation.decoding.links import FadingLink, Way
from validation.decoding.loop import PAPER_TIMES, decode
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.random_streams import Noise
from validation.decoding.records import Round
from validation.decoding.streamed import Sizes, replay, stream
from validation.decoding.wire import index_bits

LINKS: list[FadingLink | None] = [
    None,
    FadingLink("slow", 1e3, 1.0, Way(propagation_s=9.0)),
    FadingLink("rayleigh", 1e6, Rayleigh(0.1), Way(0.01, 1e6)),
]


def seconds(rounds: list[Round]) -> float:
    return sum(one.draft_s + one.target_s + one.link_s - one.overlap_s for one in rounds)


def still(rate_bps: float, way: Way) -> FadingLink:
    return FadingLink("still", rate_bps, 1.0, way)


def test_a_short_text_by_hand():
    """t_d = 2, one way 3, V = 5, a text of four: match, mismatch, match, match.

    Drafts 0 to 3 are made at 2, 4, 6, 8 and arrive at 5, 7, 9, 11. Pass 1 reads draft 0 from 5 to 10, pass 2 drafts 1
    and 2 from 10 to 15 and finds the mismatch at 1. Draft 3 has arrived meanwhile and is dropped. The device learns it
    at 18, makes drafts 2 and 3 by 20 and 22, which arrive at 23 and 25. Pass 3 reads draft 2 until 28, pass 4 draft 3
    until 33; its answer arrives at 36.
    """
    channel = still(1e30, Way(3.0)).open(_noise())
    rounds = replay([True, False, True, True], Sizes(2.0, 5.0, 1.0, 1, 1), 0, channel)
    assert [(one.position, one.drafted, one.accepted, one.resampled) for one in rounds] == [
        *((0, 1, 1, 0), (1, 2, 0, 1), (2, 2, 1, 0), (3, 1, 1, 0))
    ]
    assert [one.draft_passes for one in rounds] == [4, 0, 2, 0]
    np.testing.assert_allclose(np.cumsum([seconds([one]) for one in rounds]), [13.0, 18.0, 31.0, 36.0])


def test_a_slow_uplink_sends_one_draft_at_a_time_and_drops_what_has_not_begun():
    """t_d = 1, a draft takes 4 on the link, V = 2, no propagation; the first of three drafts fails.

    Draft 0 is made at 1, arrives at 5, is read until 7. Draft 1 is on the link from 5 to 9 and is finished, draft 2
    never begins. Draft 1 is made again at 8, waits for the link until 9, arrives at 13; draft 2 is sent from 13 to 17
    and read until 19.
    """
    channel = still(2.0, Way()).open(_noise())  # 8 bits take 4 s
    rounds = replay([False, True, True], Sizes(1.0, 2.0, 8.0, 1, 0), 0, channel)
    assert [(one.drafted, one.accepted, one.resampled) for one in rounds] == [(1, 0, 1), (2, 1, 0), (1, 1, 0)]
    np.testing.assert_allclose(np.cumsum([seconds([one]) for one in rounds]), [7.0, 15.0, 19.0])


def _noise() -> object:
    return Noise(1, ["text"], 1)


@pytest.mark.parametrize(
    ("acceptance", "draft_s", "trip_s", "target_s"),
    [
        (0.3, 0.012, 0.02, 0.03),
        (0.663, 0.012, 0.02, 0.03),
        (0.9, 0.012, 0.1, 0.03),
        (0.663, 0.05, 0.02, 0.03),
        (0.8, 0.01, 0.005, 0.1),
    ],
)
def test_the_simulated_speed_is_that_of_the_formula(acceptance, draft_s, trip_s, target_s):
    found = streamed_rate(acceptance, draft_s, trip_s, target_s)
    matches = [*(np.random.default_rng(8).random(int(5_000 / (1.0 - acceptance))) < acceptance).tolist(), False]
    rounds = replay(matches, Sizes(draft_s, target_s), 0, still(1e30, Way(trip_s / 2)).open(_noise()))
    ends = np.cumsum([seconds([one]) for one in rounds])
    positions = np.cumsum([one.accepted + one.resampled for one in rounds])
    failed = [bool(one.resampled) for one in rounds]
    spent, tokens = (np.diff(column[failed], prepend=0) for column in (ends, positions))
    off = spent - tokens / float(found.rate)  # its mean is 0 if the formula holds
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(len(off))
    assert 4 * off.std() / np.sqrt(len(off)) < 0.05 * spent.mean()  # so the test would see an error of 5%
    passes = len(rounds) / len(matches)
    assert passes == pytest.approx(float(found.passes), rel=0.03)


def test_a_message_is_a_bit_and_a_token_and_the_record_counts_all_that_are_sent(pair):
    sent = []

    class Watched(SharedSeedStreamed):
        def message(self, drafts):
            made = super().message(drafts)
            sent.append(([draft.token for draft in drafts], made))
            return made

    rows = decode(pair, PROMPTS, Watched(), new_tokens=12, link=LINKS[2], times=PAPER_TIMES)
    width = index_bits(pair.vocabulary)
    for tokens, message in sent:
        each = len(message.payload) // len(tokens)
        found = [Unpacker(message.payload[i * each : (i + 1) * each]) for i in range(len(tokens))]
        assert [(one.take(1), one.take(width)) for one in found] == [(0, token) for token in tokens]
        assert message.bits == (1 + width) * len(tokens)
    for row in rows:
        assert row.total("accepted") + row.total("resampled") == len(row.tokens)
        assert row.total("bonus") == 0
        assert row.total("drafted") >= len(row.tokens)
        assert row.total("draft_passes") >= row.total("drafted")
        assert row.total("bits") == (1 + width) * row.total("drafted")
        assert row.total("bytes") == -(-(1 + width) // 8) * row.total("drafted")
        assert row.total("overlap_s") > 0
        assert row.seconds < sum(row.total(name) for name in ("draft_s", "target_s", "link_s"))


def test_a_text_without_tokens_has_no_rounds_and_one_without_a_draft_everywhere_is_refused(pair):
    assert decode(pair, PROMPTS[:1], SharedSeedStreamed(), new_tokens=0)[0].rounds == []
    row = next(row for row in decode(pair, PROMPTS, SharedSeed(1), new_tokens=12) if row.total("bonus"))
    with pytest.raises(ValueError, match=r"drafted \d+ of 12 tokens; every one needs a draft"):
        stream(row, 0, None)
