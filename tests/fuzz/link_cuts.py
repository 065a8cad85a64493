"""Cut a link at random bytes of random frames; no token may be lost, doubled or changed.

``python -m tests.fuzz.link_cuts CUTS`` in the repository's root writes texts of small models by several methods, over a
relay that resets all connections at random bytes, until there were CUTS cuts.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.validation.link.served import device_of, relayed, served
from tests.validation.tiny_texts import nodes, quarters, table_pair
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import Dssd, FixedLength
from validation.decoding.methods.quantized import KSqs
from validation.decoding.methods.shared_seed import SharedSeed, SharedSeedStreamed
from validation.decoding.methods.single_draft import RandHlm
from validation.link.relay import LinkModel

NEW_TOKENS = 24
METHODS = (
    *(lambda: SharedSeed(3), lambda: FixedLength(3), lambda: RandHlm(0.5), lambda: Dssd(3), lambda: KSqs(2)),
    SharedSeedStreamed,
)


def main(cuts: int) -> None:
    """Write texts until there were ``cuts`` cuts, and compare each with the in-process loop's."""
    rng = np.random.default_rng(11)
    pair = table_pair(*(quarters(rng, nodes(3, 5)) * 0.9 + 0.1 / 3 for _ in range(2)))
    places = np.cumsum(rng.integers(1, 1500, size=cuts)).tolist()
    texts = 0
    with (
        served(pair) as server,
        relayed(LinkModel(1e9, 1e9, cut_bytes=places), server.address) as relay,
        device_of(pair, relay.address, patience_s=30.0) as device,
    ):
        while relay.relay.resets < cuts:
            assert texts < 100 + cuts, "the texts are cut too seldom"
            make, name = METHODS[texts % len(METHODS)], f"text {texts}"
            told: list[int] = []
            found = device.generate(make(), [0], name=name, seed=2, new_tokens=NEW_TOKENS, on_tokens=told.extend)
            (expected,) = decode(pair, [Prompt(name, "0", "")], make(), new_tokens=NEW_TOKENS, seed=2)
            assert told == found.tokens == expected.tokens, (name, make().name)
            texts += 1
    print(f"{relay.relay.resets} cuts, {texts} texts of {len(METHODS)} methods: every token as before")


if __name__ == "__main__":
    main(int(sys.argv[1]))
