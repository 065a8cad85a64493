"""Numbers that flexspec (li2025flexspec) prints in Tables I and III to VI and in the text to Fig. 5."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float64]

NETWORKS = ("5G", "4G", "WiFi")
DATASETS = ("GSM8K", "NQ (QA)", "NQ (RAG)", "MT-Bench", "WMT14", "CNN/DM")
METHODS = ("Cloud-Only", "Lookahead", "Std. SD", "Medusa-1", "EAGLE-2", "DSSD", "FlexSpec")

SYNCHRONISATION = (("Public WiFi", 10e6, 48.0, 1.0), ("4G LTE", 50e6, 9.5, 0.1), ("5G Mid-Band", 300e6, 1.6, 0.1))
"""Table I: network, rate in bit/s, minutes, unit of their last digit."""
DRAFT_BYTES = 3.2e9
"""Size of the draft model of Table I, as Section III-B prints it."""

WEAK_UPLINK = (5, 200.0)
"""Number of tokens and their uplink time in ms below 5 dB, Section III-D."""

STRIDES = {"5G": {0: 432.0, 1: 405.0, 5: 220.0}, "WiFi": {0: 1220.0, 1: 625.0, 5: 1455.0}}
"""Latency in ms by K, Section V-C and Table III; 0 is Cloud-Only. Over 5G, FlexSpec has the latency of K = 5. Over WiFi
the paper says that it behaves like K = 1, so that point is FlexSpec's.
"""
FLEXSPECS_OWN = ("WiFi", 1)
"""The point of STRIDES that is FlexSpec's latency and not one of a fixed K."""

DEVICES = (
    ("Raspberry Pi 5", 145.0, 6.9, (0.76, 0.85, 0.72)),
    ("Jetson AGX Orin", 8.5, 117.6, (1.96, 2.10, 1.88)),
    ("iPhone 15 Pro Max", 12.0, 83.3, (1.82, 1.92, 1.75)),
    ("Snapdragon 8 Gen 3", 10.5, 95.2, (1.93, 2.05, 1.85)),
)
"""Table V: device, ms per draft, drafts per second, speed-up over 4G for GSM8K, MT-Bench, HumanEval."""
DEVICE_DATASETS = ("GSM8K", "MT-Bench", "HumanEval")

TARGETS = (
    ("Llama-2-70B", (420.0, 578.0), (1.95, 1.85)),
    ("Llama-3-70B", (395.0, 550.0), (2.30, 1.92)),
    ("Mixtral 8x7B", (320.0, 485.0), (1.75, 1.68)),
)
"""Table VI: target model, ms of Cloud-Only over 5G and 4G, speed-up over each."""

