"""Write a transformers folder as a GGUF file, entry by entry as llama.cpp's converter does for Llama."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTER = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def name_of(weight: str) -> str:
    name = weight.removesuffix(".weight")
    if name in OUTER:
        return f"{OUTER[name]}.weight"
    _, _, layer, part = name.split(".", 3)
    return f"blk.{layer}.{LAYER[part]}.weight"


def write_gguf(
    folder: Path,
    path: Path,
    kind: str = "F32",
    *,
    pre: str = "gpt-2",
    arch: str = "llama",
    settings: dict[str, Any] | None = None,
    more: dict[str, np.ndarray] | None = None,
    without: tuple[str, ...] = (),
    tokens: list[str] | None = None,
) -> Path:
    """Write the Llama in ``folder``; ``settings`` are further uint32 or string entries, ``more`` further tensors."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer, config = AutoTokenizer.from_pretrained(folder), model.config
    writer = gguf.GGUFWriter(path, arch)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    for name, value in (settings or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_uint32)(name, value)
    written = json.loads((folder / "tokenizer.json").read_text())
    by_id = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens or [token for token, _ in by_id])
    special = set(tokenizer.all_special_ids)
    control, normal = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
    writer.add_token_types([control if index in special else normal for _, index in by_id])
    writer.add_token_merges([" ".join(pair) for pair in written["model"]["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_add_bos_token(tokenizer("a").input_ids[0] == tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)
    for name, weight in model.state_dict().items():
        values = weight.numpy()
        if (name == "lm_head.weight" and config.tie_word_embeddings) or name_of(name) in without:
            continue
        if ".q_proj." in name or ".k_proj." in name:  # in llama.cpp's rows the two halves of a head alternate
            halves = values.reshape(config.num_attention_heads, 2, -1, values.shape[1])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        packed = gguf.GGMLQuantizationType[kind] if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name_of(name), gguf.quantize(values, packed), raw_dtype=packed)
    for name, values in (more or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
