"""Train the versions of the target, and for each the draft that is trained anew."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from validation.training.distil import divergence
from validation.training.loop import logits_of
from validation.training.texts import blocks, tokens
from validation.training.versions import BATCH, DOMAINS, ROW, Update, load_version, train_version

ORDER = ("code", "chat", "math")
STEPS, STOPS = 24, (6, 12)
LORA_RATE, FULL_RATE = 4e-3, 1e-3
ANEW = ("lora16", "full", "frozen")  # the methods whose versions get a draft of their own
CEILING_STEPS, CEILING_RATE = 24, 1e-3


def updates() -> list[Update]:
    """Return the recipes, the most telling first."""
    found = []
    for methods, seeds in ((("lora16", "full", "frozen"), (1, 2, 3)), (("lora64", "lora4"), (1, 2, 3))):
        for seed in seeds:
            found += [_update(d, m, seed) for m in methods for d in ORDER]
    return found + [_update(d, "lora16-all", 1) for d in ORDER]


def _update(domain: str, method: str, seed: int) -> Update:
    rate = LORA_RATE if method.startswith("lora") else FULL_RATE
    return Update(domain=domain, method=method, seed=seed, steps=STEPS, rate=rate)


def hot_updates() -> list[Update]:
    """Return the recipes of the regime of more drift; the step count marks their names."""
    return [
        Update(domain=d, method=m, seed=s, steps=4 * STEPS, rate=3 * FULL_RATE)
        for s in (1, 2, 3)
        for d, m in (("code", "full"), ("code", "frozen"), ("chat", "full"))
    ]


def distil(teacher: Any, folder: Path, draft: Path, documents: list[np.ndarray], seed: int) -> dict[str, Any]:
    """Continue the training of the plain draft on the distributions of a version, and write it."""
    student = AutoModelForCausalLM.from_pretrained(draft, dtype=torch.float32)
    optimizer = torch.optim.AdamW(student.parameters(), lr=CEILING_RATE, weight_decay=0.0, betas=(0.9, 0.95))
    rows, rng = np.empty((0, ROW + 1), dtype=np.int64), np.random.default_rng(seed + 100)
    while len(rows) < CEILING_STEPS * BATCH:
        rows = np.concatenate([rows, blocks(documents, rng, ROW)])
    began, losses = time.process_time(), []
    for step in range(CEILING_STEPS):
        ids = torch.from_numpy(rows[step * BATCH : (step + 1) * BATCH, :-1])
        for group in optimizer.param_groups:
            group["lr"] = CEILING_RATE * min(1.0, (step + 1) / 4, (CEILING_STEPS - step) / (0.45 * CEILING_STEPS))
        with torch.no_grad():
            target = logits_of(teacher, ids)
        loss = divergence(target, logits_of(student, ids))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(round(loss.item(), 4))
    student.to(torch.bfloat16).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(draft)
    tokenizer.save_pretrained(folder)
    record = {"steps": CEILING_STEPS, "tokens": CEILING_STEPS * BATCH * ROW, "rate": CEILING_RATE, "losses": losses}
    return record | {"cpu_seconds": round(time.process_time() - began, 1)}


def ceilings(data: Path, work: Path) -> None:
    """Distil the plain draft from each version that is there, and from version 0 with each domain's texts."""
    tokenizer = AutoTokenizer.from_pretrained(work / "pair/large")
    learned = {d: tokens(tokenizer, _some(read(data)[0])) for d, read in DOMAINS.items()}
    jobs: list[tuple[str, str, int, Path | None]] = [(f"{d}-base-s1", d, 1, None) for d in ORDER]
    main = [u for u in updates() if u.method in ANEW]
    jobs += [(u.name, u.domain, u.seed, work / "versions" / u.name) for u in main]
    for name, domain, seed, folder in jobs:
        out = work / "ceilings" / name
        if (out / "ceiling.json").exists() or (folder is not None and not (folder / "version.json").exists()):
            continue
        teacher = load_version(folder or work / "pair/large", work / "pair/large")
        record = distil(teacher, out, work / "pair/small", learned[domain], seed)
        (out / "ceiling.json").write_text(json.dumps(record) + "\n")
        print(name, record["cpu_seconds"], record["losses"][0], record["losses"][-1], flush=True)


def _some(texts: list[str]) -> list[str]:
    """Return the first 400,000 characters of texts, shuffled: more than a run reads."""
    order, found, count = np.random.default_rng(1).permutation(len(texts)), [], 0
    for index in order:
        found.append(texts[index])
        count += len(texts[index])
        if count > 400_000:
            break
    return found


def main() -> None:
    """Run one part."""
    data, work, part = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    if part == "ceilings":
        ceilings(data, work)
        return
    recipes, out = (updates(), work / "versions") if part == "versions" else (hot_updates(), work / "hot")
    for update in recipes:
        if not (out / update.name / "version.json").exists():
            stops = STOPS if part == "versions" else (STEPS, 2 * STEPS)
            record = train_version(update, work / "pair/large", data, out, stops=stops)
            print(update.name, record["cpu_seconds"], record["losses"][0], record["losses"][-1], flush=True)


if __name__ == "__main__":
    main()
