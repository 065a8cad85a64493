"""How many probabilities a device has to send for a guaranteed bias, and the bytes they take.

Run it with arrays of your own: ``python examples/send_fewer_probabilities.py draft.npy target.npy`` (logits, (N, V)).
Without them it makes peaked rows up.
"""

import sys

import numpy as np

import hlmtheory as hlm

BIAS, BITS = 0.01, 16

if len(sys.argv) == 3:
    draft_logits, target_logits = (np.load(name) for name in sys.argv[1:])
else:
    rng = np.random.default_rng(0)
    draft_logits = rng.normal(scale=6, size=(20, 4096))
    target_logits = draft_logits + rng.normal(size=draft_logits.shape)

draft, target = hlm.softmax(draft_logits), hlm.softmax(target_logits)
tokens = draft.argmax(axis=-1)  # or the tokens that your device drew
sizes = hlm.certified_size(draft, BIAS, bits_per_probability=BITS)  # known to the device alone
sent = [
    hlm.encode(hlm.codec.truncated_message(row, top_k=int(k), token=int(token), bits=BITS))
    for row, k, token in zip(draft, sizes, tokens, strict=True)
]
received = np.stack([hlm.codec.decoded_rows(hlm.decode(message))[0] for message in sent])

emitted = hlm.truncation.decoded_output_distribution(target, draft, received)  # what the server then writes
bias = np.abs(emitted - target).sum(axis=-1)
whole = int(hlm.channel.vocabulary_payload_bits(draft.shape[-1], BITS, index=False)) // 8
print(f"probabilities sent: {sizes.mean():.0f} of {draft.shape[-1]}")
print(f"bytes: {np.mean([len(message) for message in sent]):.0f} of {whole}")
print(f"bias: {bias.max():.5f}, guaranteed at most {BIAS}")
assert bias.max() <= BIAS
