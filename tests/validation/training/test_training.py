"""Training and distillation on made-up texts and models of a few hundred weights."""

import gzip
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from validation.collection.prompts import Prompt, read_prompts
from validation.decoding.loop import decode
from validation.decoding.methods.single_draft import Hlm
from validation.errors import UserError
from validation.models.pair import load_pair
from validation.plots.common.printed import DATASETS
from validation.training import __main__ as command
from validation.training import texts
from validation.training.distil import distillation_loss, divergence
from validation.training.loop import fit, held_out_acceptance, step_count, text_loss
from validation.training.recipes import Continuation, Distillation, PairRecipe, Recipe, build_model

VOCABULARY, CONTEXT = 260, 24
SMALL = Recipe(
    hidden=8, feed_forward=16, layers=1, heads=2, context=CONTEXT, matrix_rate=0.02, other_rate=0.01, epochs=0.02
)
LARGE = replace(SMALL, hidden=16, epochs=0.05)
DISTILLED = Distillation(matrix_rate=0.02, other_rate=0.02, epochs=0.02)
CONTINUED = Continuation(matrix_rate=0.02, other_rate=0.02, epochs=0.02)
TOYS = {
    "builtin": PairRecipe(vocabulary=VOCABULARY, draft=SMALL, target=LARGE),
    "distilled": PairRecipe(vocabulary=VOCABULARY, draft=DISTILLED, target=None),
    "larger": PairRecipe(vocabulary=VOCABULARY, draft=replace(SMALL, hidden=12), target=None),
    "instructed": PairRecipe(vocabulary=VOCABULARY, draft=CONTINUED, target=CONTINUED, texts="answers"),
}


def fresh(recipe: Recipe, seed: int, spread: float = 1.0) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build_model(recipe, 40)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim == 2:
                weights.mul_(spread)
    return model


def toy_documents() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [np.append(0, rng.integers(1, 40, size=n)) for n in rng.integers(10, 60, size=30)]


@pytest.fixture
def documents():
    return toy_documents()


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_divergence_is_the_mean_over_rows(temperature):
    p, q = np.random.default_rng(2).dirichlet(np.ones(5), size=(2, 2, 3))
    expected = (p * np.log(p / q)).sum(-1).mean()
    logits = (temperature * torch.from_numpy(rows).log() for rows in (p, q))
    found = divergence(next(logits) + 3.0, next(logits) - 1.0, temperature)
    assert found.item() == pytest.approx(expected, rel=1e-12)
    assert divergence(torch.from_numpy(p).log(), torch.from_numpy(p).log()).item() == pytest.approx(0.0, abs=1e-15)


def test_distillation_lowers_the_divergence_and_raises_the_acceptance(documents, tmp_path):
    teacher, model = fresh(LARGE, 1, 6.0), fresh(SMALL, 2)
    kept = {name: weights.clone() for name, weights in teacher.state_dict().items()}
    course = replace(DISTILLED, epochs=10.0)
    loss = distillation_loss(teacher)
    rows = torch.from_numpy(texts.blocks(documents, np.random.default_rng(5), CONTEXT)[:8])
    before = loss(model, rows).item(), held_out_acceptance(model, teacher, documents)
    fit(model, course, documents, tmp_path / "toy.pt", loss=loss)
    after = loss(model, rows).item(), held_out_acceptance(model, teacher, documents)
    assert after[0] < 0.8 * before[0]
    assert after[1] > 1.1 * before[1]
    assert all(torch.equal(weights, kept[name]) for name, weights in teacher.state_dict().items())


class Killed(Exception):
    """Raised to stop a run."""


def test_a_stopped_run_ends_where_an_unbroken_one_does(documents, tmp_path):
    course, whole = replace(SMALL, epochs=2.5), text_loss
    unbroken, resumed = fresh(SMALL, 3), fresh(SMALL, 3)
    fit(unbroken, course, documents, tmp_path / "whole.pt", loss=whole, every=4)
    steps = step_count(unbroken, course, documents)
    assert steps > 20  # more than two epochs
    calls = 0

    def dies(model, rows):
        nonlocal calls
        calls += 1
        if calls == 15:
            raise Killed
        return whole(model, rows)

    with pytest.raises(Killed):
        fit(resumed, course, documents, tmp_path / "part.pt", loss=dies, every=4)
    assert torch.load(tmp_path / "part.pt", weights_only=True)["step"] == 12
    resumed = fresh(SMALL, 4)  # other weights: all come from the checkpoint
    calls = 15
    seconds = fit(resumed, course, documents, tmp_path / "part.pt", loss=dies, every=4)
    assert calls == 15 + steps - 12
    assert seconds > torch.load(tmp_path / "whole.pt", weights_only=True)["cpu_seconds"] / 100
    for name, weights in unbroken.state_dict().items():
        assert torch.equal(weights, resumed.state_dict()[name]), name
    spent = torch.load(tmp_path / "part.pt", weights_only=True)["cpu_seconds"]
    again = fit(resumed, course, documents, tmp_path / "part.pt", loss=dies)  # the training is already complete
    assert calls == 15 + steps - 12
    assert again == pytest.approx(spent, abs=0.5)


