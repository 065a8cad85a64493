"""A pair of language models that share a vocabulary: the built-in pair, two folders, or two hub names.

Weights are read from safetensors only, and code that a model folder brings along is never run. torch and
transformers are imported inside the functions, so that importing this module costs nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from validation.errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PAIRS_FOLDER = Path(__file__).parent / "pairs"
DTYPES = ("float32", "bfloat16", "float16", "float64")
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


@dataclass(frozen=True, slots=True)
class PairSource:
    """Where the two models of a named pair are found: folders or hub names."""

    small: str
    large: str
    description: str


PAIRS = {
    "builtin": PairSource(
        small=str(PAIRS_FOLDER / "builtin" / "small"),
        large=str(PAIRS_FOLDER / "builtin" / "large"),
        description="1.6 M and 10 M parameters, Llama-style, trained on GSM8K, PEPs and English novels; ships with hlm",
    ),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two causal language models over one vocabulary, ready to run.

    ``small`` and ``large`` are in eval mode on ``device``. The tokenizer is the large model's.
    """

    name: str
    small: PreTrainedModel
    large: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    vocabulary: int  # entries that both models and the tokenizer know
    context: int  # tokens, the shorter of the two contexts
    end_tokens: tuple[int, ...]  # any of them ends a text
    device: torch.device
    dtype: str
    small_name: str
    large_name: str
    small_parameters: int
    large_parameters: int
    notes: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Name, sizes and dtype as plain values, for manifests and reports."""
        fields = ("name", "small_name", "large_name", "small_parameters", "large_parameters", "vocabulary", "context")
        described = {field: getattr(self, field) for field in fields}
        return described | {"device": str(self.device), "dtype": self.dtype, "notes": list(self.notes)}


def load_pair(
    name: str | None = None,
    *,
    small: str | Path | None = None,
    large: str | Path | None = None,
    device: str = "cpu",
    dtype: str | None = None,
) -> Pair:
    """Load two models that share a vocabulary.

    Parameters
    ----------
    name : str, optional
        A key of ``PAIRS``; ``"builtin"`` when neither a name nor models are given.
    small, large : str or Path, optional
        A transformers folder or a hub name each; both or neither.
    device : str
        Where the models run, as torch names it, e.g. ``"cpu"`` or ``"cuda:1"``.
    dtype : str, optional
        What the weights are cast to, one of ``DTYPES``; by default float32 on the CPU, elsewhere as stored.

    Returns
    -------
    Pair

    Raises
    ------
    UserError
        Unknown pair, one model given without the other, missing folder or weights, unreachable hub, weights that
        are not safetensors, models that need their own code, different vocabularies, unknown device or dtype.
    """
    if dtype is not None and dtype not in DTYPES:
        raise UserError(f"Unknown dtype {dtype!r}; choose one of {', '.join(DTYPES)}.")
    name, small, large = _resolve(name, small, large)
    where = _device(device)
    with _quiet():
        for model in (small, large):
            _load_part("AutoConfig", model)  # the cheapest way to learn that a model is not there
        tokenizers = [_load_part("AutoTokenizer", model) for model in (small, large)]
        _same_vocabulary(*tokenizers, names=(small, large))
        chosen = dtype or ("float32" if where.type == "cpu" else "auto")
        models = [_load_model(model, chosen).to(where).eval() for model in (small, large)]
    vocabulary = max(tokenizers[1].get_vocab().values()) + 1
    notes = [_head_note(label, model, vocabulary) for label, model in zip(("small", "large"), models, strict=True)]
    labels = (f"{name}/small", f"{name}/large") if name in PAIRS else (small, large)
    return Pair(
        name=name,
        small=models[0],
        large=models[1],
        tokenizer=tokenizers[1],
        vocabulary=vocabulary,
        context=min(_context(model) for model in models),
        end_tokens=_end_tokens(models[1], tokenizers[1]),
        device=where,
        dtype=str(models[1].dtype).removeprefix("torch."),
        small_name=labels[0],
        large_name=labels[1],
        small_parameters=models[0].num_parameters(),
        large_parameters=models[1].num_parameters(),
        notes=tuple(note for note in notes if note),
    )


def _resolve(name: str | None, small: str | Path | None, large: str | Path | None) -> tuple[str, str, str]:
    """Pair name and the two places to load from."""
    if (small is None) != (large is None):
        given, missing = ("small", "large") if large is None else ("large", "small")
        raise UserError(f"Only the {given} model was given ({small or large}); name the {missing} one too.")
    if small is not None and large is not None:
        if name is not None:
            raise UserError(f"Both the pair {name!r} and two models were given; give one or the other.")
        return f"{Path(small).name} + {Path(large).name}", str(small), str(large)
    name = name or "builtin"
    if name not in PAIRS:
        raise UserError(f"Unknown pair {name!r}; choose one of {', '.join(PAIRS)}, or give a small and a large model.")
    return name, PAIRS[name].small, PAIRS[name].large


def _device(device: str) -> torch.device:
    import torch

    try:
        where = torch.device(device)
    except RuntimeError as error:
        raise UserError(f"Unknown device {device!r}; use 'cpu', 'cuda' or 'cuda:0'.") from error
    if where.type == "cuda" and not (torch.cuda.is_available() and (where.index or 0) < torch.cuda.device_count()):
        raise UserError(f"No such device {device!r}: torch sees {torch.cuda.device_count()} GPUs; use 'cpu' instead.")
    return where


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence loading bars and retry messages: what matters comes back as a UserError or a note."""
    from transformers.utils import logging as messages

    hub = logging.getLogger("huggingface_hub")
    level, verbosity, bars = hub.level, messages.get_verbosity(), messages.is_progress_bar_enabled()
    hub.setLevel(logging.ERROR)
    messages.set_verbosity_error()
    messages.disable_progress_bar()
    try:
        yield
    finally:
        hub.setLevel(level)
        messages.set_verbosity(verbosity)
        if bars:
            messages.enable_progress_bar()