# One row for each dataset and network: Cloud-Only in ms, then ms:speed-up of the other methods.
_GREEDY = """
432 415:1.04 392:1.10 205:2.10 182:2.37 305:1.41 220:1.96
595 580:1.02 805:0.74 480:1.24 445:1.33 482:1.23 325:1.83
1220 1205:1.01 1850:0.66 1455:0.84 1240:0.86 950:1.28 625:1.95
415 390:1.06 345:1.20 192:2.16 168:2.47 275:1.51 202:2.05
570 552:1.03 685:0.83 435:1.31 405:1.41 452:1.26 295:1.93
1185 1165:1.02 1680:0.71 1380:0.86 1352:0.88 905:1.31 582:2.04
428 402:1.06 360:1.19 198:2.16 175:2.44 288:1.49 212:2.02
582 568:1.02 735:0.79 455:1.28 422:1.38 468:1.24 308:1.89
1208 1190:1.02 1765:0.68 1425:0.85 1390:0.87 932:1.30 600:2.01
420 398:1.05 358:1.17 202:2.08 178:2.36 295:1.42 215:1.95
578 562:1.03 742:0.78 462:1.25 430:1.34 475:1.22 312:1.85
1192 1175:1.01 1780:0.67 1440:0.83 1405:0.85 945:1.26 615:1.94
418 395:1.06 350:1.19 195:2.14 172:2.43 282:1.48 208:2.01
575 560:1.03 720:0.80 445:1.29 415:1.38 460:1.25 302:1.90
1188 1168:1.02 1725:0.69 1405:0.85 1372:0.87 918:1.29 592:2.00
425 400:1.06 355:1.20 198:2.15 175:2.43 285:1.49 210:2.02
582 565:1.03 728:0.80 452:1.29 420:1.38 465:1.25 306:1.90
1205 1180:1.02 1750:0.69 1420:0.85 1382:0.87 924:1.30 598:2.01
"""
_SAMPLED = """
435 420:1.04 405:1.07 272:1.60 245:1.77 345:1.26 232:1.87
598 585:1.02 825:0.72 665:0.90 592:1.01 540:1.11 360:1.66
1225 1210:1.01 1880:0.65 1852:0.66 1680:0.73 1150:1.06 705:1.74
418 395:1.06 350:1.19 290:1.44 258:1.62 332:1.26 222:1.88
575 560:1.03 700:0.82 655:0.88 590:0.97 528:1.09 348:1.65
1190 1172:1.02 1700:0.70 1820:0.65 1665:0.71 1110:1.07 690:1.72
430 408:1.05 370:1.16 285:1.51 255:1.69 338:1.27 228:1.89
588 575:1.02 750:0.78 660:0.89 595:0.99 532:1.10 355:1.66
1215 1198:1.01 1785:0.68 1840:0.66 1675:0.72 1130:1.07 700:1.73
428 405:1.06 368:1.16 285:1.50 252:1.70 329:1.30 225:1.90
585 570:1.03 760:0.77 650:0.90 585:1.00 522:1.12 344:1.70
1210 1195:1.01 1795:0.67 1805:0.67 1652:0.73 1100:1.10 685:1.76
420 400:1.05 360:1.17 295:1.42 260:1.61 335:1.25 225:1.87
578 565:1.02 735:0.79 675:0.85 605:0.95 530:1.09 350:1.65
1195 1180:1.01 1740:0.69 1900:0.63 1690:0.71 1120:1.07 715:1.67
425 402:1.06 365:1.16 300:1.42 265:1.60 338:1.26 228:1.86
582 568:1.02 740:0.79 680:0.85 610:0.95 535:1.09 352:1.65
1200 1185:1.01 1765:0.68 1915:0.63 1700:0.71 1125:1.07 720:1.67
"""


def _parsed(text: str) -> tuple[Row, Row]:
    """Return latencies in ms and printed speed-ups, shapes (datasets, networks, methods)."""
    cells = [[[*cell.split(":"), "1.0"][:2] for cell in line.split()] for line in text.split("\n") if line]
    values = np.asarray(cells, dtype=np.float64).reshape(len(DATASETS), len(NETWORKS), len(METHODS), 2)
    return values[..., 0], values[..., 1]


LATENCIES = {"III": _parsed(_GREEDY), "IV": _parsed(_SAMPLED)}
"""Tables III and IV: latencies in ms and printed speed-ups, shapes (datasets, networks, methods)."""


def misprints(table: str) -> Iterator[tuple[str, str, float, float, float]]:
    """Yield cells of Table III or IV whose speed-up differs from the quotient of the latencies, to the printed digits.

    Yields
    ------
    dataset and network, method, latency in ms, printed speed-up, quotient
        For each cell where no latencies that round to the printed milliseconds have a quotient that rounds to the
        speed-up.
    """
    latency, printed = LATENCIES[table]
    for place in np.ndindex(latency.shape):
        base, own, shown = (float(value) for value in (latency[(*place[:2], 0)], latency[place], printed[place]))
        low, high = (base - 0.5) / (own + 0.5), (base + 0.5) / (own - 0.5)
        if place[2] and not (high >= shown - 0.005 and low <= shown + 0.005):
            yield f"{DATASETS[place[0]]}, {NETWORKS[place[1]]}", METHODS[place[2]], own, shown, base / own
