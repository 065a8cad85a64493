"""The command ``hlm plan``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from validation.acceptance.record import DRAFTS, VERIFICATIONS
from validation.cli.display import open_console, progress_bar
from validation.cli.options import PLACE
from validation.cli.run import print_json, run_folder, trace_of
from validation.cli.tables import print_table
from validation.errors import UserError
from validation.planning.menu import WITHOUT_DEVICE

if TYPE_CHECKING:
    from rich.console import Console

    from validation.planning.result import Result, Varied
    from validation.planning.rows import Number, Row
    from validation.trace.remote import Place

PATH = click.Path(path_type=Path)
MILLISECONDS = click.FloatRange(min=0.0)


@click.command("plan")
@click.option("--trace", type=PLACE, help="A trace of `hlm validate` or `hlm import`.  [default: runs/builtin/trace]")
@click.option(
    "--acceptance",
    type=PATH,
    multiple=True,
    help="Instead of a trace, an engine's counts: `hlm acceptance`. More files may follow, as of two scrapes.",
)
@click.option("--run", type=PATH, help="Instead of a trace, a record of `hlm device --record`: rounds, times and link.")
@click.argument("more", nargs=-1, type=PATH, metavar="[FILES]...")
@click.option(
    "--times",
    type=PATH,
    help="Times of `hlm doctor --times`, or passes.csv with batch, width, ms, for what is left out.",
)
@click.option("--only", help="With --acceptance: only engines whose name contains this word, for example eagle.")
@click.option("--draft-length", type=click.IntRange(min=1), help="With --acceptance: every step drafted this many.")
@click.option(
    "--drafts",
    type=click.Choice(DRAFTS),
    help="With --acceptance: how the engine chose its drafts; of greedy ones (and n-grams) token ids are sent.",
)
@click.option(
    "--verification", type=click.Choice(list(VERIFICATIONS)), help="With --acceptance: how the engine accepted them."
)
@click.option(
    "--rate", default="10M", show_default=True, help="Uplink rate, at the mean SNR if it fades: 10M is bit/s."
)
@click.option("--fading", type=click.Choice(["none", "rayleigh", "rician"]), default="none", show_default=True)
@click.option("--snr", default="10dB", show_default=True, help="Mean SNR of a fading link: 10dB, or 10x for a ratio.")
@click.option(
    "--k-factor",
    default="10dB",
    show_default=True,
    help="With rician: power of the line of sight over the scattered power.",
)
@click.option("--link-csv", type=PATH, help="A recorded link: trace_id, time_s, throughput_mbps; replaces --rate.")
@click.option("--link", "link_name", help="Which trace of --link-csv.  [default: the first]")
@click.option("--rtt", default="20ms", show_default=True, help="Round trip of an exchange.")
@click.option("--down-rate", help="Rate of the downlink.  [default: the uplink's median rate]")
@click.option("--draft-ms", type=MILLISECONDS, default=12.0, show_default=True, help="One pass of the draft model.")
@click.option("--verify-ms", type=MILLISECONDS, default=30.0, show_default=True, help="One pass of the target model.")
@click.option(
    "--server-draft-ms",
    type=MILLISECONDS,
    help="One pass of the draft model on the server.  [default: the target's, divided by the ratio of parameters]",
)
@click.option(
    "--verify-us-per-token",
    type=MILLISECONDS,
    default=0.0,
    show_default=True,
    help="Time that each token adds to a pass of the target model.",
)
@click.option(
    "--between-ms",
    type=float,
    default=0.0,
    show_default=True,
    help="Time between two passes of a text that the server writes; below 0 if they take less than other passes.",
)
@click.option(
    "--bias",
    type=click.FloatRange(0.0, 1.0),
    default=0.05,
    show_default=True,
    help="Largest certified Bias of a truncated message.",
)
@click.option(
    "--risk", default="text=0", show_default=True, help="text=.1 or token=.01: allowed distance; 0: lossless."
)
@click.option(
    "--confidence",
    type=float,
    help="Keep --risk in this share of calibrations, such as .95.  [default: in their mean]",
)
@click.option("--latency", help="A round's time, such as p95=80ms.  [default: no limit]")
@click.option("--leak", help="What sizes of a round may tell, such as bits=1, by padding.  [default: no limit]")
@click.option("--energy", help="The device's energy of a token, such as 50mJ.  [default: no limit]")
@click.option(
    "--device-w",
    type=MILLISECONDS,
    default=5.0,
    show_default=True,
    help="Power of the device while it drafts, in W.",
)
@click.option(
    "--transmit-w",
    type=MILLISECONDS,
    default=1.0,
    show_default=True,
    help="Power of the device while it sends, in W.",
)
@click.option(
    "--objective",
    type=click.Choice(["throughput", "capacity", "goodput", "fair", "cost"]),
    default="throughput",
    show_default=True,
    help="The aim of the table and of --policy; capacity: the most users of a full server.",
)
@click.option(
    "--server-price",
    type=MILLISECONDS,
    default=1.0,
    show_default=True,
    help="With --objective cost: price of a second of the server.",
)
@click.option(
    "--time-price",
    type=MILLISECONDS,
    default=0.1,
    show_default=True,
    help="With --objective cost: price of a second of waiting.",
)
@click.option("--users", default="1", show_default=True, help="How many share the band, or a CSV: name, rate, ...")
@click.option(
    "--server-batch",
    type=click.IntRange(min=1, max=10_000),
    default=1,
    show_default=True,
    help="The most texts of a pass of a server that is full, or that --users share; others wait.",
)
@click.option(
    "--vocabulary", type=click.IntRange(min=2), default=32_000, show_default=True, help="V, with --acceptance."
)
@click.option(
    "--seal",
    type=click.Choice(["none", "checksum", "hmac"]),
    default="none",
    show_default=True,
    help="Envelope of each message and answer: docs/deploy.md.",
)
@click.option(
    "--shared-seed/--no-shared-seed",
    default=True,
    show_default=True,
    help="Ours may draft by a seed that the server shares: docs/shared_seed.md.",
)
@click.option(
    "--block/--no-block",
    default=False,
    show_default=True,
    help="A server may verify the drafts of a round together: of ours with lattice rows, and its own.",
)
@click.option(
    "--policy", "policy", type=PATH, help="Write the plan here as a device's policy.json, if it has a device."
)
@click.option("--row", "named", help="With --policy: write this row of the table, such as ours, also if it loses.")
@click.option("--alone", is_flag=True, help="With --policy: the device may go on alone while its server is away.")
@click.option("--page", type=PATH, help="Also write the plan as a page with sliders, such as plan.html.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; all else goes to the error output.")
@click.pass_context
def plan(
    ctx: click.Context,
    /,
    as_json: bool,
    trace: Place | None,
    acceptance: tuple[Path, ...],
    more: tuple[Path, ...],
    run: Path | None,
    times: Path | None,
    policy: Path | None,
    named: str | None,
    alone: bool,
    page: Path | None,
    seal: str,
    **given: Any,
) -> None:
    """Say which policy to use for these models, this link and these limits, and what it gives.

    FILES are more files of --acceptance, such as the second of two scrapes.

    Prompts are split into three parts: to choose, to calibrate, and to predict. Every number names what it rests on.
    """
    from validation.planning.from_run import planner_of_run
    from validation.planning.measure import planner_of_acceptance, planner_of_trace
    from validation.planning.page import write_page
    from validation.planning.result import make
    from validation.planning.users import read_users

    for name, there in (("--alone", alone), ("--row", named is not None)):
        if there and policy is None:
            raise UserError(f"{name} is about the policy that --policy writes; give that file too.")
    if more and not acceptance:
        raise UserError(f"{more[0]} belongs to no option; files of an engine's counts follow --acceptance.")
    acceptance += more
    counts = {name: given.pop(name) for name in COUNTS_ONLY}
    _refuse(trace, acceptance, given, counts, policy, page)
    _refuse_run(run, times, trace, acceptance, given, policy, seal)
    left_out = {
        f"--{name.replace('_', '-')}": name
        for name in given
        if ctx.get_parameter_source(name) in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    }
    if run is not None and _said_skips(run, as_json=as_json):
        return
    request, said, measured = _measured(_request(given), run, times, left_out, given)
    console = open_console(stderr=as_json)
    setting = request.setting()
    listed = read_users(Path(given["users"]), setting) if given["users"].endswith(".csv") else None
    if run is not None:
        planner, about = planner_of_run(run, setting)
    elif acceptance:
        planner, about = planner_of_acceptance(acceptance, request.vocabulary, setting, **counts, seal=seal)
    else:
        path = trace_of(trace if trace is not None else Path("runs/builtin/trace"))
        with progress_bar(console) as report:
            planner, about = planner_of_trace(
                path,
                setting,
                cache=run_folder(path) / "plan",
                report=report,
                seal=seal,
                shared_seed=request.shared_seed,
                block=request.block,
            )
    if request.users > 1:  # a device that drafts on takes more of a server than one in rounds
        planner.streamed = None
    request = request.with_server_draft(about["evidence"].get("parameter_ratio"))
    setting = planner.setting = request.setting()
    defaulted = [option for option in left_out if option not in measured]
    plain_users = shared = None
    if request.users > 1 or listed is not None:
        from validation.planning.users import equal_users, plan_band, shared_users

        users = equal_users(request.users, setting) if listed is None else listed
        band, codecs, plain_users = plan_band(planner, users, request.server_batch)
        shared = shared_users(planner, users, band, codecs)
    result = make(planner, request, defaulted, shared)
    result.notes[:0] = [*said, *about["notes"]]
    _show(console, result, planner.setting.link.name, planner.split.prompts)
    if plain_users is not None:
        _show_users(console, plain_users)
    if policy is not None:
        _write_policy(console, planner, result, about, policy, named, alone)
    if page is None and not as_json:
        return
    plain = result.plain(request, planner, about | {"defaults": defaulted, "users": plain_users})
    if page is not None:
        console.print(f"Page: {write_page(page, plain)}", soft_wrap=True, highlight=False)
    if as_json:
        print_json(plain)


COUNTS_ONLY = ("only", "draft_length", "drafts", "verification")
"""Options that say how an engine's counts are read."""


