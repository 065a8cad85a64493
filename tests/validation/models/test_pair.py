"""Loading a pair: accepted inputs, refused inputs, and the messages."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hlmtheory import all_claims
from tests.validation.gguf_writing import write_gguf
from validation.claims.check import check_trace
from validation.collection.collect import collect
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import Hlm
from validation.errors import UserError
from validation.models import pair as pair_module
from validation.models import sources
from validation.models.pair import PAIRS, PairSource, load_pair
from validation.models.sources import ModelSource
from validation.report.html import write_report


def refused(message: str, **arguments: Any) -> None:
    """Assert that loading raises one sentence that matches, without a line break."""
    with pytest.raises(UserError, match=message) as caught:
        load_pair(**arguments)
    assert "\n" not in str(caught.value)


@pytest.fixture
def copied(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    """Return a copy of the draft model, which a test may damage."""
    return Path(shutil.copytree(folders[0], tmp_path / "copied"))


def test_two_folders(pair: Any, folders: tuple[Path, Path]) -> None:
    import torch

    assert (pair.vocabulary, pair.context, pair.end_tokens, pair.notes) == (300, 64, (0,), ())
    assert not pair.draft.training
    assert not pair.target.training
    assert pair.dtype == "float32"  # the stored weights are bfloat16
    assert all(parameter.dtype == torch.float32 for parameter in pair.draft.parameters())
    assert (pair.draft_name, pair.target_name) == (str(folders[0]), str(folders[1]))
    assert pair.draft_parameters == sum(parameter.numel() for parameter in pair.draft.parameters())
    json.dumps(pair.describe())


def test_a_draft_larger_than_its_target_is_said(pair: Any, folders: tuple[Path, Path]) -> None:
    (note,) = load_pair(draft=folders[1], target=folders[0]).notes
    sizes = f"{pair.target_parameters:,} parameters, more than the target's {pair.draft_parameters:,}"
    assert note == f"The draft model has {sizes}; --draft and --target may be swapped."


def test_dtype_on_request(folders: tuple[Path, Path]) -> None:
    assert load_pair(draft=folders[0], target=folders[1], dtype="bfloat16").dtype == "bfloat16"


@pytest.mark.parametrize("family", ["gpt2", "gpt_neo"])
def test_other_families(family: str, save_model: Callable[..., Path]) -> None:
    pair = load_pair(draft=save_model(family), target=save_model(family, context=48))
    assert (pair.vocabulary, pair.context) == (300, 48)


def test_named_pair(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pair_module.PAIRS, "tiny", PairSource(str(folders[0]), str(folders[1]), "for a test"))
    pair = load_pair("tiny")
    assert (pair.name, pair.draft_name, pair.target_name) == ("tiny", "tiny/small", "tiny/large")


def test_sampling_settings_of_the_folder_are_dropped(copied: Path) -> None:
    settings = {"do_sample": True, "temperature": 0.5, "top_p": 0.9, "repetition_penalty": 1.3, "eos_token_id": [0, 7]}
    (copied / "generation_config.json").write_text(json.dumps(settings))
    pair = load_pair(draft=copied, target=copied)
    assert pair.end_tokens == (0, 7)
    assert pair.target.generation_config.repetition_penalty is None
    assert pair.target.generation_config.top_p is None


def test_padded_head_is_cut_and_said(folders: tuple[Path, Path], save_model: Callable[..., Path]) -> None:
    pair = load_pair(draft=folders[0], target=save_model(vocabulary=320))
    assert pair.vocabulary == 300
    assert pair.notes == ("The target model gives 320 logits; the 20 beyond the vocabulary are cut.",)


def test_head_too_narrow(save_model: Callable[..., Path], extended_tokenizer: Callable[..., Any]) -> None:
    folder = save_model(tokenizer=extended_tokenizer(extra=("<added>",)))
    refused("The draft model gives 300 logits, but the tokenizer has 301 entries", draft=folder, target=folder)


def test_vocabularies_differ(
    folders: tuple[Path, Path], save_model: Callable[..., Path], extended_tokenizer: Callable[..., Any]
) -> None:
    longer = save_model(vocabulary=310, tokenizer=extended_tokenizer(extra=("<more>", "<most>")))
    refused(r"first at id 300: missing in .*, '<more>' in .* \(300 and 302 entries\)", draft=folders[0], target=longer)


def test_added_tokens_of_other_ids(
    folders: tuple[Path, Path], save_model: Callable[..., Path], extended_tokenizer: Callable[..., Any]
) -> None:
    """The same added tokens in another order: the same number of entries, and other meanings."""
    draft, target = (
        save_model(vocabulary=302, tokenizer=extended_tokenizer(extra=extra))
        for extra in (("<one>", "<two>"), ("<two>", "<one>"))
    )
    message = rf"first at id 300: '<one>' in '{draft}', '<two>' in '{target}' \(302 and 302 entries\)"
    refused(message, draft=draft, target=target)


@pytest.mark.parametrize("kind", ["link", "folder", "files"])
def test_copies_of_one_model_are_read_once(
    kind: str, folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = folders[1] if kind != "files" else write_gguf(folders[1], tmp_path / "one.gguf")
    draft = tmp_path / ("two.gguf" if kind == "files" else "copy")
    if kind == "link":
        draft.symlink_to(target)
    else:
        (shutil.copy if kind == "files" else shutil.copytree)(target, draft)
    if kind == "folder":
        (draft / "README.md").write_text("not read")
    read: list[str] = []
    real = ModelSource.load_model

    def load_model(source: ModelSource, dtype: str, **options: Any) -> Any:
        read.append(source.name)
        return real(source, dtype, **options)

    monkeypatch.setattr(ModelSource, "load_model", load_model)
    for suffix in ("", "@3-bit"):
        pair = load_pair(draft=f"{draft}{suffix}", target=target)
        assert read == [str(target)]
        assert (pair.draft_name, pair.target_name) == (f"{draft}{suffix}", str(target))
        read.clear()
    if kind == "link":
        return
    file = draft if kind == "files" else draft / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    load_pair(draft=draft, target=target)
    assert read == [str(target), str(draft)]


def test_a_pair_in_bf16_is_collected_and_decoded_and_its_report_says_so(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    pair = load_pair(draft=folders[0], target=folders[1], dtype="bfloat16")
    prompts = [Prompt("a", "two and two", "test")]
    trace = collect(pair, prompts, tmp_path, positions=4, new_tokens=4, batch=1, seed=1)
    assert (trace.manifest["pair"]["dtype"], trace.manifest["settings"]["model_dtype"]) == ("bfloat16", "bfloat16")
    (text,) = decode(pair, prompts, Hlm(), new_tokens=4)
    assert text.tokens
    claims = {"verification.tokens": all_claims()["verification.tokens"]}
    results = check_trace(trace, seed=1, claims=claims)
    page = write_report(tmp_path, results=results, manifest=trace.manifest, figures=[], command="", claims=claims)
    assert "<dt>Weights</dt><dd>in bfloat16</dd>" in page.read_text(encoding="utf-8")


def test_first_differing_entry(copied: Path, folders: tuple[Path, Path]) -> None:
    file = copied / "tokenizer.json"
    content = json.loads(file.read_text())
    vocabulary = content["model"]["vocab"]
    by_id = {index: token for token, index in vocabulary.items()}
    vocabulary[by_id[5]], vocabulary[by_id[9]] = 9, 5
    file.write_text(json.dumps(content))
    message = f"first at id 5: {re.escape(repr(by_id[9]))} in .*copied', {re.escape(repr(by_id[5]))} in "
    refused(message, draft=copied, target=folders[1])


def test_one_model_only() -> None:
    refused(r"Only the draft model was given \(x\); name the target one too", draft="x")
    refused(r"Only the target model was given \(y\); name the draft one too", target="y")


def test_pair_and_models() -> None:
    refused("Both the pair 'builtin' and two models were given", name="builtin", draft="x", target="y")


def test_unknown_pair() -> None:
    refused("Unknown pair 'gpt'; choose one of builtin", name="gpt")


def test_unknown_dtype_and_device() -> None:
    refused("Unknown dtype 'int3'; choose one of float32", dtype="int3")
    refused("Unknown device 'toaster'; use 'auto', 'cpu'", device="toaster")
    refused("No such device 'cuda:99': torch sees", device="cuda:99")


def test_missing_folder(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    refused(f"There is no model folder '{gone}'; check the path", draft=gone, target=gone)


def test_not_a_model_folder(tmp_path: Path) -> None:
    refused("is not a model folder: config.json is missing", draft=tmp_path, target=tmp_path)
    (tmp_path / "file").write_text("")
    refused("is a file, not a model folder", draft=tmp_path / "file", target=tmp_path)


def test_other_weight_formats(copied: Path) -> None:
    (copied / "model.safetensors").rename(copied / "pytorch_model.bin")
    refused(r"No \*\.safetensors weights lie in .*copied", draft=copied, target=copied)


class _Marks:
    """An object that writes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self.file,)


