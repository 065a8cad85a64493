"""The command ``hlm link``: a relay that repeats a link."""

from types import SimpleNamespace
from typing import Any

import click

from validation.cli.display import open_console
from validation.cli.options import FILE, SEED, option, quiet_option
from validation.cli.serve import until_stopped
from validation.errors import naming
from validation.planning.quantities import read_rate, read_time


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
