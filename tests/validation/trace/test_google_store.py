"""Traces at gs://: written, read, refused and throttled like those at s3://, by obstore's client of Google's store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import stored
from tests.validation.trace.store_stand_in import KEY, Bucket, GoogleHandler, at, bucket, files
from validation.errors import UserError
from validation.trace import remote
from validation.trace.journal import JOURNAL
from validation.trace.reader import open_trace

pytestmark = pytest.mark.skipif(find_spec("obstore") is None, reason="obstore comes with the extra remote")
PLACE = "gs://bucket/mine/trace"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket, with clients that know its address and a token, and have few retries."""
    with bucket(GoogleHandler) as server:
        monkeypatch.setenv("GOOGLE_BASE_URL", server.address)
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", KEY)
        monkeypatch.setattr(remote, "RETRIES", 2)
        remote._store.cache_clear()
        yield server
    remote._store.cache_clear()


def test_a_store_holds_the_bytes_of_a_folder(served: Bucket, tmp_path: Path) -> None:
    there, here = stored(PLACE), stored(tmp_path / "trace")  # type: ignore[arg-type]
    assert at(served) == files(tmp_path / "trace")
    for name, array in here.arrays.items():
        assert np.array_equal(there.arrays[name][:], array[:])
    assert open_trace(PLACE, verify=True).manifest == here.manifest
    assert there.path.sizes() == {name: len(content) for name, content in files(tmp_path / "trace").items()}  # type: ignore[union-attr]


def test_a_key_names_the_store_and_needs_no_token(
    served: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_BASE_URL")
    monkeypatch.delenv("GOOGLE_BEARER_TOKEN")
    key = {"gcs_base_url": served.address, "disable_oauth": True, "client_email": "", "private_key": ""}
    (tmp_path / "key.json").write_text(json.dumps(key | {"private_key_id": ""}))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "key.json"))
    assert stored(PLACE).positions == 320  # type: ignore[arg-type]
    assert ("PUT", f"mine/trace/{JOURNAL}") in served.asked
    assert open_trace(PLACE, verify=True).positions == 320


def test_wrong_credentials_are_named_and_not_tried_again(
    served: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(PLACE)  # type: ignore[arg-type]
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "wrong")
    remote._store.cache_clear()
    served.asked.clear()
    words = ("validate", "--trace", PLACE, "--out", tmp_path / "run", "-q")
    one_sentence(run(*words), "the store denies it; check the credentials (GOOGLE_SERVICE_ACCOUNT")
    assert len(served.asked) == 1
    with pytest.raises(UserError, match=r"the store denies it; check the credentials \(GOOGLE_SERVICE_ACCOUNT"):
        stored("gs://bucket/other")  # type: ignore[arg-type]
