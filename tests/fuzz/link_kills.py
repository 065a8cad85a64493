"""Kill a server and a device by signal 9, again and again; no token may be lost, doubled or changed.

``python -m tests.fuzz.link_kills KILLS`` in the repository's root starts `hlm serve` and `hlm device` as processes of
their own, on the built-in pair. Every other kill is the server's. It prints how long a text took to go on after a kill
of the server, and fails if a text differs from the in-process loop's.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np

from tests.validation.stopping import PATIENCE_S, until
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.shared_seed import SharedSeed
from validation.models.pair import load_pair

ROOT = Path(__file__).resolve().parents[2]
NEW_TOKENS, TEXTS = 64, 3


def start(*words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "validation", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def rounds(port: int) -> float:
    with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        for line in page.read().decode().splitlines():
            if line.startswith("hlm_rounds_total "):
                return float(line.split()[1])
    return 0.0


def main(kills: int) -> None:
    pair, prompts, rng = load_pair("builtin"), builtin_prompts(limit=TEXTS), np.random.default_rng(1)
    expected = [r.tokens for r in decode(pair, prompts, SharedSeed(4), new_tokens=NEW_TOKENS, seed=1, batch=1)]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = ("serve", "--listen", f"127.0.0.1:{port}", "--stretch", "50ms", "--quiet")
    back, done = [], 0
    while done < kills:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "texts.jsonl")
            device = ("device", "--server", f"ws://127.0.0.1:{port}", "--texts", str(TEXTS), "--patience", "120s")
            device += ("--new-tokens", str(NEW_TOKENS), "--out", str(out), "--json")
            server, client = start(*serve), start(*device)
            try:
                deadline = time.monotonic() + PATIENCE_S
                while client.poll() is None:
                    assert time.monotonic() < deadline, f"no kill, and no end, for {PATIENCE_S:g} s"
                    if done < kills and rounds(port) > rng.integers(1, 6):
                        if done % 2:
                            client.kill()
                            client.communicate(timeout=PATIENCE_S)
                            client = start(*device)
                        else:
                            server.kill()
                            server.communicate(timeout=PATIENCE_S)
                            server, began = start(*serve), time.monotonic()
                            until(lambda: rounds(port) or client.poll() is not None)  # noqa: B023
                            back.append(time.monotonic() - began)
                        done, deadline = done + 1, time.monotonic() + PATIENCE_S
                    time.sleep(0.1)
                said, _ = client.communicate(timeout=PATIENCE_S)
                assert client.returncode == 0
                assert [one["tokens"] for one in json.loads(said)["texts"]] == expected
                stored = [json.loads(line)["tokens"] for line in out.read_text(encoding="utf-8").splitlines()]
                assert stored == expected
            finally:
                for process in (client, server):
                    process.kill()
                    process.wait(PATIENCE_S)
                    process.stdout.close()
    print(f"{done} kills, {len(back)} of the server: every text as before; goes on after {max(back):.1f} s at most")


if __name__ == "__main__":
    main(int(sys.argv[1]))
