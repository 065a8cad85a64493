"""Check published statements on your own distributions: which hold, which fail, and how tight each is."""

import numpy as np

import hlmtheory as hlm
from hlmtheory.claims import Status

rng = np.random.default_rng(0)
draft = rng.dirichlet([0.3] * 50, size=1000)
target = rng.dirichlet([0.3] * 50, size=1000)
arrays = {"draft": draft, "target": target, "k": rng.integers(1, 50, 1000)}

print("holds  fails  out of scope  largest lhs/rhs  statement  claim")
for name, claim in hlm.all_claims().items():
    if not name.startswith("truncation.") or not set(claim.takes) <= set(arrays):
        continue
    verdict = claim.check({argument: arrays[argument] for argument in claim.takes})
    counts = [verdict.count(status) for status in (Status.HOLDS, Status.VIOLATED, Status.OUT_OF_SCOPE)]
    known = (verdict.status == Status.HOLDS) & (verdict.rhs > 1e-6)
    tightest = float((verdict.lhs[known] / verdict.rhs[known]).max(initial=0.0))
    print(f"{counts[0]:5d}  {counts[1]:5d}  {counts[2]:12d}  {tightest:15.3f}  {claim.standing:9}  {name}")