def test_a_checkpoint_of_another_recipe_is_refused(documents, tmp_path):
    fit(fresh(SMALL, 1), replace(SMALL, epochs=0.1), documents, tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"a\.pt is a checkpoint of another recipe; remove it"):
        fit(fresh(SMALL, 1), SMALL, documents, tmp_path / "a.pt")


def write(path: Path, records: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    questions = [
        {
            "id": f"q{i}",
            "prompt": f"Tom has {i} apples and eats two. How many are left?",
            "reference": f"{i} - 2 = {i - 2}",
            "split": "test" if i < 240 else "train",
        }
        for i in range(360)
    ]
    write(folder / "gsm8k/dev.jsonl.gz", questions)
    line = "It was the best of times, it was the worst of times.\n"
    for name in ("peps", "novels"):
        write(folder / name / "text.jsonl.gz", [{"id": f"{name}{i}", "text": line * 100} for i in range(40)])
    tasks = [{"id": f"a{i}", "prompt": f"Name {i // 2} birds.", "reference": "Rook." * (i % 7)} for i in range(640)]
    write(folder / "alpaca/dev.jsonl.gz", tasks)
    reason = {"reference": "yes", "explanation": "Rooks fly."}
    paragraphs = [
        {"id": f"p{i}", "prompt": f"Rooks {i}.", "title": f"Rook {i // 3}", "question": f"rooks {i} ?"} | reason
        for i in range(180)
    ]
    write(folder / "qed/dev.jsonl.gz", paragraphs)
    claims = [
        {"id": f"flan-{name}-{i}", "prompt": f"True {name}? {i}", "source_id": f"{name}-{i // 4}"} | reason
        for name in ("creak", "strategyqa")
        for i in range(640)
    ]
    write(folder / "flan-cot/dev.jsonl.gz", claims)
    kinds = {
        "qa": "Rooks 7?",
        "rag": "Long. " * 300 + "\nRooks 900?",
        "translation": "Turm",
        "summarization": "Rook. " * 300,
    }
    answer = {"reference": "Rook."}
    bench = [{"id": kind, "prompt": prompt, "category": kind} | answer for kind, prompt in kinds.items()]
    write(folder / "spec-bench/dev.jsonl.gz", [*bench, bench[0] | {"id": "qa-2", "prompt": "Rooks 901?"}])
    write(folder / "mt-bench/dev.jsonl.gz", [{"id": "mt", "prompt": "Write.", "reference": None}])
    return folder


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")

    def steps(pair, *names, parent="builtin", read=""):
        out, work = folder / f"{pair}{read}", folder / f"work{read}"
        common = ["--pair", pair, "--data", data, "--out", out, "--work", work]
        common += ["--texts", read] if read else []
        for name in names:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(command, "PAIRS", TOYS)
                patch.setattr(texts, "PROMPTS_A_SET", 10)
                patch.setattr(sys, "argv", ["train", *map(str, common), "--parent", str(folder / parent), name])
                command.main()
        return out

    return steps


@pytest.fixture(scope="module")
def parent(run):
    return run("builtin", "tokenizer", "small", "large", "prompts")


def record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "training.json").read_text())


def test_a_pair_is_made_from_texts(parent, data):
    pair = load_pair(draft=parent / "small", target=parent / "large")
    assert (pair.vocabulary, pair.context) == (VOCABULARY, CONTEXT)
    assert pair.draft_parameters < pair.target_parameters
    target = record(parent / "large")
    assert target["held_out_nats_per_token"].keys() == {"gsm8k", "peps", "novels"}
    assert target["held_out_tokens"]["gsm8k"] == 200 * (CONTEXT - 1)
    assert target["tokens"] == target["steps"] * LARGE.batch * CONTEXT
    assert "held_out_acceptance" not in target
    held = texts.plain(data)[1]
    prompts = [json.loads(line) for line in (parent / "prompts.jsonl").read_text().splitlines()]
    assert len(prompts) == 240 + len(held["peps"]) + len(held["novels"])
    assert {prompt["licence"] for prompt in prompts} == {"MIT", "public domain"}


