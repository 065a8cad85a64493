"""Measure Fig. 6 of flexspec (li2025flexspec) on decoded texts: the device's energy per token.

The paper prints three numbers and no power, network or draft length. Three stated assumptions give the powers:
Cloud-Only's energy is the radio's alone; each exchange with the server costs the radio the same energy; FlexSpec
spends its remaining energy on drafting, at the printed latency. This latency is the mobile device's over 4G (Table V),
and over the other networks that of a device that Table III does not name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from validation.decoding.columns import Powers
from validation.decoding.intervals import IntervalEstimate
from validation.decoding.links import FadingLink
from validation.decoding.metrics import Summary, compare, summarize
from validation.decoding.studies import CLOUD_S, Decoded, flexspec_links
from validation.plots.common.record import Numbers, Printed, Table, plain
from validation.plots.common.style import DARK, LIGHT, MIDDLE, canvas, name_axes
from validation.plots.flexspec import texts_lines as lines
from validation.plots.flexspec.printed import DATASETS, DEVICE_DATASETS, DEVICES, LATENCIES, METHODS, NETWORKS
from validation.plots.flexspec.texts_lengths import ends, with_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

CLOUD_J, COMMUNICATION_J, SAVED = 4.5, 1.2, 0.53
"""Section V-F and Fig. 6: Cloud-Only's J per token, FlexSpec's communication, and the share saved in total."""
COMPUTE_J = (1.0 - SAVED) * CLOUD_J - COMMUNICATION_J
TOKENS_A_ROUND = CLOUD_J / COMMUNICATION_J
"""Holds if each exchange costs the radio the same energy, and Cloud-Only spends nothing else."""
PHONE, PHONE_S, PHONE_GAIN = next(
    (name, ms / 1e3, gains[DEVICE_DATASETS.index(lines.SET)])
    for name, ms, _, gains in DEVICES
    if name == "Snapdragon 8 Gen 3"
)
"""The mobile device of Section V-F, its time of a draft and its speed-up over 4G (Table V)."""
SHOWN = "4G"
"""The drawn network: Fig. 6 names none, and Table V, of the same devices, has this one."""
PRINTED = (
    Printed("Cloud-Only (J a token)", CLOUD_J, "Section V-F"),
    Printed("FlexSpec, communication (J a token)", COMMUNICATION_J, "Section V-F"),
    Printed("total energy saved", SAVED, "Section V-F"),
)
OURS = (lines.CLOUD, lines.PRINTED, lines.EXACT_PRINTED)
"""At temperature 0 all other lines have the same rounds."""


@dataclass(frozen=True, slots=True)
class Implied:
    """Hold powers and times that the printed numbers imply over one network.

    Attributes
    ----------
    table : str
        Table with the latency of FlexSpec.
    speed_up, token_s : float
        FlexSpec's over Cloud-Only, and its seconds a token.
    round_s, drafting_s, drafts : float
        Seconds of a round and of its drafting, and the number of drafts of the mobile device in this time.
    device_w, radio_w : float
        Watts.
    """

    table: str
    speed_up: float
    token_s: float
    round_s: float
    drafting_s: float
    drafts: float
    device_w: float
    radio_w: float


def tables_of(network: str) -> tuple[str, ...]:
    """Return the tables that print FlexSpec's latency over a network, with the mobile device's table first.

    >>> tables_of("4G"), tables_of("5G")
    (('V', 'III'), ('III',))
    """
    return ("V", "III") if network == SHOWN else ("III",)


def implied(network: str, table: str | None = None) -> Implied:
    """Return powers and times from Fig. 6 and the latencies of a table; by default the first of :func:`tables_of`.

    Table III does not name its device. Table V has the mobile device over 4G, as a speed-up over Cloud-Only, whose
    latency is in Table III. A round takes (tokens per round) × (latency per token). Cloud-Only's time per token is one
    exchange and one pass; the rest of the round is drafting. During drafting the device spends the computation energy
    of all tokens of the round.
    """
    table = table or tables_of(network)[0]
    place = NETWORKS.index(network)
    cloud, own = (
        float(LATENCIES["III"][0][DATASETS.index(lines.SET), place, METHODS.index(name)]) / 1e3
        for name in ("Cloud-Only", "FlexSpec")
    )
    if table == "V":
        own = cloud / PHONE_GAIN
    whole = TOKENS_A_ROUND * own
    return Implied(
        table=table,
        speed_up=cloud / own,
        token_s=own,
        round_s=whole,
        drafting_s=whole - cloud,
        drafts=(whole - cloud) / PHONE_S,
        device_w=TOKENS_A_ROUND * COMPUTE_J / (whole - cloud),
        radio_w=CLOUD_J / (cloud - CLOUD_S),
    )


def _bar(name: str, found: Summary, cloud: Summary, powers: Powers) -> dict[str, Any]:
    device, link = (found[key].value or 0.0 for key in ("device_s_per_token", "link_s_per_token"))
    return {
        "name": name,
        "communication": plain(powers.transmit_w * link, 6),
        "computation": plain(powers.device_w * device, 6),
        "joules": ends(found["joules_per_token"]),
        "over_cloud": ends(compare(found, cloud, "joules_per_token")),
        "speed_up": ends(compare(found, cloud, "tokens_per_s")),
    }


def _network(study: Decoded, link: FadingLink, seed: int) -> list[dict[str, Any]]:
    """Return the bars of Cloud-Only and of FlexSpec's lines."""
    said = implied(link.name)
    powers = Powers(device_w=said.device_w, transmit_w=said.radio_w)
    found = {
        name: summarize(lines.timed(study, method, link, (PHONE_S, CLOUD_S)), powers=powers, seed=seed)
        for name, method in lines.methods_of(study).items()
        if name in OURS
    }
    return [_bar(name, one, found[lines.CLOUD], powers) for name, one in found.items()]


