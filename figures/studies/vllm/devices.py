"""Let devices draft for vLLM: are texts its own, is its law kept, and what do 1, 4 and 8 devices get."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from figures.studies.kit import SHELF, given, read, store
from figures.studies.vllm.measure import URL, asked, serving, trace_of
from validation.audit import ModelLaw, Processors, audit_sampler
from validation.collection.collect import ids_of
from validation.collection.fingerprint import tokenizer_mark
from validation.collection.prompts import builtin_prompts
from validation.decoding.methods.base import tokens_message
from validation.decoding.methods.multi_draft import GreedyDrafts
from validation.decoding.session import Draft
from validation.link.device import Device
from validation.link.formats import Terms
from validation.link.remote import Remote
from validation.link.wire import Opening, answer_of, round_body
from validation.models.pair import Pair, load_pair, load_single

PLACE, LENGTH, NEW, USERS, EACH = "127.0.0.1:7117", 4, 48, (1, 4, 8), 4
PLUGIN, PACED = "validation.link.vllm_drafts.DeviceDrafts", "figures.studies.vllm.filler.PacedDevices"
DEVICES = {"method": "custom_class", "num_speculative_tokens": LENGTH}
ENVIRONMENT: dict[str, Any] = {"HLM_LISTEN": PLACE, "HLM_VLLM": URL, "HLM_WAIT": "150ms"}
SHOWN = ("verdict", "draws", "found_after", "at_least", "at_most_on_cells", "cells", "smallest_found", "level")
DRAFT_S, TRIP_S = 0.01, 0.02
"""Of the light devices: a pass of the draft model, and the round trip."""


def own(ids: Sequence[int], count: int = NEW, **more: Any) -> list[int]:
    """Return vLLM's text of a plain request at temperature 0."""
    body = {"prompt": list(ids), "max_tokens": count, "temperature": 0, "return_token_ids": True, **more}
    return list(json.loads(asked("/v1/completions", **body))["choices"][0]["token_ids"])


def plain(ids: Sequence[int], count: int = NEW) -> int:
    return len(own(ids, count, ignore_eos=count > NEW))


def in_turn(works: Sequence[Callable[[], int]], at_once: int) -> float:
    """Run the works, ``at_once`` at a time; return the tokens a second of all."""
    began = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        tokens = sum(pool.map(lambda work: work(), works))
    return float(tokens / (time.perf_counter() - began))


def passes(vllm: Path, models: Path, prompts: Sequence[list[int]], folder: Path) -> Path:
    """Time vLLM's passes by batch and width, and return them as passes.csv."""
    lines = folder / "passes.txt"
    config = {"method": "custom_class", "model": "figures.studies.vllm.filler.Filler", "num_speculative_tokens": 7}
    if not lines.exists():
        with serving(vllm, models / "large", folder, config, FILLER=str(lines)):
            for batch in (1, 2, 4, 8):
                in_turn([partial(plain, ids, 128) for ids in prompts[:batch]], batch)
    table: dict[tuple[int, int], list[float]] = {}
    for line in lines.read_text().splitlines():
        rows, tokens, each = line.split(",")
        table.setdefault((int(rows), int(tokens)), []).append(float(each))
    found = [f"{batch},{width},60,{np.median(ms):.3f},target" for (batch, width), ms in table.items() if len(ms) > 5]
    (folder / "passes.csv").write_text("\n".join(["batch,width,context,ms,model", *sorted(found)]) + "\n")
    return folder / "passes.csv"


def opening_of(pair: Pair, ids: list[int], count: int, name: str) -> Opening:
    terms = [Terms.of(GreedyDrafts(LENGTH)).plain()]
    return Opening(tokenizer_mark(pair.tokenizer), "", terms, name, 1, 0.0, 1.0, count, ids, [], name)


def answers(place: Path, texts: Sequence[list[int]]) -> Path:
    """Store texts as vLLM's answers."""
    place.write_text("\n".join(json.dumps({"choices": [{"token_ids": text}]}) for text in texts))
    return place


