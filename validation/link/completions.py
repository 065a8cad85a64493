"""A device whose drafts an OpenAI-compatible server verifies as it is: ``hlm device --engine openai:http://HOST:PORT``.

A round asks for one token behind the text, and behind the text with 1, ..., K drafts; the server's prefix cache holds
what these prompts share. The loop is the in-process one, whose target distributions are the answers:

- Temperature 0: one request with K + 1 prompts. The text is the server's own.
- Above 0: K + 1 requests at once, each with the seed of its position. A token is the server's draw there, whatever was
  drafted, so the law is the server's. A draft wins a race with the server's noise, if it is that of vLLM 0.32 on a CPU
  (:func:`vllm_noise`), and else is the draft model's most probable token.
- ``top_k``, 1 to 20: one request, whose log-probabilities are the whole law: the device accepts and replaces drafts by
  its method. Of equal ones at the border, those count that the server lists.
"""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from hlmtheory._array import brief
from validation.arrays import Array
from validation.audit.engines import SEEDS, ask, at, vllm_settings
from validation.audit.laws import Processors
from validation.decoding.batch_state import DRAFT, TARGET
from validation.decoding.sampling import distributions_of
from validation.errors import UserError
from validation.link.device_records import LinkRecord
from validation.link.loops import OneText, Pace, require_room, session_of

if TYPE_CHECKING:
    import torch

    from validation.models.pair import Pair

ID, PROBED = "token_id:", "Two roads: 17 + 25 = 42"
PROBES = 8
"""Draws that tell whether a server heeds seeds, and whether its noise is known."""


class Completions:
    """The server, without a proxy; counts calls and the bytes of their bodies. ``key`` is its API key."""

    def __init__(self, address: str, *, key: bytes | None = None, answer_s: float = 30.0) -> None:
        kind, _, url = address.partition(":")
        if kind != "openai" or not url.startswith(("http://", "https://")):
            wanted = "write openai:http://HOST:PORT, of a vLLM server (llama.cpp's cannot verify drafts)"
            raise UserError(f"--engine is {address!r}; {wanted}.")
        self.address, self.answer_s = url.rstrip("/").removesuffix("/v1"), answer_s
        self.headers = {} if key is None else {"Authorization": f"Bearer {key.decode('latin-1')}"}
        self.calls = self.sent_bytes = self.received_bytes = 0
        self.lock, self.model, self.seeded, self.raced = threading.Lock(), "", False, False

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        found, sent, received = ask(self.address + path, body, self.answer_s, **self.headers)
        with self.lock:
            self.calls, self.sent_bytes = self.calls + 1, self.sent_bytes + sent
            self.received_bytes += received
        return found

    def hello(self, tokenizer: Any = None) -> None:
        """Ask for the model's name, and refuse a server that splits a text into other tokens than the tokenizer."""
        self.model = at(self.ask("/v1/models"), "data", 0, "id")
        if tokenizer is None:
            return
        ours = tokenizer(PROBED, add_special_tokens=False).input_ids
        asked = {"model": self.model, "prompt": PROBED, "max_tokens": 1, "return_token_ids": True}
        theirs = at(self.ask("/v1/completions", asked), "choices", 0, "prompt_token_ids")
        if not isinstance(theirs, list) or ours not in (theirs[-len(ours) :], theirs[: len(ours)], theirs[1:-1]):
            said = f"The server splits a text into {brief(theirs)}, the device into {brief(ours)}"
            raise UserError(f"{said}; use a draft model with the server's tokenizer.")

    def require_seeds(self, prompt: list[int], vocabulary: int) -> None:
        """Refuse a server that draws two texts from one seed, or one from several; look whether its noise is known."""
        asked = {"prompt": [prompt], **_settings(2.0, 1.0, listed=20, tokens=16)}
        found = [self.answers(asked | {"seed": seed}, vocabulary)[0] for seed in (1, *range(1, PROBES + 1))]
        drawn = [tokens for tokens, _, _ in found]
        if drawn[0] != drawn[1] or all(tokens == drawn[0] for tokens in drawn):
            raise UserError(f"{self.address} ignores the seed of a request; use temperature 0, or --top-k.")
        raced = []
        for seed, (tokens, _, law) in enumerate(found[1:], 1):  # the winner of all is that of those listed too
            noise = vllm_noise(seed, vocabulary)
            raced.append(max(law, key=lambda name: law[name] / 2.0 + noise[name]) == tokens[0])
        self.seeded, self.raced = True, all(raced)

    def answers(self, asked: dict[str, Any], vocabulary: int) -> list[tuple[list[int], bool, dict[int, float]]]:
        """Return behind each prompt the tokens, whether they end the text, and the log-probabilities at the first."""
        whole, count = self.ask("/v1/completions", {"model": self.model} | asked), len(asked["prompt"])
        try:
            choices = {choice["index"]: choice for choice in whole["choices"]}
            return [_read(choices[i], asked, vocabulary) for i in range(count)]
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            refusal = f"{self.address} does not answer {count} prompts by token ids with log-probabilities"
            raise UserError(f"{refusal} ({type(error).__name__} {brief(str(error))}); use vLLM.") from error


