"""The command ``hlm device``: a draft model whose drafts a server verifies."""

from __future__ import annotations

from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from validation.cli.device_texts import append_text, mark_of, stored_texts, told, write_text
from validation.cli.display import open_console, waiting
from validation.cli.options import AT_LEAST_1, FILE, KEY, SEED, chat_option, model_options, option, output_options
from validation.cli.run import print_json
from validation.cli.tables import say
from validation.errors import UserError, naming
from validation.planning.quantities import read_time

if TYPE_CHECKING:
    import ssl

SERVER = "server"
BY_ENGINE = ("shared seed", "fixed K", "block verification")


@click.command()
@option("--draft", "The draft model: a folder, a .gguf file, ...", default="builtin")
@option("--server", "Address of `hlm serve`.", default="ws://127.0.0.1:7070")
@option("--engine", "In place of --server: an engine as it is, such as openai:http://HOST:PORT. See docs/run.md.")
@option("--top-k", "With --engine: sample from the K most probable tokens, on the device.", click.IntRange(1, 20))
@option("--prompts", "Your prompts: .txt or .jsonl.  [default: the first built-in ones]", FILE)
@chat_option
@option("--texts", "Only the first prompts.  [default: all; built-in: 4]", AT_LEAST_1)
@option("--new-tokens", "Maximum new tokens.", AT_LEAST_1, default=64)
@option("--method", "A decoding method, or server: it writes alone, or drafts itself.", default="shared seed")
@option("--draft-length", "K of such a method.", click.IntRange(1, 64), default=4)
@option(
    "--set numbers",
    "A number of --method, such as threshold=0.8 of U-HLM or k=64 of K-SQS; again for others: docs/run.md.",
    multiple=True,
    metavar="NAME=VALUE",
)
@option(
    "--adapt",
    "With a shared seed in rounds: drafts a round follow the rounds so far, up to MOST. "
    "With a lossless policy: for each round choose its message or a shared seed, and its drafts.",
    click.IntRange(1, 64),
    metavar="MOST",
)
@option("--policy", "A policy.json of `hlm plan`, in place of --method.", FILE)
@option(
    "--audit",
    "Of a policy's drafts that would be kept without verification, send this share to the server, such as 0.1.",
    float,
    metavar="SHARE",
)
@option(
    "--own-threshold",
    "With --audit: keep drafts only as far as the audits so far prove the policy's promise.",
    is_flag=True,
)
@option("--temperature", "Of both models.  [default: 1, or the policy's]", click.FloatRange(min=0.0))
@option("--top-p", None, click.FloatRange(0, 1, min_open=True), default=1.0)
@option("--seed", None, SEED, default=1)
@option("--patience", "How long the server may be away.", default="30s")
@option(
    "--alone", "Let the device go on alone when the server stays away longer; a policy may say so too.", is_flag=True
)
@option("--try tries", "Load no model: say what answers, and how fast.", is_flag=True)
@option("--openai door", "Serve an OpenAI-compatible API there, in place of texts.", metavar="HOST:PORT")
@option("--at-once", "Texts of --openai at the same time.  [default: 4]", click.IntRange(1, 64))
@option("--out", "Write the texts here, one JSON object a line; the same command continues.", FILE)
@option("--record", "Append what happens in each round here, for `hlm plan --run`: docs/run.md.", FILE)
@KEY
@option("--ca", "The certificate to trust for wss://.  [default: the system's]", FILE, metavar="CERT")
@model_options
@output_options
def device(**options: Any) -> None:
    """Write texts whose drafts a server verifies; a vLLM server may be the other end (--engine).

    The text is the one that `hlm decode` writes with the same seed. After a cut the device connects again and goes on.
    Tokens that it writes with --alone while the server is away have the law of the draft model, and are named.
    """
    from validation.collection.fingerprint import marks_of_model
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.link.addresses import read_key
    from validation.link.completions import Completions, EngineDevice
    from validation.link.device import Device
    from validation.link.remote import Remote
    from validation.link.wire import require_temperature
    from validation.models.chat import PLAIN, has_template, require_template
    from validation.models.pair import PAIRS, load_single

    asked = SimpleNamespace(**options)
    _refuse(asked)
    follower = None if asked.policy is None or asked.adapt is None else _follower(asked)
    make, usual = _method(asked) if follower is None else (follower.method, follower.temperature)
    asked.alone |= asked.policy is not None and (follower or make().policy).alone
    if asked.audit is not None and asked.alone:
        raise UserError("Tokens of a device that goes on alone are not audited; leave --audit or --alone out.")
    if asked.temperature is None:
        asked.temperature = usual
    require_temperature(asked.temperature)
    link: dict[str, Any] = {"key": read_key(asked.key), "tls": _device_tls(asked.server, asked.ca)}
    link |= {"alone": asked.alone, "patience_s": read_time("--patience", asked.patience)}
    if asked.tries:
        _try(asked.server, link, as_json=asked.as_json)
        return
    limit = asked.texts
    prompts = builtin_prompts(limit=limit or 4) if asked.prompts is None else read_prompts(asked.prompts, limit=limit)
    connect: Any = partial(Remote, asked.server, **link)
    if asked.engine is not None:
        connect = partial(nullcontext, Completions(asked.engine, key=link["key"], answer_s=link["patience_s"]))
    with connect() as remote:  # a wrong address, key or certificate is named before a model is loaded
        remote.hello()
    console = open_console(quiet=asked.quiet, stderr=asked.as_json)
    draft_s = read_time("--draft-time", asked.draft_time)
    with waiting(console, "loading the draft model"):
        model = PAIRS[asked.draft].draft if asked.draft in PAIRS else asked.draft
        dtype = asked.dtype or PAIRS.get(asked.draft, PAIRS["builtin"]).dtype
        pair = load_single(model, device=asked.device, dtype=dtype)
        tokenizer, weights = marks_of_model(pair)
    if asked.chat:
        require_template(pair.tokenizer, asked.draft)
    elif asked.door is None and has_template(pair.tokenizer) and not asked.quiet:
        click.echo(PLAIN, err=True)
    on_device: Any = partial(Device, pair, tokenizer=tokenizer, draft=weights, least_draft_s=draft_s)
    if asked.engine is not None:
        on_device = partial(EngineDevice, pair, top_k=asked.top_k or 0, least_draft_s=draft_s)
    if asked.door is not None:
        _open_door(asked, connect, on_device, make, usual, console)
        return
    if follower is not None and (asked.record is not None or asked.out is not None):
        raise UserError("With --adapt a policy's messages change from round to round; leave --record and --out out.")
    label = SERVER if asked.method == SERVER and asked.policy is None else make().name
    if asked.engine is not None:
        label += f", {asked.engine}, top-k {asked.top_k}"
    described = {"method": "policy, adapts" if follower is not None else label, "draft": weights}
    with connect() as remote:
        if asked.engine is not None:
            remote.hello(pair.tokenizer)
        if follower is not None:
            follower.remote = remote
        lines = _write_texts(asked, on_device(remote), make, prompts, described, console)
    if asked.as_json:
        print_json({"server": asked.engine or asked.server, "method": described["method"], "texts": lines})


