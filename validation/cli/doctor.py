"""The command ``hlm doctor``: what this machine has, and whether each device computes what the host computes."""

from __future__ import annotations

import os
import platform
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import hlmtheory
from validation.cli.display import open_console, waiting
from validation.cli.exits import Verdict
from validation.cli.options import FILE, json_option, option
from validation.cli.run import print_json
from validation.cli.tables import say
from validation.errors import UserError
from validation.models.devices import cores, free_memory, out_of_memory
from validation.provenance import versions

if TYPE_CHECKING:
    from rich.console import Console

CLAIM = "truncation.tvd_sharp"
TOKENS = 10
LARGEST_DISTANCE = 1e-3
"""Largest total variation between two devices' distributions in float32; rounding gives about 10⁻⁶."""
PACKAGES = ("torch", "numpy", "transformers")
DRIVERS = {"NVIDIA": ("/proc/driver/nvidia/version", "/dev/nvidiactl"), "AMD": ("/dev/kfd",)}
"""Files that a GPU's driver makes on Linux, by maker."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that torch finds; memory in bytes, None if it is unknown."""

    name: str
    model: str
    free: int | None
    total: int | None


@dataclass(frozen=True, slots=True)
class Health:
    """What a device did: ``reason`` is empty if it works, else one sentence."""

    device: Device
    reason: str
    seconds: float
    tokens: int = 0
    distance: float | None = None


def find_devices() -> list[Device]:
    import torch

    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None
    found = [Device("cpu", platform.processor() or platform.machine(), free_memory(torch.device("cpu")), memory)]
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator is None:
        return found
    for index in range(torch.get_device_module(accelerator.type).device_count()):
        name, model, memory_there = f"{accelerator.type}:{index}", accelerator.type, (None, None)
        if accelerator.type == "cuda":
            model = torch.cuda.get_device_name(index)
            with suppress(RuntimeError):  # the trial of the device says why
                memory_there = torch.cuda.mem_get_info(index)
        found.append(Device(name, model, *memory_there))
    return found


