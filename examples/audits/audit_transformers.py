"""transformers: ``generate`` with an assistant, with prompt lookup, and with an assistant of another tokenizer."""

import torch
import toy
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

target, draft, other = toy.llama(1), toy.llama(2), toy.llama(3, toy.V + 1)
TABLES = toy.tables(target, draft)
for model in (draft, other):  # as many drafts in every round, whatever the confidence
    model.generation_config.num_assistant_tokens = toy.DRAFTS
    model.generation_config.num_assistant_tokens_schedule = "constant"
    model.generation_config.assistant_confidence_threshold = 0.0


def tokenizer(words):
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token=words[0]))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token=words[0])


def generated(**options):
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": toy.DEPTH, **options}

    def draw(text):
        ids = torch.tensor([text])
        return target.generate(ids, attention_mask=torch.ones_like(ids), **settings)[0, len(text) :].tolist()

    return toy.sampler(draw, enumerable=False)


assistant = generated(assistant_model=draft)
top_k = generated(assistant_model=draft, top_k=2)
lookup = generated(prompt_lookup_num_tokens=toy.DRAFTS)
words = {"tokenizer": tokenizer("abc"), "assistant_tokenizer": tokenizer("xcab")}
other_tokenizer = generated(assistant_model=other, **words)
CALLS = {
    "assistant": ("generate(assistant_model=...)", {}),
    "top_k": ("generate(assistant_model=...)", {"top_k": 2}),
    "lookup": ("generate(prompt_lookup_num_tokens=2)", {}),
    "other_tokenizer": ("generate(assistant_model=..., assistant_tokenizer=...)", {}),
}
