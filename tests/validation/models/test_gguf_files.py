"""GGUF files as models: the same as the folder that they were written from, and refused with file and place."""

import json
import shutil
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.validation.gguf_writing import write_gguf
from tests.validation.models.test_aligned import edit
from validation.collection.collect import collect
from validation.collection.prompts import Prompt
from validation.decoding.fitting import of_other_models
from validation.errors import UserError
from validation.models import gguf_files
from validation.models.gguf_files import read_header
from validation.models.pair import PAIRS_FOLDER, load_pair
from validation.models.sources import ModelSource

ROOT = Path(__file__).resolve().parents[3]
BUILTIN = PAIRS_FOLDER / "builtin"


@pytest.fixture(scope="session")
def files(folders, tmp_path_factory):
    place = tmp_path_factory.mktemp("gguf")
    return write_gguf(folders[0], place / "draft.gguf"), write_gguf(folders[1], place / "target.gguf")


@pytest.fixture(scope="session")
def wide(save_model):
    return save_model(seed=3, hidden=64)


def logits(draft: Path, target: Path) -> np.ndarray:
    pair = load_pair(draft=draft, target=target)
    with torch.inference_mode():
        return pair.draft(torch.arange(40)[None] * 7 % 300).logits[0].numpy()


def test_a_pair_of_files_is_the_pair_of_folders(files, folders, tmp_path):
    ours, theirs = load_pair(draft=files[0], target=files[1]), load_pair(draft=folders[0], target=folders[1])
    for field in ("vocabulary", "context", "end_tokens", "dtype", "draft_parameters", "target_parameters", "notes"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert (ours.name, ours.draft_name) == ("draft.gguf + target.gguf", str(files[0]))
    prompts = [Prompt(id="a", text="two and two", source="here"), Prompt(id="b", text="four apples", source="here")]
    settings = {"positions": 20, "new_tokens": 12, "batch": 2, "seed": 3}
    traces = [
        collect(pair, prompts, tmp_path / name, **settings) for pair, name in ((ours, "ours"), (theirs, "theirs"))
    ]
    assert of_other_models(traces[0], theirs) == of_other_models(traces[1], ours) == ""
    assert "of the draft model" in of_other_models(traces[0], load_pair(draft=folders[1], target=folders[0]))
    for name in ("draft_logits", "target_logits", "tokens"):
        found = [np.concatenate([getattr(chunk, name) for chunk in trace.chunks()]) for trace in traces]
        np.testing.assert_array_equal(*found)


def test_quantised_weights_are_those_of_the_format(wide, tmp_path):
    weights = AutoModelForCausalLM.from_pretrained(wide, dtype=torch.float32).state_dict()
    plain, apart = logits(wide, wide), []
    for kind in ("F16", "Q8_0", "Q4_0"):
        file = write_gguf(wide, tmp_path / f"{kind}.gguf", kind)
        pair = load_pair(draft=file, target=file)
        for name in ("model.layers.1.self_attn.v_proj.weight", "model.layers.0.mlp.down_proj.weight"):
            packed = gguf.GGMLQuantizationType[kind]
            expected = gguf.dequantize(gguf.quantize(weights[name].numpy(), packed), packed)
            np.testing.assert_array_equal(pair.draft.state_dict()[name].numpy(), expected)
        apart.append(float(np.abs(logits(file, wide) - plain).mean()))
    assert 0 < 10 * apart[0] < apart[1] < apart[2] / 4


def test_digits_are_cut_as_the_file_says(tmp_path):
    """transformers ignores the pre-tokenizer ``smollm``; the built-in pair takes one token a digit."""
    file = write_gguf(BUILTIN / "small", tmp_path / "draft.gguf", pre="smollm")
    found = load_pair(draft=file, target=file).tokenizer
    plain = load_pair(draft=write_gguf(BUILTIN / "small", tmp_path / "b.gguf"), target=tmp_path / "b.gguf").tokenizer
    own = AutoTokenizer.from_pretrained(BUILTIN / "small")
    texts = [json.loads(line)["prompt"] for line in (BUILTIN / "prompts.jsonl").read_text().splitlines()]
    assert [found(text).input_ids for text in texts] == [own(text).input_ids for text in texts]
    assert [plain(text).input_ids for text in texts] != [own(text).input_ids for text in texts]


def test_an_unknown_pre_tokenizer_is_refused(folders, tmp_path):
    file = write_gguf(folders[0], tmp_path / "draft.gguf", pre="superbpe")
    with pytest.raises(UserError, match=r"draft\.gguf cuts texts by the pre-tokenizer 'superbpe'.*model's folder"):
        load_pair(draft=file, target=folders[1])


def test_other_files_of_the_folder_are_not_read(files, folders, tmp_path):
    """transformers would take the tokenizer, the configuration and the adapter that lie beside the file."""
    file = Path(shutil.copy(files[0], tmp_path))
    content = json.loads((folders[0] / "tokenizer.json").read_text())
    content["model"]["vocab"]["a"], content["model"]["vocab"]["b"] = 70, 71
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "!", "auto_map": {"AutoTokenizer": ["x.y", null]}}')
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    np.testing.assert_array_equal(logits(file, folders[1]), logits(folders[0], folders[1]))


