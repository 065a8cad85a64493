"""Samplers that ask an engine: a running server of vLLM or llama.cpp, or ``vllm.LLM`` in this process.

The requests name every setting, so that no default of the engine or of its model counts. Several prompts are in flight
at a time, and each draw has a seed of its own: one request of vLLM holds several draws, with the seeds s, s + 1, ...
"""

import functools
import importlib
import json
import operator
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from typing import Any
from urllib import error, request

from hlmtheory._array import brief
from validation.audit.laws import ORDERS, Processors
from validation.errors import UserError

Sampler = Callable[..., Any]
ENGINES = {"vllm": "vllm", "llama": "llama.cpp"}
"""The engine by the word before an address: ``vllm:http://127.0.0.1:8000``."""
AT_ONCE = 16
"""Requests in flight."""
TOGETHER = 64
"""Most draws of one request of vLLM."""
PART, MOST_PARTS = 2**16, 2**14
"""Bytes of an answer that are read at a time, and how often: an answer that comes slowly is given up in time."""
ANSWERS_IN = 60.0
"""Seconds within which a server says that it is there."""
SEEDS = 2**32
"""Seeds that every engine tells apart."""
DIED = (
    "The engine behind the server has died; its log says why. Seen of vLLM 0.32 on a CPU: seeds need "
    "--no-enable-chunked-prefill, and top-k with drafts needs a top-p below 1"
)


class _Seeds:
    """Seeds of which no two are alike in 32 bits: torch on a CPU and llama.cpp drop the others.

    They go on from the seed of the first call, so the same calls in the same order give the same draws.
    """

    def __init__(self) -> None:
        self._next: int | None = None

    def take(self, seed: int, count: int) -> int:
        """Return the first of ``count`` seeds that follow each other."""
        first = seed % SEEDS if self._next is None else self._next
        first = 0 if first + count > SEEDS else first
        self._next = first + count
        return first


def vllm_sampler(llm: Any, processors: Processors, *, new_tokens: int | None = None) -> Sampler:
    """Return a sampler that calls ``generate`` of a ``vllm.LLM`` once for all prompts.

    ``new_tokens`` above the audited depth lets the last rounds draft all K tokens; an engine drafts fewer near the end.
    """
    seeds = _Seeds()

    def sample(prompts: Sequence[Sequence[int]], n: int, seed: int, depth: int) -> list[list[list[int]]]:
        make = importlib.import_module("vllm").SamplingParams
        settings = vllm_settings(processors, new_tokens or depth)
        params = [make(n=n, seed=seeds.take(seed, n), detokenize=False, **settings) for _ in prompts]
        found = llm.generate([{"prompt_token_ids": list(ids)} for ids in prompts], params, use_tqdm=False)
        return [[list(text.token_ids) for text in texts.outputs] for texts in found]

    return sample


def server_engine(address: str | None) -> str:
    """Return the engine of a server's address, and "" if it is the name of a function."""
    engine, _, url = (address or "").partition(":")
    return ENGINES.get(engine, "") if url.startswith(("http://", "https://")) else ""


def server_sampler(
    address: str, processors: Processors, *, new_tokens: int | None = None, seconds: float = 3600.0
) -> Sampler:
    """Return a sampler that asks a server that answers: ``vllm:http://HOST:PORT`` or ``llama:http://HOST:PORT``."""
    engine, _, url = address.partition(":")
    url = url.rstrip("/").removesuffix("/v1")
    of_vllm = engine == "vllm"
    settings = vllm_settings if of_vllm else llama_settings
    if not server_engine(address):
        raise UserError(f"The server is {address!r}; write vllm:http://HOST:PORT or llama:http://HOST:PORT.")
    settings(processors, 1)  # refuse before the first draw
    about = ask(f"{url}/{'v1/models' if of_vllm else 'health'}", None, min(seconds, ANSWERS_IN))[0]
    model = {"model": at(about, "data", 0, "id")} if of_vllm else {}
    seeds = _Seeds()

    def draw(prompt: Sequence[int], count: int, seed: int, length: int) -> list[list[int]]:
        asked = {"prompt": list(prompt), "seed": seed} | settings(processors, length)
        if not of_vllm:
            asked["repeat_last_n"] = len(prompt) + length  # it refuses -1
            return [at(ask(f"{url}/completion", asked, seconds)[0], "tokens")]
        asked |= model | {"n": count, "return_token_ids": True}
        found = ask(f"{url}/v1/completions", asked, seconds)[0]
        by_index = {at(one, "index"): at(one, "token_ids") for one in at(found, "choices")}
        return [at(by_index, i) for i in range(count)]

    def sample(prompts: Sequence[Sequence[int]], n: int, seed: int, depth: int) -> list[list[list[int]]]:
        most = TOGETHER if of_vllm else 1
        parts = [(c, min(most, n - start)) for start in range(0, n, most) for c in range(len(prompts))]
        first = [seeds.take(seed, count) for _, count in parts]
        found: list[list[list[int]]] = [[] for _ in prompts]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            texts = pool.map(lambda part, own: draw(prompts[part[0]], part[1], own, new_tokens or depth), parts, first)
            for (c, _), some in zip(parts, texts, strict=True):
                found[c] += some
        return found

    sample.__name__ = address
    return sample