def in_parts(folder: Path, name: str, content: str = "tensors") -> None:
    """Split the folder's weights into two files; the index calls the second one ``name``."""
    import torch
    from safetensors.torch import load_file, save_file

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
def test_an_index_that_names_other_files_is_refused(
    name: str, content: str, copied: Path, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    in_parts(copied, name, content)
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    message = f"index.json of '.*copied' names the weights '{re.escape(name)}', but weights are read only from"
    refused(message, draft=copied, target=folders[1])
    refused(message, draft=folders[1], target=copied)
    assert not (copied.parent / "ran").exists()


def test_weights_in_several_files(copied: Path, folders: tuple[Path, Path]) -> None:
    in_parts(copied, "model-2.safetensors")
    assert load_pair(draft=copied, target=folders[1]).draft_parameters


def test_a_link_out_of_the_folder_is_refused_but_for_the_hubs_cache(copied: Path, folders: tuple[Path, Path]) -> None:
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
def test_weights_that_the_configuration_names_are_checked(
    name: Any, copied: Path, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    in_parts(copied, "weights.bin")
    (copied / sources.INDEX).rename(copied / "other.safetensors.index.json")
    file = copied / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"transformers_weights": name}))
    refused(r"names the weights ('weights\.bin'|'adapter_model\.bin'|'\.\./model|7)", draft=copied, target=folders[1])


