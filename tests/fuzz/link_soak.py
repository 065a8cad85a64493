"""Let four devices write texts over one server for some minutes; its memory may not grow.

``python -m tests.fuzz.link_soak SECONDS`` in the repository's root starts `hlm serve` and four `hlm device` as
processes of their own, on the built-in pair; a device that ends is started again. It fails if the server's largest
memory grew by more than 5% after the first fifth of the run, or if a text differs from the in-process loop's.
"""

import json
import socket
import sys
import time
from pathlib import Path

from tests.fuzz.link_kills import rounds, start
from tests.validation.stopping import PATIENCE_S, until
from validation.collection.prompts import builtin_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.shared_seed import SharedSeed
from validation.models.pair import load_pair

NEW_TOKENS, TEXTS, DEVICES, GROWTH = 64, 8, 4, 1.05


def resident(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("VmRSS"))


def main(seconds: float) -> None:
    pair, prompts = load_pair("builtin"), builtin_prompts(limit=TEXTS)
    expected = [r.tokens for r in decode(pair, prompts, SharedSeed(4), new_tokens=NEW_TOKENS, seed=1, batch=1)]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = start("serve", "--listen", f"127.0.0.1:{port}", "--quiet")
    device = ("device", "--server", f"ws://127.0.0.1:{port}", "--texts", str(TEXTS), "--patience", "120s")
    device += ("--new-tokens", str(NEW_TOKENS), "--json")
    clients, texts, sizes = [start(*device) for _ in range(DEVICES)], 0, []
    try:
        until(lambda: rounds(port))
        began = time.monotonic()
        while (spent := time.monotonic() - began) < seconds:
            sizes.append((spent, resident(server.pid)))
            for i, client in enumerate(clients):
                if client.poll() is None:
                    continue
                said, _ = client.communicate(timeout=PATIENCE_S)
                assert client.returncode == 0
                assert [one["tokens"] for one in json.loads(said)["texts"]] == expected
                texts += TEXTS
                clients[i] = start(*device)
            time.sleep(1.0)
        verified = rounds(port)
    finally:
        for process in (*clients, server):
            process.kill()
            process.wait(PATIENCE_S)
            process.stdout.close()
    fifths = [max(size for spent, size in sizes if i <= 5 * spent / seconds < i + 1) for i in range(5)]
    print(f"{seconds:.0f} s, {texts} texts, {verified:.0f} rounds; MB at most, by fifths of the time: {fifths}")
    assert texts
    assert max(fifths) <= GROWTH * fifths[0]


if __name__ == "__main__":
    main(float(sys.argv[1]))
