"""Bytes that a device downloads for a version of a model, by the files, and the seconds over flexspec's networks.

What is not sent again does not count: the tokenizer, and what describes a training or a repository. The arithmetic of
flexspec Table I is :func:`hlmtheory.draft_length.synchronisation_time`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hlmtheory.draft_length import synchronisation_time
from validation.errors import UserError

RATES_BPS = {"WiFi": 10e6, "4G": 50e6, "5G": 300e6}
"""flexspec Table I."""
SETTINGS = ("config.json", "adapter_config.json", "heads.json", "generation_config.json")
"""Files beside the weights without which they cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Download:
    """The files of a version that are sent.

    Attributes
    ----------
    files : dict
        Bytes by the file's name.
    parameters : int
        Numbers in the weights.
    """

    files: dict[str, int]
    parameters: int

    @property
    def bytes(self) -> int:
        """Return the sum over the files."""
        return sum(self.files.values())

    def seconds(self) -> dict[str, float]:
        """Return the seconds over each network, at its whole rate."""
        return {name: float(synchronisation_time(float(self.bytes), rate)) for name, rate in RATES_BPS.items()}


def measure_download(folder: Path) -> Download:
    """Return what is sent of a model, an aligned draft's own part, an adapter, or a draft's heads.

    Parameters
    ----------
    folder : Path
        Its ``*.safetensors`` are counted with their settings; folders in it are not.

    Raises
    ------
    UserError
        There are no safetensors in it, or they are damaged.
    """
    from safetensors import SafetensorError, safe_open

    weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        raise UserError(f"There are no *.safetensors in {str(folder)!r}; give the folder of a model, adapter or heads.")
    count = 0
    for file in weights:
        try:
            with safe_open(file, "numpy") as stored:
                count += sum(_size(stored.get_slice(name)) for name in stored.keys())  # noqa: SIM118
        except SafetensorError as error:
            raise UserError(f"{file.name} of {str(folder)!r} is damaged; save it again.") from error
    files = [*weights, *(folder / name for name in SETTINGS if (folder / name).is_file())]
    return Download({file.name: file.stat().st_size for file in files}, count)


def _size(part: Any) -> int:
    size = 1
    for length in part.get_shape():
        size *= length
    return size


def anchor_bytes(base: Path) -> int:
    """Return the bytes of the base model's weights that an aligned draft shares: downloaded once, with the draft.

    These are the embeddings, the last block, the final norm and the head, in the type that is stored.

    Raises
    ------
    UserError
        The base model cannot be read.
    """
    from validation.models.aligned import anchor_weights
    from validation.models.sources import ModelSource, quiet

    with quiet():
        model = ModelSource(str(base)).load_model("auto")
    once = {weights.data_ptr(): weights.numel() * weights.element_size() for weights in anchor_weights(model).values()}
    return sum(once.values())
