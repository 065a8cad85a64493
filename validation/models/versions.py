"""A server with several versions of one target model, which switches between them while texts are decoded.

Time counts rounds: a text that begins at b has its round r at b + r. ``pin="text"`` keeps a text's first version, whose
law it has. ``round`` verifies each round by the version in use: the next token's law is a mixture with weights
P(version | prefix). ``position`` counts tokens, and no round crosses a switch: the law changes there, whatever the
draft. A switch must not depend on the coins or drafts of its own round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from validation.errors import UserError
from validation.models.pair import Pair, anchor_note, same_vocabulary
from validation.models.sources import ModelSource, quiet

PINS = ("text", "round", "position")
CACHES = ("kept", "rebuilt")
SHAPE = ("model_type", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
"""Settings that must agree, so that the versions can share a cache."""


class VersionedTarget:
    """Several versions of a target model, and when each is in use. It takes the place of ``Pair.target``.

    ``switches`` gives the version in use from each time on, and ``begins`` the time at which a prompt's text begins.
    With ``caches="kept"`` each version keeps its own keys and values; ``rebuilt`` reads the text anew after a switch.
    ``served`` lists for each prompt's id the rounds as (number of new tokens before the round, version).
    """

    def __init__(
        self,
        versions: Mapping[str, Any],
        switches: Sequence[tuple[int, str]],
        *,
        pin: str = "text",
        caches: str = "kept",
        begins: Callable[[str], int] | None = None,
    ) -> None:
        for name, value, known in (("pin", pin, PINS), ("caches", caches, CACHES)):
            if value not in known:
                raise UserError(f"{name} is {value!r}; choose one of {', '.join(known)}.")
        times = [time for time, _ in switches]
        if not times or times[0] != 0 or any(a >= b for a, b in pairwise(times)):
            raise UserError(f"The switches are at the times {times}; they must rise from 0.")
        for _, name in switches:
            if name not in versions:
                raise UserError(f"There is no version {name!r}; the versions are {', '.join(versions)}.")
        configs = {name: getattr(model, "config", None) for name, model in versions.items()}
        shapes = {name: tuple(getattr(config, size, None) for size in SHAPE) for name, config in configs.items()}
        first = next(iter(shapes))
        for name, shape in shapes.items():
            if shape != shapes[first]:
                raise UserError(
                    f"The versions {first!r} and {name!r} have different architectures ({shapes[first]} and {shape}); "
                    "give versions of one base model."
                )
        self.versions, self.switches, self.pin, self.caches = dict(versions), tuple(switches), pin, caches
        self.begins = begins or (lambda prompt: 0)
        self.served: dict[str, list[tuple[int, str]]] = {}

    @property
    def config(self) -> Any:
        return getattr(next(iter(self.versions.values())), "config", None)

    def at(self, time: int) -> str:
        return [name for start, name in self.switches if start <= time][-1]

    def of_round(self, prompt: str, rounds: int, position: int) -> str:
        """Return the version of a round, after that many rounds and new tokens of a prompt's text."""
        if self.pin == "position":
            return self.at(position)
        return self.at(self.begins(prompt) + (rounds if self.pin == "round" else 0))

    def until_switch(self, position: int) -> int | None:
        """Return how many tokens a round may emit from a place on; None if any number."""
        if self.pin != "position":
            return None
        return next((start - position for start, _ in self.switches if start > position), None)


def versioned_pair(
    pair: Pair,
    versions: Mapping[str, str | Path],
    switches: Sequence[tuple[int, str]],
    *,
    changed_anchor: bool = False,
    **options: Any,
) -> Pair:
    """Return a pair whose target is a server with these versions: folders of adapters or models, by name.

    ``changed_anchor`` accepts versions that changed the anchor of an aligned draft; options are VersionedTarget's.
    """
    models = {}
    for name, folder in versions.items():
        source = ModelSource.parse(str(folder))
        with quiet():
            source.check_folder()
            tokenizer = source.load_tokenizer()
            same_vocabulary(pair.tokenizer, tokenizer, names=(pair.target_name, source.name))
            models[name] = source.load_model(pair.dtype).to(pair.device).eval()
        anchor_note(pair.draft, models[name], tokenizer, names=(pair.draft_name, source.name), accept=changed_anchor)
    share_weights(list(models.values()))
    target: Any = VersionedTarget(models, switches, **options)
    return replace(pair, target=target, target_name=", ".join(map(str, versions.values())))


def share_weights(models: Sequence[Any]) -> int:
    """Let models use one copy of the weights that are equal to those of the first, and return the bytes saved."""
    import torch

    saved = 0
    first = dict(models[0].named_parameters())
    for model in models[1:]:
        for name, weights in model.named_parameters():
            same = first.get(name)
            if same is None or same.data_ptr() == weights.data_ptr() or same.shape != weights.shape:
                continue
            if same.dtype == weights.dtype and torch.equal(same, weights):
                weights.data = same.data
                saved += weights.numel() * weights.element_size()
    return saved
