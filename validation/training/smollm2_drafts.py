"""Train drafts for SmolLM2-135M-Instruct on the corpus of :mod:`validation.training.smollm2_corpus`.

    python -m validation.training.smollm2_drafts exit --layers 6 10 14 --corpus CORPUS --out OUT
    python -m validation.training.smollm2_drafts small --corpus CORPUS --out OUT
    python -m validation.training.smollm2_drafts aligned --corpus CORPUS --out OUT

``exit`` fits W of an early exit by ridge regression of the target's last hidden state on norm(h_n). ``--epochs`` goes
on with distillation, which changed the acceptance by less than .01 on a corpus of 32,768 tokens. ``small`` is a Llama
model of 9.4 M parameters. Its embedding starts from the target's, projected so that the target's logits on the corpus
lose least. ``aligned`` is flexspec's draft around the frozen last block and head.

The loss of a position is KL(p' ‖ q'), where p' and q' have the target's 32 likeliest tokens, as stored, and the rest as
one entry. q is normalised over the tokens that are among the 32 somewhere in the batch, and a sample of the others. A
run resumes from its checkpoint (``WORK/smollm2-<name>.pt``) by the same command. ``--start FOLDER`` begins a new course
from the weights of an earlier one. The curve is the mean of Σ_v min(p, q) on eight held-out texts with the target's
whole distribution, and stands in ``training.json`` of the draft.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from validation.errors import UserError
from validation.models import drafts, smollm2
from validation.models.aligned import build_aligned, fingerprint, save_aligned
from validation.models.machine import machine
from validation.models.sources import ModelSource
from validation.training.loop import Documents, Loss, fit, step_count
from validation.training.recipes import SEED, Continuation, Course, Recipe, build_model
from validation.training.smollm2_corpus import HELD_OUT, LAYERS, LENGTH, shard_file

if TYPE_CHECKING:
    import torch

CONTEXT = 2048  # of the small draft as stored
SAMPLED = 2048  # tokens that stand for those that are unlikely everywhere in a batch
RIDGE = 1e-3  # of the mean squared entry
SMALL = Recipe(
    hidden=160, feed_forward=416, layers=5, heads=5, context=LENGTH - 1, matrix_rate=0.02, other_rate=4e-3, epochs=4.0,
    batch=8, warm_up=0.03,
)  # fmt: skip
EXIT = Continuation(matrix_rate=0.0, other_rate=3e-4, epochs=0.0, batch=8, warm_up=0.05)  # the ridge map alone
ALIGNED = Continuation(matrix_rate=0.01, other_rate=1e-3, epochs=1.0, batch=8, warm_up=0.05)
ENTRY_WIDTH = 512  # of the aligned draft's block
START_SCALE, START_NORM = 0.1, 3.0
"""The projected embedding is made small, so that the blocks soon outweigh it: the head, which is the same matrix, would
else expect each token to be repeated. The last norm undoes a third of it, so that no token is too sure at first."""
CHECKED = range(0, 64, 8)  # held-out texts of the curve
Read = Callable[[Any, "torch.Tensor"], tuple["torch.Tensor", "torch.Tensor"]]
"""Function of a model and positions of the corpus; returns hidden states (b, m, H) and the head (V, H)."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Shards in memory, one row a position.

    Attributes
    ----------
    tokens : torch.Tensor, shape (n,)
    top_ids, top_probabilities : torch.Tensor, shape (n, 32)
    states : torch.Tensor or None, shape (m, 4, H)
        Of the first m positions, in float16.
    own : torch.Tensor of bool, shape (n,)
        Whether the next token was the target's to draw, and not one of the row's prompt.
    """

    tokens: torch.Tensor
    top_ids: torch.Tensor
    top_probabilities: torch.Tensor
    states: torch.Tensor | None
    own: torch.Tensor


def read_corpus(folder: Path, *, held_out: bool = False, states: bool = False) -> Corpus:
    """Read all shards, or the held-out one.

    Parameters
    ----------
    folder : Path
    held_out : bool
    states : bool
        Read the hidden states too.

    Raises
    ------
    UserError
        There is no such shard.
    """
    import torch

    last = shard_file(folder, HELD_OUT)
    files = [last] if held_out else sorted(set(folder.glob("shard-*.npz")) - {last})
    if not files or not files[0].exists():
        raise UserError(f"No shard of the corpus is in {str(folder)!r}; write it with smollm2_corpus.")
    parts: dict[str, list[Any]] = {"tokens": [], "top_ids": [], "top_probabilities": [], "states": [], "own": []}
    for file in files:
        with np.load(file) as shard:
            place = np.arange(shard["tokens"].shape[1])
            parts["own"].append((place >= shard["prompt_tokens"][:, None] - 1.0).reshape(-1))
            for name in ("tokens", "top_ids", "top_probabilities"):
                parts[name].append(shard[name].reshape(-1, *shard[name].shape[2:]))
            if states and "states" in shard:
                parts["states"].append(shard["states"].reshape(-1, *shard["states"].shape[2:]))
    found = {name: torch.from_numpy(np.concatenate(each)) for name, each in parts.items() if each}
    whole = {name: found[name].int() for name in ("tokens", "top_ids")}  # torch cannot index by uint16
    return Corpus(**whole, top_probabilities=found["top_probabilities"], states=found.get("states"), own=found["own"])


def documents(count: int) -> Documents:
    """Return the positions of each row of a corpus with ``count`` positions, which ``fit`` shuffles like texts."""
    return list(np.arange(count, dtype=np.int64).reshape(-1, LENGTH))


def divergence(
    hidden: torch.Tensor, head: torch.Tensor, ids: torch.Tensor, probabilities: torch.Tensor, sampled: torch.Tensor
) -> torch.Tensor:
    """Return the mean KL(p' ‖ q') in nats, where p' and q' have the stored tokens and the rest as one entry.

    q is normalised over the tokens of ``ids`` and the sampled ones, each of which stands for its share of the others:
    the sum over the vocabulary is estimated without bias.

    Parameters
    ----------
    hidden : torch.Tensor, shape (n, H)
    head : torch.Tensor, shape (V, H)
    ids, probabilities : torch.Tensor, shape (n, k)
        The target's k likeliest tokens.
    sampled : torch.Tensor, shape (m,)
        Different tokens, drawn evenly; those among ``ids`` are left out.

    Returns
    -------
    torch.Tensor, scalar
    """
    import torch

    known, places = torch.unique(ids, return_inverse=True)
    others = sampled[torch.isin(sampled, known, invert=True)]
    logits = (hidden @ head[torch.cat([known, others])].T).float()
    if len(others):
        logits[:, len(known) :] += math.log((len(head) - len(known)) / len(others))
    logs = logits.log_softmax(dim=-1).gather(1, places)
    p = probabilities.float()
    rest = (1.0 - p.sum(dim=1)).clamp_min(0.0)
    q_rest = (1.0 - logs.exp().sum(dim=1)).clamp_min(1e-6)
    entropy = torch.special.entr(p).sum(dim=1) + torch.special.entr(rest)
    return (-entropy - (p * logs).sum(dim=1) - rest * q_rest.log()).mean()


def stored_loss(corpus: Corpus, read: Read, vocabulary: int, sampled: int = SAMPLED) -> Loss:
    """Return the loss of a draft on rows of positions, for ``fit``; the first position seeds the sampled tokens."""
    import torch

    def loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
        hidden, head = read(model, rows)
        places = rows.flatten()
        draws = torch.Generator().manual_seed(SEED + int(places[0]))
        some = torch.randperm(vocabulary, generator=draws)[:sampled]
        ids, probabilities = corpus.top_ids[places], corpus.top_probabilities[places]
        with torch.autocast("cpu", torch.bfloat16):
            return divergence(hidden.flatten(0, 1), head, ids, probabilities, some)

    return loss


def overlap(read: Read, model: Any, corpus: Corpus, head: torch.Tensor, rows: range) -> float:
    """Return the mean of Σ_v min(p, q) over the rows' own positions; p is of the stored last hidden state.

    Parameters
    ----------
    read, model
        The draft.
    corpus : Corpus
        With states.
    head : torch.Tensor, shape (V, H)
        The target's.
    rows : range
        Numbers of the texts.
    """
    import torch

    total, count = 0.0, 0
    model.eval()
    for row in rows:
        places = torch.arange(row * LENGTH, (row + 1) * LENGTH)
        own = corpus.own[places]
        with torch.inference_mode():
            hidden, own_head = read(model, places[None])
            draft = (hidden[0, own] @ own_head.T).softmax(dim=-1)
            target = (corpus.states[places[own], -1].float() @ head.T).softmax(dim=-1)  # type: ignore[index]
            total += torch.minimum(draft, target).sum().item()
        count += int(own.sum())
    model.train()
    return total / count


# ---------------------------------------------------------------------------------------------- where drafts start


def projected(head: torch.Tensor, states: torch.Tensor, shares: torch.Tensor, size: int) -> torch.Tensor:
    """Return an embedding (V, ``size``) whose logits come closest to the target's: the mean of Σ_v s_v (E y - E' z)².

    With C the second moment of the last hidden states y and V the first eigenvectors of C^½ Eᵀ diag(s) E C^½, it is
    E' = E C^½ V, and the hidden states z = Vᵀ C^-½ y have the second moment 1, which is what a norm gives.

    Parameters
    ----------
    head : torch.Tensor, shape (V, H)
        E.
    states : torch.Tensor, shape (n, H)
        y.
    shares : torch.Tensor, shape (V,)
        s, the weight of each token.
    size : int
    """
    import torch

    moment = (states.T @ states / len(states)).double()
    values, vectors = torch.linalg.eigh(moment)
    root = vectors * values.clamp_min(0.0).sqrt() @ vectors.T
    weighted = (head.T * shares @ head).double()
    _, best = torch.linalg.eigh(root @ weighted @ root)
    return (head.double() @ root @ best[:, -size:]).float()


def spread(embedding: torch.Tensor) -> torch.Tensor:
    """Return an embedding (V, H) in another basis: the mean row is taken off, the rest is turned by a random rotation.

    The logits of a position change by one constant, so no distribution does. Every column is then about as large, and 4
    bits lose less: the acceptance of a draft of 160 columns fell by .004 and not by .056.
    """
    import torch

    size = embedding.shape[1]
    turn, _ = torch.linalg.qr(torch.randn(size, size, generator=torch.Generator().manual_seed(SEED)))
    return (embedding - embedding.mean(dim=0)) @ turn


def ridge(states: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return the W (H, H) of least mean |W x - y|² plus a penalty of ``RIDGE`` times the mean squared entry of x.

    Parameters
    ----------
    states, wanted : torch.Tensor, shape (n, H)
        x and y.
    """
    import torch

    moment = (states.T @ states / len(states)).double()
    moment += RIDGE * moment.diagonal().mean() * torch.eye(len(moment), dtype=torch.float64)
    return torch.linalg.solve(moment, (states.T @ wanted / len(states)).double()).T.float()