def ask(url: str, body: dict[str, Any] | None, seconds: float, **headers: str) -> tuple[Any, int, int]:
    """Return what answers a body, or a GET without one, and the bytes of both."""
    data = None if body is None else json.dumps(body).encode()
    try:
        asked = request.Request(url, data, {"content-type": "application/json"} | headers)
        with request.build_opener(request.ProxyHandler({})).open(asked, timeout=seconds) as answer:
            raw = _whole(answer, time.monotonic() + seconds)
            return json.loads(raw), len(data or b""), len(raw)
    except error.HTTPError as refused:
        with refused:
            said = refused.read(2000).decode(errors="replace")
        why = f". {DIED}" if "EngineCore" in said else ""
        raise UserError(f"{url} refused the request ({refused.code}): {said[:300]}{why}") from refused
    except (OSError, HTTPException, ValueError) as failed:
        raise UserError(
            f"{url} gave no answer ({getattr(failed, 'reason', failed)}); start the server, or correct the address."
        ) from failed


def _whole(answer: Any, until: float) -> bytes:
    parts = list[bytes]()
    while part := answer.read1(PART):
        parts.append(part)
        if time.monotonic() > until or len(parts) > MOST_PARTS:
            raise OSError("it sends too slowly, or too much")
    return b"".join(parts)


def at(answer: Any, *path: Any) -> Any:
    try:
        return functools.reduce(operator.getitem, path, answer)
    except (KeyError, IndexError, TypeError) as error:
        where = ".".join(map(str, path))
        raise UserError(f"The server's answer has no {where}: {brief(answer)}; use a newer release.") from error


def vllm_settings(made: Processors, new_tokens: int) -> dict[str, Any]:
    if made.order != ORDERS["vllm"] or made.count_prompt:
        raise UserError('vLLM has an order of its own; describe the law with order="vllm" (--order vllm).')
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty")
    fields = {name: getattr(made, name) for name in names} | {"min_tokens": min(made.min_tokens, new_tokens)}
    return fields | {"max_tokens": new_tokens, "logit_bias": dict(made.logit_bias) or None}


def llama_settings(made: Processors, new_tokens: int) -> dict[str, Any]:
    """Return the fields of a request to llama.cpp's ``/completion``, which takes any order."""
    if made.min_tokens:
        raise UserError(f"min_tokens is {made.min_tokens}; llama.cpp has no smallest length: leave it out.")
    if (made.presence_penalty or made.frequency_penalty) and not made.count_prompt:
        raise UserError('llama.cpp counts the prompt in its penalties; give order="llama.cpp" (--order llama.cpp).')
    names = ("temperature", "top_k", "top_p", "min_p", "presence_penalty", "frequency_penalty")
    return {name: getattr(made, name) for name in names} | {
        "n_predict": new_tokens,
        "repeat_penalty": made.repetition_penalty,
        "samplers": ["penalties" if name == "repetition_penalty" else name for name in made.order],
        "logit_bias": [list(pair) for pair in made.logit_bias],
        "mirostat": 0,
        "dynatemp_range": 0.0,
        "return_tokens": True,
    }
