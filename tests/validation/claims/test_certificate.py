"""The certificate of the claims that do not depend on the models."""

import json
from pathlib import Path

import hlmtheory
from hlmtheory.claims import FALSE
from validation.claims import certificate as place
from validation.claims.certificate import FILE, PLACE, certificate, certificate_text
from validation.claims.instances import scenarios
from validation.claims.results import Results, Tally
from validation.report.publish import _read_records, _results

ROOT = Path(__file__).resolve().parents[3]


def test_every_simulated_claim_of_the_published_record_is_certified():
    record = _read_records(ROOT)[0]
    published = {name: tally for name, tally in _results(record).tallies.items() if name in scenarios()}
    found = certificate()
    assert {name: found.tallies[name] for name in published} == published
    assert len(published) > 100
    assert {tally.outcome for tally in published.values()} == {"holds", *FALSE.values()}
    assert found.commit == record["run"]["commits"]["check"]
    assert FILE == ROOT / PLACE


def test_every_claim_is_certified_or_decided_by_a_trace():
    """If one is missing, commit and run ``python -m validation.report.certify``."""
    assert sorted(certificate().tallies) == sorted(scenarios())


def test_an_added_claim_counts_until_its_statement_changes(tmp_path, monkeypatch):
    results = Results(
        {name: Tally(name, instances=5, holds=5, kind="simulated") for name in ("ofdma.sum",)}, 1, 1, 1, {}
    )
    run = {"commits": {"check": "1" * 40}, "created": "2026-01-02T03:04", "added": {"": "3" * 40}}
    stored = json.loads(certificate_text(run, results))
    added = stored["claims"]["ofdma.sum"] | {"statement": hlmtheory.all_claims()["channel.markov"].statement}
    stored |= {"added": {"channel.markov": added}, "about": stored["about"] | {"later": "2" * 40}}
    monkeypatch.setattr(place, "FILE", tmp_path / "certificate.json")
    place.FILE.write_text(certificate_text(run, results, json.dumps(stored)))
    assert json.loads(place.FILE.read_text()) == stored
    assert set(certificate().tallies) == {"ofdma.sum", "channel.markov"}
    assert certificate().sentence(2).endswith("commits 1111111, 3333333, 2222222.")
    stored["added"]["channel.markov"]["statement"] = "x ≤ y"
    place.FILE.write_text(json.dumps(stored))
    assert set(certificate().tallies) == {"ofdma.sum"}
    assert certificate().sentence(1).endswith("commits 1111111, 3333333.")
    results.tallies["channel.markov"] = Tally("channel.markov", instances=5, holds=5, kind="simulated")
    assert "added" not in json.loads(certificate_text(run, results, json.dumps(stored)))


def test_a_certified_verdict_completes_a_run_but_replaces_none():
    found = certificate()
    first, second = list(found.tallies)[:2]
    mine = Tally(first, instances=3, holds=3, kind="simulated")
    tallies = found.completed(Results({first: mine}, 3, 1, 1.0, {})).tallies
    assert tallies[first] == mine
    assert tallies[second] == found.tallies[second]


def test_a_verdict_that_the_registry_contradicts_is_not_used(tmp_path, monkeypatch):
    names = ("channel.markov", "ofdma.sum")
    results = Results({name: Tally(name, instances=5, holds=5, kind="simulated") for name in names}, 1, 1, 1.0, {})
    stored = json.loads(certificate_text({"commits": {}, "created": "2026-01-02T03:04"}, results))
    stored["claims"]["ofdma.sum"]["outcome"] = "misprint"
    stored["claims"]["withdrawn.claim"] = stored["claims"]["channel.markov"]
    monkeypatch.setattr(place, "FILE", tmp_path / "certificate.json")
    place.FILE.write_text(json.dumps(stored))
    found = certificate()
    assert list(found.tallies) == ["channel.markov"]
    assert (found.commit, found.date) == ("unknown", "2026-01-02")
    assert found.sentence(0) == ""
    assert found.sentence(1).startswith("1 other claim does not depend on the models; it was checked before")
    assert found.sentence(2, "of them").startswith("2 of them do not depend on the models; they were checked before")