@pytest.mark.parametrize("text", ["", "[", "[]", '{"weight_map": []}', "[" * 10_000, '{"weight_map": {"a": 7}}'])
def test_an_index_that_cannot_be_read_is_refused(text: str, copied: Path, folders: tuple[Path, Path]) -> None:
    (copied / sources.INDEX).write_text(text)
    refused(r"index.json of '.*copied' (is not|has no|names the weights 7)", draft=copied, target=folders[1])


def test_an_index_on_the_hub_is_checked_before_the_model_is_loaded(
    copied: Path, hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    in_parts(copied, "weights.bin")
    there = lambda name, file, **_: str(copied / file) if (copied / file).exists() else None  # noqa: E731
    monkeypatch.setattr(transformers.utils, "cached_file", there)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(UserError, match=r"names the weights 'weights\.bin'"):
        ModelSource("owner/model").load_model("float32")


def test_an_adapter_beside_a_whole_model_is_refused(copied: Path, folders: tuple[Path, Path]) -> None:
    (copied / "adapter_config.json").write_text("{}")
    refused("has an adapter beside its own weights", draft=copied, target=folders[1])


def test_damaged_weights(copied: Path, folders: tuple[Path, Path]) -> None:
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    refused("The model '.*copied' cannot be loaded", draft=copied, target=folders[1])


def test_incomplete_weights(copied: Path, folders: tuple[Path, Path]) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(copied / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    message = r"weights of '.*copied' are incomplete: model\.layers\.1\.mlp\.up_proj\.weight is missing, 1 in all"
    refused(message, draft=copied, target=folders[1])


def test_code_of_its_own_is_never_run(copied: Path, folders: tuple[Path, Path]) -> None:
    file = copied / "config.json"
    own = {"AutoConfig": "evil.EvilConfig", "AutoModelForCausalLM": "evil.Evil"}
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "evil", "auto_map": own}))
    trace = copied.parent / "ran"
    (copied / "evil.py").write_text(f"open({str(trace)!r}, 'w')")
    refused("needs code of its own, which is never run", draft=copied, target=folders[1])
    assert not trace.exists()


