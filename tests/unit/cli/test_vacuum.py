from __future__ import annotations

from pathlib import Path

import pytest

from slatespark import SlateStore
from slatespark.display.vacuum_text import vacuum_text
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.gc.report import CollectedFile, VacuumReport
from tests.faults.jobs import Job, table_of
from tests.support.fake_clock import FakeClock
from tests.unit.cli.shell import answer, done, refused


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table of which one file is shown, one kept by a checkpoint, and one needed by nobody."""
    store = SlateStore.create(str(tmp_path / "db"), autoCompact=False)
    store.write(table_of([(b"a", b"1")]))
    store.write(table_of([(b"a", b"2")]), mode="overwrite")
    store.createCheckpoint("keep")
    store.write(table_of([(b"a", b"3")]), mode="overwrite")
    return tmp_path / "db"


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_dry_run_says_what_would_go_and_changes_nothing(place: Path) -> None:
    before = files(place)
    printed = done("vacuum", place, "--min-age", "0s", "--dry-run")
    assert files(place) == before
    assert "would delete  3 claims, 6 manifests, 1 SST, " in printed
    assert "no version that is kept needs it" in printed
    assert "checkpoint keep keeps it" not in printed
    assert "checkpoint keep keeps it, forever" in done("vacuum", place, "--min-age", "0s", "--dry-run", "--all")


def test_it_deletes_and_says_so(place: Path) -> None:
    would = answer("vacuum", place, "--min-age", "0s", "--dry-run")
    report = answer("vacuum", place, "--min-age", "0s", "--force")
    gone = [file["path"] for file in report["files"] if file["action"] == "deleted"]
    assert gone == [file["path"] for file in would["files"] if file["action"] == "would delete"]
    assert not any((place / path).exists() for path in gone)
    assert all((place / file["path"]).exists() for file in report["files"] if file["action"] == "kept")
    assert "deleted      nothing, 0 B" in done("vacuum", place, "--min-age", "0s", "--force")
    assert SlateStore.open(str(place)).get(b"a", checkpoint="keep") == {"key": b"a", "value": b"2"}


def test_nothing_young_goes_by_default(place: Path) -> None:
    before = files(place)
    assert "deleted      nothing, 0 B" in done("vacuum", place)
    assert files(place) == before


def test_fences(place: Path) -> None:
    assert "WAL files" not in done("vacuum", place, "--min-age", "0s", "--dry-run")
    assert "2 WAL files" in done("vacuum", place, "--min-age", "0s", "--force", "--fences")


def test_what_was_never_a_table(tmp_path: Path) -> None:
    clock = FakeClock()
    clock.advance(-100 * 3_600_000)
    Job(tmp_path / "db", clock).upload(table_of([(b"a", b"1")]))
    assert "version      none: there is no table here" in done("vacuum", tmp_path / "db", "--min-age", "0s", "--force")
    assert files(tmp_path / "db") == set()


def test_refusals(place: Path, tmp_path: Path) -> None:
    refused("TableNotFoundError", "vacuum", tmp_path / "nothing")
    assert "minAge" in refused("OptionError", "vacuum", place, "--min-age", "soon")
    assert "unit" in refused("OptionError", "vacuum", place, "--min-age", "168")
    assert "hour" in refused("OptionError", "vacuum", place, "--min-age", "59m")


def test_a_report_as_text() -> None:
    report = VacuumReport(
        url="file:///db",
        version=7,
        now_ms=0,
        min_age_ms=86_400_000,
        dry_run=True,
        files=(
            CollectedFile("compacted/a.sst", 2048, "would delete", "no version needs it", "sst"),
            CollectedFile("compacted/b.sst", 1, "kept", "younger than 24h", "sst"),
        ),
        checkpoints_released=(CheckpointFacts("id", "over", 3, 0, 1),),
        jobs_dropped=("01M800BX1R21SRVSWN3ZDQXP5Z",),
        unknown="version 4 cannot be read",
    )
    assert vacuum_text(report) == (
        "table                 file:///db\n"
        "version               7\n"
        "minimum age           24h\n"
        "would delete          1 SST, 2.0 KiB\n"
        "kept                  1 object, 1 B\n"
        "checkpoints released  over of version 3\n"
        "compactions dropped   01M800BX1R21SRVSWN3ZDQXP5Z\n"
        "warning               unreferenced SSTs and WAL files were kept: version 4 cannot be read\n"
        "\n"
        "action        object           bytes  why\n"
        "would delete  compacted/a.sst   2048  no version needs it"
    )
    assert "younger than 24h" in vacuum_text(report, with_kept=True)