def _refuse(
    trace: Place | None,
    acceptance: tuple[Path, ...],
    given: dict[str, Any],
    counts: dict[str, Any],
    policy: Path | None,
    page: Path | None,
) -> None:
    """Refuse options that contradict each other, before anything is loaded or measured."""
    if trace is not None and acceptance:
        raise UserError("Give --trace or --acceptance, not both.")
    for name, value in counts.items():
        if value is not None and not acceptance:
            raise UserError(f"--{name.replace('_', '-')} reads an engine's counts; give --acceptance with it.")
    if given["block"] and (acceptance or given["users"] != "1"):
        raise UserError("--block plans the rounds of one user from a trace; leave out --acceptance and --users.")
    if given["link_name"] is not None and given["link_csv"] is None:
        raise UserError("--link names a trace of --link-csv; give that file too.")
    if acceptance and policy is not None:
        raise UserError("--policy needs a trace: counts of an engine do not name the models' vocabulary.")
    if acceptance and given["users"] != "1":
        raise UserError("--users needs a trace: counts of an engine have no distributions; plan for one user.")
    if given["leak"] is not None and (acceptance or given["users"] != "1" or page is not None):
        raise UserError("--leak needs a trace, one user and no --page: sizes are known from a trace; leave those out.")
    for name, file in (("--policy", policy), ("--page", page)):
        if file is not None and (file.is_dir() or any(one.is_file() for one in file.parents)):
            raise UserError(f"{name} is {file}, which cannot be a file; name one, such as {file.stem or 'plan'}.out.")


