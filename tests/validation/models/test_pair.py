"""Loading a pair: accepted inputs, refused inputs, and the messages."""

import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from validation.errors import UserError
from validation.models import sources
from validation.models.pair import PAIRS_FOLDER, load_pair
from validation.models.sources import ModelSource


def refused(message: str, **arguments: Any) -> None:
    with pytest.raises(UserError, match=message) as caught:
        load_pair(**arguments)
    assert "\n" not in str(caught.value)


@pytest.fixture
def copied(folders, tmp_path):
    return Path(shutil.copytree(folders[0], tmp_path / "copied"))


def test_two_folders(pair, folders):
    assert (pair.vocabulary, pair.context, pair.end_tokens, pair.notes) == (300, 64, (0,), ())
    assert not pair.draft.training
    assert not pair.target.training
    assert pair.dtype == "float32"  # the stored weights are bfloat16
    assert all(parameter.dtype == torch.float32 for parameter in pair.draft.parameters())
    assert (pair.draft_name, pair.target_name) == (str(folders[0]), str(folders[1]))
    assert pair.draft_parameters == sum(parameter.numel() for parameter in pair.draft.parameters())
    json.dumps(pair.describe())


def test_sampling_settings_of_the_folder_are_dropped(copied):
    settings = {"do_sample": True, "temperature": 0.5, "top_p": 0.9, "repetition_penalty": 1.3, "eos_token_id": [0, 7]}
    (copied / "generation_config.json").write_text(json.dumps(settings))
    pair = load_pair(draft=copied, target=copied)
    assert pair.end_tokens == (0, 7)
    assert pair.target.generation_config.repetition_penalty is None
    assert pair.target.generation_config.top_p is None


def test_padded_head_is_cut_and_said(folders, save_model):
    pair = load_pair(draft=folders[0], target=save_model(vocabulary=320))
    assert pair.vocabulary == 300
    assert pair.notes == ("The target model gives 320 logits; the 20 beyond the vocabulary are cut.",)


def test_head_too_narrow(save_model, extended_tokenizer):
    folder = save_model(tokenizer=extended_tokenizer(extra=("<added>",)))
    refused("The draft model gives 300 logits, but the tokenizer has 301 entries", draft=folder, target=folder)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        (r"Only the draft model was given \(x\); name the target one too", {"draft": "x"}),
        ("Both the pair 'builtin' and two models were given", {"name": "builtin", "draft": "x", "target": "y"}),
        ("Unknown pair 'gpt'; choose one of builtin", {"name": "gpt"}),
        ("Unknown dtype 'int3'; choose one of float32", {"dtype": "int3"}),
        ("Unknown device 'toaster'; use 'auto', 'cpu'", {"device": "toaster"}),
        ("There is no model folder '/no/where'; check the path", {"draft": "/no/where", "target": "/no/where"}),
        ("is not a model folder: config.json is missing", {"draft": PAIRS_FOLDER, "target": PAIRS_FOLDER}),
        ("is a file, not a model folder", {"draft": __file__, "target": __file__}),
    ],
)
def test_what_names_no_pair_is_refused(message, arguments):
    refused(message, **arguments)


def test_other_weight_formats(copied):
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    refused(r"No \*\.safetensors weights lie in .*copied", draft=copied, target=copied)


