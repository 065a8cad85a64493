"""What flexspec's printed energies (li2025flexspec, Fig. 6) imply with its printed latencies: powers and drafts.

The paper prints three numbers and no power, network or draft length. Three assumptions give powers: Cloud-Only's energy
is the radio's alone; each exchange costs the radio the same energy; the rest is spent on drafting, at the printed
latency. These powers are derived from printed numbers, and no figure of ours uses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from validation.decoding.studies import CLOUD_S
from validation.plots.common.record import Printed, Table
from validation.plots.flexspec.printed import DEVICE_DATASETS, DEVICES, LATENCIES, METHODS, NETWORKS

SET = "GSM8K"
CLOUD_J, COMMUNICATION_J, SAVED = 4.5, 1.2, 0.53
"""Section V-F and Fig. 6: Cloud-Only's J per token, FlexSpec's communication, and the share saved in total."""
COMPUTE_J = (1.0 - SAVED) * CLOUD_J - COMMUNICATION_J
TOKENS_A_ROUND = CLOUD_J / COMMUNICATION_J
"""Holds if each exchange costs the radio the same energy, and Cloud-Only spends nothing else."""
PHONE, PHONE_S, PHONE_GAIN = next(
    (name, ms / 1e3, gains[DEVICE_DATASETS.index(SET)])
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
        float(LATENCIES["III"][0][0, place, METHODS.index(name)]) / 1e3 for name in ("Cloud-Only", "FlexSpec")
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


def implied_table() -> dict[str, Any]:
    """Return the table of what the printed energies imply."""
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
        f"Derived from printed numbers: powers and drafts of a round at {CLOUD_J:g}/{COMMUNICATION_J:g} = "
        f"{TOKENS_A_ROUND:g} tokens a round; ours does not use them"
    )
    return Table(title, heads, tuple(rows)).plain()