def _refuse_run(
    run: Path | None,
    times: Path | None,
    trace: Place | None,
    acceptance: tuple[Path, ...],
    given: dict[str, Any],
    policy: Path | None,
    seal: str,
) -> None:
    """Refuse what a record or measured times contradict."""
    if run is None:
        return
    for name, there in (("--trace", trace is not None), ("--acceptance", acceptance), ("--times", times is not None)):
        if there:
            raise UserError(f"--run has its own evidence and times; leave {name} out.")
    if policy is not None:
        raise UserError("--policy needs a trace: a record names no thresholds and no messages but its own.")
    if given["leak"] is not None:
        raise UserError("--leak needs a trace: a record does not know the sizes of other messages; plan from a trace.")
    if given["users"] != "1":
        raise UserError("--users needs a trace: a record has no distributions; plan for one user.")
    if given["block"]:
        raise UserError("--block needs a trace: a record has no distributions; leave it out.")
    if seal != "none":
        raise UserError("--seal is known from the record: it says whether its frames had a key; leave it out.")


def _said_skips(run: Path, *, as_json: bool) -> bool:
    """Say what the record of a run that skipped tells of its risk; return whether it skipped."""
    from validation.planning.run_record import read_record
    from validation.planning.run_skips import said_of_skips, skips_of

    found = skips_of(read_record(run), str(run))
    if found is None:
        return False
    notes = [
        said_of_skips(found),
        "Such a record tells no other plan: which drafts behind a skip the server would have accepted is not in it. "
        "Plan from a trace, or record `--method 'shared seed'`.",
    ]
    console = open_console(stderr=as_json)
    for note in notes:
        console.print(note, soft_wrap=True, markup=False, highlight=False)
    if as_json:
        print_json({"evidence": {"run": str(run)}, "skips": found, "notes": notes})
    return True


