"""A study's texts for readers: ``texts.jsonl`` next to the journal, one line for each text, and one sample text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from validation.collection.prompts import Prompt
from validation.decoding.methods.registry import info_of
from validation.decoding.records import GenerationRecord
from validation.decoding.studies import Decoded
from validation.trace.journal import write_atomically

FILE = "texts.jsonl"


def write_texts(decoded: Decoded, prompts: Sequence[Prompt], tokenizer: Any, folder: Path) -> Path:
    """Write every text with its prompt, method and link, and return the file."""
    asked = {prompt.id: prompt.text for prompt in prompts}
    lines = [
        json.dumps(
            {
                "method": record.method,
                "link": record.link,
                "id": record.prompt,
                "prompt": asked[record.prompt],
                "text": text_of(record, tokenizer),
                "tokens": len(record.tokens),
                "ended": record.ended,
            },
            ensure_ascii=False,
        )
        for records in decoded.by_method.values()
        for record in records
    ]
    write_atomically(folder / FILE, "".join(f"{line}\n" for line in lines))
    return folder / FILE


def text_of(record: GenerationRecord, tokenizer: Any) -> str:
    """Return the new tokens of a record as text."""
    return str(tokenizer.decode(record.tokens, skip_special_tokens=True))


def sample_of(decoded: Decoded, prompts: Sequence[Prompt], tokenizer: Any) -> tuple[str, str, str] | None:
    """Return method, prompt and text of a sample: the first text of a method that runs both models, if there is one."""
    groups = [records for records in decoded.by_method.values() if records]
    if not groups:
        return None
    made = [(info_of(records[0].method).method, records) for records in groups]
    both = [records for method, records in made if method and method.runs_draft and method.runs_target]
    record = (both or groups)[0][0]
    prompt = next(prompt.text for prompt in prompts if prompt.id == record.prompt)
    return record.method, prompt, text_of(record, tokenizer)