def token_shares(corpus: Corpus, vocabulary: int) -> torch.Tensor:
    """Return the target's mean probability of each token over the corpus; a tenth is shared by all tokens."""
    import torch

    found = torch.zeros(vocabulary)
    found.index_add_(0, corpus.top_ids.flatten(), corpus.top_probabilities.flatten().float())
    return 0.9 * found / found.sum() + 0.1 / vocabulary


# ---------------------------------------------------------------------------------------------- the three drafts


def _llama_read(corpus: Corpus) -> Read:
    """Return how a Llama model reads the texts; in training its matrix products are in bfloat16."""
    import torch

    def read(model: Any, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cpu", torch.bfloat16, enabled=model.training):
            return model.model(corpus.tokens[rows]).last_hidden_state, model.lm_head.weight

    return read


def _exit_read(corpus: Corpus, index: int, norm: Any, head: torch.Tensor) -> Read:
    """Return how an early exit reads stored states; ``norm`` is the target's last."""
    return lambda model, rows: (model.lm_head(norm(corpus.states[rows, index].float())), head)  # type: ignore[index]


def _train(
    name: str,
    model: Any,
    course: Course,
    corpus: Corpus,
    check: Corpus,
    reads: tuple[Read, Read],
    head: Any,
    work: Path,
) -> dict[str, Any]:
    """Train a draft by ``fit``, and return its record; ``reads`` are of the corpus and of the held-out texts."""
    taught = documents(len(corpus.tokens))
    steps = step_count(model, course, taught)
    curve_file = work / f"smollm2-{name}-curve.json"
    curve = json.loads(curve_file.read_text(encoding="utf-8")) if curve_file.exists() else []

    def checked() -> float:
        found = round(overlap(reads[1], model, check, head, CHECKED), 4)
        curve.append(found)
        curve_file.write_text(json.dumps(curve) + "\n", encoding="utf-8")
        return found

    work.mkdir(parents=True, exist_ok=True)
    if not curve:
        print(f"{name}: {steps} steps, before {checked()}", flush=True)
    every = max(24, steps // 16)  # a check takes as long as some steps
    loss = stored_loss(corpus, reads[0], len(head))
    seconds = fit(model, course, taught, work / f"smollm2-{name}.pt", loss=loss, every=every, check=checked)
    return {
        "target": smollm2.NAME,
        "seed": SEED,
        "corpus_tokens": len(corpus.tokens),
        "steps": steps,
        "tokens_seen": steps * course.batch * LENGTH,
        "epochs": course.epochs,
        "matrix_rate": course.matrix_rate,
        "other_rate": course.other_rate,
        "cpu_seconds": round(seconds),
        "machine": machine(),
        "acceptance_curve": {"every_tokens": every * course.batch * LENGTH, "points": curve},
    }


def train_exit(target: Any, layers: int, course: Course, folder: Path, out: Path, work: Path) -> None:
    """Fit W behind ``layers`` blocks and write the draft's folder.

    Raises
    ------
    UserError
        No shard has the states of this depth.
    """
    import torch

    corpus, check = read_corpus(folder, states=True), read_corpus(folder, held_out=True, states=True)
    if corpus.states is None or layers not in LAYERS:
        raise UserError(f"The corpus has no states behind {layers} blocks; its shards may hold {LAYERS}.")
    corpus = replace(corpus, tokens=corpus.tokens[: len(corpus.states)])
    index, norm, head = LAYERS.index(layers), target.model.norm, target.lm_head.weight.detach()
    size = head.shape[1]
    own = corpus.own[: len(corpus.states)]  # type: ignore[arg-type]
    with torch.inference_mode():
        before = norm(corpus.states[own, index].float())  # type: ignore[index]
        start = ridge(before, corpus.states[own, -1].float())  # type: ignore[index]
    model = torch.nn.Module()
    model.lm_head = torch.nn.Linear(size, size, bias=False)
    model.config = _Shape(LENGTH - 1)
    with torch.no_grad():
        model.lm_head.weight.copy_(start)
    reads = (_exit_read(corpus, index, norm, head), _exit_read(check, index, norm, head))
    record = _train(f"exit-{layers}", model, course, corpus, check, reads, head, work)
    made = {"exit.weight": model.lm_head.weight.detach().half()}
    mark = drafts.fingerprint(target, layers)
    config = type(target.config)(
        **target.config.to_dict() | {"num_hidden_layers": layers, "tie_word_embeddings": False}
    )
    told = {"kind": drafts.EXIT, "target": smollm2.NAME, "mark": mark}
    record["bytes"] = drafts.save(out, config, made, told)
    _write(out, record)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What ``fit`` asks of a model's configuration."""

    max_position_embeddings: int


def train_small(target: Any, course: Recipe, folder: Path, out: Path, work: Path, start: Path | None = None) -> None:
    """Train the small draft and write its folder in 4 bits; ``start`` is the folder of an earlier one to go on from."""
    import torch

    corpus, check = read_corpus(folder, states=start is None), read_corpus(folder, held_out=True, states=True)
    head = target.lm_head.weight.detach()
    torch.manual_seed(SEED)
    model = build_model(course, head.shape[0])
    with torch.no_grad():
        if start is not None:
            model.load_state_dict(ModelSource(str(start)).load_model("float32").state_dict())
        else:
            if corpus.states is None:
                raise UserError("The first shards of the corpus hold no states; the embedding starts from them.")
            shares = token_shares(corpus, head.shape[0])
            states = corpus.states[:, -1].float()
            rows = spread(projected(head, states, shares, course.hidden))
            model.model.embed_tokens.weight.copy_(START_SCALE * rows)
            model.model.norm.weight.fill_(START_NORM)
    corpus = replace(corpus, states=None)
    name = "small" if start is None else f"small-{start.name}"
    record = _train(name, model, course, corpus, check, (_llama_read(corpus), _llama_read(check)), head, work)
    record["parameters"] = model.num_parameters()
    if start is not None:
        record["earlier"] = json.loads((start / "training.json").read_text(encoding="utf-8"))
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(model.config, key, getattr(target.config, key))
    model.config.max_position_embeddings = CONTEXT
    record["bytes"] = drafts.save(out, model.config, drafts.pack(model), {"kind": drafts.INT4, "target": smollm2.NAME})
    _write(out, record)


def train_aligned(target: Any, tokenizer: Any, course: Course, folder: Path, out: Path, work: Path) -> None:
    """Train flexspec's draft around the target's frozen last block and head, and write its own weights in bf16."""
    import torch

    corpus, check = read_corpus(folder), read_corpus(folder, held_out=True, states=True)
    torch.manual_seed(SEED)
    model = build_aligned(target, entry_layers=1, entry_width=ENTRY_WIDTH, exit_width=0)
    context, model.config.max_position_embeddings = model.config.max_position_embeddings, LENGTH - 1
    head = target.lm_head.weight.detach()
    record = _train("aligned", model, course, corpus, check, (_llama_read(corpus), _llama_read(check)), head, work)
    record["own_parameters"] = sum(weights.numel() for weights in model.parameters() if weights.requires_grad)
    model.config.max_position_embeddings = context
    record["bytes"] = save_aligned(model, out, base=smollm2.NAME, mark=fingerprint(target, tokenizer))
    _write(out, record)


def _write(out: Path, record: dict[str, Any]) -> None:
    (out / "training.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record), flush=True)


def main() -> None:
    """Parse the command line and train one draft."""
    parser = argparse.ArgumentParser(description="Train a draft for SmolLM2-135M-Instruct on its own texts.")
    parser.add_argument("what", choices=("exit", "small", "aligned"))
    parser.add_argument("--corpus", type=Path, required=True, help="folder of the shards")
    parser.add_argument("--out", type=Path, required=True, help="folder of the drafts; each has one of its own there")
    parser.add_argument("--work", type=Path, default=Path(".training"), help="checkpoints")
    parser.add_argument("--layers", type=int, nargs="+", default=list(LAYERS), help="of the early exits")
    parser.add_argument("--epochs", type=float, help="over the corpus, if not those of the recipe")
    parser.add_argument("--start", type=Path, help="a small draft to go on from")
    given = parser.parse_args()
    course: Any = {"exit": EXIT, "small": SMALL, "aligned": ALIGNED}[given.what]
    course = course if given.epochs is None else replace(course, epochs=given.epochs)
    try:
        source = ModelSource.parse(smollm2.NAME)
        target = source.load_model("float32").eval().requires_grad_(False)
        if given.what == "exit":
            for layers in given.layers:
                train_exit(target, layers, course, given.corpus, given.out / f"exit-{layers}", given.work)
        elif given.what == "small":
            train_small(target, course, given.corpus, given.out / "small", given.work, given.start)
        else:
            train_aligned(target, source.load_tokenizer(), course, given.corpus, given.out / "aligned", given.work)
    except UserError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