def drafts_of(model: Any, ids: list[int], text: list[int]) -> list[list[int]]:
    """Return the greedy drafts of a model behind each beginning of a text."""
    rows = [[*ids, *text[:i]] for i in range(len(text))]
    for _ in range(LENGTH):
        filled = torch.tensor([row + [0] * (len(ids) + len(text) + LENGTH - len(row)) for row in rows])
        with torch.inference_mode():
            logits = model(filled).logits
        best = logits[range(len(rows)), [len(row) - 1 for row in rows]].argmax(dim=-1).tolist()
        rows = [[*row, token] for row, token in zip(rows, best, strict=True)]
    return [row[-LENGTH:] for row in rows]


def alone(pair: Pair, ids: list[int], text: list[int], drafts: Sequence[list[int]], name: str) -> int:
    with Remote(f"ws://{PLACE}") as remote:
        return light(remote, pair, ids, text, drafts, name)


def light(remote: Remote, pair: Pair, ids: list[int], text: list[int], drafts: Sequence[list[int]], name: str) -> int:
    """Send drafts that were made before, after the time that a device takes; return the tokens that came."""
    came, opening = list[int](), opening_of(pair, ids, len(text), name)
    while len(came) < len(text):
        sent = drafts[len(came)][: len(text) - len(came)]
        time.sleep(DRAFT_S * len(sent) + TRIP_S)
        payload = tokens_message([Draft(token) for token in sent], pair.vocabulary).payload
        body = round_body([], payload, pair.vocabulary)
        answer = remote.round(partial(replace, opening, text=list(came)), body)
        accepted, token, _ = answer_of(answer, len(sent), pair.vocabulary)
        came += [*sent[:accepted], *([token] if token >= 0 else [])]
    assert came == text, "a text is not vLLM's own"
    return len(came)


def drafted(device: Device, ids: list[int], name: str, temperature: float, new_tokens: int, seed: int = 1) -> Any:
    one = device.beside()
    with one.remote:
        sampling: dict[str, Any] = {"seed": seed, "temperature": temperature, "new_tokens": new_tokens}
        return one.generate(GreedyDrafts(LENGTH), ids, name=name, **sampling)


def predicted(trace: Path, table: Path, users: int) -> dict[str, Any]:
    """Return what ``hlm plan`` says with these passes: our option, and the tokens a second of all users together."""
    times = f"--rate 100M --rtt {TRIP_S}s --draft-time {DRAFT_S}s --server-batch 8 --users {users} --json"
    words = [sys.executable, "-P", "-m", "validation", "plan", "--trace", str(trace), "--times", str(table)]
    found = subprocess.run([*words, *times.split()], capture_output=True, text=True, check=True, cwd=SHELF.parents[1])
    plan = json.loads(found.stdout)
    ours, shared = next(row for row in plan["rows"] if row["policy"] == "ours"), plan["users"]
    speed = shared["total_tokens_per_s"] if shared else ours["tokens_per_s_mean"]["value"]
    return {"option": ours["option"], "tokens_per_s": speed}


