"""Measure the acceptance of each draft against each version, and the version's drift from version 0."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from figures.studies.kit import given, read
from validation.collection.prompts import Prompt
from validation.decoding.loop import decode
from validation.decoding.methods.multi_draft import FixedLength, PromptLookup
from validation.models.pair import Pair, load_pair
from validation.models.sources import ModelSource, quiet
from validation.training.texts import _held_out, _is_held, _records, plain, question, tokens
from validation.training.versions import DOMAINS, load_version

TEXTS, LENGTH, PROMPTS, NEW, K = 10, 160, 10, 32, 4
DRAFTS = {"plain": "small", "aligned": "aligned"}
LOOKED_UP = "prompt lookup"


def prompts_of(domain: str, data: Path) -> list[Prompt]:
    """Return held-out prompts of a domain."""
    if domain == "math":
        records = [r for r in _records(data, "gsm8k/dev.jsonl.gz") if r["split"] == "test"]
        rows = [(r["id"], question(r)) for r in records]
    elif domain == "chat":
        records = [r for r in _records(data, "alpaca/dev.jsonl.gz") if r["reference"] and _is_held("alpaca", r)]
        rows = [(r["id"], question(r)) for r in records]
    else:
        records = [r for r in _records(data, "humaneval/dev.jsonl.gz") if _held_out(r["id"], 5)]
        rows = [(r["id"], r["prompt"]) for r in records]
    order = np.random.default_rng(5).permutation(len(rows))
    short = [Prompt(rows[i][0], rows[i][1], domain) for i in order if len(rows[i][1]) < 500]
    return sorted(short[:PROMPTS], key=lambda prompt: prompt.id)


@cache
def texts_of(domain: str, data: Path) -> list[str]:
    """Return held-out texts of a domain, or of novels and PEPs."""
    if domain == "general":
        held = plain(data)[1]
        return [text for pair in zip(held["novels"], held["peps"], strict=False) for text in pair][:TEXTS]
    held_texts = [text for text in DOMAINS[domain](data)[1] if len(text) > 200]
    order = np.random.default_rng(6).permutation(len(held_texts))
    return [held_texts[i] for i in order[:TEXTS]]


@torch.no_grad()  # type: ignore[untyped-decorator]
def rows_of(model: Any, ids: np.ndarray) -> torch.Tensor:
    """Return the distributions at the positions of a text."""
    return model(torch.from_numpy(ids)[None]).logits[0].float().softmax(-1)


def looked_up(ids: np.ndarray, first: int) -> list[int]:
    """Return the token that prompt lookup proposes after each position from ``first`` on, -1 for none."""
    finder = PromptLookup(1)
    found = [finder.guess(0, ids[: end + 1]) for end in range(first, len(ids))]
    return [guess[0] if len(guess) else -1 for guess in found]


class Bench:
    """Version 0, the drafts, and their distributions on the fixed texts."""

    def __init__(self, data: Path, work: Path) -> None:
        self.data, self.work = data, work
        self.drafts = {n: f for n, f in DRAFTS.items() if (work / "pair" / f / "config.json").exists()}
        self.pair = load_pair(draft=work / "pair/small", target=work / "pair/large")
        self.models = {n: self._draft(work / "pair" / f) for n, f in self.drafts.items()}
        self.fixed: dict[str, list[tuple[np.ndarray, torch.Tensor, dict[str, torch.Tensor]]]] = {}

    @staticmethod
    def _draft(folder: Path) -> Any:
        with quiet():
            return ModelSource(str(folder)).load_model("float32").eval()

    def on(self, domain: str) -> list[tuple[np.ndarray, torch.Tensor, dict[str, torch.Tensor]]]:
        """Return the fixed texts with the distributions of version 0 and of the drafts."""
        if domain not in self.fixed:
            self.fixed[domain] = [
                self.read(ids[:LENGTH]) for ids in tokens(self.pair.tokenizer, texts_of(domain, self.data))
            ]
        return self.fixed[domain]

    def read(self, ids: np.ndarray) -> tuple[np.ndarray, torch.Tensor, dict[str, torch.Tensor]]:
        """Return a text with the distributions of version 0 and of the drafts."""
        return ids, rows_of(self.pair.target, ids), {n: rows_of(m, ids) for n, m in self.models.items()}

    def score(
        self, version: Any, extra: dict[str, Any], texts: list[Any], first: list[int] | None = None
    ) -> dict[str, Any]:
        """Return sums over the positions of each text; ``first`` leaves out those before a text's first new token."""
        found: dict[str, Any] = {"positions": [], "tv": [], "kl": [], "accept": {}, "accept_base": {}}
        for number, (ids, base, drafts) in enumerate(texts):
            start = first[number] if first else 0
            p, p0 = rows_of(version, ids)[start:], base[start:]
            found["positions"].append(len(p))
            found["tv"].append(_plain(0.5 * (p - p0).abs().sum()))
            found["kl"].append(_plain((p * (p.clamp_min(1e-30).log() - p0.clamp_min(1e-30).log())).sum()))
            all_drafts = {n: q[start:] for n, q in drafts.items()}
            all_drafts |= {n: rows_of(m, ids)[start:] for n, m in extra.items()}
            for name, q in all_drafts.items():
                for kind, target in (("accept", p), ("accept_base", p0)):
                    found[kind].setdefault(name, []).append(_plain(torch.minimum(q, target).sum()))
            guesses = looked_up(ids, start)
            for kind, target in (("accept", p), ("accept_base", p0)):
                shares = [target[i, g].item() if g >= 0 else 0.0 for i, g in enumerate(guesses)]
                found[kind].setdefault(LOOKED_UP, []).append(_plain(sum(shares)))
        return found

    def decoded(self, version: Any, draft: Any, method: Any, prompts: list[Prompt]) -> tuple[dict[str, Any], list[Any]]:
        """Return the counts of decoded rounds by prompt, and the records."""
        pair: Pair = replace(self.pair, draft=draft, target=version)
        records = decode(pair, prompts, method, new_tokens=NEW, batch=PROMPTS, seed=1)
        counts: dict[str, Any] = {"verified": [], "accepted": [], "rounds": [], "tokens": []}
        for record in records:
            accepted = sum(r.accepted for r in record.rounds)
            counts["accepted"].append(accepted)
            counts["verified"].append(accepted + sum(r.resampled for r in record.rounds))
            counts["rounds"].append(len(record.rounds))
            counts["tokens"].append(len(record.tokens))
        return counts, records


