"""Explain the heads of the tables on the pages of results, and choose the main rows of the long ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

INTERVALS = "Brackets hold 95% intervals."

HEADS = {
    "aligned draft": "draft around the target's frozen last block",
    "plain draft": "draft model trained for version 0",
    "seeds": "trainings of the version",
    "rejected": "rejected drafts of a text, mean",
    "acceptance": "share of verified drafts that is accepted",
    "(K, τ₁) that cross": "the pairs themselves",
    "10%, median, 90%": "quantiles of the tokens over the runs",
    "C-SQS better at both ends": "pairs for which C-SQS is better at the lowest and at the highest temperature",
    "K-SQS better at both ends": "the same for K-SQS",
    "E(7), clustered": "coverage for the tokens of rounds of 7 drafts, standard error clustered by request",
    "E(7), delta": "the same by the usual standard error (delta method)",
    "all E(K), band": "coverage of the band for all draft lengths at once",
    "no estimate of E(7), %": "share of samples without an estimate",
    "bias of E(7)": "mean estimate over the true value, less 1",
    "F": "milliseconds of a round whatever its length",
    "M": "milliseconds that a further draft adds to a round",
    "but": "what then contradicts the printed numbers",
    "points": "printed latencies that are fitted",
    "γ": "acceptance rate of a draft",
    "F/M": "fixed over marginal time of a round",
    "K*": "best draft length",
    "K_max": "largest draft length allowed",
    "pick of Algorithm 2": "length that the paper's algorithm chooses",
    "throughput lost": "by that choice, against K*",
    "b/R": "time of a token's index of b bits at the rate R",
    "K": "drafts of a round",
    "k": "drafts of a round, or entries of a list",
    "length": "rule for the draft length",
    "KL, nats": "mean divergence of the version from version 0",
    "TV": "mean total variation of the version from version 0",
    "TV from version 0": "mean total variation of the version from version 0",
    "loss/TV, plain": "lost acceptance of the plain draft over the TV, the bound's share",
    "loss/TV, aligned": "the same for the aligned draft",
    "plain": "plain draft, trained for version 0",
    "plain, target version 0": "the same draft with version 0 as the target",
    "aligned": "draft around the target's frozen last block",
    "anew": "draft distilled again for the version",
    "trained anew": "draft distilled again for the version",
    "prompt lookup": "drafts copied from the prompt",
    "target in the paper, domain": "the paper's row",
    "M/F at γ = 0.8": "marginal over fixed time that the printed latency implies at an acceptance of 0.8",
    "K* there": "best draft length at these times",
    "γ at least": "smallest acceptance that allows the printed speed-up",
    "γ of GSM8K": "acceptance that is fitted or held, GSM8K",
    "γ of all": "the same for all sets",
    "M over 5G, 4G, WiFi": "fitted milliseconds of a draft, by network",
    "K* over 5G, 4G, WiFi": "best draft length at the fit",
    "misfit, rms": "root mean square of printed less fitted latency",
    "M beside the draft": "time of a further draft apart from computing it",
    "a draft": "time of a draft pass on the device",
    "a token": "latency of a token",
    "a round": "latency of a round",
    "of it drafting": "drafting in a round",
    "drafts of 10.5 ms": "drafts that fit into that time",
    "radio": "power of the radio",
    "latency from": "table of the paper",
    "a token over 5G, 4G": "printed latency of Cloud-Only",
    "latency implied over 5G, 4G": "FlexSpec's latency, from the printed speed-up",
    "4G costs more: Cloud-Only, FlexSpec": "latency over 4G less that over 5G",
    "tokens a round if M is the same": "what the printed numbers then imply",
    "accepted/drafted at 7": "the rate taken as accepted over drafted tokens at K = 7",
    "rate at 1": "a single rate fitted at K = 1",
    "rate at 7": "a single rate fitted at K = 7",
    "profile at 15": "acceptance by depth, counted at K = 15",
    "split": "rounds of 15 drafts split into shorter ones",
    "drafts on, round trip": "where drafts are computed, and the link's delay",
    "best K": "fastest length by a replay",
    "first draft accepted at K = 1, at K = 15": "acceptance of the first draft in rounds of that length",
    "tokens of a round at K = 7": "replayed",
    "error at K = 7, rate fitted at 1": "of the expected tokens",
    "by the first draft at 15": "the part that comes from the first draft's acceptance",
    "beyond 5% from": "first length with an error above 5%",
    "error at K = 1 and 15, rate fitted at 7": "of the expected tokens",
    "largest error, profile at 15": "over all lengths",
    "largest error, split rounds of 15": "over all lengths",
    "rounds": "how acceptance varies",
    "number": "rounds of a sample",
    "α_1, exact": "coverage of the exact interval for the acceptance of draft 1",
    "α_4, exact": "the same for draft 4",
    "α_7, exact": "the same for draft 7",
    "published": "what the engine publishes",
    "holds": "its content; n[k][i]: rounds of k drafts with i accepted; H(d): rounds with at least d accepted",
    "identifies": "what follows about the acceptance α_d of draft d",
    "R²": "share of the variance that the line explains",
    "c₁ (s/FLOP)": "slope of the run time",
    "c₂ (s)": "its constant",
    "saving of the total latency": "the printed comparison",
    "ours, Table II": "with the paper's constants",
    "nearest with one change": "the one constant whose change comes nearest, and its value",
    "there": "the saving with that change, on other seeds",
    "note": "where single runs lie",
    "planner": "how batches are chosen",
    "T_inf": "latency of computing, (22)",
    "certified gap": "largest possible excess over the best plan's T_inf",
    "α": "acceptance rate",
    "bound, published": "right side of the published theorem",
    "bound, sharp": "right side of the sharp one",
    "published bound": "right side of the published theorem",
    "sharp bound": "right side of the sharp one",
    "drafts looked at": "that the server verified or rejected, mean of a text",
    "Σ TV(q, p)": "over a text, q and p the models' distributions",
    "Σ dropped": "mass outside the supports, over a text",
    "Σ K/(4ℓ)": "the paper's term for the lattice, K tokens in steps of 1/ℓ",
    "Σ i(K − i)/(Kℓ)": "the sharp term, i the units that are moved",
    "bits a draft": "by the formula",
    "bits a draft, formula": "by (1), (2), (5)",
    "bits a draft, encoded": "of the encoded bytes",
    "bits a token": "bits sent for each token of the text",
    "drafts a round": "mean number of drafts sent",
    "tokens a round": "mean number of tokens that a round gives",
    "update in line 12": "which dropped mass the threshold is updated with after a rejection",
    "mean dropped mass": "outside the support, per position",
    "last threshold": "at the end of the text",
    "resampling rate": "rounds that end with a rejection",
    "rejected, of verified drafts": "share",
    "latency a token, ms": "modelled time of a token",
    "times of the models": "measured pass times, or the paper's scaled",
    "cross as in the paper": "pairs (K, τ₁): K-SQS better when cold, C-SQS when hot",
    "of them beyond the intervals": "of these, shown beyond the 95% intervals",
    "cross the other way": "the reverse",
    "controller": "rule for the support",
    "ε": "limit on the mean dropped mass, or on the loss",
    "largest running mean, over ε": "of the dropped mass",
    "largest dropped mass": "of one position",
    "tokens kept": "size of the support",
    "P(rejected) = TV(q̂, p)": "rejection probability of a draft of the message q̂",
    "T": "tokens of a text",
    "loss": "loss that is calibrated, and its bound",
    "threshold": "u up to which drafts are skipped; for ε, the one allowed",
    "risk met": "loss on the other prompts",
    "overlap loss": "1 − E Π min(1, S_t/p_t), the loss of a whole text",
    "overlap loss there": "loss of a whole text at that threshold",
    "overlap loss, T = 10, T = 20, T = 40": "the same for the first T tokens",
    "clipped sum": "sum of one-step TVs, at most 1 for a text",
    "Σ_t TV_t": "sum of the one-step total variations of a text",
    "Σ_t TV_t, held out": "the same on the held-out prompts",
    "sent": "share of the drafts that is sent",
    "corrected risk": "calibration risk with its correction",
    "held out": "risk on the held-out prompts",
    "all, leave-one-out": "risk over all prompts, each left out in turn",
    "ours, tokens": "line fitted to the tokens",
    "ours, 21 means": "line fitted to the mean at each u",
    "follows": "what the printed numbers imply",
    "at θ = 0.1": "quantity; θ limits the distortion",
    "rule": "how many entries are sent",
    "needs": "what the rule must know: q on the device, or p of the server too",
    "mean k at Bias 0.05": "entries sent for a mean Bias of 0.05",
    "mean k at Bias 0.02": "the same for 0.02",
    "payload at the last": "bits at a mean Bias of 0.02",
    "of all entries": "share of the full payload",
    "mass listed of q; of p": "mean probability that the lists cover",
    "width of the acceptance rate": "of its interval; mean and 95th percentile",
    "largest Δ_k": "that the lists allow",
    "largest Bias": "that the lists allow",
    "true Bias": "with whole distributions",
    "drafts decided": "share whose verification the lists decide",
    "both probabilities listed": "share of drafts listed by both models",
    "stored": "how values are rounded",
    "error in nats": "largest rounding error",
    "risk recorded, a token": "one-step risk as a decoded text records it",
    "bill, a token": "its mean given the text",
    "risk less bill, a token": "the difference",
    "bill with Δ, a token": "the bill with Δ in place of the distortion",
    "bill, Σ of a text": "summed over the text",
    "texts with risk below bill": "texts that record less than their bill",
    "skipped": "share of drafts kept unverified",
    "what": "event that is counted",
    "system": "how its risk varies",
    "π": "probability of auditing a skipped draft",
    "π = 0.05, π = 0.1, π = 0.2": "share of runs, by the audit probability",
    "fewest without a loss": "tokens that no test can do without",
    "never": "runs without a certificate",
    "rates": "how acceptance varies",
    "δ": "allowed error",
    "constant form": "interval for a constant rate",
    "varying form": "interval for rates that vary",
    "u_th": "threshold of the uncertainty",
    "drafts skipped without audits": "share of all drafts",
    "of all drafts sent for audits": "price of the audits",
    "mean risk met": "true mean risk of a token",
    "certified below 0.02": "share of audits that certify it",
    "median tokens": "until the certificate",
    "upper bound at the end, of one audit": "bound on the mean risk",
    "known": "what the interval is made from",
    "true mean": "on the texts",
    "growth per factor 10": "of the mean, for ten times as many blocks",
    "mean at 100 blocks": "5th to 95th percentile of runs",
    "means of 10,000,000 blocks": "range of the runs",
    "fading": "of the link",
    "communication, ms": "ratio of totals",
    "median over texts": "median of the quantity before",
    "without fading": "at the average SNR",
    "target model, ms": "time of the target's passes for a token",
    "draft model, ms": "time of the draft's passes for a token",
    "printed: link, target model, tokens/s": "the paper's row",
    "sent by U-HLM": "acceptance of sent drafts; sent: share of drafts",
    "sent by U-HLM, threshold 0.8": "the same at the paper's threshold",
    "sent by CU-HLM (Online)": "acceptance of sent drafts; sent: share of drafts",
    "sent by CU-HLM (Online), threshold 0.8": "the same at the paper's threshold",
    "drafts accepted (HLM)": "share",
    "times the first pair's": "ratio of the shares",
    "of those that U-HLM sends": "acceptance of sent drafts; sent: share of drafts",
    "TR: LLM computation/104.6 ms": "transmission rate that the printed computing time implies",
    "whole row at 10 dB, no fading": "time of a whole distribution",
    "a message at that rate": "bits and entries that the printed time carries",
    "lengths chosen": "shares of the rounds",
    "target model's law": "whether the texts have the target's distribution",
    "bound, a token": "on the total variation of a token",
    "bound, a text": "on that of a text",
    "uplink bytes a token": "sent to the server",
    "downlink bytes a token": "sent to the device",
    "bytes up a token": "sent to the server",
    "bytes down a token": "sent to the device",
    "sent with a draft": "what travels beside the token",
    "sizes that take the printed": "sizes whose transfer takes the printed time",
    "3.2 GB take": "at the full rate",
    "of the target": "share of the target's bytes",
    "speed-up over Cloud-Only": "that the times imply",
    "dataset": "prompt set, and which time is held",
    "median": "over blocks or runs",
    "tokens/s": "tokens a second, ratio of totals",
    "drafts, texts": "kind of draft, and prompt set",
}
"""What a column holds, by its head."""

_SET = (
    r"GSM8K|NQ \((?:QA|RAG)\)|MT-Bench|WMT14|CNN/DM|Alpaca|QED|CREAK|StrategyQA|"
    r"Python Enhancement Proposals|English novels, \d+ to \d+"
)
_DEVICE = r"Raspberry Pi 5|Jetson AGX Orin|iPhone 15 Pro Max|Snapdragon 8 Gen 3"
PLAIN = re.compile(
    r"method|network|printed|ours|paper|value|source|target|temperature|pair|prompts|model|rate|"
    r"uplink|bytes|tokens|policy|when|radio, J a token|drafting, J a token|radio, drafting|"
    r"printed, ms a token|printed, times Cloud-Only|times Cloud-Only's|what is downloaded|median error|"
    r"largest error|device|link|setting|printed speed-up|cu-hlm prints|u-hlm prints|at|at MHz|metric|"
    r"texts|version|all six|all sets|method, pair|"
    rf"5G|4G|WiFi|{_SET}|{_DEVICE}|version 0|math, LoRA|code, full|Std\. SD|FlexSpec|FlexSpec's rule, plain draft"
    r"|[\d.]+|ε = [\d.]+"
)
"""Heads that say themselves what the column holds: common words, names, and values on a figure's axis."""

