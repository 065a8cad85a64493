"""Versions of a target: adapters merged into a base model, and every refusal, on models of a few hundred weights."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.validation.command_line import one_sentence, run
from tests.validation.models.test_aligned import SHAPES, edit, toy_base, toy_tokenizer
from validation.errors import UserError
from validation.models.adapters import base_mark
from validation.models.aligned import build_aligned, fingerprint, save_aligned
from validation.models.pair import load_pair
from validation.models.sources import ModelSource

BELOW, ALL = [0, 1], [0, 1, 2]
MODULES = ["q_proj", "v_proj", "down_proj"]


def make_adapter(base: Path, folder: Path, *, layers: list[int] | None = None, seed: int = 1, **options: Any) -> Path:
    """Write an adapter with random weights, as peft saves it, whose base model is named relative to its folder."""
    from peft import LoraConfig, get_peft_model

    settings = {"r": 2, "lora_alpha": 4, "target_modules": MODULES, "task_type": "CAUSAL_LM"} | options
    model = get_peft_model(
        ModelSource(str(base)).load_model("float32"), LoraConfig(**settings, layers_to_transform=layers or BELOW)
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "lora_" in name:
                weights.copy_(0.5 * torch.randn(weights.shape, generator=generator))
    model.save_pretrained(folder)
    edit(folder / "adapter_config.json", base_model_name_or_path=f"../{base.name}")
    return folder


def save_base(folder: Path, seed: int = 1) -> Path:
    toy_base(seed).save_pretrained(folder)
    toy_tokenizer(folder)
    return folder


def align(base: Path, folder: Path) -> Path:
    model = ModelSource(str(base)).load_model("auto")
    tokenizer = toy_tokenizer(folder)
    draft = build_aligned(model, **SHAPES["entry"])
    save_aligned(draft, folder, base=f"../{base.name}", mark=fingerprint(model, tokenizer))
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions")
    save_base(folder / "large")
    save_base(folder / "other", seed=5)
    align(folder / "large", folder / "aligned")
    align(folder / "other", folder / "aligned-other")
    make_adapter(folder / "large", folder / "math")
    make_adapter(folder / "large", folder / "all", layers=ALL)
    return folder


@pytest.fixture
def own(made, tmp_path):
    def copy(name):
        for one in ("large", name):
            shutil.copytree(made / one, tmp_path / one, dirs_exist_ok=True)
        return tmp_path / name

    return copy


@pytest.mark.parametrize(
    "options", [{}, {"use_rslora": True}, {"alpha_pattern": {"q_proj": 8}, "rank_pattern": {"v_proj": 3}}], ids=str
)
def test_a_version_is_w_plus_scaled_b_a(made, tmp_path, options):
    shutil.copytree(made / "large", tmp_path / "large")
    folder = make_adapter(tmp_path / "large", tmp_path / "math", **options)
    found = ModelSource(str(folder)).load_model("float32").state_dict()
    base = ModelSource(str(tmp_path / "large")).load_model("float32").state_dict()
    weights = load_file(folder / "adapter_model.safetensors")
    for name, value in base.items():
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{stem}.lora_A.weight" not in weights:
            assert torch.equal(found[name], value), name
            continue
        a, b = (weights[f"{stem}.lora_{part}.weight"] for part in "AB")
        alpha, rank = 8 if options.get("alpha_pattern") and "q_proj" in name else 4, a.shape[0]
        scale = alpha / (rank**0.5 if options.get("use_rslora") else rank)
        torch.testing.assert_close(found[name], value + scale * (b @ a))
        assert not torch.equal(found[name], value)


def test_the_target_may_be_an_adapters_folder(made):
    pair = load_pair(draft=made / "aligned", target=made / "math")
    whole = ModelSource(str(made / "math")).load_model("float32")
    assert all(
        torch.equal(a, b) for a, b in zip(pair.target.state_dict().values(), whole.state_dict().values(), strict=True)
    )
    assert pair.vocabulary == 40
    assert pair.target_name.endswith("math")
    assert pair.notes == ()
    assert type(pair.target).__name__ == "LlamaForCausalLM"


def test_the_base_model_may_be_given(own, tmp_path):
    folder = own("math")
    shutil.move(tmp_path / "large", tmp_path / "elsewhere")
    with pytest.raises(
        UserError, match=r"made for the base model '\.\./large', and there is no such folder; give .*--base"
    ):
        load_pair(draft=tmp_path / "elsewhere", target=folder)
    found = load_pair(draft=tmp_path / "elsewhere", target=folder, base=tmp_path / "elsewhere")
    assert found.target.num_parameters() == found.draft.num_parameters()
    with pytest.raises(UserError, match=r"is no adapter's folder; leave it out"):
        load_pair(draft=folder, target=tmp_path / "elsewhere", base=tmp_path / "elsewhere")


def refused(made: Path, target: Path, *said: str, draft: str = "aligned", more: tuple[str | Path, ...] = ()) -> None:
    one_sentence(run("validate", "--draft", made / draft, "--target", target, *more), *said)


def test_a_pickle_is_refused(made, own):
    folder = own("math")
    (folder / "adapter_model.safetensors").unlink()

    class Bomb:
        def __reduce__(self):
            return (Path.touch, (folder / "exploded",))

    (folder / "adapter_model.bin").write_bytes(pickle.dumps(Bomb()))
    refused(made, folder, "has no adapter_model.safetensors, and weights in other files or as pickles are never read")
    with pytest.raises(UserError, match="pickles are never read"):
        ModelSource(str(folder)).load_model("float32")
    assert not (folder / "exploded").exists()


def test_a_damaged_adapter_is_refused(made, own):
    folder = own("math")
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    refused(made, folder, "adapter_model.safetensors of", "is damaged")
    (folder / "adapter_config.json").write_text("[")
    refused(made, folder, "adapter_config.json of", "is not a JSON object")


def test_an_adapter_that_leads_out_of_its_folder_is_refused(made, own, tmp_path):
    folder = own("math")
    outside = tmp_path / "outside.safetensors"
    shutil.move(folder / "adapter_model.safetensors", outside)
    (folder / "adapter_model.safetensors").symlink_to(outside)
    refused(made, folder, "is a link that leads out of the folder")


def test_an_adapter_for_another_base_is_refused(made, own, tmp_path):
    folder = own("math")
    weights = load_file(folder / "adapter_model.safetensors")
    name = sorted(weights)[0]
    save_file(weights | {name: torch.zeros(2, 99)}, folder / "adapter_model.safetensors")
    refused(made, folder, "was made for another base model", "has the shape (2, 99), and needs")
    save_file({n: w for n, w in weights.items() if n != name}, folder / "adapter_model.safetensors")
    refused(made, folder, "was made for another base model", "has the shape none")
    save_file(weights, folder / "adapter_model.safetensors")
    edit(folder / "adapter_config.json", target_modules=["c_attn"])
    refused(made, folder, "was made for another base model", "c_attn")


def test_a_base_of_the_same_shape_is_told_apart_by_its_marks(made, own):
    folder = own("math")
    edit(folder / "version.json", base_weights=base_mark(made / "large"))
    assert load_pair(draft=made / "aligned", target=folder).notes == ()
    refused(made, folder, "a base model with other weights", draft="aligned-other", more=("--base", made / "other"))
    merged = ModelSource(str(made / "math"))
    edit(folder / "version.json", base_weights=None)
    edit(folder / "version.json", fingerprint=fingerprint(merged.load_model("float32"), merged.load_tokenizer()))
    assert load_pair(draft=made / "aligned", target=folder).notes == ()
    refused(made, folder, "the base model is another one", draft="aligned-other", more=("--base", made / "other"))


def test_what_is_no_plain_lora_is_refused(made, own):
    for said, values in (
        ("has the type 'IA3'; only LORA adapters", {"peft_type": "IA3"}),
        ("was initialised by 'pissa_niter_4', which changes the base", {"init_lora_weights": "pissa_niter_4"}),
        ("sets use_dora to True, which is not merged here", {"use_dora": True}),
        ("sets own_code to 'run.py', which is not merged here", {"own_code": "run.py"}),
        ("names no base model; give it with --base", {"base_model_name_or_path": None}),
    ):
        folder = own("math")
        edit(folder / "adapter_config.json", **values)
        refused(made, folder, said)
        shutil.rmtree(folder)


def test_an_adapter_on_an_adapter_is_refused(made, own):
    folder = own("math")
    edit(folder / "adapter_config.json", base_model_name_or_path="../math")
    refused(made, folder, "is an adapter itself; give a whole model")


@pytest.mark.parametrize("method", ["adapter", "full"])
def test_a_version_that_changed_the_anchor_is_refused_unless_it_is_allowed(made, tmp_path, method):
    version = made / "all"
    if method == "full":  # full fine-tuning without a frozen anchor
        version = tmp_path / "full"
        ModelSource(str(made / "all")).load_model("float32").save_pretrained(version)
        toy_tokenizer(version)
    said = "changed the last block, the head or the vocabulary", "still keeps the target's law", "--changed-anchor"
    refused(made, version, *said)
    allowed = load_pair(draft=made / "aligned", target=version, changed_anchor=True)
    assert len(allowed.notes) == 1
    assert "fewer drafts may be accepted" in allowed.notes[0]
