"""A device and a server run one policy.json: the device keeps a draft or sends bytes, the server accepts or replaces.

Run it with a policy of your own: ``python examples/device_and_server.py policy.json``. The models are made up.
"""

import sys
from pathlib import Path

import numpy as np

from hlmtheory import wire

rule, line = wire.threshold_rule(4, threshold=0.2), wire.UncertaintyLine(1.0, 0.0)  # keep drafts of low uncertainty
mine = wire.DevicePolicy(1000, 1.0, rule, wire.LatticeRows(100, top_k=32), line)
text = Path(sys.argv[1]).read_text(encoding="utf-8") if len(sys.argv) > 1 else mine.to_json()
device = wire.DevicePolicy.from_json(text)
server = wire.ServerPolicy(wire.DevicePolicy.from_json(text))

CONTEXTS, rng = 64, np.random.default_rng(0)
target_logits = rng.normal(scale=6, size=(CONTEXTS, device.vocabulary))  # of a token, by the last one modulo CONTEXTS
draft_logits = target_logits + rng.normal(size=target_logits.shape)
warm = wire.DevicePolicy(device.vocabulary, device.temperature, wire.threshold_rule(0), wire.DraftProbabilities())
target = np.stack([warm.distribution(row) for row in target_logits])

tokens, kept, rounds, sent = [0], 0, 0, 0
while len(tokens) < 300:
    drafts, ahead = [], tokens[-1:]
    while len(drafts) < device.rule.draft_length:
        drafts.append(device.draft(draft_logits[ahead[-1] % CONTEXTS], place=len(drafts) + 1, rng=rng))
        ahead.append(drafts[-1].token)
        if drafts[-1].skip:
            tokens, kept = [*tokens, ahead[-1]], kept + 1
            break
    else:
        message = device.message(drafts)  # up to the server, which reads its model once for all drafts
        answer = server.verify(message, target[np.array(ahead) % CONTEXTS], rng=rng)  # and back to the device
        tokens += device.tokens(drafts, answer, rng=rng)
        rounds, sent = rounds + 1, sent + len(message)
print(f"{len(tokens)} tokens: {kept} kept without verification, the others by {rounds} messages of {sent} bytes")
