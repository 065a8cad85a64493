"""dejavuu: its loop with prompt lookup, over a toy model whose cache is the text."""

import numpy as np
from dejavuu.core.engine import generate
from dejavuu.core.sampling import Sampler
from dejavuu.core.verifier import Verifier
from dejavuu.drafters.prompt_lookup import PLD
from toy import DEPTH, DRAFTS, TARGET, rows


class Model(Verifier):
    """The toy model; a key is a token."""

    def empty_kv(self):
        return [(np.zeros((1, 1, 0, 1)), np.zeros((1, 1, 0, 1)))]

    def forward(self, token_ids, past, past_len, position_ids=None, attn_bias=None):
        text = np.append(past[0][0].reshape(-1), token_ids)
        keys = text.reshape(1, 1, -1, 1)
        return rows(TARGET, text.astype(int), len(token_ids)).log().double().numpy(), [(keys, keys)], None


def sample(prompts, n, seed):
    seeds = np.random.default_rng(seed).integers(2**40, size=(len(prompts), n)).tolist()

    def text(prompt, own):
        return generate(Model(), prompt, DEPTH, PLD(), DRAFTS, sampler=Sampler(seed=own)).tokens

    return [[text(prompt, own) for own in row] for prompt, row in zip(prompts, seeds, strict=True)]


CALLS = {"sample": ("generate, PLD", {})}
