"""The commands ``hlm serve``, ``hlm device`` and ``hlm link``: two models over a socket, and a relay between them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import open_console, waiting
from validation.cli.options import SEED, chat_option, json_option, quiet_option
from validation.cli.run import print_json
from validation.errors import UserError, naming
from validation.planning.quantities import read_rate, read_time

if TYPE_CHECKING:
    import ssl

    from validation.decoding.methods.base import Method
    from validation.link.device import Device

PATH = click.Path(path_type=Path)
SERVER = "server"
DEVICE = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
DTYPE = click.option("--dtype", help="Type of the weights.  [default: float32 on the CPU, elsewhere as stored]")
KEY = click.option("--key", type=PATH, help="A file with a secret of 16 to 64 bytes; both sides need the same one.")


@click.command()
@click.option("--target", default="builtin", show_default=True, help="The target model: a folder, a .gguf file, ...")
@click.option("--draft", help="A draft model of the server's own, for devices with --method server.")
@click.option("--draft-length", type=click.IntRange(1, 64), default=4, show_default=True, help="K of such texts.")
@click.option("--listen", default="127.0.0.1:7070", show_default=True, help="HOST:PORT; port 0 takes a free one.")
@click.option("--batch", type=click.IntRange(1, 256), default=4, show_default=True, help="Rounds of a pass at most.")
@click.option("--wait", default="0ms", show_default=True, help="How long a pass waits for further rounds.")
@click.option("--devices", type=click.IntRange(1, 4096), default=64, show_default=True, help="Connections at most.")
@KEY
@click.option("--tls", nargs=2, type=PATH, default=None, metavar="CERT KEY", help="Serve wss:// with this certificate.")
@click.option("--stretch", default="0ms", show_default=True, help="Each pass takes so much longer: a slower server.")
@DEVICE
@DTYPE
@quiet_option
def serve(
    target: str,
    draft: str | None,
    draft_length: int,
    listen: str,
    batch: int,
    wait: str,
    devices: int,
    key: Path | None,
    tls: tuple[Path, Path] | None,
    stretch: str,
    device: str,
    dtype: str | None,
    quiet: bool,
) -> None:
    """Verify the drafts of devices.

    Devices are those of `hlm device`. Their rounds share passes of the target model. Without --key only this machine
    is served; /metrics has the server's numbers. Ctrl-C ends the server.
    """
    import asyncio

    from validation.collection.fingerprint import marks_of_model
    from validation.link.addresses import read_address, read_key
    from validation.link.engine import Engine
    from validation.link.server import Limits, Server
    from validation.models.pair import PAIRS, load_pair, load_single

    secret = read_key(key)
    host, port = read_address("--listen", listen, key=secret)
    limits = Limits(batch=batch, wait_s=read_time("--wait", wait), devices=devices)
    console, context = open_console(quiet=quiet), _server_tls(tls)
    with waiting(console, "loading the target model"):
        named = PAIRS[target].target if target in PAIRS else target
        own = PAIRS[draft].draft if draft in PAIRS else draft
        pair = (
            load_single(named, device=device, dtype=dtype)
            if own is None
            else load_pair(draft=own, target=named, device=device, dtype=dtype)
        )
        tokenizer, weights = marks_of_model(pair)
    engine = Engine(pair, stretch_s=read_time("--stretch", stretch), draft_length=draft_length if draft else 0)
    server = Server(engine, tokenizer=tokenizer, target=weights, key=secret, limits=limits)

    scheme = "wss" if context else "ws"
    with naming(listen):
        asyncio.run(_until_stopped(server, server.serve(host, port, tls=context), console, f"Serving {target}", scheme))


@click.command()
@click.option("--draft", default="builtin", show_default=True, help="The draft model: a folder, a .gguf file, ...")
@click.option("--server", default="ws://127.0.0.1:7070", show_default=True, help="Address of `hlm serve`.")
@click.option("--prompts", type=PATH, help="Your prompts: .txt or .jsonl.  [default: the first built-in ones]")
@chat_option
@click.option("--texts", type=click.IntRange(min=1), help="Only the first prompts.  [default: all; built-in: 4]")
@click.option("--new-tokens", type=click.IntRange(min=1), default=64, show_default=True, help="Maximum new tokens.")
@click.option(
    "--method",
    default="shared seed",
    show_default=True,
    help="A decoding method, or server: it writes alone, or drafts itself.",
)
@click.option("--draft-length", type=click.IntRange(1, 64), default=4, show_default=True, help="K of such a method.")
@click.option("--policy", type=PATH, help="A policy.json of `hlm plan`, in place of --method.")
@click.option("--temperature", type=click.FloatRange(min=0), help="Of both models.  [default: 1, or the policy's]")
@click.option("--top-p", type=click.FloatRange(0, 1, min_open=True), default=1.0, show_default=True)
@click.option("--seed", type=SEED, default=1, show_default=True)
@click.option("--patience", default="30s", show_default=True, help="How long the server may be away.")
@click.option("--openai", "door", metavar="HOST:PORT", help="Serve an OpenAI-compatible API there, in place of texts.")
@click.option("--out", type=PATH, help="Write the texts here, one JSON object a line; the same command continues.")
@KEY
@click.option("--tls", type=PATH, metavar="CERT", help="The certificate to trust for wss://.  [default: the system's]")
@DEVICE
@DTYPE
@quiet_option
@json_option
def device(
    draft: str,
    server: str,
    prompts: Path | None,
    chat: bool,
    texts: int | None,
    new_tokens: int,
    method: str,
    draft_length: int,
    policy: Path | None,
    temperature: float | None,
    top_p: float,
    seed: int,
    patience: str,
    door: str | None,
    out: Path | None,
    key: Path | None,
    tls: Path | None,
    device: str,
    dtype: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write texts whose drafts a server verifies.

    The text is the one that `hlm decode` writes with the same seed. After a cut the device connects again and goes on.
    """
    from validation.collection.collect import ids_of
    from validation.collection.fingerprint import marks_of_model
    from validation.collection.prompts import builtin_prompts, read_prompts
    from validation.link.addresses import read_address, read_key
    from validation.link.device import Device, Remote
    from validation.models.chat import PLAIN, has_template, require_template
    from validation.models.pair import PAIRS, load_single

    if door is not None and chat:
        raise UserError("--chat is about --prompts; with --openai a request to /v1/chat/completions has turns.")
    made, usual = _method(method, draft_length, policy)
    warm = usual if temperature is None else temperature
    chosen = builtin_prompts(limit=texts or 4) if prompts is None else read_prompts(prompts, limit=texts)
    console = open_console(quiet=quiet, stderr=as_json)
    with waiting(console, "loading the draft model"):
        pair = load_single(PAIRS[draft].draft if draft in PAIRS else draft, device=device, dtype=dtype)
        tokenizer, weights = marks_of_model(pair)
    if chat:
        require_template(pair.tokenizer, draft)
    elif door is None and has_template(pair.tokenizer) and not quiet:
        click.echo(PLAIN, err=True)
    options: dict[str, Any] = {"key": read_key(key), "tls": _device_tls(server, tls)}
    if door is not None:
        where = read_address("--openai", door)
        with Remote(server, patience_s=read_time("--patience", patience), **options) as remote:
            ours = Device(pair, remote, tokenizer=tokenizer, draft=weights)
            _open_door(ours, made, draft, usual if policy else None, where, console)
        return
    settings = {"seed": seed, "new_tokens": new_tokens, "temperature": warm, "top_p": top_p}
    label = method if method == SERVER and policy is None else made().name
    described = {"method": label, "draft": weights, **settings}
    asked = {prompt.id: ids for prompt, ids in zip(chosen, ids_of(pair.tokenizer, chosen, chat=chat), strict=True)}
    stored = _stored(out, described, {name: _mark(ids) for name, ids in asked.items()})
    lines = []
    with Remote(server, patience_s=read_time("--patience", patience), **options) as remote:
        ours = Device(pair, remote, tokenizer=tokenizer, draft=weights)
        for name, ids in asked.items():
            line = stored.get(name) or _write(ours, made(), name, ids, settings) | described
            lines.append(line)
            if out is not None and name not in stored:
                _append(out, line)
            if not as_json:
                console.print(f"{name}: {line['text']}", soft_wrap=True, markup=False, highlight=False)
                console.print(_told(line), soft_wrap=True, markup=False, style="dim")
    if as_json:
        print_json({"server": server, "method": label, "texts": lines})


