"""Write a plan as one HTML file, which makes plans for other links and limits without a server.

The page holds the counts of every option; its script repeats the choice of :mod:`validation.planning.aims`. A policy in
the page's head forbids every connection.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hlmtheory.channel import Rayleigh, Rician
from validation.acceptance.settings import TRIED
from validation.decoding.methods.rows import ROWS
from validation.planning.aims import LOSS_WORTH
from validation.planning.answer import NAMES, symbols_said
from validation.planning.option import error_of
from validation.planning.setting import SHARES
from validation.printable import counted, printable_value

TEMPLATES = Path(__file__).resolve().parent / "templates"
UNUSED = ("bias", "vocabulary", "k_factor", "users", "shared_seed", "block")  # held by the counts, or fixed here
AIMS = {"throughput": "speed of one user", "capacity": "users of a full server"}
AIMS |= {"goodput": "tokens in time", "cost": "price of a token"}
CONTROLS = {"rate": "--rate", "roundTrip": "--rtt", "snr": "--snr", "draft": "--draft-time", "verify": "--verify-time"}
"""Of a number that the page changes, the option."""


def write_page(file: str | Path, plan: Mapping[str, Any]) -> Path:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    plan = {**{name: [] for name in ("answer", "assumed", "notes", "bounds")}, **plan}  # also of an older version
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("plan.css", "plan.js"))
    options: dict[str, Any] = {"autoescape": True, "finalize": printable_value, "undefined": StrictUndefined}
    environment = Environment(loader=FileSystemLoader(TEMPLATES), trim_blocks=True, **options)
    data = page_data(plan)
    text = environment.get_template("plan.html.j2").render(
        plan=plan,
        aims=_aims(plan),
        symbols=symbols_said("\n".join(entry["option"] for entry in plan["menu"])),
        title=_title(plan["evidence"]),
        basis=data["basis"],
        recorded=data["recorded"],
        counted=data["counted"],
        data=Markup(_for_script(data)),
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    path = Path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def page_data(plan: Mapping[str, Any]) -> dict[str, Any]:
    asked, link, evidence = plan["request"], plan["link"], plan["evidence"]
    exceeded = 1.0 - np.array([0.5, 0.95, 0.95 if asked["latency"] is None else asked["latency"]["share"]])
    laws = {"rayleigh": Rayleigh(1.0), "rician": Rician(1.0, asked["k_factor"])}
    recorded, steps = asked["fading"] == "none" and len(link["rates_bps"]) > 1, evidence.get("steps")
    at_bps = [link["median_bps"], link["p95_bps"], link["late_bps"]]
    return {
        "request": {name: value for name, value in asked.items() if name not in UNUSED},
        "prompts": plan["prompts"],
        "recorded": {"rates_bps": link["rates_bps"], "at_bps": at_bps} if recorded else None,
        "snr_quantiles": {name: np.asarray(law.quantile(SHARES)).tolist() for name, law in laws.items()},
        "snr_exceeded": {name: np.asarray(law.quantile(exceeded)).tolist() for name, law in laws.items()},
        "count_names": plan["count_names"],
        "menu": plan["menu"],
        "streamed": plan["streamed"],
        "command": plan.get("command", "python3 hlm plan"),
        "ratio": evidence.get("parameter_ratio"),
        "exchange_s": plan.get("exchange_s", 0.0),
        "basis": counted(plan["prompts"]["test"], "held-out prompt") if steps is None else counted(steps, "round"),
        "bases": _bases(plan),
        "names": NAMES,
        "vllm": evidence.get("engine", "vllm").startswith("vllm"),
        "sampled": evidence.get("draft_sampling") != "greedy" and evidence.get("verification") != "match",
        "tried": TRIED.get(evidence.get("draft_sampling", "sampled"), ""),
        "greedy_tried": TRIED["greedy"],
        "errors": {family: error_of(family) for family in ROWS},
        "loss_worth": LOSS_WORTH,
        "counted": "files" in evidence,
        "tokens": evidence.get("tokens"),
        "told": "; ".join(
            filter(None, (_stated(plan, words) for words in (r"^(vLLM: .*)", r"^Use: .* a round \((.*)\)")))
        ),
        "interval": _stated(plan, r"^Speed: .*?\((95%[^)]*)\)"),
    }


def _aims(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the objectives that the page offers, and what to call each; of several users' plan only its own."""
    own, timed = plan["request"]["objective"], plan["request"]["latency"] is not None
    if plan.get("users"):
        return [(own, own)]
    return [(name, said) for name, said in AIMS.items() if timed or name != "goodput"]


def _bases(plan: Mapping[str, Any]) -> dict[str, str]:
    """Return what stands for each number of a control that was not given."""
    asked, left_out = plan["request"], plan.get("defaults", ())
    bases = {name: "default, not measured" for name, option in CONTROLS.items() if option in left_out}
    if asked.get("server_draft_basis", "given") != "given":
        ratio = plan["evidence"].get("parameter_ratio")
        by = f"a target pass / {ratio:.3g}, the ratio of parameters, at most" if ratio else "as long as"
        bases["ownDraft"] = f"assumed: {by} the device's"
    if not asked["verify_token_s"] and not asked.get("passes"):
        bases["token"] = "assumed: a pass with drafts takes no longer"
    timed = "the most of --passes" if asked.get("passes") and asked["server_batch"] > 1 else "assumed"
    return bases | ({"batch": timed} if "--server-batch" in left_out else {})


def _stated(plan: Mapping[str, Any], pattern: str) -> str | None:
    """Return what a line of the command's answer for one user states in brackets; None if it does not."""
    stated = None if plan.get("users") else re.search(pattern, "\n".join(plan["answer"]), re.MULTILINE)
    return stated and stated[1]


def _title(evidence: Mapping[str, Any]) -> str:
    if "trace" in evidence:
        path = Path(evidence["trace"])
        return path.parent.name if path.name == "trace" and path.parent.name else path.name
    return ", ".join(Path(name).name for name in evidence.get("files", [evidence.get("run", "")]))


def _for_script(value: Any) -> str:
    """Return JSON in which no character can end the element that holds it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