_SAME = (
    (re.compile(r"(5G|4G|WiFi), K = \d+$"), "against that fixed length"),
    (re.compile(r".+, (Algorithm 2 \(printed\)|K\*)$"), "speed-up by length rule"),
    (re.compile(r"(Alpaca|QED|CREAK|StrategyQA), printed$"), "the paper's value, for its two pairs"),
    (re.compile(r"[789][abc]$"), "figure whose saving this is"),
    (re.compile(r"(10|90)%$"), "quantile over the runs"),
    (re.compile(r"π = [\d.]+$"), "share of runs, by the audit probability π"),
    (re.compile(r"overlap loss, T = \d+$"), "loss of the first T tokens"),
    (re.compile(r"(sent by )?(U-HLM|CU-HLM \(Online\))(, threshold 0\.8)?$"), "accepted of the sent drafts, and sent"),
)


def meaning(head: str) -> str | None:
    """Return what a column holds; None for a head that is empty or says it itself.

    Raises
    ------
    KeyError
        If the head is neither in HEADS or PLAIN nor one of a known kind.

    >>> meaning("Σ dropped"), meaning("4G, K = 12"), meaning("method"), meaning("4G")
    ('mass outside the supports, over a text', 'against that fixed length', None, None)
    """
    if not head or PLAIN.fullmatch(head):
        return None
    if head in HEADS:
        return HEADS[head]
    for kind, said in _SAME:
        if kind.match(head):
            return said
    raise KeyError(f"The column {head!r} is not explained; say in validation/report/columns.py what it holds.")


