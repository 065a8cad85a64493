"""Run vLLM over a pair: what it counts, what the pair's rows predict, which K is fastest, whether the law is kept."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from itertools import product
from operator import eq
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from figures.studies.kit import SHELF, given, read, store
from validation.acceptance.engines import read_acceptance
from validation.acceptance.reconcile import Side
from validation.acceptance.record import marked
from validation.acceptance.summary import RoundTimes, Summary, summarise
from validation.audit import ModelLaw, Processors, audit_sampler, server_sampler
from validation.cli.acceptance_views import laws_beside
from validation.collection.collect import Text, ids_of, teacher_forced_logits
from validation.collection.import_logits import import_logits
from validation.collection.prompts import builtin_prompts
from validation.models.pair import Pair, load_pair
from validation.models.sources import ModelSource

PORT, URL = 8117, "http://127.0.0.1:8117"
SERVE = "--host 127.0.0.1 --enforce-eager --dtype float32 --max-model-len 256 --no-enable-chunked-prefill"
SERVE += " --no-enable-prefix-caching"
UNBOUND = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
COUNTED = "--per-request-spec-decode-metrics detailed --speculative-config"
DRAFTS: dict[str, dict[str, Any]] = {"sampled": {"method": "draft_model", "draft_sample_method": "probabilistic"}}
DRAFTS |= {
    "greedy": {"method": "draft_model", "draft_sample_method": "greedy"},
    "ngram": {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4},
}
SERVERS = "plain-0 draft-0 sampled-3-shipped " + " ".join(f"{way}-{length}" for way in DRAFTS for length in range(1, 7))
AUDITS = {
    "sampled-3-shipped": ((1.0, 1.0),),
    "sampled-3": ((1.0, 1.0), (0.7, 1.0), (1.0, 0.9)),
    "ngram-3": ((1.0, 1.0),),
}
"""Temperature and top-p of the audits of a server."""
CUTS = (29, 75)
"""Tokens of the two prompts of an audit of n-grams: each ends where its next token likely repeats a pair."""
SHOWN = ("verdict", "draws", "found_after", "at_least", "at_most_on_cells", "cells", "smallest_found", "level")


def asked(path: str, port: int = PORT, **body: Any) -> bytes:
    data = json.dumps(body).encode() if body else None
    with urlopen(
        Request(f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"}), timeout=600
    ) as answer:
        return bytes(answer.read())


@contextmanager
def serving(
    vllm: Path, model: Path, folder: Path, config: Mapping[str, Any], port: int = PORT, **more: str
) -> Iterator[None]:
    """Start a server, mended unless the folder says that it is as shipped; stop it."""
    plugin = folder.parent / "plugin" / "hlm_mend-1.dist-info"
    plugin.mkdir(parents=True, exist_ok=True)
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: hlm-mend\nVersion: 1\n")
    (plugin / "entry_points.txt").write_text("[vllm.general_plugins]\nmend = figures.studies.vllm.mend:mend\n")
    own = {"PYTHONPATH": "" if folder.name.endswith("shipped") else f"{SHELF.parents[1]}:{plugin.parent}"}
    own |= {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", **UNBOUND, **more}
    words = [
        str(vllm),
        "serve",
        str(model),
        *f"{SERVE} --port {port}".split(),
        *([*COUNTED.split(), json.dumps(config)] if config else []),
    ]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **own}, start_new_session=True)
    try:
        while server.poll() is None:
            try:
                asked("/health", port)
                break
            except OSError:
                time.sleep(1)
        yield
    finally:
        server.terminate()
        server.wait(60)


def settings(temperatures: str) -> list[tuple[float, int]]:
    """Return the temperatures of a server's loads, each with how many requests there are at a time."""
    return [(float(t), together) for t in temperatures.split() for together in (1, 8)]


