"""llama.cpp's llama-speculative with the target itself as the draft: texts at temperature 1 from several seeds.

    python3 llama_speculative.py ENGINE MODEL.gguf     (ENGINE is what llama_cpp.sh made)

All texts with the same first token go on alike while drafts last: each draft is the likeliest token and is accepted.
Texts drawn from the model (llama-lookup) go on in different ways.
"""

import subprocess
import sys
from collections import Counter
from os.path import commonprefix
from pathlib import Path

ENGINE, MODEL, PROMPT = Path(sys.argv[1]), sys.argv[2], "It was the best of times, it was the"
HERE = Path(__file__).resolve().parents[1]
COMMON = ["-m", MODEL, "-p", PROMPT, "-n", "3", "-c", "64", "-t", "1", "-tb", "1", "--samplers", "temperature"]
SEEDS = ",".join(map(str, range(1, 13)))

texts = {}
for program, more in (("speculative", ["-md", MODEL, "--spec-draft-n-max", "3"]), ("lookup", [])):
    library = str(ENGINE / "site/xllamacpp/xllamacpp.abi3.so")
    command = [sys.executable, str(HERE / "llama_examples.py"), library, str(ENGINE / f"{program}.so"), SEEDS, *COMMON]
    printed = subprocess.run([*command, "--temp", "1", *more], capture_output=True, text=True, check=True).stdout
    texts[program] = [text.split() for text in printed.split("seed")[1:]]
prompt = len(commonprefix([one for found in texts.values() for one in found]))  # noqa: RUF071  a prefix of lists
for program, found in texts.items():
    print(f"llama-{program}:", Counter(" ".join(text[prompt : prompt + 4]) for text in found).most_common())
