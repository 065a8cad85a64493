"""Views of ``hlm plan``: the answer, the table of policies, all columns, the users of a band, and the picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from validation.cli.tables import print_table, say
from validation.decoding.methods.rows import ROWS, STREAMED, UNRUN
from validation.estimates import three_digits
from validation.planning.aims import FULL_SERVER, ONE_USER, Number, Row
from validation.planning.answer import NAMES, has_engine_length, plainest, symbols_said, with_length
from validation.planning.result import Result
from validation.planning.sentences import base_server, times_said
from validation.printable import counted

DECIDES = {"capacity": "server ms", "goodput": "tok/s in time", "cost": "price of a token", "fair": "tok/s each"}
"""The column that decides, by the objective."""
NONE = "–"
WIDEST_NAME = 33  # characters, so that the table fits 80 columns
_LEAST = 1e-12  # seconds of a server for a token
CELLS = {
    "threshold": ("threshold", ".3g"),
    "k mean": ("k_mean", ",.5g"),
    "k 95%": ("k_p95", ",.5g"),
    "bits": ("bits", ",.0f"),
    "kB/token": ("kilobytes_per_token", ",.3g"),
    "K": ("draft_length", ".2g"),
    "tok/s 50%": ("tokens_per_s_median", ",.3g"),
    "tok/s 95%": ("tokens_per_s_p95", ",.3g"),
    "tok/s mean": ("tokens_per_s_mean", ",.3g"),
    "server ms": ("server_s_per_token", ".3g"),
    "gain": ("gain", ".3g"),
    "text risk": ("text_risk", ".2g"),
}
"""By the head of a column: the field of a row, and the form of its number."""
ALONE = ("tok/s 50%", "tok/s 95%", "tok/s mean", "gain")
ALONE_SAID = (
    " tok/s 50%, 95%: reached in at least that share of the time; mean: over time. gain: speed over the best row that "
    "keeps the limits and is not ours, 95% interval."
)
INTERVALS = ("tokens_per_s_mean", "gain", "decides")
RANKS = ("k 95%", "k mean", "tok/s 95%", "kB/token", "bits", "threshold", "tok/s mean", "K", "text risk", "gain")
"""Columns that a narrow screen leaves out, the least important first."""


def show(console: Console, result: Result, about: Sequence[str]) -> None:
    """Print the answer in a few lines, and each policy in five columns."""
    asked, label = result.asked, result.asked.best.option.label
    meaning = f" ({symbols})" if (symbols := symbols_said(label)) else ""
    named = not has_engine_length(asked.best) and not plainest(asked, asked.best)[1]  # the name of another says its K
    parameters = [f"With: {label}{meaning}"] if label and named else []
    use, *more = result.answer[0].split("\n")
    say(console, use, *parameters, style="bold")
    say(console, *more, *result.answer[1:], "", *result.assumed, *about)
    _print_policies(console, result)
    users = "" if asked.name == FULL_SERVER else "\n  ".join(result.most_users)
    say(console, *filter(None, [users]), _legend(result), *result.notes)


def _print_policies(console: Console, result: Result) -> None:
    together, best = result.asked.shared is not None, result.row_of(result.asked.best)
    objective = result.asked.setting.objective
    whose = (result.asked.name if together else "one user").replace(" ", "\n")
    speeds = f"tokens/s\nof {whose}"
    speeds = DECIDES.get(objective, speeds) if objective != "capacity" else speeds
    heads = ("policy", f"{speeds} (m)", "users, ×,\nof a full\nserver (m)", "risk of\na text", "bits up\n(m)")
    lines, rows = [], [row for row in ordered(result) if row.policy not in UNRUN]
    most = 1.0 / base_server(result.aims.full_server).value
    for row in rows:
        speed = row.tokens_per_s_mean if objective in ("throughput", "capacity") and not together else row.decides
        cells = ((getattr(row, name).value, form) for name, form in (CELLS["text risk"], CELLS["bits"]))
        risk, bits = (NONE if value is None else format(value, form) for value, form in cells)
        mark = "" if risk == "1" else {"measured": " (m)", "proved": ""}.get(row.text_risk.basis, " (c)")
        users = times_said(most / max(row.server_s_per_token.value or 0.0, _LEAST))
        lines.append([_with_breaks(row, lengths=True), three_digits(speed.value or 0.0), users, f"{risk}{mark}", bits])
    styles = ["dim" if row.breaks else "bold" if row is best else "" for row in rows]
    print_table(console, "", heads, lines, left=("policy",), styles=styles)


def _legend(result: Result) -> str:
    calibrated = any(row.text_risk.basis.startswith("calibrated") for row in result.rows)
    marks = "c: measured, with a limit that other prompts set and a sample may exceed; " if calibrated else ""
    speeds = "at the median rate" if result.asked.shared is not None else "in the mean over time"
    symbols = symbols_said(" ".join(line for line in result.answer if line.startswith("Risk: ")))
    full = result.aims.full_server
    texts, base = counted(full.setting.server_batch, "text"), with_length(base_server(full))
    return (
        f"Columns: m: measured counts × the times above, speeds {speeds}; {marks}no mark: proved. Users: {texts} a "
        f"pass, of the row's option (chosen for {result.asked.name}) over those of {base}, if "
        "each needs as many tokens, and link and memory carry them. Risk: bound on a text's "
        "mean total variation from the target model; 1 says nothing. Bits up: in a round trip. Methods: "
        "docs/choose.md. Every column, option and bound: "
        f"--all.{symbols and ' Symbols: '}{symbols}{symbols and '.'}"
    )


def _with_breaks(row: Row, *, lengths: bool = False) -> str:
    name = NAMES.get(row.policy, row.policy)
    if row.breaks:
        return f"{name} (over {', '.join(f'--{limit}' for limit in row.breaks)})"
    length = row.draft_length.value or 0.0
    longer = f"{name}, K = {length:g}"
    whole = length >= 1 and length % 1 == 0 and row.policy != STREAMED
    return longer if lengths and whole and len(longer) <= WIDEST_NAME else name


def ordered(result: Result) -> list[Row]:
    """Return the rows, the best for the aim first; behind them those that do not run or break a limit."""
    both = zip(result.rows, result.asked.rows, strict=True)
    ranked = sorted(both, key=lambda pair: (bool(pair[0].breaks), pair[0].policy in UNRUN, -pair[1].value))
    return [row for row, _ in ranked]


def show_all(console: Console, result: Result, link: str, basis: str) -> None:
    say(console, *result.answer, style="bold")
    decides = DECIDES.get(result.asked.setting.objective, "tok/s mean")
    cells = CELLS if decides in CELLS else {decides: ("decides", ",.4g"), **CELLS}
    alone = result.asked.shared is None
    if not alone:  # the other speeds are those of one user
        decides = f"tok/s of {result.asked.name}"
        cells = {decides: ("decides", ",.4g"), **{head: cell for head, cell in CELLS.items() if head not in ALONE}}
    named = [(NAMES.get(row.policy, row.policy), row) for row in ordered(result)]
    rows = [
        [name, ", ".join(row.breaks) or NONE, *(_cell(row, head, *each) for head, each in cells.items())]
        for name, row in named
    ]
    print_table(
        console,
        f"Plan for {result.asked.name} over {link}: predicted on {basis}",
        ("policy", "breaks", *cells),
        rows,
        left=("policy", "breaks"),
        ranks=[head for head in RANKS if head != decides],
        styles=["dim" if row.breaks else "" for _, row in named],
    )
    say(
        console,
        f"{decides} decides. p: proved; c: calibrated on held-out prompts; m: measured.{ALONE_SAID if alone else ''} "
        "server ms: of a full server for a token. bits: uplink of an exchange. text risk: "
        "bound on a text's mean total variation. –: none, or nothing is sent. k mean, 95%: probabilities of a message.",
    )
    options = [f"  {name}: {row.option}" for name, row in named if row.option]
    say(console, *options, symbols_said("\n".join(options)))
    say(console, f"In this plan{'' if alone else ', for one user alone,'} {result.binds}.", *result.most_users)
    if result.gap is not None and result.gap.value is not None:
        say(
            console,
            f"No other rule of what to skip, with any of these messages and draft lengths, makes a device of ours more "
            f"than {result.gap.value:.2%} faster for one user ({result.gap.basis}).",
        )
    say(console, *result.notes, *result.assumed, *result.bounds)


def _cell(row: Row, head: str, name: str, form: str) -> str:
    number: Number = getattr(row, name)
    if number.value is None:
        return NONE
    scale = 1e3 if head == "server ms" else 1.0
    said = format(scale * number.value, form)
    ends = [] if number.low is None or number.high is None else [format(x, form) for x in (number.low, number.high)]
    if name in INTERVALS and number.prompts == 1:
        said += " (one prompt)"
    elif name in INTERVALS and ends and set(ends) != {said}:
        said += f" ({'–'.join(ends)})"
    return f"{said} {'c' if number.basis.startswith('calibrated') else number.basis[0]}"


def show_users(console: Console, shared: dict[str, Any]) -> None:
    lines = []
    for one in shared["users"][:20]:
        speed, wait = f"{one['tokens_per_s']:.3g}", f"{1e3 * one['wait_s']:.3g}"
        lines.append([one["name"], f"{one['share']:.2%}", str(one["draft_length"]), one["codec"], speed, wait])
    heads = ("user", "share", "K", "message", "tokens/s", "wait, ms")
    title = "Our lossless plan for each user, on the prompts that it was chosen on"
    print_table(console, title, heads, lines, left=("user", "message"))
    more = f" ({len(shared['users']) - 20} not shown)" if len(shared["users"]) > 20 else ""
    off = f"{shared['gap']:.3g} in Σ log" if shared["utility"] == "log" else f"{shared['gap']:.2%}"
    server = shared["server"]
    say(
        console,
        f"{len(shared['users'])} users{more} of ours: {shared['total_tokens_per_s']:.4g} tokens/s together on "
        f"those prompts (simulated with mean rounds), at least {shared['least_tokens_per_s']:.3g} each. Without waits, "
        f"no drafts of devices, shares or order of service are better than this plan by more than {off} (proved in the "
        f"model of mean rounds). The server is busy {server['utilisation']:.0%} of the time, and a pass waits for "
        f"{server['waits_for_rounds']} of at most {server['batch']} rounds (--server-batch).",
    )


def draw(result: Result, setting: str, path: Path) -> None:
    """Draw each policy's speed with its interval: the answer dark, with a device tan, hatched what breaks a limit."""
    from textwrap import fill

    from validation.plots.common.style import COLUMN, DARK, LIGHT, SMALLEST, canvas, headed, house_style, save

    tan = "#ecc7a3"  # the page's colour of devices

    asked, best, objective = result.asked, result.row_of(result.asked.best), result.asked.setting.objective
    alone = asked.name == ONE_USER and objective == "throughput"
    known = alone or asked.shared is not None
    decides = DECIDES.get(objective, f"tokens/s of {asked.name}")
    what = "tokens/s of one user, in the mean over time" if alone else decides
    use, number = (line.partition(end)[0] for line, end in zip(result.answer, (";", f"; {asked.name}"), strict=False))
    title = f"{use.partition(' (vLLM')[0]}. {number}."
    with house_style():
        rows = ordered(result)
        figure, (axes,) = canvas((1.6 * COLUMN[0], 1.0 + 0.22 * len(rows)))
        for place, row in enumerate(rows):
            speed = row.tokens_per_s_mean if alone else row.decides * (1e3 if objective == "capacity" else 1.0)
            colour = "white" if row.breaks else DARK if row is best else tan if ROWS[row.policy].device else LIGHT
            look = {"edgecolor": "0.6", "hatch": "////"} if row.breaks else {"edgecolor": DARK}
            axes.barh(place, speed.value or 0.0, color=colour, linewidth=0.5, **look)
            end = max(speed.value or 0.0, speed.high or 0.0)
            number = three_digits(speed.value or 0.0)
            axes.annotate(number, (end, place), (3, 0), textcoords="offset points", va="center")
            if speed.low is not None and speed.high is not None:
                axes.hlines(place, speed.low, speed.high, color="black")
                axes.hlines(place, speed.low, speed.value, color="white" if row is best else "black")
        axes.set_yticks(range(len(rows)), [_with_breaks(row, lengths=True) for row in rows])
        axes.invert_yaxis()
        hatched = "hatched: over a limit" if any(row.breaks for row in rows) else ""
        marks = "; ".join(filter(None, ("line: 95%" if known else "", hatched)))
        axes.set_xlabel(f"predicted {what}\ndark: the answer; blue: no device; tan: a device\n{marks}")
        axes.margins(x=0.12)
        figure.supxlabel(fill(setting, 100), x=0.01, ha="left", fontsize=SMALLEST, color="0.35")
        save(headed(figure, title), path)
