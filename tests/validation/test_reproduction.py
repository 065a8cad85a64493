"""paper_repro.md agrees with the files that back it, and a change on either side is noticed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import hlmtheory
from validation.errors import UserError
from validation.reproduction import stale_tables, tables

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The page and what backs it, to be tampered with."""
    shutil.copy(ROOT / "paper_repro.md", tmp_path)
    shutil.copytree(ROOT / "figures", tmp_path / "figures")
    return tmp_path


def test_the_page_is_not_stale() -> None:
    assert stale_tables(ROOT) == []


def test_every_claim_stands_on_the_page() -> None:
    page = (ROOT / "paper_repro.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in hlmtheory.all_claims())


def test_a_changed_verdict_is_noticed(copy: Path) -> None:
    path = copy / "figures" / "claims.json"
    record = json.loads(path.read_text())
    record["results"]["tallies"]["truncation.tvd_sharp"]["violated"] += 1
    path.write_text(json.dumps(record))
    assert stale_tables(copy) == ["pairs", "claims"]


def test_a_changed_number_on_the_page_is_noticed(copy: Path) -> None:
    page = copy / "paper_repro.md"
    page.write_text(page.read_text().replace("| acceptance rate, mean | 0.", "| acceptance rate, mean | 1."))
    assert stale_tables(copy) == ["pairs"]


def test_a_changed_figure_is_noticed(copy: Path) -> None:
    path = copy / "figures" / "cu-hlm-fig6.json"
    path.write_text(path.read_text().replace("0.9763", "0.9999"))
    assert stale_tables(copy) == ["figures"]


def test_a_missing_record_says_what_to_do(copy: Path) -> None:
    (copy / "figures" / "claims.json").unlink()
    with pytest.raises(UserError, match=r"no figures/claims\.json; run `python3 hlm validate`"):
        tables(copy)