def _plain(value: Any) -> float:
    return round(float(value), 5)


def measure(bench: Bench, folder: Path, domain: str, *, whole: bool, ceiling: Path | None) -> dict[str, Any]:
    """Return the record of one version at one step; ``whole`` adds its own texts and decoded rounds."""
    version = load_version(folder, bench.work / "pair/large")
    extra: dict[str, Any] = {}
    if whole and ceiling is not None and (ceiling / "ceiling.json").exists():
        extra["anew"] = bench._draft(ceiling)
    if whole:
        control = bench.work / "ceilings" / f"{domain}-base-s1"
        if (control / "ceiling.json").exists():
            extra["distilled for version 0"] = bench._draft(control)
    found: dict[str, Any] = {
        "domain": bench.score(version, extra, bench.on(domain)),
        "general": bench.score(version, extra, bench.on("general")),
    }
    if whole:
        prompts, rounds = prompts_of(domain, bench.data), {}
        for name, draft in (bench.models | extra).items():
            rounds[name], records = bench.decoded(version, draft, FixedLength(K), prompts)
            if name == "plain":
                texts = records
        rounds[LOOKED_UP], _ = bench.decoded(version, bench.models["plain"], PromptLookup(K), prompts)
        found["rounds"] = rounds
        begun = tokens(bench.pair.tokenizer, [prompt.text for prompt in prompts])
        whole_texts = [np.append(ids, r.tokens).astype(np.int64) for ids, r in zip(begun, texts, strict=True)]
        first = [len(ids) - 1 for ids in begun]  # the position after the prompt, of the first new token
        read = [bench.read(ids[:-1]) for ids in whole_texts]
        found["own"] = bench.score(version, extra, read, first)
        found["prompts"] = [prompt.id for prompt in prompts]
    return found


def jobs(work: Path) -> Iterator[tuple[str, str, int, Path, Path | None, dict[str, Any]]]:
    """Yield name, domain, step, folder, the draft that was trained anew and what is kept of each version's record."""
    for domain in DOMAINS:
        yield f"{domain}-base", domain, 0, work / "pair/large", None, {"method": "base", "seed": 0}
    files = [*work.glob("versions/*/version.json"), *work.glob("hot/*/version.json")]
    for file in sorted(files, key=lambda f: f.stat().st_mtime):
        told, folder = read(file), file.parent
        hot = folder.parent.name == "hot"
        name = folder.name + "-hot" * hot
        keys = ("method", "seed", "rank", "rate", "keeps_the_anchor", "own_parameters", "cpu_seconds")
        kept = {key: told[key] for key in keys}
        yield name, told["domain"], told["steps"], folder, None if hot else work / "ceilings" / name, kept
        for step in sorted(folder.glob("step-*")):
            yield name, told["domain"], int(step.name[5:]), step, None, kept


def main() -> None:
    """Measure what is there, and write after each version."""
    asked = given(__doc__, "data", "work", "out")
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = read(asked.out) if asked.out.exists() else []
    known = {(row["name"], row["step"]) for row in rows}
    bench = Bench(asked.data, asked.work)
    for name, domain, step, folder, ceiling, kept in jobs(asked.work):
        if (name, step) in known:
            continue
        whole = not folder.name.startswith("step-")
        row = {"name": name, "of": domain, "step": step} | kept
        rows.append(row | measure(bench, folder, domain, whole=whole, ceiling=ceiling))
        asked.out.write_text("[\n" + ",\n".join(json.dumps(one) for one in rows) + "\n]\n", encoding="utf-8")
        print(name, step, flush=True)


if __name__ == "__main__":
    main()
