"""economize: its verifier ``rejection`` on chains, batches, drafts without a distribution, and trees."""

import torch
from economize.decoding import DecodeConfig
from economize.decoding.protocols import Draft
from economize.decoding.verifiers import RejectionVerifier
from toy import DRAFT, drafted, row, sampler, targets

verifier = RejectionVerifier(DecodeConfig(verifier="rejection"))


class Selector:
    """Draws from the whole distribution."""

    greedy = False

    def __call__(self, logits, history):
        return int(torch.multinomial(self.distributions(logits), 1))

    def distribution(self, logits, history):
        """Return probabilities (V,)."""
        return logits.softmax(-1)

    def distributions(self, logits):
        """Return probabilities (..., V)."""
        return logits.softmax(-1)


def chain(text, known=True):
    """Return the tokens of one round; drafts that are not drawn are the likeliest."""
    drafts, rows = drafted(text, greedy=not known)
    logits, told = targets(text, drafts).log(), torch.stack(rows) if known else None
    kept, last = verifier.verify(logits, drafts, told, Selector(), torch.tensor([*text, *drafts]), len(text))
    return [*drafts[:kept], last]


def batch(text):
    """Return the tokens of one round in a batch of one."""
    drafts, rows = drafted(text)
    asked = Draft(torch.tensor([drafts]), [len(drafts)], probs=torch.stack(rows)[None])
    kept, last = verifier.verify_batch(targets(text, drafts).log()[None], asked, Selector(), None, [len(text)])
    return [*drafts[: int(kept[0])], int(last[0])]


def tree(text):
    """Return the tokens of one round: two drafts beside each other, a third behind the first."""
    q = row(DRAFT, text)
    first, second = (int(torch.multinomial(q, 1)) for _ in range(2))
    behind = row(DRAFT, [*text, first])
    third = int(torch.multinomial(behind, 1))
    told = {"parents": torch.tensor([[-1, -1, 0]]), "probs": torch.stack([q, q, behind])[None]}
    asked = Draft(torch.tensor([[first, second, third]]), [3], **told)
    rows = torch.stack([*targets(text, [first]), targets(text, [second])[1], targets(text, [first, third])[2]])
    paths, last = verifier.verify_tree(rows.log()[None], asked, Selector())
    return [*(asked.tokens[0, i].item() for i in paths[0]), last[0]]


chains = sampler(chain)
batches = sampler(batch)
one_hot = sampler(lambda text: chain(text, known=False))
trees = sampler(tree)
CALLS = {
    "chains": ("RejectionVerifier.verify", {}),
    "batches": ("RejectionVerifier.verify_batch", {}),
    "one_hot": ("RejectionVerifier.verify, drafts without q", {}),
    "trees": ("RejectionVerifier.verify_tree", {}),
}