class _Marks:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def in_parts(folder: Path, name: str, content: str = "tensors") -> None:
    """Split the folder's weights into two files; the index calls the second one ``name``."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    first = "model.layers.1.mlp.up_proj.weight"
    save_file({first: tensors.pop(first)}, folder / "model-1.safetensors", metadata={"format": "pt"})
    second = folder / name
    second.parent.mkdir(exist_ok=True)
    if content == "pickle":
        second.write_bytes(pickle.dumps(_Marks(folder.parent / "ran")))
    elif name.endswith(".safetensors"):
        save_file(tensors, second, metadata={"format": "pt"})
    else:
        torch.save(tensors, second)
    names = {first: "model-1.safetensors"} | dict.fromkeys(tensors, name)
    (folder / sources.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))


@pytest.mark.parametrize("content", ["tensors", "pickle"])
@pytest.mark.parametrize(
    "name", ["weights.bin", "../outside.bin", "../../outside.bin", "../outside.safetensors", "parts/two.safetensors"]
)
def test_an_index_that_names_other_files_is_refused(name, content, copied, folders, monkeypatch):
    in_parts(copied, name, content)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    message = f"index.json of '.*copied' names the weights '{re.escape(name)}', but weights are read only from"
    refused(message, draft=copied, target=folders[1])
    refused(message, draft=folders[1], target=copied)
    assert not (copied.parent / "ran").exists()


def test_weights_in_several_files(copied, folders):
    in_parts(copied, "model-2.safetensors")
    assert load_pair(draft=copied, target=folders[1]).draft_parameters


def test_a_link_out_of_the_folder_is_refused_but_for_the_hubs_cache(copied, folders):
    in_parts(copied, "model-2.safetensors")
    blobs = copied.parent / "blobs"
    blobs.mkdir()
    (copied / "model-2.safetensors").rename(blobs / "abc")
    (copied / "model-2.safetensors").symlink_to(blobs / "abc")
    refused("names the weights 'model-2.safetensors'", draft=copied, target=folders[1])
    snapshots = copied.parent / "snapshots"
    snapshots.mkdir()
    copied.rename(snapshots / "v1")
    assert load_pair(draft=snapshots / "v1", target=folders[1]).draft_parameters


@pytest.mark.parametrize("name", ["adapter_model.bin", "other.safetensors.index.json", "../model.safetensors", 7])
def test_weights_that_the_configuration_names_are_checked(name, copied, folders, monkeypatch):
    in_parts(copied, "weights.bin")
    (copied / sources.INDEX).rename(copied / "other.safetensors.index.json")
    file = copied / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"transformers_weights": name}))
    refused(r"names the weights ('weights\.bin'|'adapter_model\.bin'|'\.\./model|7)", draft=copied, target=folders[1])


@pytest.mark.parametrize("text", ["", "[", "[]", '{"weight_map": []}', "[" * 10_000, '{"weight_map": {"a": 7}}'])
def test_an_index_that_cannot_be_read_is_refused(text, copied, folders):
    (copied / sources.INDEX).write_text(text)
    refused(r"index.json of '.*copied' (is not|has no|names the weights 7)", draft=copied, target=folders[1])


def test_an_index_on_the_hub_is_checked_before_the_model_is_loaded(copied, monkeypatch):
    in_parts(copied, "weights.bin")
    there = lambda name, file, **_: str(copied / file) if (copied / file).exists() else None  # noqa: E731
    monkeypatch.setattr(transformers.utils, "cached_file", there)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(UserError, match=r"names the weights 'weights\.bin'"):
        ModelSource("owner/model").load_model("float32")


def test_an_adapter_beside_a_whole_model_is_refused(copied, folders):
    (copied / "adapter_config.json").write_text("{}")
    refused("has an adapter beside its own weights", draft=copied, target=folders[1])


def test_damaged_weights(copied, folders):
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused("The model '.*copied' cannot be loaded", draft=copied, target=folders[1])


def test_incomplete_weights(copied, folders):
    tensors = load_file(copied / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    message = r"weights of '.*copied' are incomplete: model\.layers\.1\.mlp\.up_proj\.weight is missing, 1 in all"
    refused(message, draft=copied, target=folders[1])


def test_code_of_its_own_is_never_run(copied, folders):
    file = copied / "config.json"
    own = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.Evil"}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "evil", "auto_map": own}))
    trace = copied.parent / "ran"
    (copied / "evil.py").write_text(f"open({str(trace)!r}, 'w')")
    refused("needs code of its own, which is never run", draft=copied, target=folders[1])
    assert not trace.exists()


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("GatedRepoError", "The model 'owner/model' is gated: accept its terms on the hub"),
        ("RepositoryNotFoundError", "The hub has no public model 'owner/model'; check the spelling"),
        (
            "RevisionNotFoundError",
            "The model 'owner/model' has no revision 'v9' on the hub; check the part after the @",
        ),
        ("LocalEntryNotFoundError", "'owner/model' is not a folder here, and the hub cannot be reached"),
    ],
)
def test_hub_failures(kind, message, monkeypatch):
    def fail(*_, **__):
        try:
            raise type(kind, (Exception,), {})("as the hub client raises it")
        except Exception as error:
            raise OSError("several lines\nof advice") from error

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", fail)
    refused(message, draft="owner/model@v9", target="owner/model")


def test_a_revision_stands_behind_an_at(tmp_path):
    assert ModelSource.parse("owner/model") == ModelSource("owner/model", "main")
    assert ModelSource.parse("owner/model@v1.0") == ModelSource("owner/model", "v1.0")
    (tmp_path / "kept@home").mkdir()
    assert ModelSource.parse(str(tmp_path / "kept@home")).name == str(tmp_path / "kept@home")
    refused("'owner/model@' names no revision after the @", draft="owner/model@", target="owner/model")


def test_a_revision_reaches_every_part(pair, monkeypatch):
    asked = []

    def answers(part):
        def from_pretrained(name, *, revision, trust_remote_code, **_):
            asked.append(f"{name}@{revision}")
            assert trust_remote_code is False
            return part

        return from_pretrained

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", answers(pair.target.config))
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", answers(pair.tokenizer))
    found = (pair.target, {"missing_keys": []})
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", answers(found))
    monkeypatch.setattr(pair.target.config, "_commit_hash", "abc", raising=False)
    monkeypatch.setattr(ModelSource, "_part", lambda source, name: asked.append(f"{source.name}@{source.revision}"))
    loaded = load_pair(draft="owner/one@v1", target="owner/two")
    assert set(asked) == {"owner/one@v1", "owner/two@main"}
    assert len(asked) == 14  # configuration twice, tokenizer, weights, the two files that name these, and an adapter's
    assert loaded.describe()["small_name"] == "owner/one@v1"
    assert loaded.describe()["large_commit"] == "abc"
