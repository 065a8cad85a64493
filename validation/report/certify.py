"""Check the claims that no model changes and that the published run did not check, and add them to the certificate."""

import json

import hlmtheory
from validation.claims.certificate import FILE, entry, written
from validation.claims.check import DEAR, SCENARIO_BATCHES
from validation.claims.instances import scenario_rng, scenarios
from validation.claims.results import Tally
from validation.errors import UserError
from validation.provenance import commit_of_code

SEED = 1


def certify() -> list[str]:
    """Check what the published run did not check, all of it at one commit; return the claims whose record is new."""
    commit = commit_of_code()
    if commit is None or commit.endswith("changes"):
        raise UserError("A certificate names its commit; commit the changes of hlmtheory and validation first.")
    stored, known, tables = json.loads(FILE.read_text(encoding="utf-8")), hlmtheory.all_claims(), scenarios()
    added = {}
    for name in tables.keys() - stored["claims"].keys():
        tally = Tally(name, kind="simulated")
        for batch in range(min(SCENARIO_BATCHES, DEAR.get(name, SCENARIO_BATCHES))):
            tally.add(known[name].check(tables[name](scenario_rng(SEED, name, batch))))
        if tally.outcome in ("violated", "out of scope"):
            raise UserError(f"{name}: {tally.outcome}; it cannot be certified.")
        added[name] = entry(tally) | {"statement": known[name].statement}
    about = stored["about"] | {"later": commit}
    FILE.write_text(written(about, stored["claims"], dict(sorted(added.items()))), encoding="utf-8")
    return [name for name in sorted(added) if added[name] != stored.get("added", {}).get(name)]


if __name__ == "__main__":
    print(f"New records: {', '.join(certify()) or 'none'}. The others were checked again, as before.")