class _EngineLoop(OneText):
    engine: Completions
    temperature, top_k = 1.0, 0  # of the server's law; the session's temperature is 0 where the server draws

    target_here = False

    def forward(self, which: str, slots: Any, rows: Any) -> list[torch.Tensor]:
        if which == DRAFT:
            return self._raced(super().forward(which, slots, rows))
        began, ends = time.perf_counter(), self.session.pair.end_tokens
        first, kept, end = (int(place[0]) for place in (self.prompt_end, self.kept_end, self.draft_end))
        text = self.tokens[0, :end].tolist()
        whole = end - first == self.session.new_tokens or (end > kept and text[-1] in ends)  # no token follows
        logits = self._logits([text[:i] for i in range(kept, end + (not whole))], kept - first)
        self.count_pass(TARGET, slots, time.perf_counter() - began)
        return [logits, *([logits.new_zeros(1, logits.shape[1])] if whole else [])]

    def _raced(self, logits: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return logits whose largest is the draft that the server would draw from the draft model's law."""
        import torch

        if self.top_k or not (self.temperature and self.engine.raced):
            return logits
        place = int(self.draft_end[0] - self.prompt_end[0])
        noise = torch.from_numpy(vllm_noise(self._seed(place), self.session.vocabulary))
        law = distributions_of(logits, self.temperature, self.session.top_p).cpu().double()
        return [law.log() + noise]

    def _seed(self, place: int) -> int:
        return int(self.session.stream_keys[0]) % SEEDS + place  # hardly that of another text

    def _logits(self, prompts: list[list[int]], place: int) -> torch.Tensor:
        """Return the server's law behind each prompt (n, V), up to a sum; the first has this many new tokens."""
        import torch

        engine, session, ends = self.engine, self.session, self.session.pair.end_tokens
        if self.top_k or not self.temperature:
            settings = _settings(1.0 if self.top_k else 0.0, 1.0, listed=self.top_k)
            answers = engine.answers(settings | {"prompt": prompts}, session.vocabulary)
        else:
            each = [{"prompt": [ids], "seed": self._seed(place + i)} for i, ids in enumerate(prompts)]
            settings = _settings(self.temperature, session.top_p)
            with ThreadPoolExecutor(len(each)) as pool:
                texts = pool.map(lambda asked: engine.answers(settings | asked, session.vocabulary), each)
                answers = [text[0] for text in texts]
        logits = torch.full((len(answers), session.vocabulary), -math.inf, dtype=torch.float64)
        for row, ((token,), stop, law) in zip(logits, answers, strict=True):
            if stop != (token in ends):
                said = f"The server {'ends' if stop else 'does not end'} a text with token {token}"
                raise UserError(f"{said}, unlike the draft model; give its generation_config the server's end.")
            best = sorted(law, key=lambda name: -law[name])[: self.top_k] or [token]
            row[best] = torch.tensor([law.get(name, 0.0) for name in best], dtype=torch.float64)
        return logits


class EngineDevice:
    """A draft model, and a server that verifies its drafts: what :class:`Device` is for ``hlm serve``."""

    def __init__(self, pair: Pair, remote: Completions, *, top_k: int = 0, least_draft_s: float = 0.0) -> None:
        self.pair, self.remote, self.top_k, self.least_draft_s = pair, remote, top_k, least_draft_s

    def generate(
        self, method: Any, prompt: list[int], *, name: str, seed: int, new_tokens: int, **given: Any
    ) -> LinkRecord:
        """Continue a prompt at ``temperature`` and ``top_p``; ``on_tokens`` gets new tokens when they are certain."""
        require_room(self.pair, prompt, name, new_tokens)
        sampling = float(given.get("temperature", 1.0)), float(given.get("top_p", 1.0))
        seeded = sampling[0] > 0 and not self.top_k
        if seeded and not self.remote.seeded:
            self.remote.require_seeds(prompt, self.pair.vocabulary)
        session = session_of(self.pair, prompt, name, seed, 0.0 if seeded else sampling[0], sampling[1], new_tokens)
        record = LinkRecord("engine", name, self.remote.address, seed, *sampling)
        record.note(0, self.remote.model)
        loop = _EngineLoop(session, method, prompt, record)
        loop.engine, loop.top_k, loop.temperature = self.remote, self.top_k, sampling[0]
        loop.draft_pace, loop.on_tokens = Pace(self.least_draft_s), given.get("on_tokens")
        loop.run()
        return record


def vllm_noise(seed: int, vocabulary: int) -> Array:
    """Return what vLLM 0.32 on a CPU adds to the logits (V,) of a request's first token, for a seed of the request."""
    import torch

    def mixed(z: Array) -> Array:
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(z ^ (z >> np.uint64(31)))

    key = torch.randint(0, 2**31, (1,), generator=torch.Generator().manual_seed(seed)).numpy().astype(np.uint64)
    places = np.arange(1, vocabulary + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # of SplitMix64
    uniform = ((mixed(mixed(key) + places) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(-np.log(-np.log(uniform)))


def _settings(temperature: float, top_p: float, *, listed: int = 0, tokens: int = 1) -> dict[str, Any]:
    """Return every setting of a request by name, so that no default of the server counts."""
    settings = vllm_settings(Processors(temperature=temperature, top_p=top_p, order="vllm"), tokens)
    return settings | {"logprobs": listed, "return_tokens_as_token_ids": True}


def _read(choice: Any, asked: dict[str, Any], vocabulary: int) -> tuple[list[int], bool, dict[int, float]]:
    def token(name: str) -> int:
        found = int(name.removeprefix(ID)) if name.startswith(ID) else -1
        if not 0 <= found < vocabulary:
            raise ValueError(f"{name} is not one of {ID}0 to {ID}{vocabulary - 1}")
        return found

    tokens, (listed, *_) = (choice["logprobs"][name] for name in ("tokens", "top_logprobs"))
    drawn, law = [token(name) for name in tokens], {token(name): float(number) for name, number in listed.items()}
    mass = sum(math.exp(min(number, 1.0)) for number in law.values())
    if not 0 < len(drawn) <= asked["max_tokens"] or len(law) < min(asked["logprobs"], vocabulary) or not mass < 1.001:
        raise ValueError(f"{len(drawn)} tokens, {len(law)} log-probabilities of mass {mass:.3g}")
    return drawn, choice["finish_reason"] == "stop", law
