"""Traces at s3:// and http://: the same bytes as in a folder, bounded retries, and never a part taken for the whole."""

from importlib.util import find_spec

import numpy as np
import pytest

from tests.validation.command_line import one_sentence, run
from tests.validation.stored_traces import VOCABULARY, random_fields, stored
from tests.validation.trace.store_stand_in import KEY, access, at, bucket, files
from validation.errors import UserError
from validation.trace import remote
from validation.trace.journal import JOURNAL
from validation.trace.reader import TraceWriter, open_trace
from validation.trace.remote import place

pytestmark = pytest.mark.skipif(find_spec("obstore") is None, reason="obstore comes with the extra remote")
PLACE = "s3://bucket/mine/trace"
CLAIMS = ("verification.tokens", "truncation.certificate")


@pytest.fixture
def served(monkeypatch):
    with bucket() as server:
        known_to(monkeypatch, server.address, KEY)
        yield server
    remote._store.cache_clear()


def known_to(monkeypatch: pytest.MonkeyPatch, address: str, key: str) -> None:
    for name, value in access(address, key).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "RETRIES", 2)
    remote._store.cache_clear()


def test_a_store_holds_the_bytes_of_a_folder(served, tmp_path):
    there, here = stored(PLACE), stored(tmp_path / "trace")
    assert at(served) == files(tmp_path / "trace")
    for name, array in here.arrays.items():
        assert np.array_equal(there.arrays[name][:], array[:])
    assert open_trace(PLACE, verify=True).manifest == here.manifest
    web = open_trace(f"{served.address}/bucket/mine/trace", verify=True)  # no list, no credentials
    assert np.array_equal(web.arrays["tokens"][:], here.arrays["tokens"][:])


def test_a_writer_that_fails_leaves_no_whole_trace_and_goes_on(served, tmp_path):
    rows = random_fields(3 * 256)

    def write(where):
        with TraceWriter(where, VOCABULARY, settings={"seed": 1}) as writer:
            for start in range(writer.positions, 3 * 256, 192):
                writer.append(**{name: array[start : start + 192] for name, array in rows.items()})
                writer.commit({"next": start + 192})

    served.fault = lambda method, key: "503" if method == "PUT" and key.endswith("draft_logits/c.1.0") else None
    with pytest.raises(UserError, match=r"draft_logits/c\.1\.0 cannot be written \(status 503"):
        write(PLACE)
    with pytest.raises(UserError, match="is not finished: 384 positions are stored"):
        open_trace(PLACE)
    served.fault = lambda method, key: None
    write(PLACE)
    write(tmp_path / "trace")
    whole = files(tmp_path / "trace")
    assert {name for name in at(served) if name != JOURNAL} == {name for name in whole if name != JOURNAL}
    assert all(content == whole[name] for name, content in at(served).items() if name != JOURNAL)
    assert np.array_equal(open_trace(PLACE).arrays["draft_logits"][:], rows["draft_logits"])


def test_a_second_writer_is_noticed(served):
    rows = {name: array[:4] for name, array in random_fields(4).items()}
    said = pytest.raises(UserError, match=f"Another process is writing {PLACE}; wait for it")
    with said, TraceWriter(PLACE, VOCABULARY, settings={}) as first:
        first.append(**rows)
        first.commit()
        with TraceWriter(PLACE, VOCABULARY, settings={}) as second:
            assert second.positions == 4
        first.append(**rows)
        first.commit()


def test_an_answer_that_is_lost_is_no_second_writer(served):
    lost = iter(["lost"])
    served.fault = lambda method, key: next(lost, None) if (method, key[-13:]) == ("PUT", JOURNAL) else None
    assert stored(PLACE).positions == 320
    assert next(lost, None) is None


def test_a_connection_that_breaks_is_repeated_with_a_bound(served):
    stored(PLACE)
    chunk = "arrays/target_logits/c.0.0"
    broken = iter(["cut"])
    served.fault = lambda method, key: next(broken, None) if (method, key[-26:]) == ("GET", chunk) else None
    trace = open_trace(PLACE)
    first = trace.arrays["target_logits"][:5]
    assert next(broken, None) is None
    served.fault = lambda method, key: "cut" if (method, key[-26:]) == ("GET", chunk) else None
    trace = open_trace(PLACE)  # which holds no chunk yet
    served.asked.clear()
    with pytest.raises(
        UserError, match=r"^s3://bucket/mine/trace/arrays/target_logits/c\.0\.0 cannot be read \("
    ) as said:
        trace.arrays["target_logits"][:5]
    assert str(said.value).count("\n") == 0
    assert 1 < len(served.asked) <= (remote.RETRIES + 1) ** 2
    served.fault = lambda method, key: None
    assert np.array_equal(trace.arrays["target_logits"][:5], first)


def test_a_throttled_bucket_is_asked_again_with_a_bound(served, tmp_path):
    stored(PLACE)
    slow = iter(["503", "503"])
    served.fault = lambda method, key: next(slow, None)
    assert open_trace(PLACE).positions == 320
    assert next(slow, None) is None
    served.fault = lambda method, key: "503"
    served.asked.clear()
    words = ("validate", "--trace", PLACE, "--out", tmp_path / "run", "-q")
    one_sentence(
        run(*words), "cannot be read (status 503", "a request is repeated up to 2 times", "run the same command"
    )
    assert len(served.asked) == remote.RETRIES + 1


def test_wrong_credentials_are_named_and_not_tried_again(served, tmp_path, monkeypatch):
    stored(PLACE)
    known_to(monkeypatch, served.address, "wrong")
    served.asked.clear()
    for words in (
        ("validate", "--trace", PLACE, "--out", tmp_path / "run", "-q"),
        ("plan", "--trace", PLACE, "--rate", "10M", "--rtt", "20ms", "--draft-time", "12ms", "--verify-time", "30ms"),
    ):
        one_sentence(run(*words), "the store denies it; check the credentials (AWS_ACCESS_KEY_ID")
    assert len(served.asked) == 2
    with pytest.raises(UserError, match="the store denies it"):
        stored("s3://bucket/other")


def test_no_part_of_a_trace_is_taken_for_the_whole(served):
    stored(PLACE)
    whole = dict(served.objects)
    web = f"{served.address}/bucket/mine/trace"
    for key, content in whole.items():
        for path, part in ((PLACE, content[:-1]), (PLACE, None), (web, content[:-1]), (web, None)):
            if path is web and key.endswith("arrays/zarr.json"):
                continue  # never read, and a store without lists cannot be asked whether it is there
            served.objects = dict(whole)
            if part is None:
                del served.objects[key]
            else:
                served.objects[key] = part
            with pytest.raises(UserError):
                list(open_trace(path).chunks(64))


def test_a_journal_cut_after_any_line_is_refused(served):
    stored(PLACE)
    key = f"mine/trace/{JOURNAL}"
    lines = served.objects[key].splitlines(keepends=True)
    assert len(lines) > 1
    for count in range(len(lines)):
        served.objects[key] = b"".join(lines[:count])
        with pytest.raises(UserError, match=r"not finished|only begun|There is no trace|is missing"):
            open_trace(PLACE)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ftp://host/x", "no place of a trace"),
        ("s3://", "no place of a trace"),
        ("https://host/x?token=1", "no place of a trace"),
        ("https://me:secret@host/x", "holds a password"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_its_password(text, said):
    with pytest.raises(UserError, match=said) as refused:
        place(text)
    assert "secret" not in str(refused.value)


def test_http_is_for_reading(served):
    with pytest.raises(UserError, match="can only be read"):
        stored(f"{served.address}/bucket/x")