def _check_folder(name: str) -> None:
    """Refuse what is neither a complete transformers folder nor a possible hub name."""
    folder = Path(name)
    if not folder.exists():
        if HUB_NAME.fullmatch(name) is None:
            raise UserError(
                f"There is no model folder {name!r}; check the path, or give a hub name such as owner/model."
            )
        return
    if not folder.is_dir():
        raise UserError(f"{name!r} is a file, not a model folder; give the folder that holds config.json.")
    if not (folder / "config.json").is_file():
        hint = "run validation/train.py or restore it" if folder.is_relative_to(PAIRS_FOLDER) else "give another folder"
        raise UserError(f"{name!r} is not a model folder: config.json is missing; {hint}.")
    if not any(folder.glob("*.safetensors")):
        raise UserError(
            f"No *.safetensors weights lie in {name!r}, and other formats are never read; "
            "save the model again with safe_serialization=True."
        )


def _load_part(factory: str, name: str, **options: Any) -> Any:
    """``transformers.<factory>.from_pretrained`` with every failure as one sentence."""
    import transformers
    from safetensors import SafetensorError

    _check_folder(name)
    try:
        return getattr(transformers, factory).from_pretrained(name, trust_remote_code=False, **options)
    except (OSError, ValueError, RuntimeError, KeyError, ImportError, SafetensorError) as error:
        _explain(name, error)


def _explain(name: str, error: BaseException) -> NoReturn:
    """Raise the UserError for what transformers or the hub client raised."""
    kinds: set[str] = set()
    cause: BaseException | None = error
    while cause is not None:
        kinds |= {kind.__name__ for kind in type(cause).__mro__}
        cause = cause.__cause__ or cause.__context__
    text = str(error)
    if "GatedRepoError" in kinds:
        message = f"The model {name!r} is gated: accept its terms on the hub and log in with 'hf auth login'."
    elif "RepositoryNotFoundError" in kinds:
        message = f"The hub has no public model {name!r}; check the spelling, or log in with 'hf auth login'."
    elif kinds & {"ConnectError", "ConnectTimeout", "LocalEntryNotFoundError", "OfflineModeIsEnabled"}:
        message = f"{name!r} is not a folder here, and the hub cannot be reached; check the path or the network."
    elif "trust_remote_code" in text or "custom code" in text:
        message = f"The model {name!r} needs code of its own, which is never run; choose another model."
    elif "safetensors" in text and "SafetensorError" not in kinds:
        message = f"The model {name!r} has no safetensors weights, and other formats are never read; choose another."
    else:
        first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
        message = f"The model {name!r} cannot be loaded ({first.rstrip('.')}); check that it is a complete causal LM."
    raise UserError(message) from error


def _load_model(name: str, dtype: str) -> Any:
    """A causal language model with every one of its weights."""
    options = {"use_safetensors": True, "dtype": dtype, "output_loading_info": True}
    model, loading = _load_part("AutoModelForCausalLM", name, **options)
    if loading["missing_keys"]:
        first = min(loading["missing_keys"])
        raise UserError(
            f"The weights of {name!r} are incomplete: {first} is missing, {len(loading['missing_keys'])} in all; "
            "save or download the model again."
        )
    return model


def _same_vocabulary(small: Any, large: Any, *, names: tuple[str, str]) -> None:
    """Compare the tokenizers entry by entry; the first (lowest) id that differs is named."""
    entries = [{index: token for token, index in tokenizer.get_vocab().items()} for tokenizer in (small, large)]
    if entries[0] == entries[1]:
        return
    first = min(i for i in entries[0].keys() | entries[1].keys() if entries[0].get(i) != entries[1].get(i))
    ours, theirs = (repr(side[first]) if first in side else "missing" for side in entries)
    raise UserError(
        f"The vocabularies differ, first at id {first}: {ours} in {names[0]!r}, {theirs} in {names[1]!r} "
        f"({len(entries[0])} and {len(entries[1])} entries); choose two models of one family."
    )


def _head_note(label: str, model: Any, vocabulary: int) -> str:
    """What is said about a head wider than the vocabulary; a narrower one is refused."""
    width = model.get_output_embeddings().weight.shape[0]
    if width < vocabulary:
        raise UserError(
            f"The {label} model gives {width} logits, but the tokenizer has {vocabulary} entries; "
            "remove the added tokens from the tokenizer, or choose another model."
        )
    if width == vocabulary:
        return ""
    return f"The {label} model gives {width} logits; the {width - vocabulary} beyond the vocabulary are cut."


def _context(model: Any) -> int:
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", None) or 2048)


def _end_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Ids that end a text, from the model's generation settings or else from the tokenizer.

    The settings are then emptied: ``generate`` would mix a folder's top-p or repetition penalty into any it is given.
    """
    from transformers import GenerationConfig

    found = model.generation_config.eos_token_id
    model.generation_config = GenerationConfig()
    found = tokenizer.eos_token_id if found is None else found
    if found is None:
        return ()
    return tuple(found) if isinstance(found, list | tuple) else (int(found),)
