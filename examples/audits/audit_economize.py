"""economize: its verifier ``rejection`` on chains, batches, drafts without a distribution, and trees."""

import torch
from economize.decoding import DecodeConfig
from economize.decoding.protocols import Draft
from economize.decoding.verifiers import RejectionVerifier
from toy import TARGET, drafted, rows, sampler

verifier = RejectionVerifier(DecodeConfig(verifier="rejection"))


class Selector:
    """Draws from the whole distribution."""

    greedy = False
    __call__ = staticmethod(lambda logits, history: int(torch.multinomial(logits.softmax(-1), 1)))
    distribution = staticmethod(lambda logits, history: logits.softmax(-1))
    distributions = staticmethod(lambda logits: logits.softmax(-1))


def chain(text, known=True):
    """Return the tokens of one round; drafts that are not drawn are the likeliest."""
    drafts, q, p = drafted(text, greedy=not known)
    seen = torch.tensor([*text, *drafts])
    kept, last = verifier.verify(p.log(), drafts, q if known else None, Selector(), seen, len(text))
    return [*drafts[:kept], last]


def batch(text):
    drafts, q, p = drafted(text)
    asked = Draft(torch.tensor([drafts]), [len(drafts)], probs=q[None])
    kept, last = verifier.verify_batch(p.log()[None], asked, Selector(), None, [len(text)])
    return [*drafts[: int(kept[0])], int(last[0])]


def tree(text):
    """Return the tokens of one round: two drafts beside each other, a third behind the first."""
    (first, third), q, p = drafted(text)
    second = int(torch.multinomial(q[0], 1))
    tokens, parents = torch.tensor([[first, second, third]]), torch.tensor([[-1, -1, 0]])
    asked = Draft(tokens, [3], parents=parents, probs=q[None, [0, 0, 1]])
    told = torch.cat([p[:2], rows(TARGET, [*text, second]), p[2:]])
    paths, last = verifier.verify_tree(told.log()[None], asked, Selector())
    return [*tokens[0, paths[0]].tolist(), last[0]]


chains, batches, trees = map(sampler, (chain, batch, tree))
one_hot = sampler(lambda text: chain(text, known=False))
CALLS = {
    "chains": ("RejectionVerifier.verify", {}),
    "batches": ("RejectionVerifier.verify_batch", {}),
    "one_hot": ("RejectionVerifier.verify, drafts without q", {}),
    "trees": ("RejectionVerifier.verify_tree", {}),
}
