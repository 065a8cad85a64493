"""The command ``hlm plan``."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from validation.acceptance.record import DRAFTS, VERIFICATIONS
from validation.cli.display import open_console, progress_bar
from validation.cli.options import AT_LEAST_0, AT_LEAST_1, FILE, PLACE, DraftsType, GroupedCommand, json_option, option
from validation.cli.run import print_json, run_folder, trace_of
from validation.cli.tables import say
from validation.decoding.methods.rows import ROWS
from validation.errors import UserError
from validation.installed import as_typed
from validation.printable import counted

if TYPE_CHECKING:
    from rich.console import Console

    from validation.planning.plan import Planner
    from validation.planning.request import Request
    from validation.planning.result import Result

of_evidence = partial(option, group="Evidence")
of_link = partial(option, group="Link")
of_times = partial(option, group="Times of passes")
of_limits = partial(option, group="Limits")
of_aim = partial(option, group="Aim")
of_messages = partial(option, group="Messages and drafts")
of_output = partial(option, group="Output")


@click.command("plan", cls=GroupedCommand)
@of_evidence("--trace", "A trace, written by `hlm validate` or `hlm import`.  [default: runs/builtin/trace]", PLACE)
@of_evidence("--acceptance", "Or an engine's counts (no --risk); more files may follow.", FILE, multiple=True)
@of_evidence("--run", "Instead of a trace, a record of `hlm device --record`: rounds, times and link.", FILE)
@click.argument("more", nargs=-1, type=FILE, metavar="[FILES]...")
@of_evidence("--draft-length", "With --acceptance: every step drafted this many.", AT_LEAST_1)
@of_evidence(
    "--drafts", "With --acceptance: the likeliest token, a draw from the draft model, or n-grams.", DraftsType(DRAFTS)
)
@of_evidence(
    "--verification",
    "With --acceptance: how they were accepted (lossless: the first 3).",
    click.Choice(list(VERIFICATIONS)),
)
@of_evidence("--vocabulary", "With --acceptance: tokens of the vocabulary.", click.IntRange(min=2), default=32_000)
@of_link("--rate", "Uplink rate, at the mean SNR if it fades: 10M is bit/s.", default="10M")
@of_link("--fading", "Law of the link's rate.", click.Choice(["none", "rayleigh", "rician"]), default="none")
@of_link("--snr", "Mean SNR of a fading link: 10dB, or 10x for a ratio.", default="10dB")
@of_link("--k-factor", "With rician: power of the line of sight over the scattered power.", default="10dB")
@of_link("--link-csv", "A recorded link: trace_id, time_s, throughput_mbps; replaces --rate.", FILE)
@of_link("--link link_name", "Which link of --link-csv.  [default: the first]")
@of_link("--rtt", "Round trip of an exchange.", default="20ms")
@of_link("--down-rate", "Rate of the downlink.  [default: the uplink's median rate]")
@of_times("--times --passes", "For times left out: `hlm doctor --times`, or passes.csv: batch, width, ms, model.", FILE)
@of_times("--draft-time", "One pass of the draft model on the device.", default="12ms")
@of_times("--verify-time", "A pass of the target: this, and --verify-token-time for each token in it.", default="30ms")
@of_times(
    "--server-draft-time",
    "The draft model's pass on the server.  [default: --verify-time over the ratio of the models' parameters, at most "
    "--draft-time; where the ratio is not known, --draft-time]",
)
@of_times("--verify-token-time", "Time that each token in such a pass adds, over all its texts.", default="0us")
@of_times("--between-time", "Between two passes of a text that the server writes; may be below 0.", default="0ms")
@of_limits(
    "--risk", "Most total variation that a text (text=.1) or a token (token=.01) loses; 0: none.", default="text=0"
)
@of_limits("--bias", "Largest bias of a token by CU-HLM's messages.", click.FloatRange(0.0, 1.0), default=0.05)
@of_limits("--latency", "A round's time, such as p95=80ms.  [default: no limit]")
@of_limits("--leak", "The most that sizes of messages tell a listener in a round: bits=1.  [default: no limit]")
@of_limits("--energy", "The device's energy of a token, such as 50mJ.  [default: no limit]")
@of_limits("--device-power", "Power of the device while it drafts.", default="5W")
@of_limits("--transmit-power", "Power of the device while it sends.", default="1W")
@of_aim(
    "--objective",
    "The aim of the table and of --policy; capacity: users of a full server; goodput: tokens within --latency; fair: "
    "the geometric mean over --users; cost: by --server-price and --time-price.",
    click.Choice(["throughput", "capacity", "goodput", "fair", "cost"]),
    default="throughput",
)
@of_aim("--server-price", "With --objective cost: price of a second of the server.", AT_LEAST_0, default=1.0)
@of_aim("--time-price", "With --objective cost: price of a second of waiting.", AT_LEAST_0, default=0.1)
@of_aim("--users", "How many share the band, or a CSV: name, rate, ...", default="1")
@of_aim(
    "--server-batch",
    "The most texts in a pass of a full or shared server (vLLM: --max-num-seqs).  [default: --users, or --passes]",
    click.IntRange(1, 10_000),
)
@of_messages("--seal", "Guard of messages: docs/deploy.md.", click.Choice(["none", "checksum", "hmac"]), default="none")
@of_messages("--shared-seed/--no-shared-seed", "`ours` may draft by a shared seed: docs/shared_seed.md.", default=True)
@of_messages("--block/--no-block", "Block verification (Sun et al. 2025) in place of one by one.", default=False)
@of_output("--policy", "Write the plan here as a device's policy.json, if it has a device.", FILE)
@of_output("--row named", "With --policy: write this row of the table, such as ours, also if it loses.")
@of_output("--alone", "With --policy: the device may go on alone while its server is away.", is_flag=True)
@of_output("--picture", "Also draw the speeds of all policies here, as .svg, .pdf or .png.", FILE)
@of_output("--all all_columns", "Print all columns, parameters, bounds and assumptions.", is_flag=True)
@of_output("--page", "Also write the plan as a page with sliders, such as plan.html.", FILE)
@json_option
@click.pass_context
def plan(
    ctx: click.Context, /, run: Path | None, as_json: bool, page: Path | None, all_columns: bool, **given: Any
) -> None:
    """Say which policy to use for two models or an engine's counts, a link and limits, and what it gives.

    \b
    From a trace of `hlm validate`, or from an engine's counts:
      hlm plan --rate 10M --rtt 20ms --draft-time 12ms --verify-time 30ms
      hlm plan --acceptance server.log --drafts sampled --verification standard \\
          --server-draft-time 3ms --verify-time 30ms

    FILES are more files of --acceptance, such as the second of two scrapes.
    """  # noqa: D301 (click takes the character, not an escape)
    from validation.cli.plan_views import draw, show, show_all, show_users
    from validation.planning.answer import limits_said, setting_said
    from validation.planning.engine_counts import basis_said
    from validation.planning.page import write_page
    from validation.planning.plan_for import plan_for
    from validation.planning.users import read_users

    _refuse(ctx)
    defaults = (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)
    options = (each for each in ctx.command.params if isinstance(each, click.Option) and each.name in given)
    left_out = {each.opts[0] for each in options if ctx.get_parameter_source(each.name or "") in defaults}
    if run is not None and _said_skips(run, as_json=as_json):
        return
    asked = _request(given)
    request, said, measured = _measured(asked, run, given["times"], left_out, given)
    exchange_s = request.round_trip_s - asked.round_trip_s if given["times"] is not None else 0.0
    console = open_console(stderr=as_json)
    listed = read_users(Path(given["users"]), request.setting()) if given["users"].endswith(".csv") else []
    if listed:
        batch = given["server_batch"] or min(request.server_batch, len(listed))
        request = replace(request, users=len(listed), server_batch=batch)
    planner, about = _planner(console, request, run, given)
    made = plan_for(request, planner, about, said, listed)
    request, planner, result = made.request, made.planner, made.result
    name = planner.setting.link.name
    link, defaulted = ("each user's link", left_out - {"--rate"}) if listed else (name, left_out)
    shared_by = f", shared by {result.asked.name}" if request.users > 1 and not listed else ""
    said_setting = setting_said(request, link + shared_by, defaulted, measured, exchange_s)
    said_setting += "; a user's own rtt and draft_time go first" if listed else ""
    if given["acceptance"]:
        words = "assumed; --vocabulary" if "--vocabulary" in left_out else "given"
        said_setting += f"; vocabulary {request.vocabulary:,} ({words})"
    if given["objective"] == "cost":
        said_setting += f"; prices {given['server_price']:g} a second of the server, {given['time_price']:g} of waiting"
    said_setting += "".join(f"; {name} {given[name[2:].replace('-', '_')]}" for name in ALSO if name not in left_out)
    limits = f"Limits: {limits_said(given, result.asked, result.rows)}"
    evidence = about["evidence"]
    texts = ", ".join(counted(evidence[name], noun) for name, noun in SIZES.items() if name in evidence)
    pair = evidence.get("pair")
    models = [f"Models: {pair}; {evidence['trace']}, {texts}, {evidence['rows']}"] if pair else []
    if all_columns:
        show_all(console, result, link, basis_said(evidence, planner.split, result.asked.best.option))
        say(console, f"At: {said_setting}", limits, *models)
    else:
        show(console, result, [f"At: {said_setting}", limits, *models])
    if made.users is not None and planner.model is not None and listed:  # equal users have equal plans
        show_users(console, made.users)
    if given["picture"] is not None:
        draw(result, ". ".join([said_setting, limits, *models]), given["picture"])
        say(console, f"Picture: {given['picture']}")
    if given["policy"] is not None:
        _write_policy(console, planner, result, about, given["policy"], given["named"], given["alone"])
    if page is None and not as_json:
        return
    about |= {"defaults": sorted(left_out - measured), "users": made.users, "command": _command(ctx)}
    about["exchange_s"] = exchange_s  # in the request's round trip
    plain = result.plain(request, planner, about)
    if page is not None:
        say(console, f"Page: {write_page(page, plain)}")
    if as_json:
        print_json(plain)


BELONGS = {
    **dict.fromkeys(("more", "draft_length", "drafts", "verification"), "acceptance"),
    **{"link_name": "link_csv", "named": "policy", "alone": "policy", "vocabulary": "acceptance"},
    "snr": "fading",
    **dict.fromkeys(("server_price", "time_price"), "objective"),
}
SIZES = {"texts": "text", "positions": "token"}
ALSO = ("--between-time", "--bias", "--seal", "--server-batch")
NO_ROWS = "counts have no distributions of the models; plan from a trace (hlm validate or hlm import)"
AGAINST = (
    (("trace",), ("acceptance",), "a plan is of one of them"),
    (("run",), ("trace", "acceptance", "times"), "a record of a run has its own counts and times"),
    (("run",), ("seal",), "the record says whether its frames had a key"),
    (("acceptance", "run"), ("policy", "block", "leak", "bias"), NO_ROWS),
    (("acceptance",), ("risk",), NO_ROWS),
    (("block", "leak"), ("users",), "verification by block and padding are planned for one user"),
    (("latency",), ("users",), "of several users a round also waits for the server, which no limit counts"),
    (("link_csv",), ("fading",), "a recorded link has its own rates"),
    (("leak",), ("page",), "the page cannot pad the messages of other settings"),
)
"""Options of which one of the first contradicts each of the second, and why."""


def _given(ctx: click.Context) -> list[click.Parameter]:
    return [one for one in ctx.command.params if ctx.params[one.name or ""] not in (None, (), one.get_default(ctx))]


def _refuse(ctx: click.Context) -> None:
    names = {one.name: "FILES" if one.name == "more" else one.opts[0] for one in ctx.command.params}
    there = {one.name for one in _given(ctx)}
    for name in filter(there.__contains__, BELONGS):
        if BELONGS[name] not in there:
            raise UserError(f"{names[name]} belongs to {names[BELONGS[name]]}; give that too.")
    for some, others, why in AGAINST:
        for first, second in product(some, others):
            if first in there and second in there:
                raise UserError(f"{names[first]} and {names[second]} cannot be given together: {why}.")
    if ctx.params["picture"] is not None and ctx.params["picture"].suffix not in PICTURES:
        raise UserError(f"--picture is {ctx.params['picture']}; end it with {', '.join(PICTURES)}.")
    for name in ("policy", "page", "picture"):
        file = ctx.params[name]
        if file is not None and (file.is_dir() or any(one.is_file() for one in file.parents)):
            raise UserError(f"--{name} is {file}, which cannot be a file; name one, such as new-{file.name}.")


def _command(ctx: click.Context) -> str:
    """Return the part of the command that the page does not change; its script adds the rest."""
    own = {"rate", "fading", "snr", "rtt", "draft_time", "verify_time", "server_draft_time", "verify_token_time"}
    own |= {"server_batch", "risk", "objective", "server_price", "time_price"}  # of the page
    words = [*as_typed("python3 hlm").split(), "plan"]
    for one in _given(ctx):
        value = ctx.params[one.name or ""]
        if one.name in own | {"page", "picture", "all_columns", "as_json", "policy", "named", "alone"}:
            continue
        if isinstance(one, click.Option) and one.is_flag:
            words.append(one.opts[0] if value else one.secondary_opts[0])
            continue
        for each in value if isinstance(value, tuple) else (value,):
            table = one.name == "times" and each.suffix == ".csv"
            words += [one.opts[-table], str(each)] if isinstance(one, click.Option) else ["--acceptance", str(each)]
    return shlex.join(words)


PICTURES = (".svg", ".pdf", ".png")


def _planner(
    console: Console, request: Request, run: Path | None, given: dict[str, Any]
) -> tuple[Planner, dict[str, Any]]:
    from validation.planning.from_run import planner_of_run
    from validation.planning.planners import planner_of_acceptance, planner_of_trace

    setting = request.setting()
    if run is not None:
        return planner_of_run(run, setting)
    if given["acceptance"]:
        counts = {name: given[name] for name in ("draft_length", "drafts", "verification", "seal")}
        counts["batch"] = min(request.server_batch, request.users)
        return planner_of_acceptance((*given["acceptance"], *given["more"]), request.vocabulary, setting, **counts)
    path = trace_of(given["trace"] if given["trace"] is not None else Path("runs/builtin/trace"))
    if given["trace"] is None and not path.is_dir():
        raise UserError(f"There is no trace at {path}: run `hlm validate`, or give --trace, --acceptance or --run.")
    kept = {name: given[name] for name in ("seal", "shared_seed", "block")}
    with progress_bar(console) as report:
        return planner_of_trace(path, setting, cache=run_folder(path) / "plan", report=report, **kept)


def _said_skips(run: Path, *, as_json: bool) -> bool:
    """Say what the record of a run that skipped tells of its risk; return whether it skipped."""
    from validation.planning.run_record import read_record, said_of_skips, skips_of

    found = skips_of(read_record(run), str(run))
    if found is None:
        return False
    notes = [
        said_of_skips(found),
        "Such a record tells no other plan: which drafts behind a skip the server would have accepted is not in it. "
        "Plan from a trace, or record `--method 'shared seed'`.",
    ]
    console = open_console(stderr=as_json)
    say(console, *notes)
    if as_json:
        print_json({"evidence": {"run": str(run)}, "skips": found, "notes": notes})
    return True


def _measured(
    request: Request, run: Path | None, times: Path | None, left_out: set[str], given: dict[str, Any]
) -> tuple[Request, list[str], set[str]]:
    """Return the request with measured numbers for options that were left out, sentences on them, and the options."""
    from validation.planning.from_run import OPTIONS, with_run
    from validation.planning.times import read_times, with_passes, with_times

    here = {option for option in ("--rate", "--rtt", "--draft-time", "--verify-time") if option not in left_out}
    if run is not None:
        known = "--rate" in here or given["link_csv"] is not None or given["fading"] != "none"
        return *with_run(request, run, here, known), set(OPTIONS) - here - ({"--rate"} if known else set())
    if times is not None and times.suffix == ".csv":
        return with_passes(request, times, left_out)
    if times is not None:
        return with_times(request, read_times(times), left_out)
    return request, [], set()


SAME = ("fading", "bias", "server_price", "time_price", "objective", "vocabulary", "shared_seed", "block")
"""Options that a request takes as they are."""


def _request(given: dict[str, Any]) -> Request:
    from validation.decoding.recorded_links import find_link
    from validation.planning import quantities as read
    from validation.planning.request import Request
    from validation.planning.users import MOST_USERS

    down, users, own_draft = given["down_rate"], given["users"], given["server_draft_time"]
    if not users.endswith(".csv") and not (users.isascii() and users.isdigit() and 1 <= int(users) <= MOST_USERS):
        raise UserError(
            f"--users is {users!r}; give a number from 1 to {MOST_USERS:,}, or a CSV file with name and rate."
        )
    if users.lstrip("0") != "1" and given["objective"] in ("cost", "goodput", "capacity"):
        why = "is of one user; leave out --users"
        if given["objective"] == "capacity":
            why = "counts the users that a full server carries; leave out --users, and say by --server-batch how many "
            why += "texts a pass has. A plan for --users N answers this too, in its line 'A full server'"
        raise UserError(f"--objective {given['objective']} {why}.")
    if down is not None and read.read_rate("--down-rate", down) <= 0:
        raise UserError("--down-rate is 0: then no answer arrives; give a rate above 0.")
    return Request(
        rate_bps=read.read_rate("--rate", given["rate"]),
        snr=read.read_snr("--snr", given["snr"]),
        k_factor=read.read_snr("--k-factor", given["k_factor"]),
        round_trip_s=read.read_time("--rtt", given["rtt"]),
        down_bps=None if down is None else read.read_rate("--down-rate", down),
        draft_s=read.read_time("--draft-time", given["draft_time"]),
        verify_s=read.read_time("--verify-time", given["verify_time"]),
        verify_token_s=read.read_time("--verify-token-time", given["verify_token_time"]),
        server_draft_s=None if own_draft is None else read.read_time("--server-draft-time", own_draft),
        between_s=read.read_time("--between-time", given["between_time"], -read.LARGEST),
        device_w=read.read_power("--device-power", given["device_power"]),
        transmit_w=read.read_power("--transmit-power", given["transmit_power"]),
        risk=read.read_risk(given["risk"]),
        latency=None if given["latency"] is None else read.read_latency(given["latency"]),
        leak_bits=None if given["leak"] is None else read.read_leak(given["leak"]),
        energy_j=None if given["energy"] is None else read.read_energy("--energy", given["energy"]),
        users=(count := MOST_USERS if users.endswith(".csv") else int(users)),  # of a file, until it is read
        server_batch=given["server_batch"] or count,
        batch_assumed=given["server_batch"] is None,
        recorded=None if given["link_csv"] is None else find_link(given["link_csv"], given["link_name"]),
        **{name: given[name] for name in SAME},
    )


def _write_policy(
    console: Console, planner: Any, result: Result, about: dict[str, Any], path: Path, named: str | None, alone: bool
) -> None:
    from validation.decoding.methods.planned import write_policy
    from validation.planning.aims import best_kept, has_device
    from validation.planning.answer import NAMES, number_said
    from validation.planning.deploy import policy_of

    asked, rows = result.asked, {one.family: one for one in result.asked.rows}
    chosen = asked.best if named is None else rows.get({title: name for name, title in NAMES.items()}.get(named, named))
    can = ", ".join(name for name in reversed(ROWS) if ROWS[name].file and name in rows)
    own = [one for one in asked.rows if one.option.row.file and not one.option.by_user]
    nearest = best_kept(filter(has_device, own)) or best_kept(own)
    say_row = f" The best that is written: --row {shlex.quote(nearest.family)}" if nearest else " None keeps the limits"
    if chosen is None:
        raise UserError(f"--row is {named!r}; the rows that a device runs are: {can}.")
    if not chosen.option.row.file or chosen.option.by_user:
        what = "is not one that a device runs from a file" if chosen.option.row.device else "needs no device"
        raise UserError(f"{path} is not written: {chosen.name} {what}.{say_row} (rows that a device runs: {can}).")
    if chosen.breaks:
        raise UserError(f"{path} is not written: {chosen.name} breaks the limit of {', '.join(chosen.breaks)}.")
    if chosen is not asked.best:
        best, written = (f"{one.name}: {number_said(asked, one)}" for one in (asked.best, chosen))
        say(console, f"Warning: this policy, {written}, is not the best: {best}.")
    evidence = about["evidence"]
    made = policy_of(chosen.option, planner, evidence["vocabulary"], evidence["models"], alone=alone)
    write_policy(made, path)
    say(console, str(path))
