"""Convert the built-in pair to GGUF with llama.cpp's own script.

The script recognises a tokenizer by a hash of the tokens of a test text, and the built-in pair's is not in its list.
This tokenizer splits off each digit and then cuts as GPT-2's does, which llama.cpp calls ``smollm``. For a model of the
hub, run ``convert_hf_to_gguf.py`` itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    source = Path(sys.argv.pop(1)).resolve()  # the folder of llama.cpp; the other arguments are the script's own
    sys.path[:0] = [str(source), str(source / "gguf-py")]

    import convert_hf_to_gguf
    from conversion.base import TextModel
    from conversion.llama import LlamaModel

    TextModel.get_vocab_base_pre = lambda model, tokenizer: "smollm"
    LlamaModel.set_vocab = TextModel._set_vocab_gpt2  # without the search for a sentencepiece model
    convert_hf_to_gguf.main()
