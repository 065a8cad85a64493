"""Figure 8 and Table X of ours."""

from __future__ import annotations

from pathlib import Path

COVERAGE = Path(__file__).with_name("acceptance_coverage.json")
REPLAY = Path(__file__).with_name("acceptance_replay.json")