def _measured(
    request: Any, run: Path | None, times: Path | None, left_out: dict[str, str], given: dict[str, Any]
) -> tuple[Any, list[str], set[str]]:
    """Return the request with measured numbers for options that were left out, sentences on them, and the options."""
    from validation.planning.from_run import OPTIONS, with_run
    from validation.planning.times import read_times, with_passes, with_times

    here = {option for option in ("--rate", "--rtt", "--draft-ms", "--verify-ms") if option not in left_out}
    if run is not None:
        known = "--rate" in here or given["link_csv"] is not None or given["fading"] != "none"
        return *with_run(request, run, here, known), set(OPTIONS) - here
    if times is not None and times.suffix == ".csv":
        return with_passes(request, times, set(left_out))
    if times is not None:
        return with_times(request, read_times(times), set(left_out))
    return request, [], set()


def _request(given: dict[str, Any]) -> Any:
    """Return the request that the options make."""
    from validation.decoding.recorded_links import find_link
    from validation.planning import quantities as read
    from validation.planning.request import Request

    down, users = given["down_rate"], given["users"]
    if not users.endswith(".csv") and not (users.isdigit() and 1 <= int(users) <= 1000):
        raise UserError(f"--users is {users!r}; give a number from 1 to 1,000, or a CSV file with name and rate.")
    if down is not None and read.read_rate("--down-rate", down) <= 0:
        raise UserError("--down-rate is 0: then no answer arrives; give a rate above 0.")
    return Request(
        rate_bps=read.read_rate("--rate", given["rate"]),
        fading=given["fading"],
        snr=read.read_snr("--snr", given["snr"]),
        k_factor=read.read_snr("--k-factor", given["k_factor"]),
        round_trip_s=read.read_time("--rtt", given["rtt"]),
        down_bps=None if down is None else read.read_rate("--down-rate", down),
        draft_s=given["draft_ms"] / 1e3,
        verify_s=given["verify_ms"] / 1e3,
        verify_token_s=given["verify_us_per_token"] / 1e6,
        server_draft_s=None if given["server_draft_ms"] is None else given["server_draft_ms"] / 1e3,
        between_s=given["between_ms"] / 1e3,
        bias=given["bias"],
        risk=read.read_risk(given["risk"]),
        confidence=given["confidence"],
        latency=None if given["latency"] is None else read.read_latency(given["latency"]),
        leak_bits=None if given["leak"] is None else read.read_leak(given["leak"]),
        energy_j=None if given["energy"] is None else read.read_energy("--energy", given["energy"]),
        device_w=given["device_w"],
        transmit_w=given["transmit_w"],
        server_price=given["server_price"],
        time_price=given["time_price"],
        objective=given["objective"],
        users=2 if users.endswith(".csv") else int(users),
        server_batch=given["server_batch"],
        vocabulary=given["vocabulary"],
        shared_seed=given["shared_seed"],
        block=given["block"],
        recorded=None if given["link_csv"] is None else find_link(given["link_csv"], given["link_name"]),
    )


def _write_policy(
    console: Console, planner: Any, result: Result, about: dict[str, Any], path: Path, named: str | None, alone: bool
) -> None:
    """Write the answer, or the row that is asked for by name, as a device's policy."""
    from validation.decoding.policy_file import write_policy
    from validation.planning.deploy import RUNS, policy_of
    from validation.planning.verdict import loses_twice

    asked, rows = result.asked, {one.family: one for one in result.asked.rows}
    chosen = asked.best if named is None else rows.get(named)
    can = ", ".join(name for name in RUNS if name in rows)
    if chosen is None:
        raise UserError(f"--row is {named!r}; the rows that a device runs are: {can}.")
    if chosen.family not in RUNS or "each user" in chosen.option.label:
        what = "needs no device" if chosen.family in WITHOUT_DEVICE else "is not one that a device runs from a file"
        raise UserError(
            f"{path} is not written: {chosen.name} {what}. To write another row all the same, name it: --row ours "
            f"(rows that a device runs: {can})."
        )
    if chosen.breaks:
        raise UserError(f"{path} is not written: {chosen.name} breaks the limit of {', '.join(chosen.breaks)}.")
    row = next(one for one in result.rows if one.policy == chosen.family)
    if warning := loses_twice(row, [*result.rows, *result.best_rows]):
        console.print(f"Warning: {warning}", soft_wrap=True, highlight=False)
    evidence = about["evidence"]
    made = policy_of(chosen.option, planner, evidence["vocabulary"], evidence["models"], alone=alone)
    write_policy(made, path)
    console.print(str(path), soft_wrap=True)


