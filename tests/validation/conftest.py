"""Tiny random models in transformers folders, created once for each run of the tests."""

import os
import shutil
from contextlib import chdir
from typing import Any

import pytest

from validation.models.pair import load_pair

END = "<|endoftext|>"
TEXTS = ["two and two make four", "what is the sum of three apples and four apples?", "it was the best of times"] * 4


def make_tokenizer(vocabulary: int = 300, extra: tuple[str, ...] = ()) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.add_tokens(list(extra))
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", special_tokens=[(END, tokenizer.token_to_id(END))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=END)


def make_model(family: str = "llama", *, hidden: int = 16, vocabulary: int = 300, context: int = 64) -> Any:
    """Return a model with random weights that vary enough to make some tokens likely and others not."""
    import transformers

    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0, "initializer_range": 0.3}
    if family == "llama":
        config: Any = transformers.LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=context,
            **ids,
        )
        return transformers.LlamaForCausalLM(config)
    if family == "gpt2":
        config = transformers.GPT2Config(
            vocab_size=vocabulary, n_embd=hidden, n_layer=2, n_head=2, n_positions=context, **ids
        )
        return transformers.GPT2LMHeadModel(config)
    config = transformers.GPTNeoConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_layers=2,
        num_heads=2,
        attention_types=[[["global", "local"], 1]],
        window_size=6,
        max_position_embeddings=context,
        **ids,
    )
    return transformers.GPTNeoForCausalLM(config)


@pytest.fixture(autouse=True, scope="session")
def few_batches():
    """Check one batch of every simulated claim, and each batch once: no trace changes it, and claims have own tests."""
    from validation.claims import check

    real = check._check_scenario
    known = {}  # with the claim and the scenario, so that ids stay theirs

    def once(claim, scenario, rng):
        key = (id(claim), id(scenario), repr(rng.bit_generator.state))
        if key not in known:
            known[key] = (claim, scenario, real(claim, scenario, rng))
        return known[key][2]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check, "SCENARIO_BATCHES", 1)
        patch.setattr(check, "_check_scenario", once)
        yield


@pytest.fixture(scope="session")
def save_model(tmp_path_factory):
    """Return a function that writes a model folder: ``save_model(family, seed=, hidden=, vocabulary=, ...)``."""

    def save(family="llama", *, seed=1, tokenizer=None, **shape):
        import torch
        from transformers.utils import logging

        logging.disable_progress_bar()
        folder = tmp_path_factory.mktemp("model")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            make_model(family, **shape).to(torch.bfloat16).save_pretrained(folder)
        (tokenizer or make_tokenizer()).save_pretrained(folder)
        return folder

    return save


@pytest.fixture(scope="session")
def folders(save_model):
    return save_model(seed=1, hidden=8), save_model(seed=2, hidden=16)


@pytest.fixture(scope="session")
def pair(folders):
    return load_pair(draft=folders[0], target=folders[1])


@pytest.fixture(scope="session")
def extended_tokenizer():
    return make_tokenizer


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install '.[browser]'")
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no chromium: apt install chromium, or set CHROMIUM")
    with sync.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def show(browser):
    """Open files in a browser; in the end nothing was asked of a network and no error was printed."""
    contexts, wrong = [], list[str]()

    def of(file, **view):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **view})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        context.on("request", lambda asked: wrong.append(asked.url) if asked.url != file.as_uri() else None)
        page.goto(file.as_uri())
        return page

    yield of
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="session", autouse=True)
def no_run_is_written_into_the_clone(tmp_path_factory):
    with chdir(tmp_path_factory.mktemp("here")):
        yield
