"""The command ``hlm device``: a draft model whose drafts a server verifies."""

from __future__ import annotations

from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.cli.device_texts import append_text, mark_of, stored_texts, told, write_text
from validation.cli.display import open_console, waiting
from validation.cli.options import (
    AT_LEAST_0,
    AT_LEAST_1,
    DEVICE,
    DRAFT_TIME,
    DTYPE,
    FILE,
    KEY,
    SEED,
    chat_option,
    json_option,
    option,
    quiet_option,
)
from validation.cli.run import print_json
from validation.cli.tables import say
from validation.errors import UserError, naming
from validation.planning.quantities import read_time

if TYPE_CHECKING:
    import ssl

    from validation.decoding.methods.base import Method
    from validation.link.device import Device

SERVER, AT_ONCE = "server", 4
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
@option("--temperature", "Of both models.  [default: 1, or the policy's]", AT_LEAST_0)
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
@DRAFT_TIME
@DEVICE
@DTYPE
@quiet_option
@json_option
def device(
    draft: str,
    server: str,
    engine: str | None,
    top_k: int | None,
    prompts: Path | None,
    chat: bool,
    texts: int | None,
    new_tokens: int,
    method: str,
    draft_length: int,
    numbers: tuple[str, ...],
    adapt: int | None,
    policy: Path | None,
    audit: float | None,
    own_threshold: bool,
    temperature: float | None,
    top_p: float,
    seed: int,
    patience: str,
    alone: bool,
    tries: bool,
    door: str | None,
    at_once: int | None,
    out: Path | None,
    record: Path | None,
    key: Path | None,
    ca: Path | None,
    draft_time: str,
    device: str,
    dtype: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write texts whose drafts a server verifies.

    The text is the one that `hlm decode` writes with the same seed. After a cut the device connects again and goes on.
    Tokens that it writes with --alone while the server is away have the law of the draft model, and are named.
    """
    from validation.collection.collect import ids_of
    from validation.collection.fingerprint import marks_of_model
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.link.addresses import read_address, read_key
    from validation.link.completions import Completions, EngineDevice
    from validation.link.device import Device
    from validation.link.recording import Recording
    from validation.link.remote import Remote
    from validation.link.wire import require_temperature
    from validation.models.chat import PLAIN, has_template, require_template
    from validation.models.pair import PAIRS, load_single

    others = policy or adapt or numbers or alone or tries or door or record or ca
    for wrong, why in (
        (engine and (others or method.split(" (")[0] not in BY_ENGINE), f"--engine takes --prompts, and {BY_ENGINE}."),
        (top_k and not engine, "--top-k is about --engine; give both, or leave it out."),
        (door and chat, "--chat is about --prompts; with --openai a request to /v1/chat/completions has turns."),
        (door and record, "--record writes the rounds of --prompts; with --openai texts are others': leave it out."),
        (door and audit is not None, "--audit is about the texts of --prompts; with --openai leave it out."),
        (at_once and not door, "--at-once is about the requests of --openai; leave it out."),
        (numbers and (policy or adapt or method == SERVER), "--set is about a method of --method; leave it out."),
    ):
        if wrong:
            raise UserError(why)
    follower = None if policy is None or adapt is None else _follower(policy, adapt, audit, door)
    made, usual = (
        _method(method, draft_length, policy, adapt, audit, own_threshold=own_threshold, numbers=numbers)
        if follower is None
        else (follower.method, follower.temperature)
    )
    alone |= policy is not None and (follower or made().policy).alone
    if audit is not None and alone:
        raise UserError("Tokens of a device that goes on alone are not audited; leave --audit or --alone out.")
    warm = usual if temperature is None else temperature
    require_temperature(warm)
    options: dict[str, Any] = {"key": read_key(key), "tls": _device_tls(server, ca), "alone": alone}
    options["patience_s"] = read_time("--patience", patience)
    if tries:
        _try(server, options, as_json=as_json)
        return
    chosen = builtin_prompts(limit=texts or 4) if prompts is None else read_prompts(prompts, limit=texts)
    connect: Any = partial(Remote, server, **options)
    if engine is not None:
        connect = partial(nullcontext, Completions(engine, key=options["key"], answer_s=options["patience_s"]))
    with connect() as remote:  # a wrong address, key or certificate is named before a model is loaded
        remote.hello()
    console, draft_s = open_console(quiet=quiet, stderr=as_json), read_time("--draft-time", draft_time)
    with waiting(console, "loading the draft model"):
        pair = load_single(PAIRS[draft].draft if draft in PAIRS else draft, device=device, dtype=dtype)
        tokenizer, weights = marks_of_model(pair)
    if chat:
        require_template(pair.tokenizer, draft)
    elif door is None and has_template(pair.tokenizer) and not quiet:
        click.echo(PLAIN, err=True)
    if door is not None:
        where = read_address("--openai", door)
        with Remote(server, **options) as remote:
            served = Device(pair, remote, tokenizer=tokenizer, draft=weights, least_draft_s=draft_s)
            _open_door(served, made, draft, usual if policy else None, at_once or AT_ONCE, where, console)
        return
    settings = {"seed": seed, "new_tokens": new_tokens, "temperature": warm, "top_p": top_p}
    label = method if method == SERVER and policy is None else made().name
    label += f", {engine}, top-k {top_k}" if engine else ""
    if follower is not None:
        label = "policy, adapts"
        if record is not None or out is not None:
            raise UserError(
                "With --adapt a policy's messages change from round to round; leave --record and --out out."
            )
    described = {"method": label, "draft": weights, **settings}
    asked = {prompt.id: ids for prompt, ids in zip(chosen, ids_of(pair.tokenizer, chosen, chat=chat), strict=True)}
    stored = stored_texts(out, described, {name: mark_of(ids) for name, ids in asked.items()})
    lines = []
    with connect() as remote:
        make: Any = partial(Device, tokenizer=tokenizer, draft=weights)
        if engine is not None:
            remote.hello(pair.tokenizer)
            make = partial(EngineDevice, top_k=top_k or 0)
        ours = make(pair, remote, least_draft_s=draft_s)
        if follower is not None:
            follower.remote = remote
        kept = None if record is None else Recording(record, ours, made(), settings, adapts=adapt is not None)
        for name, ids in asked.items():
            line = stored.get(name) or write_text(ours, made(), name, ids, settings, kept) | described
            lines.append(line)
            if out is not None and name not in stored:
                append_text(out, line)
            if not as_json:
                say(console, f"{name}: {line['text']}")
                say(console, told(line), style="dim")
    if as_json:
        print_json({"server": engine or server, "method": label, "texts": lines})


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
    device: Device, make: Any, model: str, temperature: float | None, at_once: int, where: tuple[str, int], console: Any
) -> None:
    import socket

    import uvicorn

    from validation.link.door import Door

    door = Door(device, make, model=model, temperature=temperature, at_once=at_once)
    with closing(door), socket.create_server(where) as listening:  # refuses an address in use by name
        config = uvicorn.Config(door.application(), log_level="warning", timeout_graceful_shutdown=2)
        number = listening.getsockname()[1]
        say(console, f"Serving http://{where[0]}:{number}/v1; Ctrl-C ends it.")
        uvicorn.Server(config).run(sockets=[listening])


def _method(
    name: str,
    draft_length: int,
    policy: Path | None,
    adapt: int | None = None,
    audit: float | None = None,
    *,
    own_threshold: bool = False,
    numbers: tuple[str, ...] = (),
) -> tuple[Any, float]:
    """Return a function that makes the method of a text, and its usual temperature."""
    from validation.audit.samplers import method_named
    from validation.decoding.methods.planned import Planned, read_policy
    from validation.decoding.methods.settable import SETTABLE, method_with, needed
    from validation.decoding.methods.shared_seed import SharedSeed
    from validation.link.formats import Terms

    if adapt is not None:
        own = None if name == SERVER else method_named(name, draft_length, of_link=True)
        if type(own) is not SharedSeed:
            raise UserError(
                f"--adapt changes the draft length, and the text of --method {name!r} depends on it; use --method "
                "'shared seed', or a lossless --policy."
            )
        from validation.link.message_choice import SEEDED, AdaptiveSeed, MessageChoice

        choice = MessageChoice({SEEDED: tuple(range(1, adapt + 1))})
        return (lambda: AdaptiveSeed(choice)), 1.0
    if audit is None and own_threshold:
        raise UserError("--own-threshold follows from audits; give --audit with it, such as 0.1.")
    if audit is not None and policy is None:
        raise UserError("--audit is about the skips of a policy; give --policy with it.")
    if policy is not None:
        planned = read_policy(policy)
        if audit is not None:
            return _audited(planned, audit, own_threshold=own_threshold), planned.temperature
        return (lambda: Planned(planned)), planned.temperature

    if name == SERVER:
        return (lambda: None), 1.0

    def make() -> Method:
        if numbers or (name in SETTABLE and needed(name)):
            return method_with(name, numbers)
        return method_named(name, draft_length, of_link=True)

    Terms.of(make())  # refuse before a model is loaded
    return make, 1.0


def _follower(policy: Path, most: int, audit: float | None, door: str | None) -> Any:
    from validation.decoding.methods.planned import read_policy
    from validation.link.message_choice import Following

    if audit is not None:
        raise UserError("--adapt changes messages of lossless policies, which have nothing to audit; leave one out.")
    if door is not None:
        raise UserError("--adapt learns from the texts of --prompts; with --openai and a policy leave it out.")
    return Following(read_policy(policy), most)


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