def _ours_table(bars: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    rows = []
    for network, own in bars.items():
        for bar in own:
            low, high = (
                None if value is None else 1.0 - value for value in (bar["over_cloud"][2], bar["over_cloud"][1])
            )
            saved = IntervalEstimate(1.0 - bar["over_cloud"][0], low, high)
            rows.append(
                (
                    network,
                    bar["name"],
                    f"{bar['communication']:.2f}",
                    f"{bar['computation']:.2f}",
                    with_interval(IntervalEstimate(*bar["joules"]), ".2f"),
                    with_interval(saved, ".0%"),
                    f"{CLOUD_J / bar['speed_up'][0]:.2f}",
                )
            )
    theirs = (
        f"{CLOUD_J:g}",
        f"{COMMUNICATION_J:g}",
        f"{COMPUTE_J:.2f}",
        f"{CLOUD_J - SAVED * CLOUD_J:.2f}",
        f"{SAVED:.0%}",
    )
    rows.append(("not named", "FlexSpec, the paper's", *theirs[1:], "–"))
    heads = ("network", "method", "radio, J a token", "drafting", "total", "saved", "radio, if it were always on")
    return Table("Energy of the device for a token", heads, tuple(rows)).plain()


def _implied_table() -> dict[str, Any]:
    rows = []
    for network in NETWORKS:
        for said in (implied(network, table) for table in tables_of(network)):
            rows.append(
                (
                    network,
                    f"Table {said.table}, {PHONE if said.table == 'V' else 'device not named'}",
                    f"{1e3 * said.token_s:.0f} ms",
                    f"{1e3 * said.round_s:.0f} ms",
                    f"{1e3 * said.drafting_s:.0f} ms",
                    f"{said.drafts:.0f}",
                    f"{said.device_w:.1f} W",
                    f"{said.radio_w:.1f} W",
                )
            )
    drafts = f"drafts of {1e3 * PHONE_S:g} ms"
    heads = ("network", "latency from", "a token", "a round", "of it drafting", drafts, "device", "radio")
    title = (
        f"What the printed energies say with the printed latencies, at {CLOUD_J:g}/{COMMUNICATION_J:g} = "
        f"{TOKENS_A_ROUND:g} tokens a round; ours has the powers of the first row of each network"
    )
    return Table(title, heads, tuple(rows)).plain()


def _plain(said: Implied) -> dict[str, Any]:
    return {name: one if isinstance(one, str) else plain(one, 5) for name, one in asdict(said).items()}


def measure(studies: Sequence[Decoded], seed: int) -> Numbers:
    """Measure the energy per token by method and network, at the powers that the printed numbers imply."""
    study = lines.of_the_set(studies[0])
    bars = {link.name: _network(study, link, seed) for link in flexspec_links()}
    printed = [
        {"name": f"{lines.CLOUD}, the paper's", "communication": CLOUD_J, "computation": 0.0},
        {"name": "FlexSpec, the paper's", "communication": COMMUNICATION_J, "computation": plain(COMPUTE_J, 6)},
    ]
    return {
        "axes": [
            {
                "x": {"label": "J a token", "unit": "", "scale": "linear"},
                "y": {"label": "", "unit": "", "scale": "linear"},
            }
        ],
        "series": [{"name": network, "bars": own} for network, own in bars.items()]
        + [{"name": "printed", "bars": printed}],
        "statistics": {
            "implied": {
                network: {table: _plain(implied(network, table)) for table in tables_of(network)}
                for network in NETWORKS
            },
            "awake_all_the_time_j": plain(CLOUD_J / PHONE_GAIN, 4),
            "printed_speed_up": PHONE_GAIN,
        },
        "tables": [_ours_table(bars), _implied_table()],
    }


def paint(numbers: Numbers) -> Canvas:
    """Paint bars of radio and drafting over the drawn network, with printed values above."""
    from matplotlib.patches import Patch

    figure, (axes,) = canvas((4.8, 2.5))
    by_name = {one["name"]: one["bars"] for one in numbers["series"]}
    bars = by_name["printed"] + by_name[SHOWN]
    places = [-float(i) - (0.4 if i >= len(by_name["printed"]) else 0.0) for i in range(len(bars))]
    radio, drafting = ([bar[key] for bar in bars] for key in ("communication", "computation"))
    colors = [LIGHT] * len(by_name["printed"]) + [DARK] * len(by_name[SHOWN])
    axes.barh(places, radio, 0.7, color=colors, label="radio")
    axes.barh(places, drafting, 0.7, left=radio, color=MIDDLE, label="drafting")
    for place, bar in zip(places, bars, strict=True):
        if "joules" in bar:
            axes.plot(bar["joules"][1:], [place] * 2, "|-", color="0.55", linewidth=0.8, markersize=5)
    name_axes(axes, numbers["axes"][0])
    axes.set_yticks(places, [bar["name"] for bar in bars])
    axes.set_xlim(0, 1.05 * max(a + b for a, b in zip(radio, drafting, strict=True)))
    axes.grid(axis="y", visible=False)
    handles = [
        Patch(color=LIGHT, label="radio, printed"),
        Patch(color=DARK, label="radio, ours"),
        Patch(color=MIDDLE, label="drafting"),
    ]
    axes.legend(handles=handles, loc="lower right")
    return figure


def caption(numbers: Numbers) -> str:
    """Compare our energies to the printed ones, and name what the printed numbers leave open."""
    statistics = numbers["statistics"]
    said, other = (statistics["implied"][SHOWN][table] for table in ("V", "III"))
    bars = {bar["name"]: bar for bar in next(one for one in numbers["series"] if one["name"] == SHOWN)["bars"]}
    words = [
        f"{name} {bar['joules'][0]:.2f} J ({bar['communication']:.2f} radio, {bar['computation']:.2f} drafting; "
        f"{1 - bar['over_cloud'][0]:.0%} saved)"
        for name, bar in bars.items()
        if name != lines.CLOUD
    ]
    return (
        f"Over {SHOWN}: {'; '.join(words)}; printed {(1 - SAVED) * CLOUD_J:.2f} J ({COMMUNICATION_J:g} and "
        f"{COMPUTE_J:.2f}; {SAVED:.0%}). The paper prints no power. Ours follow from three assumptions: Cloud-Only's "
        f"{CLOUD_J:g} J belong to the radio alone, {said['radio_w']:.1f} W during an exchange; each exchange costs "
        f"the same, so the printed {COMMUNICATION_J:g} J are {TOKENS_A_ROUND:g} tokens per round; the rest is spent "
        f"on drafting, {said['device_w']:.1f} W. These assumptions contradict the paper's draft lengths. At the "
        f"latency of the {PHONE} over {SHOWN}, {1e3 * said['token_s']:.0f} ms by the {said['speed_up']:g}× of Table "
        f"V, such a round leaves {1e3 * said['drafting_s']:.0f} ms for drafts, which is {said['drafts']:.0f} drafts, "
        f"not 2 to 6 (Fig. 2). Table III has {1e3 * other['token_s']:.0f} ms for an unnamed device: "
        f"{1e3 * other['drafting_s']:.0f} ms for drafts, {other['drafts']:.0f} drafts, and {other['device_w']:.1f} W. "
        "A radio that stays in its tail state would save the same share as the latency: at the "
        f"{statistics['printed_speed_up']:g}× of Table V it needs {statistics['awake_all_the_time_j']:.2f} J, not "
        f"{COMMUNICATION_J:g}. Fig. 6 names no network and calls its device only mobile; Section V-F calls the "
        "Snapdragon so."
    )


def message(numbers: Numbers) -> str:
    """Give the saving of FlexSpec here and in the paper."""
    bars = next(one for one in numbers["series"] if one["name"] == SHOWN)["bars"]
    own = next((bar for bar in bars if bar["name"] == lines.PRINTED), None)
    if own is None:
        return "FlexSpec was not run."
    return (
        f"FlexSpec saves {1 - own['over_cloud'][0]:.0%} of the device's energy per token over {SHOWN}; the paper "
        f"prints {SAVED:.0%}."
    )
