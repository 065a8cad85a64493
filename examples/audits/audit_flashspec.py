"""flashspec: its engine on one text and on a batch, which take different paths."""

import torch
import toy
from flashspec import BanditConfig, FlashSpecConfig, SamplingConfig, SpeculativeEngine
from flashspec.engine.hf_drafter import HuggingFaceDrafter
from flashspec.engine.verifier import TargetModel

target, draft = toy.llama(1), toy.llama(2)
TABLES = toy.tables(target, draft)


def engine(batch, top_p=1.0):
    """Return a sampler whose engine writes this number of texts together."""
    models = HuggingFaceDrafter("draft", device="cpu", temperature=1.0, model=draft)
    verifier = TargetModel("target", device=torch.device("cpu"), dtype=torch.float32, model=target)
    settings = SamplingConfig(gamma=toy.DRAFTS, temperature=1.0, top_p=top_p)
    config = FlashSpecConfig(device="cpu", sampling=settings, max_new_tokens=toy.DEPTH, bandit=BanditConfig(n_arms=1))
    made = SpeculativeEngine(config, [models], verifier)

    def sample(prompts, n, seed):
        torch.manual_seed(seed)
        found = []
        for prompt in prompts:
            texts = []
            while len(texts) < n:
                ids = torch.tensor([prompt]).repeat(min(batch, n - len(texts)), 1)
                texts += made.generate(ids, max_new_tokens=toy.DEPTH, eos_token_ids=[-1]).output_ids.tolist()
            found.append(texts)
        return found

    return sample


one, batches, top_p = engine(1), engine(64), engine(64, top_p=0.8)
CALLS = {
    "one": ("SpeculativeEngine.generate, one text", {}),
    "batches": ("SpeculativeEngine.generate, a batch", {}),
    "top_p": ("SpeculativeEngine.generate, a batch", {"top_p": 0.8}),
}
