"""Run vLLM over a pair: what it counts, what the pair's rows predict, which K is fastest, whether the law is kept."""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
from validation.cli.reconciliation import laws_beside
from validation.collection.collect import Text, ids_of, teacher_forced_logits
from validation.collection.import_logits import import_logits
from validation.collection.prompts import builtin_prompts
from validation.models.pair import Pair, load_pair

URL, SETTINGS = "http://127.0.0.1:8117", [(t, together) for t in (0.0, 0.7, 1.0) for together in (1, 8)]
SERVE = "--host 127.0.0.1 --port 8117 --enforce-eager --dtype float32 --max-model-len 256 --no-enable-chunked-prefill"
UNBOUND = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
COUNTED = "--per-request-spec-decode-metrics detailed --speculative-config"
DRAFTS: dict[str, dict[str, Any]] = {"sampled": {"method": "draft_model", "draft_sample_method": "probabilistic"}}
DRAFTS |= {
    "greedy": {"method": "draft_model", "draft_sample_method": "greedy"},
    "ngram": {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4},
}
SERVERS = (
    "plain-0 draft-0 sampled-1 sampled-2 sampled-3 sampled-4 sampled-5 sampled-6 sampled-3-shipped greedy-3 ngram-3"
)
AUDITS = {"sampled-3-shipped": (1.0,), "sampled-3": (1.0, 0.7)}
SHOWN = ("verdict", "draws", "found_after", "at_least", "at_most_on_cells", "cells", "smallest_found", "level")


def asked(path: str, **body: Any) -> bytes:
    data = json.dumps(body).encode() if body else None
    with urlopen(Request(URL + path, data, {"content-type": "application/json"}), timeout=600) as answer:
        return bytes(answer.read())


@contextmanager
def serving(vllm: Path, model: Path, folder: Path, config: Mapping[str, Any], **more: str) -> Iterator[int]:
    """Start a server, mended unless the folder says that it is as shipped; give its session; stop it."""
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
        *SERVE.split(),
        *([*COUNTED.split(), json.dumps(config)] if config else []),
    ]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **own}, start_new_session=True)
    try:
        while server.poll() is None:
            try:
                asked("/health")
                break
            except OSError:
                time.sleep(1)
        yield server.pid
    finally:
        server.terminate()
        server.wait(60)


