"""The models' devices and memory, on simulated GPUs: torch and accelerate are replaced."""

import pytest
import torch
import transformers

from tests.validation.models.test_pair import refused
from validation.errors import UserError
from validation.models import devices
from validation.models.sources import ModelSource


@pytest.fixture
def gpus(monkeypatch):
    def see(*free):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(free))
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(free))
        index = lambda gpu: gpu if isinstance(gpu, int) else gpu.index or 0  # noqa: E731
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (int(free[index(gpu)]), 80 * 10**9))

    return see


def test_names_of_devices(gpus):
    gpus()
    assert str(devices.choose_device("auto")) == "cpu"
    gpus(5e9, 9e9)
    assert str(devices.choose_device("auto")) == "cuda:1"
    assert str(devices.choose_device("cuda:1")) == "cuda:1"
    refused("No such device 'cuda:2': torch sees 2 GPUs; use 'cpu' instead", device="cuda:2")


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neo"])
@pytest.mark.parametrize(("dtype", "width"), [("auto", 2), ("float32", 4), ("float64", 8)])
def test_weights_are_counted_before_they_are_read(family, dtype, width, save_model):
    folder = save_model(family)
    config = transformers.AutoConfig.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    assert devices.weight_bytes(config, dtype) == width * model.num_parameters()


def test_too_little_memory(folders, gpus, monkeypatch):
    given = {"draft": folders[0], "target": folders[1]}
    monkeypatch.setattr(ModelSource, "load_model", lambda *_, **__: pytest.fail("weights were read"))
    monkeypatch.setattr(devices, "free_host_memory", lambda: 400 * 10**6)
    message = (
        r"The two models with working space need about 0\.54 GB, but only 0\.40 GB of memory are free on cpu; choose"
    )
    refused(message, **given)
    gpus(3e8, 1e8)
    refused(
        r"need about 0\.54 GB, but only 0\.30 GB of memory are free on cuda:0; choose a smaller pair",
        **given,
        device="cuda:0",
    )
    gpus(9e9)
    monkeypatch.setattr(devices, "free_host_memory", lambda: 1000)
    refused(r"Loading passes the larger model through the host and needs about", **given, device="cuda:0")


def test_memory_of_a_container(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable: 4000 kB\n")
    assert devices.free_host_memory(tmp_path / "meminfo", tmp_path) == 4000 * 1024
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 20\n")
    (tmp_path / "memory.current").write_text("120\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert devices.free_host_memory(tmp_path / "meminfo", tmp_path) == 4000 * 1024
    (tmp_path / "memory.max").write_text("1000\n")
    assert devices.free_host_memory(tmp_path / "meminfo", tmp_path) == 900
    assert devices.free_host_memory(tmp_path / "nothing", tmp_path) is None


def test_running_out_of_memory_is_told_from_other_errors():
    with pytest.raises(UserError, match="This machine ran out of memory") as caught, devices.memory_errors():
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"nothing more is known"), devices.memory_errors():
        raise MemoryError
    with pytest.raises(RuntimeError, match="something else"), devices.memory_errors():
        raise RuntimeError("something else")


def test_many_rows_are_multiplied_in_float32(monkeypatch):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    layer = torch.nn.Linear(48, devices.WIDE_PART + 1).bfloat16()
    devices.multiply_in_float32(layer)
    many = torch.randn(2, devices.WIDE_ROWS, 48).bfloat16()
    exact = torch.nn.functional.linear(many.float(), layer.weight.float(), layer.bias.float())
    assert torch.equal(layer(many), exact.bfloat16())
