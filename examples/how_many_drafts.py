"""How many tokens to draft on your link before the server is asked, and what a wrong guess costs."""

import numpy as np

import hlmtheory as hlm

UPLINK_BPS, ROUND_TRIP_S = 10e6, 0.020  # your link
DRAFT_S, PASS_S = 0.012, 0.030  # a draft token on your device, a pass on your server
BITS_PER_TOKEN = 40_000.0  # what a draft takes on the link
ACCEPTANCE, MAX_DRAFT_LENGTH = np.array([0.5, 0.7, 0.9]), 16

fixed, marginal = hlm.draft_length.round_costs(
    UPLINK_BPS,
    bits_per_token=BITS_PER_TOKEN,
    propagation_s=ROUND_TRIP_S / 2,
    downlink_s=ROUND_TRIP_S / 2,
    cloud_base_s=PASS_S,
    edge_slope_s=DRAFT_S,
)
best = hlm.optimal_draft_length(ACCEPTANCE, fixed, marginal, MAX_DRAFT_LENGTH)
speed = hlm.draft_length.etgr(ACCEPTANCE, best, fixed, marginal)
alone = 1.0 / PASS_S
print("acceptance  drafts  tokens/s  server alone")
for rate, length, tokens_per_s in zip(ACCEPTANCE, best, speed, strict=True):
    print(f"{rate:10.1f}  {length:6d}  {tokens_per_s:8.1f}  {alone:12.1f}")
regret = hlm.draft_length.draft_length_regret(0.9, 0.5, fixed, marginal, MAX_DRAFT_LENGTH)
print(f"Drafting for an acceptance of 0.5 where it is 0.9 costs {regret:.0%} of the speed.")