@click.command("link")
@click.option("--rate", default="10M", show_default=True, help="Uplink in bit/s.")
@click.option("--down-rate", help="Downlink in bit/s.  [default: the uplink's rate, or its recording]")
@click.option("--link-csv", type=PATH, help="A recorded uplink: trace_id, time_s, throughput_mbps; replaces --rate.")
@click.option("--trace", help="The trace_id of --link-csv.  [default: the first]")
@click.option("--rtt", default="40ms", show_default=True, help="Round trip, without the time of the bytes.")
@click.option("--loss", type=click.FloatRange(0, 0.9), default=0.0, show_default=True, help="Share of lost segments.")
@click.option("--cut", "cuts", multiple=True, help="Reset all connections so long after the start; may be repeated.")
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of the losses.")
@click.option("--listen", default="127.0.0.1:7071", show_default=True, help="HOST:PORT of the relay.")
@click.option("--to", default="127.0.0.1:7070", show_default=True, help="HOST:PORT of the server.")
@quiet_option
def link(
    rate: str,
    down_rate: str | None,
    link_csv: Path | None,
    trace: str | None,
    rtt: str,
    loss: float,
    cuts: tuple[str, ...],
    seed: int,
    listen: str,
    to: str,
    quiet: bool,
) -> None:
    """Relay connections over a link of a given or recorded rate and round trip.

    Devices connect to the relay in place of the server. It adds no key of its own, so it listens on this machine only.
    """
    import asyncio

    from validation.link.addresses import read_address
    from validation.link.relay import LinkModel, Relay

    host, port = read_address("--listen", listen)
    up = _uplink(link_csv, trace, rate)
    down = up if down_rate is None else read_rate("--down-rate", down_rate)
    times = [read_time("--cut", one) for one in cuts]
    relay = Relay(LinkModel(up, down, read_time("--rtt", rtt), loss, times, seed=seed))
    console = open_console(quiet=quiet)
    with naming(listen):
        serving = relay.serve(host, port, read_address("--to", to, needs_key=False))
        asyncio.run(_until_stopped(relay, serving, console, f"Relaying to {to}", "ws"))


