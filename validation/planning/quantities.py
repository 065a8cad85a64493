"""Read numbers with units from the command line; a number whose unit is ambiguous is refused."""

import math
import re
from functools import partial

from validation.errors import UserError

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-zµ/%²]*)\s*")
RATES = {"k": 1e3, "M": 1e6, "G": 1e9, "bit/s": 1.0, "bps": 1.0}
RATES |= {f"{prefix}{unit}": RATES[prefix] for prefix in ("k", "M", "G") for unit in ("bit/s", "bps", "b/s")}
SMALLEST, LARGEST = 1e-18, 1e18  # of any quantity in its SI unit; products of a few such numbers stay finite
MOST_LEAK = 6.0  # Bits that the sizes of a round may tell at most: a policy holds 64 sizes
TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
JOULES, WATTS = {"J": 1.0, "mJ": 1e-3}, {"W": 1.0, "mW": 1e-3}
SPEEDS = {"/s": 1.0, "tokens/s": 1.0}


def _parts(option: str, text: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    if match is None or not math.isfinite(float(match[1])):
        raise UserError(f"{option} is {text!r}; write a number with its unit, such as {example}.")
    return float(match[1]), match[2]


def _quantity(option: str, text: str, units: dict[str, float], example: str, least: float = 0.0) -> float:
    value, unit = _parts(option, text, example)
    if value == 0 and not unit:  # the same in every unit
        return 0.0
    if unit not in units:
        was = "has no unit" if not unit else f"has the unit {unit!r}"
        same = "write " + (re.sub(r"\d+", f"{value:g}", example) if 0 < value < 1e4 else example)
        if not unit and 0 < value < 1 and (milli := example.lstrip("0123456789")).startswith("m"):
            same = f"{text}{milli[1:]} is {1e3 * value:g}{milli}"  # a small number is most often in the SI unit
        raise UserError(f"{option} {text} {was}; {same} (units: {', '.join(units)}).")
    if not least <= value * units[unit] <= (most := 1e15 if units is RATES else LARGEST):
        lower = "must be above 0" if units is RATES else f"must be at least {least:g}"
        why = lower if value < 0 else f"is at most {most:g} in SI units"
        raise UserError(f"{option} is {text}; it {why}: write for example {example}.")
    return value * units[unit]


def read_rate(option: str, text: str) -> float:
    if text.endswith("B/s"):
        raise UserError(f"{option} is {text}; rates are in bit/s, not bytes: write 8 times as much, such as 80M.")
    return _quantity(option, text, RATES, "10M for 10 Mbit/s")


def read_time(option: str, text: str, least: float = 0.0) -> float:
    return _quantity(option, text, TIMES, "20ms", least)


read_power = partial(_quantity, units=WATTS, example="5W")
read_speed = partial(_quantity, units=SPEEDS, example="50/s for 50 tokens a second")
read_energy = partial(_quantity, units=JOULES, example="50mJ")


def read_snr(option: str, text: str) -> float:
    value, unit = _parts(option, text, "10dB")
    if unit == "dB":
        return float(10.0 ** (value / 10.0))
    if unit != "x":
        raise UserError(f"{option} {text} could be dB or a ratio; write {value:g}dB, or {value:g}x for a ratio.")
    if value <= 0:
        raise UserError(f"{option} is {text}; a ratio of powers is positive.")
    return value


def read_latency(text: str) -> tuple[float, float]:
    """Return the share and the seconds of a limit such as ``p95=80ms``."""
    match = re.fullmatch(r"p(\d+(?:\.\d+)?)=(.+)", text)
    if match is None or not 0 < float(match[1]) < 100:
        raise UserError(f"--latency is {text!r}; write a percentile and a time, such as p95=80ms.")
    return float(match[1]) / 100.0, read_time("--latency", match[2])


def read_leak(text: str) -> float:
    """Return the most bits that the sizes of a round may tell: ``bits=1``."""
    hint = f"write bits=0 for messages of one size, or up to bits={MOST_LEAK:g} for 2^bits sizes"
    return _limit("--leak", text, ("bits",), MOST_LEAK, hint)[1]


def read_risk(text: str) -> tuple[str, float]:
    """Return the kind and the limit of a risk: ``text=.1`` (a whole text) or ``token=.01`` (a mean over tokens)."""
    hint = "write text=.1 for a whole text or token=.01 for a token, from 0 to 1"
    return _limit("--risk", text, ("text", "token"), 1.0, hint)


def _limit(option: str, text: str, kinds: tuple[str, ...], most: float, hint: str) -> tuple[str, float]:
    kind, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if kind not in kinds or not 0 <= value <= most:
        raise UserError(f"{option} is {text!r}; {hint}.")
    return kind, value
