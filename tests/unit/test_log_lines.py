"""The form of log lines, and the lines of each event."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import slatespark
from slatespark import SlateStore
from slatespark.log_lines import log_event
from slatespark.storage.credentials import BackendOptions
from slatespark.storage.retry import RetryPolicy, call_with_retries

SECRET = "row-content"
ROWS = pa.table({"key": [b"a", b"b"], "value": [SECRET.encode(), b"2"]})


@pytest.fixture(autouse=True)
def _all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="slatespark")


def events(caplog: pytest.LogCaptureFixture, *names: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield event and facts of the lines with these events, and forget all lines."""
    for record in caplog.records:
        assert record.name.startswith("slatespark.")
        assert SECRET not in record.getMessage()
        if getattr(record, "event", None) in names:
            yield record.event, record.facts  # type: ignore[attr-defined]
    caplog.clear()


def test_a_line_has_place_event_and_facts(caplog: pytest.LogCaptureFixture) -> None:
    log_event(logging.getLogger("slatespark.x"), "commit", "file:///t", version=3, kind=None)
    (record,) = caplog.records
    assert record.getMessage() == "file:///t: commit version=3"
    assert vars(record)["facts"] == {"version": 3}
    assert record.levelno == logging.INFO


def test_nothing_is_made_of_a_line_that_nobody_reads(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="slatespark")
    log_event(logging.getLogger("slatespark.x"), "commit", "file:///t")
    assert not caplog.records


def test_each_commit_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    store = SlateStore.create("memory://log-lines-commit")
    version = store.write(ROWS)
    created, written = events(caplog, "commit")
    assert created[1]["operation"] == "create"
    assert written[1] == {"version": version, "operation": "write", "rows": 2, "files": 1, "removed": 0}


def test_a_repeated_write_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    store = SlateStore.create("memory://log-lines-repeated")
    version = store.write(ROWS, txnAppId="job", txnVersion=1)
    caplog.clear()
    store.write(ROWS, txnAppId="job", txnVersion=1)
    ((event, facts),) = events(caplog, "already-committed", "commit")
    assert event == "already-committed"
    assert facts == {"version": version, "txnAppId": "job", "txnVersion": 1}


def test_compactions_and_vacuums_are_lines(caplog: pytest.LogCaptureFixture) -> None:
    store = SlateStore.create("memory://log-lines-upkeep")
    for _ in range(2):
        store.write(ROWS)
    caplog.clear()
    report = store.compact(full=True)
    ((_, facts),) = events(caplog, "compaction")
    assert (facts["version"], facts["rows_in"], facts["rows_out"]) == (report.jobs[0].version, 4, 2)
    assert store.vacuum(dryRun=True).url == store.url
    assert not list(events(caplog, "vacuum"))
    collected = store.vacuum("0h", force=True).collected
    ((_, facts),) = events(caplog, "vacuum")
    assert facts["deleted"] == len(collected)


def test_reaps_are_lines(caplog: pytest.LogCaptureFixture) -> None:
    store = SlateStore.create("memory://log-lines-reap", retention="1d")
    store.reap()
    ((_, facts),) = events(caplog, "reap")
    assert facts["rows"] == 0


def test_conflicts_are_lines(caplog: pytest.LogCaptureFixture) -> None:
    store = SlateStore.create("memory://log-lines-conflict")
    transaction = store.begin()
    transaction.getForUpdate(keys=[b"a"])
    transaction.write(ROWS)
    store.write(ROWS)
    caplog.clear()
    with pytest.raises(slatespark.ConflictError) as caught:
        transaction.commit()
    ((_, facts),) = events(caplog, "conflict")
    assert facts == {"error": type(caught.value).__name__}


def test_moved_rows_are_a_line(caplog: pytest.LogCaptureFixture) -> None:
    store = SlateStore.create("memory://log-lines-rebase")
    transaction = store.begin()
    transaction.write(ROWS)
    store.write(ROWS)
    caplog.clear()
    transaction.commit()
    ((_, facts),) = events(caplog, "rebase")
    assert facts["files"] == 1


def test_requests_and_their_retries_are_lines(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([TimeoutError(SECRET), None])

    def request() -> int:
        if (error := next(answers)) is not None:
            raise error
        return 7

    policy = RetryPolicy(sleep=lambda _: None)
    assert call_with_retries(request, "read", "s3://b/o", policy=policy, options=BackendOptions()) == 7
    found = list(events(caplog, "request", "retry"))
    assert [event for event, _ in found] == ["request", "retry", "request"]
    assert found[1][1]["error"] == "TimeoutError"


@pytest.mark.parametrize(("level", "shown"), [("info", True), ("ERROR", False)])
def test_an_environment_turns_lines_on(tmp_path: Path, level: str, shown: bool) -> None:
    script = f"from slatespark import SlateStore; SlateStore.create({str(tmp_path / 't')!r})"
    environment = {"SLATESPARK_LOG": level, "PYTHONPATH": str(Path(slatespark.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ("commit version=1 operation=create" in done.stderr) is shown
    assert not done.stdout


def test_an_unknown_level_is_told_and_no_process_fails_for_it() -> None:
    environment = {"SLATESPARK_LOG": "LOUD", "PYTHONPATH": str(Path(slatespark.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "slatespark", "--version"], env=environment, capture_output=True, text=True, check=True
    )
    [line] = done.stderr.splitlines()
    assert "SLATESPARK_LOG" in line
    assert "'LOUD'" in line
