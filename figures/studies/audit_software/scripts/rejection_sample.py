"""rotalabs-accel: one token of rejection_sample, counted, beside the target's probabilities."""

from importlib.metadata import version

import torch
from rotalabs_accel.speculative import rejection_sample

p, q = torch.tensor([0.6, 0.3, 0.1]), torch.tensor([0.2, 0.3, 0.5])
torch.manual_seed(0)
count, draws = torch.zeros(3), 20_000
for _ in range(draws):
    draft = torch.multinomial(q, 1)[0]
    _, token = rejection_sample(p[draft], q[draft], draft, p.log())
    count[int(token)] += 1
print("target", p.tolist(), "drawn", (count / draws).tolist(), version("rotalabs-accel"))
