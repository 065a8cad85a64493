"""The texts of a study for a person: ``texts.jsonl`` beside the journal, one line a text; and one of them to show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.collection.prompts import Prompt
from validation.decoding.records import Row
from validation.decoding.studies import LARGE, Decoded
from validation.trace.journal import write_atomically

FILE = "texts.jsonl"


def write_texts(decoded: Decoded, prompts: Sequence[Prompt], tokenizer: Any, folder: Path) -> Path:
    """Write every text with its prompt, method and link; answers the file."""
    asked = {prompt.id: prompt.text for prompt in prompts}
    lines = [
        json.dumps(
            {
                "method": row.method,
                "link": row.link,
                "id": row.prompt,
                "prompt": asked[row.prompt],
                "text": text_of(row, tokenizer),
                "tokens": len(row.tokens),
                "ended": row.ended,
            },
            ensure_ascii=False,
        )
        for rows in decoded.by_method.values()
        for row in rows
    ]
    write_atomically(folder / FILE, "".join(f"{line}\n" for line in lines))
    return folder / FILE


def text_of(row: Row, tokenizer: Any) -> str:
    """The new tokens of a row as text."""
    return str(tokenizer.decode(row.tokens, skip_special_tokens=True))


def sample_of(decoded: Decoded, prompts: Sequence[Prompt], tokenizer: Any) -> tuple[str, str, str] | None:
    """Method, prompt and text of one of the texts: the first by a method that uses both models, if there is one."""
    groups = [rows for rows in decoded.by_method.values() if rows]
    if not groups:
        return None
    both = [rows for rows in groups if rows[0].method != LARGE and rows[0].total("large_passes")]
    row = (both or groups)[0][0]
    prompt = next(prompt.text for prompt in prompts if prompt.id == row.prompt)
    return row.method, prompt, text_of(row, tokenizer)
