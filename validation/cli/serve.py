"""The commands ``hlm serve``, a target model behind a socket, and ``hlm link``, a relay that repeats a link."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from validation.cli.display import open_console, waiting
from validation.cli.options import FILE, KEY, SEED, model_options, option, quiet_option
from validation.cli.tables import say
from validation.errors import UserError, naming
from validation.planning.quantities import read_rate, read_time

if TYPE_CHECKING:
    import ssl

    from validation.link.engine import Engine
    from validation.models.pair import Pair


@click.command()
@option("--target", "The target model: a folder, a .gguf file, ...", default="builtin")
@option("--version versions", "Another version of the target.", multiple=True, metavar="NAME=MODEL")
@option("--in-use", "A file with the name of the version to use; it is read again.", FILE)
@option("--draft", "A draft model of the server's own, for devices with --method server.")
@option("--draft-length", "K of such texts.", click.IntRange(1, 64), default=4)
@option("--listen", "HOST:PORT; port 0 takes a free one.", default="127.0.0.1:7070")
@option("--batch", "Rounds of a pass at most.", click.IntRange(1, 256), default=4)
@option("--wait", "How long a pass waits for further rounds.", default="0ms")
@option("--devices", "Connections at most.", click.IntRange(1, 4096), default=64)
@KEY
@option(
    "--tls", "Serve wss:// with this certificate.", FILE, nargs=2, default=None, metavar="CERT KEY", show_default=False
)
@option("--stretch", "Each pass takes so much longer: a slower server.", default="0ms")
@option("--pass-time", "Each pass of the target takes at least so long.", default="0ms")
@model_options
@quiet_option
def serve(**options: Any) -> None:
    """Verify the drafts of devices.

    Devices are those of `hlm device`. Their rounds share passes of the target model. Without --key only this machine
    is served; /metrics has the server's numbers. Ctrl-C ends the server.

    The model of --target is the version `target`. Texts follow the file of --in-use from one round to the next. It is
    read every half second, as is the file of --key: a device whose key is not there any more is refused.
    """
    import asyncio

    from validation.collection.fingerprint import marks_of_model
    from validation.link.addresses import read_address, read_keys
    from validation.link.engine import Engine
    from validation.link.passes import Limits
    from validation.link.server import Server
    from validation.models.pair import PAIRS, load_pair, load_single

    asked = SimpleNamespace(**options)
    keys, others = read_keys(asked.key), _versions(asked.versions)
    if asked.in_use is not None and not asked.in_use.is_file():
        raise UserError(f"There is no file {asked.in_use}; write the name of a version into it, such as target.")
    host, port = read_address("--listen", asked.listen, key=keys[0] if keys else None)
    limits = Limits(batch=asked.batch, wait_s=read_time("--wait", asked.wait), devices=asked.devices)
    more: dict[str, Any] = {"least_pass_s": read_time("--pass-time", asked.pass_time)}
    more |= {"least_draft_s": read_time("--draft-time", asked.draft_time)}
    more |= {"stretch_s": read_time("--stretch", asked.stretch)}
    more |= {"draft_length": asked.draft_length if asked.draft else 0}
    console, context = open_console(quiet=asked.quiet), _server_tls(asked.tls)
    with waiting(console, "loading the target model"):
        target = PAIRS[asked.target].target if asked.target in PAIRS else asked.target
        draft = PAIRS[asked.draft].draft if asked.draft in PAIRS else asked.draft
        dtype = asked.dtype or PAIRS.get(asked.target, PAIRS["builtin"]).dtype
        kind = {"device": asked.device, "dtype": dtype}
        pair = load_single(target, **kind) if draft is None else load_pair(draft=draft, target=target, **kind)
        tokenizer, weights = marks_of_model(pair)
    engines = {}
    for name, model in others.items():
        with waiting(console, f"loading version {name}"):
            engines[name] = _version(pair, name, model, Engine, more)
    own = Engine(pair, **more)
    server = Server(own, tokenizer=tokenizer, target=weights, keys=keys, limits=limits, versions=engines)
    if asked.in_use is not None:
        server.switch(asked.in_use.read_text(encoding="utf-8").strip())
        server.follow_version(asked.in_use)
    if asked.key is not None:
        server.follow_keys(asked.key)
    serving = server.serve(host, port, tls=context)
    with naming(asked.listen):
        what, scheme = f"Serving {asked.target}", "wss" if context else "ws"
        asyncio.run(until_stopped(server, serving, console, what, scheme))


async def until_stopped(server: Any, serving: Any, console: Any, what: str, scheme: str) -> None:
    """Serve, and say where as soon as it listens."""
    import asyncio

    task, ready = asyncio.ensure_future(serving), asyncio.ensure_future(server.ready())
    await asyncio.wait((task, ready), return_when=asyncio.FIRST_COMPLETED)
    if ready.done():
        name, number = server.address
        where = f"{scheme}://{f'[{name}]' if ':' in name else name}:{number}"
        say(console, f"{what} at {where}; Ctrl-C ends it.")
    ready.cancel()
    await task


def _versions(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, model = one.partition("=")
        if not (name and equals and model) or name in found:
            raise UserError(f"--version is {one!r}; write NAME=MODEL, with another name for each version.")
        found[name] = model
    return found


def _version(pair: Pair, name: str, model: str, make: type[Engine], options: dict[str, Any]) -> tuple[Engine, str]:
    from validation.collection.fingerprint import marks_of_model
    from validation.models.pair import PAIRS, load_single
    from validation.models.versions import share_weights

    named = PAIRS[model].target if model in PAIRS else model
    other = load_single(named, device=str(pair.device), dtype=pair.dtype)
    tokenizers = [marks_of_model(one)[0] for one in (pair, other)]
    if tokenizers[0] != tokenizers[1] or pair.end_tokens != other.end_tokens or other.context < pair.context:
        raise UserError(
            f"Version {name!r} ({model}) has another tokenizer or end of text than the model of --target, or a shorter "
            "context; give versions of one model."
        )
    share_weights([pair.target, other.target])
    return make(replace(pair, target=other.target), **options), marks_of_model(other)[1]


def _server_tls(files: tuple[Path, Path] | None) -> ssl.SSLContext | None:
    import ssl

    if not files:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        for file in files:
            file.read_bytes()  # names a file that is not there
        context.load_cert_chain(*files)
    except ssl.SSLError as error:
        raise UserError(f"{files[0]} and {files[1]} are no certificate and its key ({error.reason}).") from error
    return context


@click.command("link")
@option("--rate", "Uplink in bit/s.", default="10M")
@option("--down-rate", "Downlink in bit/s.  [default: the uplink's rate, or its recording]")
@option("--link-csv", "A recorded uplink: trace_id, time_s, throughput_mbps; replaces --rate.", FILE)
@option("--link link_name", "Which link of --link-csv, as for `hlm plan`.  [default: the first]")
@option("--rtt", "Round trip, without the time of the bytes.", default="40ms")
@option("--loss", "Share of lost segments.", click.FloatRange(0, 0.9), default=0.0)
@option("--cut cuts", "Reset all connections so long after the start; may be repeated.", multiple=True)
@option("--seed", "Of the losses.", SEED, default=1)
@option("--listen", "HOST:PORT of the relay.", default="127.0.0.1:7071")
@option("--to", "HOST:PORT of the server.", default="127.0.0.1:7070")
@quiet_option
def link(listen: str, to: str, quiet: bool, **options: Any) -> None:
    """Relay connections over a link of a given or recorded rate and round trip.

    Devices connect to the relay in place of the server. It adds no key of its own, so it listens on this machine only.
    """
    import asyncio

    from validation.decoding.recorded_links import find_link
    from validation.link.addresses import read_address
    from validation.link.relay import LinkModel, Relay, precise_loop

    host, port = read_address("--listen", listen)
    asked = SimpleNamespace(**options)
    up = read_rate("--rate", asked.rate) if asked.link_csv is None else find_link(asked.link_csv, asked.link_name)[1]
    down = up if asked.down_rate is None else read_rate("--down-rate", asked.down_rate)
    times = [read_time("--cut", after) for after in asked.cuts]
    relay = Relay(LinkModel(up, down, read_time("--rtt", asked.rtt), asked.loss, times, seed=asked.seed))
    console = open_console(quiet=quiet)
    serving = relay.serve(host, port, read_address("--to", to, needs_key=False))
    with naming(listen), asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(until_stopped(relay, serving, console, f"Relaying to {to}", "ws"))