async def _until_stopped(server: Any, serving: Any, console: Any, what: str, scheme: str) -> None:
    """Serve, and say where as soon as it listens."""
    import asyncio

    task, ready = asyncio.ensure_future(serving), asyncio.ensure_future(server.ready())
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    if ready.done():
        name, number = server.address
        where = f"{scheme}://{f'[{name}]' if ':' in name else name}:{number}"
        console.print(f"{what} at {where}; Ctrl-C ends it.", soft_wrap=True, markup=False)
    ready.cancel()
    await task


def _uplink(csv: Path | None, trace: str | None, rate: str) -> Any:
    """Return a rate, or the recorded link of a file."""
    from validation.decoding.recorded_links import load_link_file

    if csv is None:
        return read_rate("--rate", rate)
    links = {name.rpartition("/")[2]: one for name, one in load_link_file(csv).items()}
    if trace is not None and trace not in links:
        raise UserError(f"{csv} has no trace {trace!r}; it has {', '.join(list(links)[:5])}.")
    return links[trace] if trace is not None else next(iter(links.values()))


def _open_door(
    device: Device, make: Any, model: str, temperature: float | None, where: tuple[str, int], console: Any
) -> None:
    import socket

    import uvicorn

    from validation.link.door import Door

    app = Door(device, make, model=model, temperature=temperature).application()
    with socket.create_server(where) as listening:  # refuses an address in use by name
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
        number = listening.getsockname()[1]
        console.print(f"Serving http://{where[0]}:{number}/v1; Ctrl-C ends it.", soft_wrap=True, markup=False)
        uvicorn.Server(config).run(sockets=[listening])