def test_a_distilled_pair_is_made_from_its_parent(run, parent):
    folder = run("distilled", "parent", "small")
    assert (folder / "large/model.safetensors").read_bytes() == (parent / "large/model.safetensors").read_bytes()
    made = record(folder / "small")
    assert made["parameters"] == record(parent / "small")["parameters"]
    assert made["held_out_nats_per_token_before"] == pytest.approx(
        record(parent / "small")["held_out_nats_per_token"], rel=1e-3
    )
    for name, rate in made["held_out_acceptance_before"].items():
        assert rate != made["held_out_acceptance"][name]
    pair = load_pair(draft=folder / "small", target=folder / "large")
    assert 1 <= len(decode(pair, [Prompt("a", "Tom has", "toy")], Hlm(), new_tokens=4)[0].tokens) <= 4


def test_an_instructed_pair_goes_on_from_both_models_of_its_parent(run, parent):
    folder = run("instructed", "parent", "large", "small", "prompts", "tasks")
    for size in ("small", "large"):
        made = record(folder / size)
        assert made["parameters"] == record(parent / size)["parameters"]
        assert made["held_out_nats_per_token"].keys() == {"gsm8k", "alpaca", "qed", "creak", "strategyqa"}
        assert made["held_out_nats_per_token"]["creak"] < made["held_out_nats_per_token_before"]["creak"]
        assert made["licence"] == texts.RESEARCH
    assert len(read_prompts(folder / "prompts.jsonl")) == 50
    asked = read_prompts(folder / "tasks.jsonl")
    assert Counter(prompt.source for prompt in asked) == dict.fromkeys(DATASETS, 1) | {"GSM8K": 10}
    assert next(prompt for prompt in asked if prompt.source == "NQ (RAG)").text.endswith("Rooks 900?\nAnswer:")
    assert {prompt.id for prompt in asked} >= {"qa-2", "mt"}  # QED has the question of "qa"
    assert max(len(prompt.text) for prompt in asked) < 1100


def test_held_out_prompts_are_not_trained_on(data, monkeypatch):
    monkeypatch.setattr(texts, "PROMPTS_A_SET", 10)
    library = texts.LIBRARIES["answers"]
    taught, held = library.corpus(data)
    asked = library.prompts(data)
    assert [prompt["source"] for prompt in asked] == [name for name, _ in texts.ANSWERS.values() for _ in range(10)]
    beginnings = {document[: document.index("Answer:")] for document in taught}
    for prompt in asked:
        assert prompt["prompt"].removesuffix("Answer:") not in beginnings
        assert prompt["reference"]
    everything = texts.answered(data)
    for name, shared in (("qed", "title"), ("creak", "source_id"), ("alpaca", "prompt")):
        sides = [{r[shared] for r in everything[name] if texts._is_held(name, r) is side} for side in (True, False)]
        assert not sides[0] & sides[1]
        assert sides[0]
    assert sum(map(len, held.values())) + len(taught) == sum(map(len, everything.values()))
    assert everything["creak"][0]["reference"] == "Rooks fly. The answer is yes."


def test_a_pair_has_the_licence_of_its_parents_texts(run, parent):
    run("instructed", "parent", "large", "small")
    folder = run("distilled", "parent", "small", parent="instructed", read="plain")
    assert record(folder / "small")["texts"] == "plain"
    assert record(folder / "small")["licence"] == texts.RESEARCH
    assert record(parent / "small")["licence"] == "Apache-2.0"


@pytest.mark.parametrize(
    ("pair", "step", "parent_name", "said"),
    [
        ("distilled", "tokenizer", "builtin", "has no step 'tokenizer'; its steps are parent, small"),
        ("builtin", "parent", "builtin", "has no step 'parent'"),
        ("distilled", "parent", "distilled", "would overwrite its parent"),
    ],
)
def test_steps_that_a_pair_does_not_have_are_refused(run, capsys, pair, step, parent_name, said):
    with pytest.raises(SystemExit):
        run(pair, step, parent=parent_name)
    assert said in capsys.readouterr().err
