"""What the commands, the messages and the decoded texts of a checkout are, to compare two checkouts.

    python tests/goldens/outputs.py make FILE        # in each of two checkouts
    python tests/goldens/outputs.py compare OLD NEW

``make`` runs each command on a fixed trace and stores its exit code and its ``--json`` output. It also stores checksums
of the messages of policies and of the journals of decoded texts. ``compare`` prints what differs and exits with 1 then.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

# Fields that no two runs share: times, places, versions.
CHANGING = re.compile(
    r"seconds|_ms$|_at$|time|date|commit|created|path|folder|run$|trace$|file|version|machine|host|command|speed"
)
SAMPLER = """
def sample(prompt, *, count, rng, **_):
    return rng.choice(3, size=(count, 1), p=[0.5, 0.3, 0.2])
"""
COUNTS = "".join(
    f'vllm:spec_decode_{name}_total{{engine="0",model_name="m"}} {number}\n'
    for name, number in (("num_drafts", 1000), ("num_draft_tokens", 4000), ("num_accepted_tokens", 2100))
) + "".join(
    f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="{place}"}} {number}\n'
    for place, number in enumerate((800, 600, 400, 300))
)

COMMANDS = {
    "import": "import --draft draft.npy --target target.npy --texts texts.npy --tokens tokens.npy --out trace",
    "import twice": "import --draft draft.npy --target target.npy --out trace",
    "import nothing": "import --draft none.npy --target target.npy --out other",
    "plan": "plan --trace trace --json --policy policy.json --row ours",
    "plan with risk": "plan --trace trace --risk text=.3 --fading rayleigh --rate 1M --json",
    "plan of users": "plan --trace trace --users 6 --server-batch 4 --risk token=.1 --json",
    "plan with latency": "plan --trace trace --latency p95=200ms --energy 500mJ --json",
    "plan of counts": "plan --acceptance counts.txt --json",
    "plan refused": "plan --trace trace --rate -3 --json",
    "acceptance": "acceptance counts.txt --verify-ms 30 --draft-ms 5 --json",
    "acceptance of nothing": "acceptance none.txt --json",
    "audit": "audit --sampler sampler.py:sample --table table.json --depth 1 --draws 2000 --json",
    "claims": "claims --json",
    "claim": "claims truncation.certificate --json",
    "claim unknown": "claims truncation.none",
    "doctor": "doctor --json",
    "decode": "decode nucleus --run run --prompts prompts.txt --new-tokens 12 --batch 2 --json -q",
    "validate": "validate --trace trace --out checked --json -q",
    "unknown": "nothing",
}


def inputs(folder: Path) -> None:
    """Write logits of 60 texts of 8 positions over 64 tokens, counts of an engine, a sampler, prompts."""
    rng = np.random.default_rng(5)
    count = 60 * 8
    draft = rng.normal(scale=3, size=(count, 64)) * rng.uniform(0.3, 2, (count, 1))
    target = draft + rng.normal(size=draft.shape)
    np.save(folder / "draft.npy", draft.astype(np.float32))
    np.save(folder / "target.npy", target.astype(np.float32))
    np.save(folder / "texts.npy", np.repeat(np.arange(60), 8))
    np.save(folder / "tokens.npy", target.argmax(1))
    (folder / "counts.txt").write_text(COUNTS)
    (folder / "sampler.py").write_text(SAMPLER)
    (folder / "table.json").write_text(json.dumps({"target": [[0.5, 0.3, 0.2]]}))
    (folder / "prompts.txt").write_text("The old man looked at the sea.\nShe opened the letter and\n")


def steady(found: Any) -> Any:
    """Return a JSON value without the fields that no two runs share."""
    if isinstance(found, dict):
        return {name: steady(value) for name, value in found.items() if not CHANGING.search(name)}
    return [steady(value) for value in found] if isinstance(found, list) else found


def parsed(text: str) -> Any:
    """Return an output as JSON, or as a list of lines if it is not JSON."""
    try:
        return steady(json.loads(text))
    except ValueError:
        return text.splitlines()


def messages() -> dict[str, str]:
    """Return a checksum of 200 messages of each kind of policy."""
    from hlmtheory.policy import DevicePolicy, LatticeRows, UncertaintyLine, threshold_rule

    checksums = {}
    for name, codec in {"8": LatticeRows(100, top_k=8), "32": LatticeRows(50, top_k=32)}.items():
        device = DevicePolicy(200, 1.0, threshold_rule(3, threshold=0.0), codec, UncertaintyLine(1.0, 0.0))
        rng, digest = np.random.default_rng(2), hashlib.sha256(device.to_json().encode())
        for _ in range(200):
            logits = rng.normal(scale=4, size=(3, 200))
            drafts = [device.draft(logits[place], place=place + 1, rng=rng) for place in range(3)]
            digest.update(device.message(drafts))
        checksums[f"lattice, {name} largest"] = digest.hexdigest()
    return checksums


def journals(folder: Path) -> dict[str, str]:
    """Return a checksum of the decoded texts of each file, without the times of passes."""
    return {
        path.name: hashlib.sha256(
            json.dumps(
                [steady(json.loads(line)) for line in path.read_text().splitlines() if line], sort_keys=True
            ).encode()
        ).hexdigest()
        for path in sorted(folder.rglob("*.jsonl"))
    }


def make(file: Path) -> None:
    """Run everything in an empty folder and store it."""
    results: dict[str, Any] = {"messages": messages()}
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        inputs(folder)
        for name, words in COMMANDS.items():
            if name == "decode":  # it fits thresholds to the trace of the built-in pair
                collect = ["collect", "--positions", "600", "--new-tokens", "40", "--out", "run/trace", "-q"]
                subprocess.run([sys.executable, "-m", "validation", *collect], cwd=folder, env=environment, check=True)
            ended = subprocess.run(
                [sys.executable, "-m", "validation", *words.split()],
                cwd=folder, env=environment, capture_output=True, text=True,
            )  # fmt: skip
            results[name] = {"code": ended.returncode, "output": parsed(ended.stdout)}
            print(
                f"{name}: {ended.returncode} {ended.stderr.strip()[-200:] if ended.returncode == 2 else ''}", flush=True
            )
        results["policy.json"] = json.loads((folder / "policy.json").read_text())
        results["decoded texts"] = journals(folder / "run")
    file.write_text(json.dumps(results, indent=1, sort_keys=True))


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Return one line for each place where two JSON values differ; floats are equal within 1e-9."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = sorted(old.keys() | new.keys())
        return [line for name in names for line in differences(old.get(name), new.get(name), f"{where}/{name}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            line
            for place, pair in enumerate(zip(old, new, strict=True))
            for line in differences(*pair, f"{where}/{place}")
        ]
    if isinstance(old, float) and isinstance(new, (int, float)) and abs(old - new) <= 1e-9 * max(1.0, abs(old)):
        return []
    return [] if old == new else [f"{where}: {str(old)[:120]} → {str(new)[:120]}"]


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        lines = differences(*(json.loads(Path(name).read_text()) for name in sys.argv[2:4]))
        print("\n".join(lines) or "nothing differs")
        sys.exit(bool(lines))