def legend(heads: Sequence[str]) -> str:
    """Return one line that explains the columns of a table; columns of one kind are named together.

    >>> legend(["", "5G", "4G, K = 1", "4G, K = 2", "Σ dropped"])
    'Columns: “4G, K = 1”, “4G, K = 2”: against that fixed length; “Σ dropped”: mass outside the supports, over a text.'
    """
    said: dict[str, list[str]] = {}
    for head in heads:
        what = meaning(head)
        if what is not None and head not in said.setdefault(what, []):
            said[what].append(head)
    parts = [f"{', '.join(f'“{name}”' for name in names)}: {what}" for what, names in said.items()]
    return f"Columns: {'; '.join(parts)}." if parts else ""


Row = Sequence[str]
Choice = Callable[[Row], bool]


def _one_of(column: int, *values: str) -> Choice:
    return lambda row: row[column] in values


def _begins(*starts: str) -> Choice:
    return lambda row: row[0].startswith(starts)


_LENGTHS = _one_of(0, "1", "2", "4", "8", "12", "16", "24", "best")
_BY_SET = _one_of(1, "FlexSpec, as printed", "standard SD")
_VERSIONS = _one_of(1, "LoRA, rank 16", "full")
_THRESHOLDS = _one_of(0, "0", "0.1", "0.2", "0.4", "0.6", "0.8", "1")
_CODECS = _begins("cheapest codec", "one budget", "certified, 24", "offline", "online", "K-SQS, best", "C-SQS, best")