def _show_users(console: Console, shared: dict[str, Any]) -> None:
    """Print the users of a band: at most the first twenty."""
    from rich import box
    from rich.table import Table

    table = Table(
        title="Our plan for each user, on the prompts that it was chosen on", box=box.SIMPLE, padding=(0, 1, 0, 0)
    )
    for head in ("user", "share", "K", "message", "tokens/s", "wait, ms"):
        table.add_column(head, justify="left" if head in ("user", "message") else "right")
    for one in shared["users"][:20]:
        cells = (f"{one['share']:.2%}", str(one["draft_length"]), one["codec"], f"{one['tokens_per_s']:.3g}")
        table.add_row(one["name"], *cells, f"{1e3 * one['wait_s']:.3g}")
    console.print(table)
    more = f" ({len(shared['users']) - 20} not shown)" if len(shared["users"]) > 20 else ""
    off = f"{shared['gap']:.3g} in Σ log" if shared["utility"] == "log" else f"{shared['gap']:.2%}"
    console.print(
        f"{len(shared['users'])} users{more} of ours: {shared['total_tokens_per_s']:.4g} tokens/s together on "
        f"those prompts (simulated with mean rounds), at least {shared['least_tokens_per_s']:.3g} each. No drafts of "
        f"devices, shares and order of service are better by more than {off} (proved in the model of mean rounds).",
        soft_wrap=True,
        highlight=False,
    )
    console.print(_server_line(shared["server"], len(shared["users"])), soft_wrap=True, highlight=False)


BINDS = {
    "drafts": "the drafts on the device",
    "round trip": "the round trip",
    "pass": "the pass itself",
    "band": "the air",
}


def _server_line(server: dict[str, Any], users: int) -> str:
    """Return the sentences on the server that all users share."""
    company, batch, start = server["waits_for_rounds"], server["batch"], server["binds_from_users"]
    passes = "one round" if batch == 1 else f"at most {batch} rounds (--server-batch)"
    said = f"A pass of the target model verifies {passes}. "
    if company > 1:
        gain = server["total_tokens_per_s"] / server["at_once_tokens_per_s"] - 1.0
        said += (
            f"Let it wait for {company} of them, but for {1e3 * server['waits_at_most_s']:.3g} ms at most: this gives "
            f"{gain:.1%} more than a start at once. "
        )
    said += f"The server is busy {server['utilisation']:.0%} of the time"
    if batch > 1:
        said += f", with {server['rounds_of_a_pass']:.2g} rounds a pass"
    binds, parts = server["binds"], server["round_parts"]
    if binds == "server":
        said += f"; it binds, with at most {server['most_tokens_per_s']:.4g} tokens/s for these plans"
        return said + ("." if start is None else f". The server binds from {start:,} such users on (now {users}).")
    if binds == "passes":
        said += f": rounds wait {parts['wait']:.0%} of their time, since passes are not full"
    else:
        share = parts["air" if binds == "band" else binds]
        said += f". What takes longest is {BINDS[binds]}, {share:.0%} of a round"
    return said + ("." if start is None else f". Full passes are enough for {start - 1:,} such users (now {users}).")


DECIDES = {"capacity": "server ms", "goodput": "tok/s in time", "cost": "price of a token"}
"""The column that decides, by the objective."""
MARKS = {"proved": "p", "measured": "m"}
NONE = "–"
HEADS = (
    "policy",
    "breaks",
    "threshold",
    "k mean",
    "k 95%",
    "bits",
    "kB/token",
    "K",
    "tok/s 50%",
    "tok/s 95%",
    "tok/s mean",
    "server ms",
    "gain",
    "text risk",
)
RANKS = ("k 95%", "k mean", "tok/s 95%", "kB/token", "bits", "threshold", "tok/s mean", "K", "text risk", "gain")
"""Columns that a narrow screen leaves out, the least important first."""


