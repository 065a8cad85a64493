"""Try every command of an installed wheel in an empty folder, far from the repository.

    ENVIRONMENT/bin/python tests/wheel/try_commands.py [--whole]

The environment holds the wheel with its extras ``validation`` and ``link``, and nothing of the repository is used but
this file. With ``--whole`` the built-in pair is collected, checked, decoded and drawn as well, which takes about ten
minutes on two cores. The exit code is the number of commands that did something else than expected.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ANSWER = {
    "usage": {"completion_tokens": 53},
    "metrics": {
        "speculative_decoding": {
            "num_spec_steps": 43,
            "num_accepted_draft_tokens": 10,
            "num_draft_tokens": 129,
            "num_spec_tokens": 3,
            "acceptance_histogram": [39, 1, 0, 3],
            "acceptance_histogram_by_draft_length": {"3": [39, 1, 0, 3]},
        }
    },
}
TOP_K = {"prompt_logprobs": [None, {"3": {"logprob": -0.22, "rank": 1}, "1": {"logprob": -2.3, "rank": 2}}]}
SAMPLER = """
import numpy as np


def sample(prompts, n, seed):
    return [np.random.default_rng(seed).integers(2, size=(n, 1)).tolist() for _ in prompts]
"""
LIBRARY = """
import numpy as np
import hlmtheory as hlm

assert "site-packages" in hlm.__file__, hlm.__file__
rng = np.random.default_rng(0)
for name in ("draft", "target"):
    np.save(f"{name}.npy", rng.normal(scale=4, size=(60, 40)).astype(np.float32))
np.savez("law.npz", target=np.array([[0.5, 0.5]]))
policy = hlm.wire.DevicePolicy(40, 1.0, hlm.wire.threshold_rule(2), hlm.wire.DraftProbabilities())
assert hlm.wire.DevicePolicy.from_json(policy.to_json()) == policy
print(len(hlm.all_claims()), "claims")
"""
LINK = "--rate 10M --rtt 20ms --draft-time 12ms --verify-time 30ms"

# Exit code, what must be printed, and the words of the command.
QUICK = [
    (0, "hlmtheory, version", "--version"),
    (0, "audit", "--help"),
    (0, "Oh et al. (2025)", "claims truncation.tvd_sharp"),
    (0, '"truncation.tvd_sharp"', "claims --json"),
    (0, "40", "import --draft draft.npy --target target.npy --out traces/mine"),
    (0, "ours", f"plan --trace traces/mine {LINK} --policy policy.json --row ours --page plan.html"),
    (0, "ours", f"plan --acceptance answers.jsonl --vocabulary 40 {LINK}"),
    (0, "43 steps", "acceptance answers.jsonl --drafts sampled --verification standard"),
    (0, "cceptance", "top-k --draft q.json --target q.json --vocabulary 1000"),
    (0, "ept", "audit --sampler mine.py:sample --table law.npz --depth 1 --draws 20000"),
    (0, "torch", "doctor"),
    (0, "flexspec", "figure flexspec I --out drawn"),
    (2, "There is no", "decode hlm --run runs/none"),
    (2, "installed package", "docs"),
    (2, "clone of the repository", "publish --check"),
    (2, "install the extra", "reproduce --dry-run"),
    (0, "Acceptance rate", "validate --trace traces/mine --out runs/mine"),
]
WHOLE = [
    (0, "Acceptance rate", "validate"),
    (0, "tokens", "decode hlm"),
    (0, "cu-hlm", "figure cu-hlm 5a"),
    (0, "ours", f"plan {LINK}"),
]


class Serving:
    """A command that serves, until it is left; ``address`` is where."""

    def __init__(self, *words: str) -> None:
        told = os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
        self.process = subprocess.Popen(words, env=told, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> str:
        for line in self.process.stdout or ():
            if found := re.search(r"at (ws://\S+?);", line):
                return found[1]
        raise RuntimeError(f"{self.process.args} does not serve")

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait(20)


def try_link(hlm: str) -> str:
    free = ("--listen", "127.0.0.1:0")
    with (
        Serving(hlm, "serve", *free) as server,
        Serving(hlm, "link", *free, "--to", server.removeprefix("ws://")) as relay,
    ):
        line = (hlm, "device", "--server", relay, "--texts", "1", "--new-tokens", "4", "--json")
        return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def main(words: list[str]) -> int:
    hlm = Path(sys.executable).parent / "hlm"
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "mine.py").write_text(SAMPLER, encoding="utf-8")
        (here / "answers.jsonl").write_text(json.dumps(ANSWER) + "\n", encoding="utf-8")
        (here / "q.json").write_text(json.dumps(TOP_K), encoding="utf-8")
        subprocess.run([sys.executable, "-I", "-c", LIBRARY], cwd=here, check=True)
        helps = subprocess.run([str(hlm), "--help"], cwd=here, capture_output=True, text=True, check=True).stdout
        listed = helps.split("Commands:\n")[1].split("\n\n")[0]
        every = [(0, "Usage", f"{line.split()[0]} --help") for line in listed.splitlines() if line[2:3] != " "]
        every += [*QUICK, *(WHOLE if "--whole" in words else [])]
        for code, said, command in every:
            begun = time.perf_counter()
            done = subprocess.run([str(hlm), *command.split()], cwd=here, capture_output=True, text=True)
            told = done.stdout + done.stderr
            fine = done.returncode == code and said in told and "Traceback" not in told
            wrong += not fine
            print(f"{'ok   ' if fine else 'WRONG'} {time.perf_counter() - begun:6.1f} s  hlm {command}", flush=True)
            if not fine:
                print(f"      exit code {done.returncode}, not {code}, or without {said!r}: {told[-600:]}", flush=True)
        begun = time.perf_counter()
        fine = len(json.loads(try_link(str(hlm)))["texts"][0]["tokens"]) == 4
        wrong += not fine
        print(f"{'ok   ' if fine else 'WRONG'} {time.perf_counter() - begun:6.1f} s  hlm serve, link, device")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
