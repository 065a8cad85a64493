"""Prompts as turns: the chat template, from the option to the report, in every command that reads prompts."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.validation.command_line import one_sentence, run
from tests.validation.gguf_writing import write_gguf
from tests.validation.stored_traces import stored
from validation.collection.collect import collect, encode_prompts
from validation.collection.prompts import Prompt, read_prompts
from validation.decoding.fitting import of_other_models
from validation.errors import UserError
from validation.models.chat import PLAIN, TURNS
from validation.models.pair import load_pair
from validation.uncertainty.baselines import baseline_measures

TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'tool' %}{{ raise_exception('No tools here.\nAt all.') }}{% endif %}"
    "<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
PROMPTS = [Prompt("a", "two and two", "test"), Prompt("b", "four", "test")]
TALK = (("system", "be brief"), ("user", "two"), ("assistant", "four"), ("user", "why"))
SETTINGS = {"positions": 20, "new_tokens": 8, "batch": 2, "seed": 3}


@pytest.fixture(scope="module")
def tuned(save_model, extended_tokenizer):
    tokenizer = extended_tokenizer()
    tokenizer.chat_template = TEMPLATE
    return save_model(seed=1, hidden=32, tokenizer=tokenizer), save_model(seed=2, hidden=32, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def pairs(tuned):
    return [load_pair(draft=tuned[0], target=tuned[1], chat=chat) for chat in (False, True)]


@pytest.fixture
def file(tmp_path):
    rows = [{"prompt": "two"}, {"messages": [{"role": role, "content": content} for role, content in TALK]}]
    (tmp_path / "prompts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return tmp_path / "prompts.jsonl"


def test_a_prompt_is_a_turn_of_the_user_and_a_conversation_is_as_it_is(pairs, file):
    plain, turns = pairs
    prompts = read_prompts(file)
    assert prompts[1].messages == TALK
    assert prompts[1].text == "system: be brief\nuser: two\nassistant: four\nuser: why"
    assert "messages" not in prompts[0].plain()
    said = ["<user>two\n<assistant>", "<system>be brief\n<user>two\n<assistant>four\n<user>why\n<assistant>"]
    expected = [turns.tokenizer(text, add_special_tokens=False).input_ids for text in said]
    assert encode_prompts(turns, prompts, 4) == expected
    assert encode_prompts(plain, prompts[:1], 4) == [plain.tokenizer("two").input_ids]
    with pytest.raises(UserError, match=r"prompt 'line-2' of prompts\.jsonl is a conversation; give --chat"):
        encode_prompts(plain, prompts, 4)


def test_a_file_of_weights_carries_the_template(tuned, tmp_path):
    asked = encode_prompts(load_pair(draft=tuned[0], target=tuned[1], chat=True), PROMPTS, 4)
    path = write_gguf(tuned[1], tmp_path / "model.gguf")
    assert encode_prompts(load_pair(draft=path, target=path, chat=True), PROMPTS, 4) == asked


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "the messages are no list of messages"),
        ("Hello", "the messages are no list of messages"),
        (["Hello"], "message 1 has no role and content that are texts"),
        ([{"role": "user"}], "message 1 has no role and content that are texts"),
        ([{"role": "user", "content": None}], "message 1 has no role and content that are texts"),
        ([{"role": "user", "content": "a", "tool_calls": []}], "message 1 has the field 'tool_calls', which is not"),
        ([{"role": "user", "content": " "}], "leaves nothing to answer"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "leaves nothing to answer"),
        ([{"role": "user", "content": "\ud800"}], "half of a surrogate pair"),
    ],
)
def test_what_is_no_conversation_is_refused_with_its_line(messages, said, tmp_path):
    (tmp_path / "p.jsonl").write_text(json.dumps({"messages": messages}), encoding="utf-8")
    with pytest.raises(UserError, match=rf"p\.jsonl, line 1: .*{said}"):
        read_prompts(tmp_path / "p.jsonl")


def test_a_template_that_refuses_is_told_with_the_prompt(pairs):
    talk = Prompt("t", "tool: x", "test", messages=(("tool", "x"),))
    with pytest.raises(UserError, match=r"cannot write the prompt 't' \(No tools here\); change its messages"):
        encode_prompts(pairs[1], [talk], 4)
    broken = SimpleNamespace(chat_template="{% for", apply_chat_template=pairs[1].tokenizer.apply_chat_template)
    broken.apply_chat_template = lambda *given, **more: pairs[1].tokenizer.apply_chat_template(
        *given, chat_template=broken.chat_template, **more
    )
    with pytest.raises(UserError, match="cannot write the prompt 'a'"):
        encode_prompts(replace(pairs[1], tokenizer=broken), PROMPTS, 4)


def test_without_a_template_every_command_refuses_by_name(folders, tmp_path):
    models = ("--draft", folders[0], "--target", folders[1], "--chat")
    stored(tmp_path / "trace")
    said = f"The tokenizer of '{folders[1]}' has no chat template, which --chat applies; leave out --chat"
    for words in (
        ("validate", *models, "--out", tmp_path / "run"),
        ("collect", *models, "--out", tmp_path / "other"),
        ("decode", "hlm", *models, "--run", tmp_path),
        ("audit", "--method", "HLM", *models),
        ("audit", "--generate", "--target", folders[1], "--chat"),
    ):
        one_sentence(run(*words), said)
    one_sentence(run("validate", "--pair", "builtin", "--chat"), "has no chat template")
    one_sentence(run("validate", "--trace", tmp_path / "trace", "--chat"), "--trace checks a stored trace", "--chat")
    one_sentence(run("audit", "--generate", "--table", "toy.npz", "--chat"), "--chat is about texts")


def test_a_trace_says_what_its_prompts_are_and_is_not_continued_by_others(pairs, tmp_path):
    plain, turns = pairs
    assert (plain.chat, turns.chat, PLAIN in plain.notes, TURNS in turns.notes) == (False, True, True, True)
    told = {}
    for number, pair in enumerate(pairs):
        trace = collect(pair, PROMPTS, tmp_path / str(number), **SETTINGS)
        told[pair.chat] = (trace.manifest["pair"]["chat"], trace.manifest["settings"].get("chat"))
        with pytest.raises(UserError, match=r"chat: (none there, True|True there, none) now.*; use those"):
            collect(pairs[1 - number], PROMPTS, tmp_path / str(number), **SETTINGS)
        assert of_other_models(trace, pair) == ""
        there, here = ("with", "without") if pair.chat else ("without", "with")
        remark = of_other_models(trace, pairs[1 - number])
        assert f"collected {there} --chat, and these prompts are given {here} it." in remark
    assert told == {False: (False, None), True: (True, True)}
    with pytest.raises(UserError, match="was collected with --chat; the baseline reads plain prompts alone"):
        baseline_measures(trace, turns)