def _refuse(asked: SimpleNamespace) -> None:
    door, engine, chat, record, numbers = asked.door, asked.engine, asked.chat, asked.record, asked.numbers
    others = asked.policy or asked.adapt or numbers or asked.alone or asked.tries or door or record or asked.ca
    unable = others or asked.method.split(" (")[0] not in BY_ENGINE
    unset = numbers and (asked.policy or asked.adapt or asked.method == SERVER)
    for wrong, why in (
        (engine and unable, f"--engine takes --prompts, and {BY_ENGINE}."),
        (asked.top_k and not engine, "--top-k is about --engine; give both, or leave it out."),
        (door and chat, "--chat is about --prompts; with --openai a request to /v1/chat/completions has turns."),
        (door and record, "--record writes the rounds of --prompts; with --openai texts are others': leave it out."),
        (door and asked.audit is not None, "--audit is about the texts of --prompts; with --openai leave it out."),
        (asked.at_once and not door, "--at-once is about the requests of --openai; leave it out."),
        (unset, "--set is about a method of --method; leave it out."),
    ):
        if wrong:
            raise UserError(why)


def _write_texts(
    asked: SimpleNamespace, ours: Any, make: Any, prompts: Any, described: dict[str, Any], console: Any
) -> list[dict[str, Any]]:
    from validation.collection.collect import ids_of
    from validation.link.recording import Recording

    settings = {name: getattr(asked, name) for name in ("seed", "new_tokens", "temperature", "top_p")}
    described = described | settings
    given = ids_of(ours.pair.tokenizer, prompts, chat=asked.chat)
    texts = {prompt.id: ids for prompt, ids in zip(prompts, given, strict=True)}
    stored = stored_texts(asked.out, described, {name: mark_of(ids) for name, ids in texts.items()})
    kept, lines = None, []
    if asked.record is not None:
        kept = Recording(asked.record, ours, make(), settings, adapts=asked.adapt is not None)
    for name, ids in texts.items():
        line = stored.get(name) or write_text(ours, make(), name, ids, settings, kept) | described
        lines.append(line)
        if asked.out is not None and name not in stored:
            append_text(asked.out, line)
        if not asked.as_json:
            say(console, f"{name}: {line['text']}")
            say(console, told(line), style="dim")
    return lines