def test_rope_factors_are_applied(folders, save_model, tmp_path):
    """Llama 3.1 scales its frequencies by a tensor of factors, which transformers ignores."""
    folder = shutil.copytree(folders[0], tmp_path / "scaled")
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    edit(folder / "config.json", rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, **scaling})
    scaled = AutoModelForCausalLM.from_pretrained(folder).model.rotary_emb.inv_freq.numpy()
    plain = AutoModelForCausalLM.from_pretrained(folders[0]).model.rotary_emb.inv_freq.numpy()
    file = write_gguf(folder, tmp_path / "scaled.gguf", more={"rope_freqs.weight": plain / scaled})
    np.testing.assert_allclose(logits(file, folder), logits(folder, folder), atol=1e-5)
    assert np.abs(logits(file, folder) - logits(folders[0], folder)).max() > 1e-3
    wrong = write_gguf(folder, tmp_path / "wrong.gguf", more={"rope_freqs.weight": np.ones(7, np.float32)})
    with pytest.raises(UserError, match=r"wrong\.gguf has the tensor rope_freqs\.weight"):
        load_pair(draft=wrong, target=folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"arch": "mammoth"}, "architecture mammoth is not supported"),
        ({"settings": {"split.count": 3}}, "is one of 3 parts of a model"),
        ({"settings": {"llama.rope.scaling.type": "yarn"}}, r"llama\.rope\.scaling\.type = 'yarn'"),
        ({"more": {"rope_factors_long.weight": np.ones(2, np.float32)}}, "the tensor rope_factors_long"),
        ({"without": ("token_embd.weight",)}, "no tensor 'token_embd.weight'"),
        ({"without": ("blk.1.ffn_up.weight",)}, "incomplete: .*layers.1.mlp.up_proj.weight is missing, 1 in all"),
        ({"tokens": ["a"] * 301}, "301 tokens in tokenizer.ggml.tokens, and embeddings for 300"),
    ],
    ids=["architecture", "split", "yarn", "long factors", "embedding", "missing weight", "too many tokens"],
)
def test_a_model_that_cannot_be_run_is_named(options, said, folders, tmp_path):
    file = write_gguf(folders[0], tmp_path / "draft.gguf", **options)
    with pytest.raises(UserError, match=said) as caught:
        load_pair(draft=file, target=folders[1])
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_kind(files, tmp_path):
    whole = files[0].read_bytes()
    for content, said in (
        (b"PK\x03\x04" + whole[4:], "is not a GGUF file: it begins with b'PK"),
        (b"", "is not a GGUF file"),
        (whole[:4] + struct.pack(">I", 3) + whole[8:], "another byte order"),
        (whole[:4] + struct.pack("<I", 1) + whole[8:], "has the GGUF version 1"),
    ):
        (tmp_path / "model.gguf").write_bytes(content)
        with pytest.raises(UserError, match=r"model\.gguf") as caught:
            load_pair(draft=tmp_path / "model.gguf", target=files[1])
        assert said in str(caught.value)