def unused_driver() -> str:
    """Return why torch finds no GPU although a GPU's driver is here, or an empty text."""
    import torch

    maker = next((name for name, files in DRIVERS.items() if any(Path(one).exists() for one in files)), None)
    if maker is None or torch.accelerator.is_available():
        return ""
    hidden = {name: os.environ[name] for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES") if name in os.environ}
    if torch.version.cuda is None and torch.version.hip is None:
        why = "is built for the CPU alone; install a build of torch for this GPU"
    elif hidden:
        why = f"sees no GPU with {', '.join(f'{name}={value}' for name, value in hidden.items())}"
    else:
        why = f"cannot use it; see {'nvidia-smi' if maker == 'NVIDIA' else 'rocm-smi'} for the driver's state"
    return f"a driver of {maker} is here, but torch {torch.__version__} {why}."


def examine(device: Device, host: dict[str, Any]) -> Health:
    """Check a claim and decode ten tokens on a device, and compare both with the host."""
    began, count, distance = time.perf_counter(), 0, None
    try:
        _check_claim(device.name)
        count, distance = _check_models(device.name, host)
        reason = ""
    except Exception as error:  # a broken device raises errors of any kind
        reason = _sentence(error)
    return Health(device, reason, time.perf_counter() - began, count, distance)


def _check_claim(name: str) -> None:
    import torch

    rng = np.random.default_rng(1)
    instance: dict[str, Any] = {"target": rng.dirichlet(np.ones(256), 32), "draft": rng.dirichlet(np.ones(256), 32)}
    instance["k"] = rng.integers(1, 256, 32)
    claim = hlmtheory.all_claims()[CLAIM]
    here = claim.check(instance)
    there = claim.check({key: torch.from_numpy(value).to(name) for key, value in instance.items()})
    if not there.holds or not np.allclose(here.lhs, there.lhs) or not np.allclose(here.rhs, there.rhs):
        raise UserError(f"the two sides of the claim {CLAIM} are not those of the host")


def _check_models(name: str, host: dict[str, Any]) -> tuple[int, float]:
    """Decode ten tokens with the built-in pair, and return their number and the distance of the distributions."""
    from validation.collection.collect import Text, encode_prompts, teacher_forced_logits
    from validation.collection.prompts import builtin_prompts
    from validation.decoding.loop import decode
    from validation.decoding.methods.single_draft import Hlm
    from validation.models.pair import load_pair
    from validation.trace.reader import probabilities

    pair = load_pair("builtin", device=name, dtype="float32")
    prompts = builtin_prompts(limit=1)
    (record,) = decode(pair, prompts, Hlm(), new_tokens=TOKENS, temperature=0.0)
    (ids,) = encode_prompts(pair, prompts, TOKENS)
    text = host.setdefault("text", Text(0, prompts[0].id, [*ids, *record.tokens], len(ids)))
    rows = [probabilities(teacher_forced_logits(pair, which, [text])[0]) for which in ("draft", "target")]
    distance = max(
        float(0.5 * np.abs(one - other).sum(axis=-1).max())
        for one, other in zip(rows, host.setdefault("rows", rows), strict=True)
    )
    if not len(record.tokens):
        raise UserError("no token was decoded")
    if not distance <= LARGEST_DISTANCE:
        raise UserError(f"the models' distributions differ from the host's by a total variation of {distance:.3g}")
    return len(record.tokens), distance


def _sentence(error: Exception) -> str:
    if isinstance(error, UserError):
        reason = str(error)
    else:
        lines = str(error).strip().splitlines()
        reason = out_of_memory(error) or f"{type(error).__name__}: {lines[0] if lines else 'nothing more is known'}"
    return reason[:300].rstrip(". ") + "."


def conclusion(healths: list[Health], unused: str = "") -> str:
    """Return in one line whether the GPU path works; ``unused`` is why torch finds no GPU beside a driver."""
    failed = [health for health in healths if health.reason]
    gpus = [health for health in healths if health.device.name != "cpu"]
    if failed:
        path = "CPU" if failed[0].device.name == "cpu" else "GPU"
        return f"The {path} path fails on {failed[0].device.name}: {failed[0].reason}"
    if unused:
        return f"The GPU path fails: {unused}"
    if not gpus:
        return "No GPU found: the CPU path works."
    return f"The GPU path works on {', '.join(health.device.name for health in gpus)}, and so does the CPU path."


@click.command()
@option("--times", "Measure a pair's times for `hlm plan --times`, here.", FILE)
@option("--pair name", "The pair of --times.  [default: builtin]")
@json_option
def doctor(times: Path | None, name: str | None, as_json: bool) -> None:
    """Say what this machine has, and whether each device works.

    On each device that torch finds, one claim is checked and ten tokens are decoded with the built-in pair, in float32;
    the results must be those of the host. With --times a pair's drafts, its passes by texts and tokens, and messages
    are then timed; run it on an idle machine. Exit codes: 0 everything works; 1 a device fails, or torch finds no GPU
    where a GPU's driver is.
    """
    if name is not None and times is None:
        raise UserError("--pair names the models that --times measures; give --times FILE with it.")
    try:
        import torch
    except OSError as error:  # a library of a GPU build is missing
        raise UserError(f"torch cannot be loaded: {str(error).splitlines()[0]}; install it again.") from error

    console = open_console(stderr=as_json)
    about = {"versions": versions(*PACKAGES), "cores": cores(), "threads": torch.get_num_threads()}
    console.print(", ".join(f"{name} {value}" for name, value in about["versions"].items()))
    console.print(f"{about['cores']} cores, {about['threads']} threads of torch")
    host: dict[str, Any] = {}
    healths: list[Health] = []
    for device in find_devices():
        with waiting(console, f"trying {device.name}"):
            healths.append(examine(device, host))
        _print(console, healths[-1])
    unused = unused_driver()
    verdict = conclusion(healths, unused)
    say(console, verdict)
    works = not unused and not any(one.reason for one in healths)
    measured = {} if times is None or not works else {"times": _measure(console, name or "builtin", times)}
    if as_json:
        print_json(
            {**about, "devices": [asdict(one) for one in healths], "works": works, "conclusion": verdict, **measured}
        )
    if not works:
        raise Verdict


def _print(console: Console, health: Health) -> None:
    device = health.device
    memory = "memory unknown"
    if device.total is not None:
        free = "" if device.free is None else f" of which {device.free / 1e9:.1f} GB are free"
        memory = f"{device.total / 1e9:.1f} GB{free}"
    found = f"a claim and {health.tokens} tokens in {health.seconds:.1f} s" if not health.reason else "fails"
    say(console, f"{device.name} ({device.model}, {memory}): {found}")


def _measure(console: Console, name: str, path: Path) -> dict[str, Any]:
    from validation.link.timing import measure_times
    from validation.models.pair import load_pair
    from validation.planning.times import pass_line, write_times

    with waiting(console, "timing the pair"):
        times = measure_times(load_pair(name, device="auto"))
    write_times(times, path)
    base, slope = pass_line(times.table)
    single = next(timed.time for timed in times.passes if (timed.batch, timed.width) == (1, 1))
    alike = times.token.low_s <= single.high_s and single.low_s <= times.token.high_s
    between = "a time not told apart from 0" if alike else f"{1e3 * times.between_s():.3g} ms"
    say(
        console,
        f"A draft takes {1e3 * times.draft.median_s:.3g} ms; a pass of one text {1e3 * base:.3g} ms + "
        f"{1e6 * slope:.3g} µs for each token. Between passes device and server take "
        f"{1e3 * times.exchange_s():.3g} ms of a round, and the server {between} for each token that it writes "
        f"(medians of {times.repeats}, at a load of {times.machine['load']:g}): {path}",
    )
    return times.plain()