def kept(vllm: Path, models: Path, prompts: Sequence[list[int]], folder: Path, draws: int) -> dict[str, Any]:
    """Write texts at temperature 0 by devices and by vLLM alone, then audit devices at temperature 1, if any draws."""
    pair, small = load_pair(draft=models / "small", target=models / "large"), load_single(str(models / "small"))
    with (
        serving(vllm, models / "large", folder, DEVICES | {"model": PLUGIN}, **ENVIRONMENT),
        Remote(f"ws://{PLACE}") as remote,
        ThreadPoolExecutor(8) as pool,
    ):
        texts = [own(ids) for ids in prompts]
        device = Device(small, remote, tokenizer=tokenizer_mark(small.tokenizer), draft="")
        records = list(pool.map(lambda i: drafted(device, prompts[i], str(i), 0.0, NEW), range(len(prompts))))
        counts = {name: sum(one.total(name) for one in records) for name in ("drafted", "accepted")}
        same = sum(one.tokens == text for one, text in zip(records, texts, strict=True))
        warm = dict.fromkeys(counts, 0)

        def sample(asked_for: Sequence[list[int]], n: int, seed: int, depth: int) -> list[list[list[int]]]:
            each = [(ids, seed + i) for ids in asked_for for i in range(n)]
            some = list(pool.map(lambda one: drafted(device, one[0], str(one[1]), 1.0, depth + LENGTH, one[1]), each))
            for name in warm:
                warm[name] += sum(one.total(name) for one in some)
            new = [one.tokens for one in some]
            return [new[i : i + n] for i in range(0, len(new), n)]

        cold = {"texts": len(texts), "equal": same, **counts}
        if not draws:
            return {"texts": texts, "cold": cold}
        settings, began = Processors(order="vllm"), time.perf_counter()
        law, draft = (ModelLaw(model, prompts[:2], settings) for model in (pair.target, pair.draft))
        more: dict[str, Any] = {"depth": 4, "level": 0.001, "epsilon": 0.05, "seed": 1, "draft": draft}
        report = audit_sampler(law, sample, draws=draws, **more).as_json()
        minutes = round((time.perf_counter() - began) / 60, 1)
    audit = {"minutes": minutes, **warm, **{name: report[name] for name in SHOWN}}
    return {"texts": texts, "cold": cold, "audit": audit}


def capacity(vllm: Path, models: Path, prompts: list[list[int]], texts: list[list[int]], folder: Path) -> Any:
    """Measure tokens a second of plain requests and of devices, as many at once as there are users, both twice."""
    pair = load_single(str(models / "small"))
    ahead = [drafts_of(pair.draft, ids, text) for ids, text in zip(prompts, texts, strict=True)]
    found: dict[str, Any] = {str(users): {"plain": [], "devices": []} for users in USERS}
    with serving(vllm, models / "large", folder, DEVICES | {"model": PACED}, **ENVIRONMENT):
        for users in (*USERS, *USERS):
            some = [(i % len(prompts), f"{users} {i}") for i in range(EACH * users)]
            alone_too = [partial(plain, prompts[i]) for i, _ in some]
            works = [partial(alone, pair, prompts[i], texts[i], ahead[i], name) for i, name in some]
            found[str(users)]["plain"].append(in_turn(alone_too, users))
            found[str(users)]["devices"].append(in_turn(works, users))
        found["one request"] = {"alone": in_turn([partial(plain, prompts[0], 128)], 1)}
        with Remote(f"ws://{PLACE}") as remote:
            remote.greeting()
            remote._open_text(opening_of(pair, prompts[1], 128, "silent"))  # and sends no round
            found["one request"]["beside a silent device"] = in_turn([partial(plain, prompts[0], 128)], 1)
    return found


def main() -> None:
    options = given(__doc__, "vllm", "work", "models", "out", prompts=24, draws=2_000)
    where = options.vllm, options.models
    pair = load_pair(draft=options.models / "small", target=options.models / "large")
    prompts = ids_of(pair.tokenizer, builtin_prompts()[:: 320 // options.prompts], chat=False)
    parts = [options.work / name for name in ("kept", "passes", "capacity")]
    for folder in parts:
        folder.mkdir(parents=True, exist_ok=True)
    law = once(parts[0] / "found.json", lambda: kept(*where, prompts, parts[0], options.draws))
    table = passes(*where, prompts, parts[1])
    speeds = once(parts[2] / "found.json", lambda: capacity(*where, prompts, law["texts"], parts[2]))
    trace = trace_of(lambda: pair, prompts, answers(parts[0] / "cold.jsonl", law.pop("texts")), 1e-3)
    for users in USERS:
        speeds[str(users)]["plan"] = predicted(trace, table, users)
    audit = {} if options.draws else {"audit": read(options.out)["audit"]}  # of an earlier run
    store(options.out, {**law, **audit, "passes": table.read_text().splitlines()[1:], "capacity": speeds})


def once(place: Path, work: Callable[[], Any]) -> Any:
    """Return what a work found, now or before."""
    if not place.exists():
        place.write_text(json.dumps(work()))
    return read(place)


if __name__ == "__main__":
    main()