def _show(console: Console, result: Result, link: str, prompts: dict[str, int]) -> None:
    """Print the table, the verdict and the sensitivity."""
    decides = DECIDES.get(result.asked.setting.objective, "tok/s mean")
    if result.asked.name not in ("one user", "a full server"):
        decides = f"tok/s of {result.asked.name}"
    elif all(abs((row.decides.value or 0) / (row.tokens_per_s_median.value or 1) - 1) < 1e-9 for row in result.rows):
        decides = "tok/s 50%"  # a link of one rate
    shown = HEADS if decides in HEADS else (*HEADS[:2], decides, *HEADS[2:])
    print_table(
        console,
        f"Plan for {result.asked.name} over {link}: predicted on {prompts['test']} held-out prompts",
        {head: "left" if head in HEADS[:2] else "right" for head in shown},
        ((_cells(row, decides in HEADS), "dim" if row.breaks else "") for row in result.rows),
        tuple(head for head in RANKS if head != decides),
    )
    console.print(
        f"{decides} decides. p: proved; c: calibrated on held-out prompts; m: measured. tok/s 50%, 95%: the speed that "
        "is reached during at least 50%, 95% of the time; mean: over time. server ms: time of a full server for a "
        "token. gain: speed over that of the first row, the strongest that is not ours, with its 95% interval over "
        "prompts. bits: uplink of an exchange. text risk: bound on the mean total variation of a text. –: none, or "
        "nothing is sent.",
        soft_wrap=True,
    )
    for row in result.rows:
        if row.option:
            console.print(f"  {row.policy}: {row.option}", soft_wrap=True, highlight=False)
    console.print(
        "k: probabilities in a message; τ: the least of them; ℓ: resolution of a lattice; B: bit budget; u: a draft "
        "with at most this uncertainty is kept without verification; K: drafts of a round. Bits of ours are those of "
        "the device's real messages; those of the papers' policies are the papers' own counts.",
        soft_wrap=True,
        highlight=False,
    )
    console.print(result.verdict, style="bold", soft_wrap=True, highlight=False)
    if result.gap is not None and result.gap.value is not None:
        console.print(
            f"No other rule of what to skip, with any of these messages and draft lengths, makes a device of ours more "
            f"than {result.gap.value:.2%} faster for one user ({result.gap.basis}).",
            soft_wrap=True,
        )
    if result.sensitivity:
        heads = ("option", "at", "tokens/s", "change", "lost if this plan stays", "best plan then")
        print_table(
            console,
            "What the defaults change, one at a time",
            {head: "left" if head in ("option", "best plan then") else "right" for head in heads},
            ((_varied(one), "") for one in result.sensitivity),
            ("tokens/s", "best plan then"),
        )
        console.print(
            "These speeds are on the prompts that the plan was chosen on, so they differ a little from the table "
            "above; changes are relative to this plan on the same prompts.",
            soft_wrap=True,
        )
    console.print(result.mattered, soft_wrap=True, highlight=False)
    for note in result.notes:
        console.print(note, soft_wrap=True, highlight=False)


def _varied(one: Varied) -> list[str]:
    """Return the cells of a line of the sensitivity."""
    change = f"{round(one.change, 3) + 0.0:+.1%}"
    return [one.option, one.value, f"{one.tokens_per_s:.3g}", change, f"{one.regret:.1%}", one.plan]


def _mark(number: Number) -> str:
    return MARKS.get(number.basis, "c")


def _cell(number: Number, form: str = ",.3g", *, interval: bool = False) -> str:
    if number.value is None:
        return NONE
    said = format(number.value, form)
    ends = [] if number.low is None or number.high is None else [format(x, form) for x in (number.low, number.high)]
    if interval and number.prompts == 1:
        said += " (one prompt)"
    elif interval and ends and set(ends) != {said}:
        said += f" ({'–'.join(ends)})"
    return f"{said} {_mark(number)}"


def _cells(row: Row, known: bool) -> list[str]:
    """Return the cells of a row; ``known``: another column has the number that decides."""
    return [
        row.policy,
        ", ".join(row.breaks) or NONE,
        *([] if known else [_cell(row.decides, ",.4g")]),
        _cell(row.threshold, ".3g"),
        *(_cell(size, ",.0f" if (size.value or 0.0) >= 1000 else ".4g") for size in (row.k_mean, row.k_p95)),
        _cell(row.bits, ",.0f"),
        _cell(row.kilobytes_per_token),
        _cell(row.draft_length, ".2g"),
        _cell(row.tokens_per_s_median, interval=True),
        _cell(row.tokens_per_s_p95),
        _cell(row.tokens_per_s_mean),
        _cell(replace(row.server_s_per_token, value=1e3 * (row.server_s_per_token.value or 0.0)), ".3g"),
        _cell(row.gain, ".3g", interval=True),
        _cell(row.text_risk, ".2g"),
    ]
