"""The command ``hlm link``: a relay that repeats a link."""

from __future__ import annotations

from pathlib import Path

import click

from validation.cli.display import open_console
from validation.cli.options import FILE, SEED, quiet_option
from validation.cli.serve import until_stopped
from validation.errors import naming
from validation.planning.quantities import read_rate, read_time


@click.command("link")
@click.option("--rate", default="10M", show_default=True, help="Uplink in bit/s.")
@click.option("--down-rate", help="Downlink in bit/s.  [default: the uplink's rate, or its recording]")
@click.option("--link-csv", type=FILE, help="A recorded uplink: trace_id, time_s, throughput_mbps; replaces --rate.")
@click.option("--link", "--trace", "trace", help="Which trace of --link-csv, as for `hlm plan`.  [default: the first]")
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

    from validation.decoding.recorded_links import find_link
    from validation.link.addresses import read_address
    from validation.link.relay import LinkModel, Relay, precise_loop

    host, port = read_address("--listen", listen)
    up = read_rate("--rate", rate) if link_csv is None else find_link(link_csv, trace)[1]
    down = up if down_rate is None else read_rate("--down-rate", down_rate)
    times = [read_time("--cut", one) for one in cuts]
    relay = Relay(LinkModel(up, down, read_time("--rtt", rtt), loss, times, seed=seed))
    console = open_console(quiet=quiet)
    serving = relay.serve(host, port, read_address("--to", to, needs_key=False))
    with naming(listen), asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(until_stopped(relay, serving, console, f"Relaying to {to}", "ws"))
