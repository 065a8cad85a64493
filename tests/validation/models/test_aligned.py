"""The aligned draft: frozen parts, cache, folder and refusals, on models of a few hundred weights."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.validation.training.test_training import LARGE, fresh
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import Hlm
from validation.errors import UserError
from validation.models.aligned import anchor_weights, build_aligned, fingerprint, frozen_names, save_aligned
from validation.models.pair import load_pair
from validation.models.sources import PAIRS_FOLDER, ModelSource

SHAPES = {
    "entry": {"entry_layers": 1, "entry_width": 6, "exit_width": 0},
    "printed": {"entry_layers": 0, "entry_width": 0, "exit_width": 12},
    "own head": {"entry_layers": 0, "entry_width": 0, "exit_width": 12, "own_head": True},
}
LAYERS = {"layers": 3}


def toy_base(seed: int = 1) -> Any:
    return fresh(replace(LARGE, **LAYERS), seed, 4.0).to(torch.bfloat16).eval()


def toy_tokenizer(folder: Path) -> Any:
    words = Tokenizer(models.WordLevel({"<|endoftext|>": 0} | {f"w{i}": i for i in range(1, 40)}, unk_token="w1"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<|endoftext|>", bos_token="<|endoftext|>")
    tokenizer.save_pretrained(folder)
    return tokenizer


@pytest.fixture
def pair_folder(tmp_path):
    base = toy_base()
    base.save_pretrained(tmp_path / "large")
    tokenizer = toy_tokenizer(tmp_path / "large")
    toy_tokenizer(tmp_path / "aligned")
    draft = build_aligned(base, **SHAPES["entry"])
    save_aligned(draft, tmp_path / "aligned", base="../large", mark=fingerprint(base, tokenizer))
    return tmp_path


@pytest.mark.parametrize("shape", SHAPES)
def test_the_frozen_parts_are_the_base_models(shape):
    base = toy_base()
    draft = build_aligned(base, **SHAPES[shape])
    shared, weights = anchor_weights(base), dict(draft.state_dict())
    for name, source in frozen_names(draft).items():
        assert torch.equal(weights[name], shared[source].float()), name
    assert any(source.startswith("model.layers.-1.") for source in frozen_names(draft).values())
    assert {n for n, w in draft.named_parameters() if w.requires_grad}.isdisjoint(frozen_names(draft))
    assert ("lm_head.weight" in frozen_names(draft)) is (shape != "own head")


def test_the_printed_draft_is_embeddings_anchor_mlp_norm_head():
    base = toy_base().float()
    draft = build_aligned(base, **SHAPES["printed"]).eval()
    ids = torch.arange(1, 9)[None]
    with torch.no_grad():
        states = base.model.embed_tokens(ids)
        where = torch.arange(8)[None]
        mask = torch.full((8, 8), -torch.inf).triu(1)[None, None]
        turned = base.model.rotary_emb(states, position_ids=where)
        states = base.model.layers[-1](states, attention_mask=mask, position_embeddings=turned)
        hidden = draft.model.norm.second(torch.nn.functional.silu(draft.model.norm.first(states)))
        expected = base.lm_head(base.model.norm(hidden))
        torch.testing.assert_close(draft(ids).logits, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_decoding_with_the_cache_gives_the_logits_of_a_full_pass(shape):
    draft = build_aligned(toy_base(), **SHAPES[shape]).eval()
    ids = torch.randint(1, 40, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        full = draft(ids).logits
        first = draft(ids[:, :7], use_cache=True)
        parts, cache = [first.logits], first.past_key_values
        for column in range(7, 12):
            step = draft(ids[:, column : column + 1], past_key_values=cache, use_cache=True)
            parts.append(step.logits)
    torch.testing.assert_close(torch.cat(parts, dim=1), full, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"entry_layers": 3, "entry_width": 6, "exit_width": 0}, "3 entry blocks of width 6 do not fit"),
        ({"entry_layers": 1, "entry_width": 99, "exit_width": 0}, "of width 99 do not fit a base model of 3 blocks"),
    ],
)
def test_a_draft_larger_than_its_base_model_is_refused(shape, said):
    with pytest.raises(UserError, match=said):
        build_aligned(toy_base(), **shape)


def changed(name: str) -> Any:
    base = toy_base()
    with torch.no_grad():
        base.get_parameter(name).flatten()[3] += 1.0
    return base


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("model.layers.2.self_attn.k_proj.weight", True),
        ("model.layers.2.input_layernorm.weight", True),
        ("model.norm.weight", True),
        ("model.embed_tokens.weight", True),
        ("model.layers.1.mlp.up_proj.weight", False),
        ("model.layers.0.self_attn.q_proj.weight", False),
    ],
)
def test_the_fingerprint_is_of_anchor_and_head(tmp_path, name, counts):
    tokenizer = toy_tokenizer(tmp_path)
    assert (fingerprint(changed(name), tokenizer) != fingerprint(toy_base(), tokenizer)) is counts


def test_the_fingerprint_is_of_the_vocabulary_and_the_settings_but_not_of_the_dtype(tmp_path):
    tokenizer, base = toy_tokenizer(tmp_path), toy_base()
    mark = fingerprint(base, tokenizer)
    assert fingerprint(toy_base().float(), tokenizer) == mark
    base.config.rms_norm_eps = 1e-3
    assert fingerprint(base, tokenizer) != mark
    tokenizer.add_tokens(["w99"])
    assert fingerprint(toy_base(), tokenizer) != mark


def test_a_folder_holds_the_drafts_own_weights_and_loads_whole(pair_folder):
    stored = load_file(pair_folder / "aligned/model.safetensors")
    assert all(name.startswith("model.layers.0.") for name in stored)
    pair = load_pair(draft=pair_folder / "aligned", target=pair_folder / "large")
    for name, weights in build_aligned(toy_base(), **SHAPES["entry"]).state_dict().items():
        assert torch.equal(pair.draft.state_dict()[name], weights.to(torch.bfloat16).float()), name
    for name, source in frozen_names(pair.draft).items():
        assert torch.equal(pair.draft.state_dict()[name], anchor_weights(toy_base())[source].float()), name
    (record,) = decode(pair, [Prompt("a", "w3 w4 w5", "toy")], Hlm(), new_tokens=6)
    assert 1 <= len(record.tokens) <= 6


@pytest.mark.parametrize(
    "name", ["model.layers.2.mlp.down_proj.weight", "model.norm.weight", "model.embed_tokens.weight"]
)
def test_another_base_model_is_refused(pair_folder, name):
    changed(name).save_pretrained(pair_folder / "large")
    with pytest.raises(UserError, match="was trained for a base model with the fingerprint"):
        ModelSource(str(pair_folder / "aligned")).load_model("auto")


def edit(file: Path, **values: Any) -> None:
    content = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(content | values))


@pytest.mark.parametrize("base", ["/etc", "../../large", "..", "", "large", "../large/../large"])
def test_a_base_model_elsewhere_is_refused(pair_folder, base):
    edit(pair_folder / "aligned/config.json", base=base)
    with pytest.raises(UserError, match="a folder beside it is needed"):
        ModelSource(str(pair_folder / "aligned")).load_model("auto")


def test_a_missing_base_model_or_weight_is_refused(pair_folder):
    edit(pair_folder / "aligned/config.json", base="../aligned")
    with pytest.raises(UserError, match="is an aligned draft itself"):
        ModelSource(str(pair_folder / "aligned")).load_model("auto")
    edit(pair_folder / "aligned/config.json", base="../other")
    with pytest.raises(UserError, match="no model folder"):
        ModelSource(str(pair_folder / "aligned")).load_model("auto")
    edit(pair_folder / "aligned/config.json", base="../large", num_hidden_layers=3)  # one entry block too many
    with pytest.raises(UserError, match=r"incomplete: model\.layers\.\d\.\S+ is missing"):
        ModelSource(str(pair_folder / "aligned")).load_model("auto")


def test_the_shipped_draft_is_of_the_shipped_large_model():
    made = json.loads((PAIRS_FOLDER / "builtin/aligned/training.json").read_text())
    pair = load_pair(draft=PAIRS_FOLDER / "builtin/aligned", target=PAIRS_FOLDER / "builtin/large")
    assert pair.draft_parameters == made["parameters"]
    assert pair.draft.config.fingerprint == fingerprint(pair.target, pair.tokenizer)
