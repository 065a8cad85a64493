"""Load the parts of one model from a folder, a GGUF file or the hub, and report every failure in one sentence.

Weights are read from safetensors or GGUF only, and code that comes with a model is never run. transformers takes the
names of weight files from the model itself and reads a file with another extension as a pickle, so these names are
checked first.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from validation.errors import UserError, first_line
from validation.models import adapters, aligned, drafts, gguf_files, hub_weights, smollm2
from validation.models.devices import out_of_memory
from validation.models.rounding import SUFFIX, round_weights

MOST_LAYERS = 10_000  # the deepest models have some hundred
PAIRS_FOLDER = Path(__file__).parents[1] / "pairs"
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
INDEX = "model.safetensors.index.json"
WEIGHTS_FILE = re.compile(r"[^/\\:\0]+\.safetensors")
UNREACHABLE = {"ConnectError", "TimeoutException", "NetworkError", "ProxyError"}
UNREACHABLE |= {"LocalEntryNotFoundError", "OfflineModeIsEnabled"}


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Location of one model: a folder, a GGUF file, or a hub name with an optional revision."""

    name: str
    revision: str = "main"
    base: str = ""
    rounded: bool = False

    @classmethod
    def parse(cls, text: str, base: str = "", weights: Path | None = None) -> ModelSource:
        """Parse ``folder``, ``owner/model`` or ``owner/model@revision``; an existing folder is never split at ``@``.

        ``owner/model/file.gguf`` is a GGUF file of the hub, which ``weights`` may hold.
        """
        name, mark, revision = text.rpartition("@")
        if revision == SUFFIX and not Path(text).exists():
            whole = cls.parse(name, base)
            if not whole.local:
                raise UserError(
                    f"The weights of {name!r} are not on this machine, so they cannot be rounded; download it first."
                )
            return replace(whole, rounded=True)
        if text == smollm2.NAME and not Path(text, "config.json").exists():
            return cls(str(smollm2.weights_file()))
        if hub_weights.is_hub_file(text):
            try:
                return cls(str(hub_weights.weights_file(text, weights)))
            except UserError:
                raise
            except Exception as error:  # each failure of the hub has a type of its own
                cls(text)._explain(error)
        if base and not adapters.is_adapter(Path(text)):
            raise UserError(
                f"--base is the base model of an adapter, but {text!r} is no adapter's folder; leave it out."
            )
        if not mark or Path(text).exists() or HUB_NAME.fullmatch(name) is None:
            return cls(text, base=base)
        if not revision:
            raise UserError(f"{text!r} names no revision after the @; write for example {name}@main.")
        return cls(name, revision)

    @property
    def local(self) -> bool:
        return Path(self.name).exists()

    @property
    def gguf(self) -> bool:
        return self.name.endswith(".gguf") and Path(self.name).is_file()

    @property
    def aligned(self) -> bool:
        return self.local and aligned.is_aligned(Path(self.name))

    @property
    def adapted(self) -> ModelSource | None:
        """Return the base model's source if the model is a folder with an adapter, else None."""
        folder = Path(self.name)
        if not adapters.is_adapter(folder):
            return None
        return ModelSource.parse(adapters.base_name(folder, self.base))

    @property
    def leaned_on(self) -> ModelSource | None:
        """Return the target model's source if the model is a draft's folder that leans on one, else None."""
        folder = Path(self.name)
        return None if drafts.settings(folder) is None else ModelSource.parse(drafts.target_name(folder))

    @property
    def _anchor(self) -> ModelSource | None:
        """Return the base model's source of an aligned draft that has no tokenizer of its own, else None."""
        if not self.aligned or self._part("tokenizer.json"):
            return None
        return ModelSource(str(aligned.base_folder(self.name, self._json("config.json", {}).get("base"))))

    def load(self, factory: str, **options: Any) -> Any:
        import transformers

        if base := self.adapted:
            return base.load(factory, **options)
        self.check_folder()
        if self.aligned:
            aligned.classes()  # registers them
        try:
            make = getattr(transformers, factory).from_pretrained
            if self.gguf:
                with gguf_files.isolated(Path(self.name)) as folder:
                    return make(folder, gguf_file=Path(self.name).name, trust_remote_code=False, **options)
            found = make(self.name, revision=self.revision, trust_remote_code=False, **options)
            layers = getattr(found, "num_hidden_layers", None) if factory == "AutoConfig" else None
            if isinstance(layers, int) and layers > MOST_LAYERS:
                raise UserError(
                    f"The configuration of {self.name!r} has num_hidden_layers = {layers:,}; at most {MOST_LAYERS:,} "
                    "are loaded: correct it."
                )
            return found
        except UserError:
            raise
        except Exception as error:  # a configuration may have any fault, such as 0 heads
            self._explain(error)

    def load_tokenizer(self) -> Any:
        if base := self.adapted or self.leaned_on or self._anchor:
            return base.load_tokenizer()
        load = partial(self.load, "AutoTokenizer")
        return gguf_files.load_tokenizer(gguf_files.read_header(Path(self.name)), load) if self.gguf else load()

    def load_model(self, dtype: str, **options: Any) -> Any:
        """Return the causal language model; refuse it if any weight is missing."""
        model = self._read_model(dtype, **options)
        if self.rounded:
            round_weights(model)
        return model

    def _read_model(self, dtype: str, **options: Any) -> Any:
        if base := self.adapted:
            folder = Path(self.name)
            adapters.check_files(folder)
            model = adapters.merged(base.load_model(dtype, **options), folder)
            adapters.check_marks(folder, base.name, model, base.load_tokenizer())
            return model
        self.check_weights()
        if not self.gguf:
            config = self.load("AutoConfig")  # refuses a number of layers that would take minutes to build
        if self.leaned_on:
            return drafts.read(Path(self.name), config, dtype)
        options |= {"use_safetensors": True, "dtype": dtype, "output_loading_info": True}
        model, loading = self.load("AutoModelForCausalLM", **options)
        if self.aligned:
            base = ModelSource(str(aligned.base_folder(self.name, model.config.base)))
            found = aligned.complete(model, self.name, base.load_model("auto"), base.load_tokenizer())
            loading["missing_keys"] = set(loading["missing_keys"]) - found
        if self.gguf:
            gguf_files.apply_rope_factors(gguf_files.read_header(Path(self.name)), model)
        if loading["missing_keys"]:
            first = min(loading["missing_keys"])
            raise UserError(
                f"The weights of {self.name!r} are incomplete: {first} is missing, {len(loading['missing_keys'])} in "
                "all; save or download the model again."
            )
        return model

    def check_folder(self) -> None:
        """Refuse a name that is neither a complete transformers folder, a GGUF file nor a valid hub name."""
        folder = Path(self.name)
        if self.gguf:
            gguf_files.read_header(folder)
            return
        if base := self.adapted:
            adapters.check_files(folder)
            base.check_folder()
            return
        if not folder.exists():
            if self.name.endswith(".gguf"):
                raise UserError(f"There is no GGUF file {self.name!r}; check the path.")
            if HUB_NAME.fullmatch(self.name) is None:
                raise UserError(
                    f"There is no model folder {self.name!r}; check the path, or give a hub name such as owner/model."
                )
            return
        if not folder.is_dir():
            raise UserError(
                f"{self.name!r} is a file, not a model folder; give the folder that holds config.json, or a file whose "
                "name ends with .gguf."
            )
        if not (folder / "config.json").is_file():
            ours = folder.is_relative_to(PAIRS_FOLDER)
            hint = "run validation/training or restore it" if ours else "give another folder"
            raise UserError(f"{self.name!r} is not a model folder: config.json is missing; {hint}.")
        if not any(folder.glob("*.safetensors")):
            raise UserError(
                f"No *.safetensors weights lie in {self.name!r}, and other formats are never read; "
                "save the model again with safe_serialization=True."
            )
        self.check_weights()

    def check_weights(self) -> None:
        """Refuse a model that names weight files other than ``*.safetensors`` of its own folder."""
        if self.gguf:
            return
        index, named = INDEX, self._json("config.json", {}).get("transformers_weights")
        if named is not None:
            if not isinstance(named, str) or not WEIGHTS_FILE.fullmatch(named.removesuffix(".index.json")):
                raise self._foreign("config.json", named)
            index = named if named.endswith(".index.json") else INDEX
        names = self._json(index, {"weight_map": {}}).get("weight_map")
        if not isinstance(names, dict):
            raise UserError(f"{index} of {self.name!r} has no weight_map; save or download the model again.")
        for name in names.values():
            named = isinstance(name, str) and WEIGHTS_FILE.fullmatch(name)
            if not named or (self.local and adapters.leads_out(Path(self.name), name)):
                raise self._foreign(index, name)
        if self._part(adapters.CONFIG):  # transformers would load it if peft is installed
            raise UserError(
                f"The model {self.name!r} has an adapter beside its own weights, which is never loaded; merge it and "
                "save again."
            )

    def _foreign(self, where: str, name: object) -> UserError:
        return UserError(
            f"{where} of {self.name!r} names the weights {name!r}, but weights are read only from *.safetensors files "
            "in the model's own folder; choose another model, or save it again with safe_serialization=True."
        )

    def _part(self, name: str) -> Path | None:
        """Return the local path of a small file, downloaded if needed; None on failure, which loading explains."""
        if self.local:
            file = Path(self.name) / name
            return file if file.exists() else None
        from transformers.utils import cached_file

        missing = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_gated_repo": False}
        try:
            found = cached_file(self.name, name, revision=self.revision, **missing)
        except (OSError, ValueError):
            return None
        return None if found is None else Path(found)

    def _json(self, name: str, missing: dict[str, Any]) -> dict[str, Any]:
        file = self._part(name)
        if file is None:
            return missing
        if (found := aligned.json_object(file)) is None:
            raise UserError(f"{name} of {self.name!r} is not a JSON object; save or download the model again.")
        return found

    def _explain(self, error: BaseException) -> NoReturn:
        kinds, text, name = _kinds(error), str(error), self.name
        if short := out_of_memory(error):
            message = short
        elif "GatedRepoError" in kinds:
            message = f"The model {name!r} is gated: accept its terms on the hub and log in with 'hf auth login'."
        elif "RepositoryNotFoundError" in kinds:
            message = f"The hub has no public model {name!r}; check the spelling, or log in with 'hf auth login'."
        elif "RevisionNotFoundError" in kinds:
            message = f"The model {name!r} has no revision {self.revision!r} on the hub; check the part after the @."
        elif kinds & UNREACHABLE:
            message = f"{name!r} is not a folder here, and the hub cannot be reached; check the path or the network."
            if hub_weights.is_hub_file(name):
                message = f"{name!r}: the hub cannot be reached; give --weights a folder with the file or its parts."
        elif "trust_remote_code" in text or "custom code" in text:
            message = f"The model {name!r} needs code of its own, which is never run; choose another model."
        elif "safetensors" in text and "SafetensorError" not in kinds:
            message = f"The model {name!r} has no safetensors weights, and others are never read; choose another model."
        else:
            message = (
                f"The model {name!r} cannot be loaded ({first_line(error)}); check that it is a complete causal LM."
            )
        raise UserError(message) from error


def _kinds(error: BaseException) -> set[str]:
    kinds: set[str] = set()
    cause: BaseException | None = error
    while cause is not None:
        kinds |= {kind.__name__ for kind in type(cause).__mro__}
        cause = cause.__cause__ or cause.__context__
    return kinds


@contextmanager
def quiet() -> Iterator[None]:
    """Silence loading bars and retry messages; important ones are reported as a UserError or a note."""
    from transformers.utils import logging as messages

    hub = logging.getLogger("huggingface_hub")
    level, verbosity, bars = hub.level, messages.get_verbosity(), messages.is_progress_bar_enabled()
    os.environ.setdefault("DISABLE_SAFETENSORS_CONVERSION", "1")
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
