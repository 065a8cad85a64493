"""transformers: an assistant with another tokenizer returns logits of other tokens than it drew from."""

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.generation.candidate_generator import AssistantToTargetTranslator


def tokenizer(words: list[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token a word."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="?")


words = [f"w{i}" for i in range(12)]
target, assistant = tokenizer(["?", *words]), tokenizer(["?", "extra", *reversed(words)])
config = LlamaConfig(vocab_size=14, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1)
model = LlamaForCausalLM(config)
full = model.get_output_embeddings().weight.detach().clone()  # the assistant's head before it is pruned
translator = AssistantToTargetTranslator(target, assistant, 13, model, assistant_prune_lm_head=True)

hidden = torch.randn(1, 1, 8)
row = translator.get_target_logits(model.get_output_embeddings()(hidden))[0, 0]  # what verification takes for q
for word in words:
    true = (full @ hidden[0, 0])[assistant.convert_tokens_to_ids(word)]
    print(f"{word:4} logit of the assistant {true:+.3f}, returned {row[target.convert_tokens_to_ids(word)]:+.3f}")
print(transformers.__version__)
