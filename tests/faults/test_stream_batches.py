"""Batches of a stream that are killed at any call, and repeated: each takes effect once.

Rows are merge operands, of which a second effect would show: each batch adds its letter to a value.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateError, SlateStore
from slatespark.storage.local_store import LocalStore
from slatespark.storage.object_store import ObjectStore
from slatespark.table.write import stream_batch
from tests.faults.jobs import table_of
from tests.faults.test_idempotent_writes import KilledError
from tests.support.effort import points
from tests.support.failing_store import FailingStore
from tests.support.streams import Stream

NUMBER = 4  # of the batch that fails: records of earlier ones are deleted by it


def letter(number: int) -> pa.Table:
    return table_of([(b"k", b"abcdefgh"[number : number + 1])])


def stream(store: ObjectStore) -> Stream:
    return Stream(store, options={"operation": "merge", "txnAppId": "letters"})


def value(folder: Path) -> bytes:
    row = SlateStore.open(str(folder)).get(b"k", mergeOperator="concat")
    assert row is not None
    return bytes(row["value"])


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stream_batch, "CLEAN_EVERY", NUMBER)
    for number in range(NUMBER):
        stream(LocalStore(tmp_path / "template")).write(number, letter(number))
    return tmp_path / "template"


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [True, False])
def test_a_fault_at_any_call_of_a_batch(*, is_killed: bool, template: Path, tmp_path: Path) -> None:
    clean = FailingStore(LocalStore(shutil.copytree(template, tmp_path / "clean")))
    stream(clean).write(NUMBER, letter(NUMBER))
    landed = 0
    for nth in points(clean.count(), 2):
        folder = Path(shutil.copytree(template, tmp_path / f"{nth}"))
        times, error = (10**9, KilledError()) if is_killed else (1, None)
        store = FailingStore(LocalStore(folder)).fail("*", nth=nth, times=times, moment="after", error=error)
        try:
            stream(store).write(NUMBER, letter(NUMBER))
        except (SlateError, KilledError):
            landed += value(folder) == b"abcde"
        stream(LocalStore(folder)).write(NUMBER, letter(NUMBER))
        assert value(folder) == b"abcde", f"call {nth}"
        stream(LocalStore(folder)).write(NUMBER + 1, letter(NUMBER + 1))
        assert value(folder) == b"abcdef", f"call {nth}"
        shutil.rmtree(folder)
    assert landed > 0 or not is_killed, "some batch landed that was killed"


@pytest.mark.slow
def test_the_same_batch_and_the_next_one_meanwhile(template: Path, tmp_path: Path) -> None:
    """A driver that was given up too early goes on beside its successor."""
    clean = FailingStore(LocalStore(shutil.copytree(template, tmp_path / "clean")))
    stream(clean).write(NUMBER, letter(NUMBER))
    for nth in points(clean.count(), 2):
        folder = Path(shutil.copytree(template, tmp_path / f"{nth}"))

        def go_on(folder: Path = folder) -> None:
            for number in (NUMBER, NUMBER + 1):
                stream(LocalStore(folder)).write(number, letter(number))

        with contextlib.suppress(InvalidRequestError):  # it may notice that it has a successor
            stream(FailingStore(LocalStore(folder)).run(go_on, "*", nth=nth)).write(NUMBER, letter(NUMBER))
        assert value(folder) == b"abcdef", f"call {nth}"
        shutil.rmtree(folder)