def _method(name: str, draft_length: int, policy: Path | None) -> tuple[Any, float]:
    """Return a function that makes the method of a text, and its usual temperature."""
    from validation.audit.samplers import method_named
    from validation.decoding.methods.planned import Planned
    from validation.decoding.policy_file import read_policy
    from validation.link.formats import Terms

    if policy is not None:
        planned = read_policy(policy)
        return (lambda: Planned(planned)), planned.temperature

    if name == SERVER:
        return (lambda: None), 1.0

    def make() -> Method:
        return method_named(name, draft_length)

    Terms.of(make())  # refuse before a model is loaded
    return make, 1.0


def _write(
    device: Device, method: Method | None, name: str, ids: list[int], settings: dict[str, Any]
) -> dict[str, Any]:
    """Write one text; return what is stored of it."""
    remote = device.remote
    before = remote.sent_bytes, remote.received_bytes
    began = time.perf_counter()
    record = device.generate(method, ids, name=name, **settings)
    seconds = time.perf_counter() - began
    return {
        "prompt": name,
        "prompt_mark": _mark(ids),
        "text": device.pair.tokenizer.decode(record.tokens),
        "tokens": record.tokens,
        "ended": record.ended,
        "seconds": seconds,
        "rounds": len(record.rounds),
        "drafted": record.total("drafted"),
        "accepted": record.total("accepted"),
        "skipped": record.total("skipped"),
        "up_bytes": remote.sent_bytes - before[0],
        "down_bytes": remote.received_bytes - before[1],
    }


def _told(line: dict[str, Any]) -> str:
    """Return one line about a text."""
    count, seconds = len(line["tokens"]), line["seconds"]
    return (
        f"  {count} tokens in {seconds:.2f} s ({count / seconds:.1f} a second), {line['rounds']} rounds, "
        f"{line['accepted']} of {line['drafted']} drafts accepted, {line['up_bytes']} bytes up, "
        f"{line['down_bytes']} down"
    )


def _mark(ids: list[int]) -> str:
    """Return a hash of a prompt's tokens."""
    return hashlib.sha256(json.dumps(ids).encode()).hexdigest()[:16]


def _stored(out: Path | None, described: dict[str, Any], asked: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return the texts of a file by prompt, written with these settings; a last line that was cut is taken away.

    ``asked`` has the marks of the prompts' tokens, by name.
    """
    if out is None or not out.exists():
        return {}
    whole = out.read_bytes()
    lines = whole[: whole.rfind(b"\n") + 1].splitlines()
    try:
        found = {line["prompt"]: line for line in map(json.loads, lines)}
        same = all(line[name] == value for line in found.values() for name, value in described.items())
        same &= all(line["prompt_mark"] == asked.get(name, line["prompt_mark"]) for name, line in found.items())
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{out} holds no texts of `hlm device`; give --out another name.") from error
    if not same:
        raise UserError(
            f"{out} holds texts of other models, prompts or settings; use those, or give --out another name."
        )
    os.truncate(out, whole.rfind(b"\n") + 1)
    return found


def _append(out: Path, line: dict[str, Any]) -> None:
    with naming(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _server_tls(files: tuple[Path, Path] | None) -> ssl.SSLContext | None:
    import ssl

    if not files:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(*files)
    except ssl.SSLError as error:
        raise UserError(f"{files[0]} and {files[1]} are no certificate and its key ({error.reason}).") from error
    return context


def _device_tls(server: str, trusted: Path | None) -> ssl.SSLContext | None:
    import ssl

    if not server.startswith(("ws://", "wss://")):
        raise UserError(f"--server is {server!r}; write ws://HOST:PORT, or wss://HOST:PORT with TLS.")
    if server.startswith("ws://"):
        return None
    try:
        return ssl.create_default_context(cafile=trusted)
    except ssl.SSLError as error:
        raise UserError(f"{trusted} is no certificate ({error.reason}).") from error
