from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.display.compaction_text import compaction_text
from slatespark.ranges import KeyRange
from slatespark.table.compaction.report import CompactionJob, CompactionReport
from tests.unit.cli.shell import answer, done, refused

PLAN = CompactionJob(
    "interval", ("run 9",), (KeyRange(b"a", b"c"), KeyRange(b"x")), 9, is_lowest=False, files_in=1, bytes_in=10
)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A table of five runs that share their keys."""
    store = SlateStore.create(str(tmp_path / "words"))
    for number in range(5):
        store.write(pa.table({"key": [b"a", b"b%d" % number], "value": [b"%d" % number] * 2}))
    return tmp_path / "words"


def layers(table: Path) -> list[str]:
    return [layer.name for layer in SlateStore.open(str(table)).runs()]


def test_it_says_what_it_did(words: Path) -> None:
    report = done("compact", words)
    assert "jobs     1 job\nrows     10 read, 6 left, 0 expired or past retention\n" in report
    assert "sources  run 4, run 3, run 2, run 1, run 0 (5 files, " in report
    assert "into     run 0, the lowest for these keys" in report
    assert layers(words) == ["run 0"]
    assert done("compact", words).endswith("jobs     none: there is nothing to merge\n")


def test_as_json(words: Path) -> None:
    plan = answer("compact", words, "--full", "--dry-run")
    assert (plan["dry_run"], plan["jobs"][0]["kind"], plan["jobs"][0]["version"]) == (True, "full", None)
    report = answer("compact", words, "--option", "startKey=61", "--option", "endKey=62")
    (job,) = report["jobs"]
    assert (job["kind"], job["keys"], job["rows_in"], job["rows_out"]) == (
        "interval",
        [{"start": "61", "end": "62"}],
        5,
        1,
    )
    assert report["version"] == SlateStore.open(str(words)).resolve().version


def test_what_is_chosen(words: Path) -> None:
    assert answer("compact", words, "--l0-only")["jobs"] == []
    assert answer("compact", words, "--due")["jobs"] == []
    assert answer("compact", words, "--full", "--now", "2020-01-01")["now_ms"] == 1577836800000
    table = words.parent / "typed"
    store = SlateStore.create(str(table), pa.schema([("id", pa.int64()), ("v", pa.string())]), "id")
    for value in ("old", "new"):
        store.write(pa.table({"id": [1, 2], "v": [value] * 2}))
    assert answer("compact", table, "--where", "id = 1")["rows_out"] == 1


def test_what_is_refused(words: Path, tmp_path: Path) -> None:
    assert "full and l0Only are both given" in refused("OptionError", "compact", words, "--full", "--l0-only")
    assert "ttll" in refused("OptionError", "compact", words, "--option", "ttll=1")
    assert "future" in refused("OptionError", "compact", words, "--now", "2999-01-01")
    refused("TableNotFoundError", "compact", tmp_path / "nothing")


def test_a_report_as_text() -> None:
    text = compaction_text(CompactionReport("memory://t", 7, dry_run=True, jobs=(PLAN,)))
    assert text.splitlines() == [
        "table    memory://t",
        "version  7",
        "jobs     1 job planned, nothing was done",
        "",
        "kind     interval",
        "sources  run 9 (1 file, 10 B)",
        "keys     [61, 63), [78, end)",
        "into     run 9, with older layers below",
    ]


def test_many_sources_and_filters_as_text() -> None:
    job = CompactionJob(
        "small runs",
        tuple(f"run {number}" for number in range(12)),
        (KeyRange(),),
        0,
        is_lowest=True,
        files_in=12,
        bytes_in=2048,
        version=8,
        files_out=1,
        bytes_out=1024,
        rows_in=20,
        rows_out=10,
        expired=1,
        dropped=10,
        filtered=3,
        filters_waited=True,
    )
    text = compaction_text(
        CompactionReport("memory://t", 8, now_ms=5, jobs=(job,), bytes_in=4_000_000, elapsed_ms=2000, has_own_time=True)
    )
    for line in (
        "now      5",
        "speed    2.0 MB/s read",
        "sources  run 0, run 1, run 2, run 3, run 4, run 5, run 6, run 7 and 4 more (12 files, 2.0 KiB)",
        "filters   deferred: an open snapshot or merge operands above may need the rows they would remove",
        "filtered  3",
    ):
        assert " ".join(line.split()) in " ".join(text.split())