def test_not_a_language_model(copied: Path, folders: tuple[Path, Path]) -> None:
    file = copied / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_type": "clip"}))
    refused("The model '.*copied' cannot be loaded", draft=copied, target=folders[1])


# ------------------------------------------------------------------------------------------------------ the hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that makes the hub's first answer an error of this name; before the call the hub works."""
    import huggingface_hub

    def answer(kind: str = "") -> None:
        def metadata(address: str, timeout: float) -> None:
            assert timeout == sources.PATIENCE
            assert "owner" in address
            if kind:
                raise type(kind, (Exception,), {})("as the hub client raises it")

        monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", metadata)

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    answer()
    return answer


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
def test_hub_failures(kind: str, message: str, hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    def fail(*_: Any, **__: Any) -> None:
        try:
            raise type(kind, (Exception,), {})("as the hub client raises it")
        except Exception as error:
            raise OSError("several lines\nof advice") from error

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", fail)
    refused(message, draft="owner/model@v9", target="owner/model")


def test_an_unreachable_hub_is_asked_once(hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    hub("NetworkError")
    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", lambda *_, **__: pytest.fail("asked again"))
    told: list[str] = []
    message = "'owner/model' is not a folder here, and the hub cannot be reached; check the path or the network"
    refused(message, draft="owner/model", target="owner/model", report=told.append)
    assert told == ["looking for owner/model"]


@pytest.mark.parametrize("kind", ["GatedRepoError", "EntryNotFoundError"])
def test_other_answers_are_left_to_loading(kind: str, hub: Callable[[str], None]) -> None:
    hub(kind)
    ModelSource("owner/model").reach()


def test_what_is_on_this_machine_needs_no_hub(
    folders: tuple[Path, Path], hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    hub("NetworkError")
    ModelSource(str(folders[0])).reach()
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *_, **__: "config.json")
    ModelSource("owner/model").reach()


def test_a_revision_stands_behind_an_at(tmp_path: Path) -> None:
    assert ModelSource.parse("owner/model") == ModelSource("owner/model", "main")
    assert ModelSource.parse("owner/model@v1.0") == ModelSource("owner/model", "v1.0")
    (tmp_path / "kept@home").mkdir()
    assert ModelSource.parse(str(tmp_path / "kept@home")).name == str(tmp_path / "kept@home")
    refused("'owner/model@' names no revision after the @", draft="owner/model@", target="owner/model")


def test_a_revision_reaches_every_part(pair: Any, hub: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    asked: list[str] = []

    def answers(part: Any) -> Callable[..., Any]:
        def from_pretrained(name: str, *, revision: str, trust_remote_code: bool, **_: Any) -> Any:
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


def test_the_papers_pairs_are_named() -> None:
    assert next(iter(PAIRS)) == "builtin"
    for name, papers in {
        "tinyllama-llama2-7b": "u-hlm",
        "tinyllama-llama2-13b": "cu-hlm",
        "gpt-neo-125m-1.3b": "c-sqs",
        "llama-68m-7b": "edge-sd",
    }.items():
        assert papers in PAIRS[name].description
        assert all(
            sources.HUB_NAME.fullmatch(ModelSource.parse(m).name) for m in (PAIRS[name].draft, PAIRS[name].target)
        )