def config_of(server: str, models: Path) -> tuple[dict[str, Any], Path]:
    """Return how a server speculates, and the model that it serves."""
    method, length = server.split("-")[:2]
    config = {**DRAFTS[method], "num_speculative_tokens": int(length)} if method in DRAFTS else {}
    config |= {"model": str(models / "small")} if config.get("method") == "draft_model" else {}
    return config, models / ("small" if method == "draft" else "large")


def answered(prompts: Sequence[Sequence[int]], new: int, temperature: float, together: int, port: int) -> list[bytes]:
    """Return the answers to prompts, some at a time."""
    fixed = {"max_tokens": new, "temperature": temperature, "top_k": 0, "top_p": 1.0, "return_token_ids": True}
    with ThreadPoolExecutor(together) as pool:
        return list(pool.map(lambda ids: asked("/v1/completions", port, prompt=list(ids), **fixed), prompts))


def load(prompts: Sequence[Any], new: int, place: str, temperature: float, together: int, port: int) -> float:
    """Answer prompts; keep the answers and the counters before and after; return the seconds of a token.

    The seconds are of a clock, behind the first tokens: they say something where the machine does nothing else.
    """
    times = [time.perf_counter()]
    answered(prompts, 1, temperature, together, port)
    times += [time.perf_counter()]
    Path(f"{place}.before").write_bytes(asked("/metrics", port))
    times += [time.perf_counter()]
    lines = answered(prompts, new, temperature, together, port)
    times += [time.perf_counter()]
    Path(f"{place}.after").write_bytes(asked("/metrics", port))
    Path(f"{place}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    tokens = sum(json.loads(line)["usage"]["completion_tokens"] for line in lines) - len(lines)
    return float((times[3] - times[2] - times[1] + times[0]) / tokens)


def swept(options: Any, prompts: Sequence[Any]) -> dict[str, Any]:
    """Return the seconds of a token at temperature 1 from servers that run in turn, one at a time.

    The servers are the draft model alone, the target alone (K = 0) and sampled drafts of each K.
    """
    folder, found = options.work / "sweep", dict[str, dict[str, list[float]]]()
    names = ["draft-0", "plain-0", *(f"sampled-{length}" for length in options.sweep.split())]
    for turn, name in product(range(options.repeats), names):
        (place := folder / name).mkdir(parents=True, exist_ok=True)
        config, model = config_of(name, options.models)
        with serving(options.vllm, model, place, config):
            answered(prompts[:8], 8, 1.0, 8, PORT)  # a warm-up
            for together in (1, 8):
                some = prompts[turn % 3 :: 3 if together > 1 else 12]
                each = load(some, options.new, f"{place}/1-{together}", 1.0, together, PORT)
                found.setdefault(f"{together} at once", {}).setdefault(name, []).append(round(each, 5))
    return found


def best_of(sweep: Mapping[str, Any], work: Path, name: str) -> dict[str, int]:
    """Return the best K by ``hlm acceptance``, for one and eight requests at once, from counts and plain passes."""
    (verify, token), (draft, each) = (step_times(sweep, side) for side in ("plain-0", "draft-0"))
    times = RoundTimes(verify=verify, verify_token=token, draft=draft, draft_token=each)
    schedule = summary_of(f"{work / name}/1-8.jsonl", temperature=1.0, times=times)[1].schedule
    return {f"{batch} at once": next(k for first, last, k in schedule if first <= batch <= last) for batch in (1, 8)}


def audited(pair: Pair, prompts: Sequence[Any], temperature: float, top_p: float, port: int = PORT) -> dict[str, Any]:
    """Return what an audit says of the server that runs now."""
    settings, start = Processors(temperature=temperature, top_p=top_p, order="vllm"), time.perf_counter()
    law, draft = (ModelLaw(model, prompts, settings) for model in (pair.target, pair.draft))
    sampler = server_sampler(f"vllm:http://127.0.0.1:{port}", settings, new_tokens=8)
    report = audit_sampler(law, sampler, draws=3_000, depth=4, level=0.001, epsilon=0.05, seed=1, draft=draft).as_json()
    found = {"T": temperature, "top_p": top_p, "minutes": round((time.perf_counter() - start) / 60, 1)}
    return found | {key: report[key] for key in SHOWN}


def tokens_of(place: Path) -> list[list[int]]:
    """Return the new tokens of each answer of a load."""
    return [json.loads(line)["choices"][0]["token_ids"] for line in place.read_text().splitlines()]


def trace_of(pair: Callable[[], Pair], prompts: Sequence[list[int]], place: Path, temperature: float) -> Path:
    """Store both models' rows at the temperature along the texts that the server wrote without drafts."""
    if place.with_suffix(".trace").exists():
        return place.with_suffix(".trace")
    answers = tokens_of(place)
    texts = [Text(i, "", [*ids, *new], len(ids)) for i, (ids, new) in enumerate(zip(prompts, answers, strict=True))]
    draft, target, tokens, lines = (place.with_suffix(f".{x}.npy") for x in ("draft", "target", "tokens", "texts"))
    for side, file in (("draft", draft), ("target", target)):
        rows = np.concatenate([teacher_forced_logits(pair(), side, [text])[0] for text in texts])
        np.save(file, rows.astype(np.float32) / (temperature or 1.0))
    np.save(tokens, np.concatenate(answers))
    np.save(lines, np.repeat(np.arange(len(answers)), [len(new) for new in answers]))
    import_logits(draft, target, place.with_suffix(".trace"), tokens=tokens, texts=lines, fresh=True)
    return place.with_suffix(".trace")


def summary_of(*files: str, temperature: float, times: RoundTimes | None = None) -> tuple[Side, Summary]:
    """Read files of a load as ``hlm acceptance`` does, with the marks that the folder's name gives."""
    method = Path(files[0]).parent.name.split("-")[0]
    drafts = "copied" if method == "ngram" else "sampled" if method == "sampled" and temperature else "greedy"
    found = [marked(one, drafts=drafts, verification="standard") for one in read_acceptance(*files).records]
    summary = summarise(found, times=times, largest_batch=8)
    return Side(found, summary), summary


def step_times(sweep: Mapping[str, Any], name: str) -> tuple[float, float]:
    """Return a and b of a step of B tokens, a + b·B seconds, from one and eight requests at a time."""
    alone, eight = (together * float(np.median(sweep[f"{together} at once"][name])) for together in (1, 8))
    each = max(eight - alone, 0.0) / 7.0
    return alone - each, each


def rows_of(
    pair: Callable[[], Pair], prompts: Sequence[list[int]], work: Path, servers: Sequence[str], temperatures: str
) -> Iterator[dict[str, Any]]:
    """Yield each load: counters, what the answers say of them, what the rows predict, and the best K for its counts."""
    if not servers:
        return
    texts = {t: work / "plain-0" / f"{t:g}-8.jsonl" for t, _ in settings(temperatures)}
    traces = {t: trace_of(pair, prompts, place, t) for t, place in texts.items()}
    for name, (t, together) in ((server, setting) for server in servers for setting in settings(temperatures)):
        place, method = f"{work / name / f'{t:g}'}-{together}", name.split("-")[0]
        row = {"server": name, "T": t, "at_once": together}
        if method in DRAFTS and t == 0.0:
            plain = tokens_of(texts[t])[:: 1 if together > 1 else 4]
            row["texts_as_without_drafts"] = f"{sum(map(eq, tokens_of(Path(f'{place}.jsonl')), plain))} of {len(plain)}"
        if method in DRAFTS:
            raw = summary_of(f"{place}.before", f"{place}.after", temperature=t)[0].records[0]
            side, told = summary_of(f"{place}.jsonl", temperature=t)
            row |= {"steps": raw.num_spec_steps, "drafted": raw.num_draft_tokens}
            row |= {"accepted": raw.num_accepted_draft_tokens, "by_position": raw.accepted_per_position}
            row["answers_agree"] = (told.steps, told.accepted) == (row["steps"], row["accepted"])
            if method == "ngram":
                row["predicted"] = copied(prompts, texts[t], int(name.split("-")[1]))
            else:
                said = laws_beside(side, traces[t], 0.95)
                law = "rejection" if told.draft_sampling == "sampled" else "greedy"
                row |= {"own": said["own"], "predicted": said["laws"][law], "says": said["findings"][-1]}
        yield row


def copied(prompts: Sequence[list[int]], place: Path, length: int) -> float:
    """Return the share of drafts that texts written without drafts accept, if a text drafts from what it repeats."""
    drafted, accepted = 0, 0
    for ids, new in zip(prompts, tokens_of(place), strict=True):
        done = 1
        while done < len(new):
            text = [*ids, *new[:done]]
            ends = ((n, i) for n in (4, 3, 2) for i in range(n, len(text)) if text[i - n : i] == text[-n:])
            drafts = text[next(ends, (0, len(text)))[1] :][: min(length, len(new) - done - 1)]
            same = next((i for i, (a, b) in enumerate(zip(drafts, new[done:], strict=False)) if a != b), len(drafts))
            drafted, accepted, done = drafted + len(drafts), accepted + same, done + same + 1
    return accepted / max(drafted, 1)


def main() -> None:
    """Run what WORK does not hold yet, one server after another, and store what all of them gave."""
    sizes: dict[str, Any] = {"prompts": 24, "new": 32, "longest": 256, "repeats": 5, "no_audits": False}
    words = {"servers": SERVERS, "temperatures": "0 .7 1", "sweep": ""}
    options = given(__doc__, "vllm", "work", "models", "out", **words, **sizes)
    pair = cache(partial(load_pair, draft=options.models / "small", target=options.models / "large"))
    tokenizer = ModelSource.parse(str(options.models / "large")).load_tokenizer()
    asked_for = ids_of(tokenizer, builtin_prompts()[:: 320 // options.prompts], chat=False)
    prompts = [ids[: options.longest] for ids in asked_for]
    servers = options.servers.split()
    for name in servers:
        folder, method = options.work / name, name.split("-")[0]
        folder.mkdir(parents=True, exist_ok=True)
        loads = [(t, c) for t, c in settings(options.temperatures) if not (folder / f"{t:g}-{c}.after").exists()]
        audits = [
            (t, p)
            for t, p in AUDITS.get(name, ())
            if not options.no_audits and not (folder / f"audit-{t:g}-{p:g}.json").exists()
        ]
        if not loads and not audits:
            continue
        config, model = config_of(name, options.models)
        with serving(options.vllm, model, folder, config):
            answered(prompts[:8], 8, 1.0, 8, PORT)  # a warm-up
            for t, together in loads:
                some, place = prompts[:: 1 if together > 1 else 4], f"{folder / f'{t:g}'}-{together}"
                load(some, options.new, place, t, together, PORT)
            some = [ids[:cut] for ids, cut in zip(prompts, CUTS, strict=False)] if method == "ngram" else prompts[:2]
            for t, p in audits:
                (folder / f"audit-{t:g}-{p:g}.json").write_text(json.dumps(audited(pair(), some, t, p)))
    found = {name: [read(file) for file in sorted((options.work / name).glob("audit-*.json"))] for name in servers}
    before = read(options.out) if options.out.exists() else {"audits": {}, "loads": []}
    rows = [row for row in before["loads"] if row["server"] not in servers]
    audits = before["audits"] | {name: some for name, some in found.items() if some}
    sweep = before.get("sweep", {})
    if options.sweep:
        sweep = swept(options, prompts)
        lengths = options.sweep.split()
        sweep["best"] = {length: best_of(sweep, options.work / "sweep", f"sampled-{length}") for length in lengths}
    rows += rows_of(pair, prompts, options.work, servers, options.temperatures)
    store(options.out, {"audits": audits, "sweep": sweep, "loads": rows})


if __name__ == "__main__":
    main()