MAIN_ROWS: Mapping[tuple[str, int], Choice] = {
    **dict.fromkeys((("cu-hlm-tableI", 3), ("cu-hlm-tableI", 4)), lambda row: row[0].endswith("Llama2-13B")),
    ("flexspec-fig4", 1): _one_of(1, "Cloud-Only", "Std. SD", "EAGLE-2", "FlexSpec"),
    ("flexspec-tableII", 2): _VERSIONS,
    ("flexspec-tableIII-length-rule", 5): _LENGTHS,
    ("flexspec-tableIII-length-rule", 6): _BY_SET,
    ("flexspec-tableIV-length-rule", 5): _LENGTHS,
    ("flexspec-tableIV-length-rule", 7): _LENGTHS,
    ("flexspec-tableIV-length-rule", 9): _LENGTHS,
    ("flexspec-tableIV-length-rule", 12): _BY_SET,
    ("ours-fig9", 1): _one_of(0, "0.0005"),
    ("ours-tableI", 1): _begins("a", "b", "R²", "Δ", "risk-", "exact one-step TV", "transmission rate, risk-prone"),
    ("ours-tableII", 1): _begins(
        "k* offline, (21)", "k(t)* exact", "certified", "k(t)* online, (24), η = 5", "payload"
    ),
    ("ours-tableIII", 1): _one_of(1, "0", "1"),
    ("ours-tableIII", 2): _one_of(1, "1"),
    ("ours-tableIV", 1): lambda row: row[0] in ("40", "160") and row[1] == "0.1",
    ("ours-tableIV", 2): _THRESHOLDS,
    ("ours-tableIV", 3): _THRESHOLDS,
    ("ours-tableV", 1): _CODECS,
    ("ours-tableV", 2): _CODECS,
    ("ours-tableV", 4): _CODECS,
    ("ours-tableVI", 1): lambda row: not row[0].startswith(("U-HLM at", "CU-HLM online at")),
    ("ours-tableVIII", 1): lambda row: row[0].startswith("1"),
    ("ours-tableVIII", 2): lambda row: row[0].startswith("1"),
    ("ours-tableX", 2): lambda row: row[1].endswith(("server, 0 ms", "device, 100 ms")),
    ("ours-tableX", 3): _one_of(2, "1,000"),
}
"""Which rows of a long table stand on the page, by the sidecar's stem and the number of the table."""


def main_rows(stem: str, number: int, table: Mapping[str, Any], most: int) -> list[Row]:
    """Return the main rows of a long table: those that are chosen, else its first ones; ``most`` at most."""
    chosen = MAIN_ROWS.get((stem, number))
    rows = [row for row in table["rows"] if chosen is not None and chosen(row)]
    return (rows or list(table["rows"]))[:most]
