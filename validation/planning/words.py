"""What an option does, in words, from its fields: the device and the server, the messages, what is kept unverified."""

from __future__ import annotations

from validation.planning.menu import (
    CERTIFIED,
    COLOCATED,
    CU_HLM,
    DEVICE,
    FIXED,
    FLEXSPEC,
    HLM,
    OURS,
    OWN_TREE,
    SEED_TREE,
    SERVER,
    SQS,
    STREAM,
    STREAMED,
    U_HLM,
    Option,
)
from validation.planning.positions import LATTICES
from validation.planning.profile import SEEDED

_ALONE = {
    SERVER: "The server generates every token and waits a round trip for each.",
    STREAM: "The server generates every token and sends it at once, without waiting for the device.",
    COLOCATED: "The server drafts for itself and streams its tokens.",
    OWN_TREE: "The server drafts a tree for itself, reads it in one pass and streams its tokens.",
    DEVICE: "The device generates every token. The server is not asked.",
}
_SENT = {
    FIXED: "its whole distribution",
    HLM: "its whole distribution",
    U_HLM: "its whole distribution",
    CU_HLM: "a truncated distribution ({label})",
    SQS: "a quantised distribution ({label})",
    FLEXSPEC: "its probability alone",
    CERTIFIED: "its probability alone; a rejected one is answered with a part of the target's distribution ({label})",
}
"""What each draft of a paper's policy is sent with."""


def headline(option: Option) -> str:
    """Return an option in a few words.

    Parameters
    ----------
    option : Option

    Returns
    -------
    str
        Such as "Draft 2, send the top 64, keep u ≤ 0.3".
    """
    if option.family == STREAMED:
        return "Draft on by a shared seed while the server verifies"
    if option.family != OURS:
        return _capital(f"{option.family}: {option.label}" if option.label else option.family)
    if option.threshold >= 1.0:
        return "Keep every draft"
    kept = f", keep u ≤ {option.threshold:g}" if _skips(option) else ""
    if option.codec is None:
        return f"Draft {option.draft_length:g}, send token ids"
    if option.codec == 0:
        return f"Draft {option.draft_length:g}, send one probability{kept}"
    if option.codec == SEEDED:
        return f"Draft {option.draft_length:g} by a shared seed, send token ids{kept}"
    lattice = LATTICES[option.codec - 1]
    sent = f"the top {lattice.k}" if lattice.k is not None else f"q ≥ {lattice.threshold:g}"
    together = ", verify by block" if option.block else ""
    return f"Draft {option.draft_length:g}, send {sent}{kept}{together}"


def explanation(option: Option) -> str:
    """Return what the device and the server do under an option, in sentences.

    Parameters
    ----------
    option : Option

    Returns
    -------
    str
    """
    if option.family in _ALONE:
        return _ALONE[option.family]
    if option.family == STREAMED:
        return (
            "The device drafts by a seed that the server has too, sends each token's id at once and does not wait. "
            "The server verifies what has arrived; behind a mismatch the device starts again."
        )
    if option.family == SEED_TREE:
        return (
            f"The device drafts a tree by a seed that the server has too ({option.label} drafts after each one, by "
            "depth) and sends token ids. The server reads it in one pass."
        )
    if option.family not in (OURS, *_SENT):
        return f"{headline(option)}."
    if option.threshold >= 1.0:
        return "The device keeps every token of the draft model. The server is not asked."
    drafts = "1 token" if option.draft_length == 1 else f"{option.draft_length:.3g} tokens"
    kept = ""
    if _skips(option):
        kept = f" A first draft of uncertainty at most {option.threshold:g} is kept without verification."
    verified = "The server verifies them together." if option.block else "The server verifies them."
    return f"The device drafts {drafts} a round and sends each with {_message(option)}. {verified}{kept}"


def _message(option: Option) -> str:
    """Return what a draft is sent with."""
    if option.family != OURS:
        return _SENT[option.family].format(label=option.label)
    if option.codec is None:
        return "its token id alone"
    if option.codec == SEEDED:
        return "its token id alone, drawn by a seed that the server has too"
    if option.codec == 0:
        return "its probability alone"
    lattice = LATTICES[option.codec - 1]
    if lattice.k is not None:
        return f"the {lattice.k} largest probabilities, in steps of 1/{lattice.resolution}"
    return f"the probabilities of at least {lattice.threshold:g}, in steps of 1/{lattice.resolution}"


def _skips(option: Option) -> bool:
    return bool(0.0 <= option.threshold < 1.0)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