def _try(server: str, options: dict[str, Any], *, as_json: bool) -> None:
    """Print what answers at an address, whether both sides have the key, and the round trip and rate between them."""
    from validation.link.recording import probes
    from validation.link.remote import Remote
    from validation.planning.from_run import measured_in
    from validation.planning.run_record import RunRecord

    with Remote(server, **options | {"patience_s": min(options["patience_s"], 1.0)}) as remote:
        remote.hello()
        greeting, found = remote.greeting(), measured_in(RunRecord({}, probes=probes(remote)))
    trip, rate = found["--rtt"].value, found["--rate"].value
    if as_json:
        known = {"versions": list(greeting.targets), "vocabulary": greeting.vocabulary, "context": greeting.context}
        print_json({"server": server, **known, "keyed": greeting.keyed, "rtt_s": trip, "rate_bps": rate})
        return
    fast = rate is None or rate > 10e6  # what short probes tell apart
    click.echo(
        f"{server} answers: {', '.join(greeting.targets)}, {greeting.vocabulary:,} tokens, a context of "
        f"{greeting.context:,}; {'both sides have the key' if greeting.keyed else 'without a key'}. Round trip "
        f"{1e3 * (trip or 0.0):.3g} ms, {'above 10 Mbit/s' if fast else f'{(rate or 0.0) / 1e3:,.3g} kbit/s'}."
    )


def _open_door(
    asked: SimpleNamespace, connect: Any, on_device: Any, make: Any, temperature: float, console: Any
) -> None:
    import socket

    import uvicorn

    from validation.link.addresses import read_address
    from validation.link.door import Door, headers_in_time

    where, usual = read_address("--openai", asked.door), temperature if asked.policy else None
    settings = {"model": asked.draft, "temperature": usual, "at_once": asked.at_once or 4}
    with (
        connect() as remote,
        closing(Door(on_device(remote), make, **settings)) as door,
        socket.create_server(where) as listening,  # refuses an address in use by name
    ):
        options: dict[str, Any] = {"http": headers_in_time(), "log_level": "warning", "timeout_graceful_shutdown": 2}
        say(console, f"Serving http://{where[0]}:{listening.getsockname()[1]}/v1; Ctrl-C ends it.")
        uvicorn.Server(uvicorn.Config(door.application(), **options)).run(sockets=[listening])


def _method(asked: SimpleNamespace) -> tuple[Any, float]:
    from validation.audit.samplers import method_named
    from validation.decoding.methods.planned import Planned, read_policy
    from validation.decoding.methods.settable import SETTABLE, method_with, needed
    from validation.decoding.methods.shared_seed import SharedSeed
    from validation.link.formats import Terms

    name = asked.method
    if asked.adapt is not None:
        own = None if name == SERVER else method_named(name, asked.draft_length, of_link=True)
        if type(own) is not SharedSeed:
            raise UserError(
                f"--adapt changes the draft length, and the text of --method {name!r} depends on it; use --method "
                "'shared seed', or a lossless --policy."
            )
        from validation.link.message_choice import SEEDED, AdaptiveSeed, MessageChoice

        choice = MessageChoice({SEEDED: tuple(range(1, asked.adapt + 1))})
        return (lambda: AdaptiveSeed(choice)), 1.0
    if asked.audit is None and asked.own_threshold:
        raise UserError("--own-threshold follows from audits; give --audit with it, such as 0.1.")
    if asked.audit is not None and asked.policy is None:
        raise UserError("--audit is about the skips of a policy; give --policy with it.")
    if asked.policy is not None:
        planned = read_policy(asked.policy)
        if asked.audit is not None:
            return _audited(planned, asked.audit, own_threshold=asked.own_threshold), planned.temperature
        return (lambda: Planned(planned)), planned.temperature
    if name == SERVER:
        return (lambda: None), 1.0
    make = partial(method_named, name, asked.draft_length, of_link=True)
    if asked.numbers or (name in SETTABLE and needed(name)):
        make = partial(method_with, name, asked.numbers)
    Terms.of(make())  # refuse before a model is loaded
    return make, 1.0


def _follower(asked: SimpleNamespace) -> Any:
    from validation.decoding.methods.planned import read_policy
    from validation.link.message_choice import Following

    if asked.audit is not None:
        raise UserError("--adapt changes messages of lossless policies, which have nothing to audit; leave one out.")
    if asked.door is not None:
        raise UserError("--adapt learns from the texts of --prompts; with --openai and a policy leave it out.")
    return Following(read_policy(asked.policy), asked.adapt)


def _audited(planned: Any, audit: float, *, own_threshold: bool) -> Any:
    from validation.decoding.methods.planned import Audited
    from validation.link.skip_choice import OwnThreshold, SkipChoice, promise_of

    made = Audited(planned, audit)  # refuses before a model is loaded
    if not own_threshold:
        return lambda: Audited(planned, audit)
    choice = SkipChoice(*promise_of(planned), made.probability)
    return lambda: OwnThreshold(planned, choice)


def _device_tls(server: str, trusted: Path | None) -> ssl.SSLContext | None:
    import ssl

    if not server.startswith(("ws://", "wss://")):
        raise UserError(f"--server is {server!r}; write ws://HOST:PORT, or wss://HOST:PORT with TLS.")
    if server.startswith("ws://"):
        if trusted is not None:
            raise UserError(f"--ca is about TLS, and --server is {server}; write wss://, or leave --ca out.")
        return None
    try:
        with naming(trusted or server):
            return ssl.create_default_context(cafile=trusted)
    except ssl.SSLError as error:
        raise UserError(f"{trusted} is no certificate ({error.reason}).") from error