def header_bytes(file: Path) -> int:
    return int(gguf.GGUFReader(file).data_offset)


def test_every_cut_is_refused(files, tmp_path):
    whole, path = files[0].read_bytes(), tmp_path / "cut.gguf"
    data = header_bytes(files[0])
    for end in [*range(0, data, 5), *range(data, len(whole), 611), len(whole) - 1]:
        path.write_bytes(whole[:end])
        with pytest.raises(UserError, match=r"cut\.gguf"):
            read_header(path)


def refusal(path: Path, content: bytes, read: Callable[[], object]) -> str | None:
    """Write a file and read it; return the message of the refusal, or None. Any other error is raised."""
    path.write_bytes(content)
    try:
        read()
    except UserError as error:
        return str(error)
    return None


def test_every_flipped_byte_of_the_header_is_refused_or_loads(files, folders, tmp_path):
    """A change that fits the tensors is another model: nothing marks it, so it loads or transformers refuses it."""
    whole, path, data = files[0].read_bytes(), tmp_path / "flipped.gguf", header_bytes(files[0])
    rng = np.random.default_rng(1)
    changed = [whole[:at] + bytes([whole[at] ^ 1 << int(rng.integers(8))]) + whole[at + 1 :] for at in range(data)]
    refusals = [refusal(path, each, lambda: read_header(path)) for each in changed]
    accepted = [each for each, said in zip(changed, refusals, strict=True) if said is None]
    assert all("flipped.gguf" in said for said in refusals if said is not None)
    assert 0.1 < len(accepted) / data < 0.9  # names of tokens and merges may be any text
    for each in rng.choice(np.array(accepted, dtype=object), 12, replace=False):
        said = refusal(path, each, lambda: load_pair(draft=path, target=path))
        assert said is None or "flipped.gguf" in said or "eos_token_id" in said


@pytest.mark.parametrize("value", [2**63, 2**40, 2**32 - 1])
@pytest.mark.parametrize("place", ["tensors", "entries", "key", "tokens", "dimension"])
def test_an_absurd_count_allocates_nothing(place, value, files, tmp_path):
    whole, path = files[0].read_bytes(), tmp_path / "absurd.gguf"
    at = {
        "tensors": 8,
        "entries": 16,
        "key": 24,
        "tokens": whole.index(b"tokenizer.ggml.tokens") + 21 + 8,
        "dimension": whole.index(b"token_embd.weight") + 17 + 4,
    }[place]
    path.write_bytes(whole[:at] + struct.pack("<Q", value) + whole[at + 8 :])
    tracemalloc.start()
    with pytest.raises(UserError, match=r"absurd\.gguf"):
        read_header(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize("begins", [True, False])
def test_a_file_says_whether_a_text_begins_with_its_token(begins, save_model, tmp_path):
    """SmolLM2 has a begin-of-text token and says that no text begins with it; transformers reads neither."""
    folder = save_model(seed=5, hidden=64)
    held = read_header(write_gguf(folder, tmp_path / "model.gguf", settings={}))
    told = replace(held, metadata=held.metadata | {"tokenizer.ggml.add_bos_token": begins})
    tokenizer = gguf_files.load_tokenizer(told, ModelSource(str(folder)).load_tokenizer)
    plain = tokenizer("two and two", add_special_tokens=False).input_ids
    assert tokenizer("two and two").input_ids == [tokenizer.bos_token_id] * begins + plain