def cpu_seconds(session: int) -> float:
    """Return the processor's time of all processes of a session; other work on the machine does not count."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12]) if int(fields[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def load(prompts: Sequence[Sequence[int]], folder: Path, temperature: float, together: int, session: int) -> None:
    """Answer prompts, some at a time; keep the answers, the counters before and after, and the server's seconds."""
    fixed = {"max_tokens": 32, "temperature": temperature, "top_k": 0, "top_p": 1.0, "return_token_ids": True}
    place = f"{folder / f'{temperature:g}'}-{together}"
    Path(f"{place}.before").write_bytes(asked("/metrics"))
    start = cpu_seconds(session)
    with ThreadPoolExecutor(together) as pool:
        lines = list(pool.map(lambda ids: asked("/v1/completions", prompt=list(ids), **fixed), prompts))
    seconds = round(cpu_seconds(session) - start, 2)
    Path(f"{place}.after").write_bytes(asked("/metrics"))
    Path(f"{place}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    tokens = sum(json.loads(line)["usage"]["completion_tokens"] for line in lines)
    Path(f"{place}.json").write_text(json.dumps({"seconds": seconds, "tokens": tokens}))


def audited(pair: Pair, prompts: Sequence[Sequence[int]], temperature: float) -> dict[str, Any]:
    """Return what an audit says of the server that runs now."""
    settings, start = Processors(temperature=temperature, order="vllm"), time.perf_counter()
    law, draft = (ModelLaw(model, prompts, settings) for model in (pair.target, pair.draft))
    sampler = server_sampler(f"vllm:{URL}", settings, new_tokens=8)
    report = audit_sampler(law, sampler, draws=3_000, depth=4, level=0.001, epsilon=0.05, seed=1, draft=draft).as_json()
    found = {"T": temperature, "minutes": round((time.perf_counter() - start) / 60, 1)}
    return found | {key: report[key] for key in SHOWN}


def trace_of(pair: Pair, prompts: Sequence[list[int]], place: Path, temperature: float) -> Path:
    """Store both models' rows at the temperature along the texts that the server wrote without drafts."""
    if place.with_suffix(".trace").exists():
        return place.with_suffix(".trace")
    answers = [json.loads(line)["choices"][0]["token_ids"] for line in place.read_text().splitlines()]
    texts = [Text(i, "", [*ids, *new], len(ids)) for i, (ids, new) in enumerate(zip(prompts, answers, strict=True))]
    draft, target, tokens, lines = (place.with_suffix(f".{x}.npy") for x in ("draft", "target", "tokens", "texts"))
    for side, file in (("draft", draft), ("target", target)):
        rows = np.concatenate([teacher_forced_logits(pair, side, [text])[0] for text in texts])
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


def step_times(folder: Path, temperature: float) -> tuple[float, float]:
    """Return a and b of a step of B tokens, a + b·B seconds, from loads of one and of eight requests at a time."""
    alone, eight = (
        together * one["seconds"] / one["tokens"]
        for together, one in ((together, read(folder / f"{temperature:g}-{together}.json")) for together in (1, 8))
    )
    each = max(eight - alone, 0.0) / 7.0
    return alone - each, each


def rows_of(pair: Pair, prompts: Sequence[list[int]], work: Path, servers: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield each load: counters, what the answers say of them, what the rows predict, and the best K for its counts."""
    traces = {t: trace_of(pair, prompts, work / "plain-0" / f"{t:g}-8.jsonl", t) for t, _ in SETTINGS}
    for name, (t, together) in ((name, setting) for name in servers for setting in SETTINGS):
        place, method = f"{work / name / f'{t:g}'}-{together}", name.split("-")[0]
        row = {"server": name, "T": t, "at_once": together, **read(Path(f"{place}.json"))}
        if method in DRAFTS:
            (verify, token), (draft, each) = (step_times(work / f"{who}-0", t) for who in ("plain", "draft"))
            draft, each = (0.0, 0.0) if method == "ngram" else (draft, each)
            times = RoundTimes(verify=verify, verify_token=token, draft=draft, draft_token=each)
            raw = summary_of(f"{place}.before", f"{place}.after", temperature=t)[0].records[0]
            side, told = summary_of(f"{place}.jsonl", temperature=t, times=times)
            row |= {"steps": raw.num_spec_steps, "drafted": raw.num_draft_tokens}
            row |= {"accepted": raw.num_accepted_draft_tokens, "by_position": raw.accepted_per_position}
            row["answers_agree"] = (told.steps, told.accepted) == (row["steps"], row["accepted"])
            row["best"] = next(k for first, last, k in told.schedule if first <= together <= last)
            if method != "ngram":
                said = laws_beside(side, traces[t], 0.95)
                law = "rejection" if told.draft_sampling == "sampled" else "greedy"
                row |= {"own": said["own"], "predicted": said["laws"][law], "says": said["findings"][-1]}
        yield row


def main() -> None:
    """Run what WORK does not hold yet, one server after another, and store what all of them gave."""
    options = given(__doc__, "vllm", "work", "models", "out", servers=SERVERS, prompts=24)
    pair = load_pair(draft=options.models / "small", target=options.models / "large")
    prompts = ids_of(pair.tokenizer, builtin_prompts()[:: 320 // options.prompts], chat=False)
    small, servers = str(options.models / "small"), options.servers.split()
    for name in servers:
        folder, (method, length) = options.work / name, name.split("-")[:2]
        folder.mkdir(parents=True, exist_ok=True)
        loads = [(t, c) for t, c in SETTINGS if not (folder / f"{t:g}-{c}.json").exists()]
        audits = [t for t in AUDITS.get(name, ()) if not (folder / f"audit-{t:g}.json").exists()]
        if not loads and not audits:
            continue
        config = {**DRAFTS.get(method, {}), "num_speculative_tokens": int(length)} if method in DRAFTS else {}
        config |= {"model": small} if config.get("method") == "draft_model" else {}
        model = options.models / ("small" if method == "draft" else "large")
        with serving(options.vllm, model, folder, config) as session:
            for t, together in loads:
                load(prompts[:: 1 if together > 1 else 4], folder, t, together, session)
            for t in audits:
                (folder / f"audit-{t:g}.json").write_text(json.dumps(audited(pair, prompts[:2], t)))
    found = {name: [read(file) for file in sorted((options.work / name).glob("audit-*.json"))] for name in servers}
    store(
        options.out,
        {
            "audits": {name: some for name, some in found.items() if some},
            "loads": list(rows_of(pair, prompts, options.work, servers)),
        },
    )


if __name__ == "__main__":
    main()
