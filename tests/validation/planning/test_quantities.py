"""Numbers with units: what is read, and what is refused because it could mean two things."""

import re

import pytest

from validation.errors import UserError
from validation.planning import quantities as read


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        (read.read_rate, {"10": "has no unit", "10MB/s": "not bytes", "10m": "has the unit 'm'", "-1M": "above 0"}),
        (read.read_time, {"35": "has no unit; write 35ms", "0.03": "has no unit; 0.03s is 30ms"}),
        (read.read_time, dict.fromkeys(("infms", "1e999ms", "fast"), "write a number with its unit")),
        (read.read_snr, {"10": "dB or a ratio; write 10dB, or 10x", "-3x": "a ratio of powers is positive"}),
        (read.read_energy, {".05": "has no unit; .05J is 50mJ", "5W": "has the unit 'W'"}),
        (read.read_power, {"5J": "has the unit 'J'"}),
        (read.read_speed, {"50": "has no unit; write 50/s"}),
    ],
)
def test_what_could_mean_two_things_is_refused(function, refused):
    for text, said in refused.items():
        with pytest.raises(UserError, match=rf"--it.*{re.escape(said)}"):
            function("--it", text)


@pytest.mark.parametrize(
    ("function", "option", "texts"),
    [
        (read.read_latency, "--latency", ["80ms", "95=80ms", "p0=80ms", "p100=80ms", "p95=80"]),
        (read.read_risk, "--risk", [".1", "text", "text=", "text=2", "text=nan", "page=.1", "token=-1"]),
        (read.read_leak, "--leak", ["3", "bits=-1", "bits=nan", "bits=7", "text=1"]),
    ],
)
def test_a_limit_names_what_it_is_of_and_its_unit(function, option, texts):
    for text in texts:
        with pytest.raises(UserError, match=option):
            function(text)


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (read.read_rate, {"2bit/s": 2.0, "2kbps": 2e3, "10M": 1e7, "2Gb/s": 2e9}),
        (read.read_time, {"2s": 2.0, "20ms": 0.02, "2us": 2e-6, "2µs": 2e-6}),
        (read.read_snr, {"3dB": 10**0.3, "3x": 3.0}),
        (read.read_energy, {"2J": 2.0, "50mJ": 0.05}),
        (read.read_power, {"5W": 5.0, "500mW": 0.5}),
        (read.read_speed, {"50/s": 50.0, "50tokens/s": 50.0}),
    ],
)
def test_a_quantity_is_read_in_its_si_unit(function, values):
    assert {text: function("--it", text) for text in values} == pytest.approx(values, rel=1e-12)
