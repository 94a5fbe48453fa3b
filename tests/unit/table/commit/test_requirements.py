"""Requirements: at which stage each one refuses, and what it accepts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import CommitConflictError, TableExistsError
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path, sst_path, wal_path
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.table.commit.drain import Drained
from slatespark.table.commit.requirements import (
    FilesExist,
    LastSeq,
    NoNewOperands,
    NoTable,
    OrderOfHistory,
    Requirement,
    SameMergeOperator,
    SameRetention,
    Stage,
)
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import publish_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.rows.sst_upload import NewFile
from slatespark.table.stores import TableStores
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal
from tests.unit.table.layers import new_stores, upload_rows


def stage(stores: TableStores, *, last_l0_seq: int = 0, merged: Sequence[NewFile] = ()) -> Stage:
    manifest = Manifest(last_l0_seq=last_l0_seq)
    stores.main.put(manifest_path(1), [encode_manifest(manifest)])
    return Stage(stores, Version(1, manifest), (), merged)


def defined(definition: TableDefinition) -> Stage:
    """A stage of a table with this definition."""
    stores = new_stores()
    publish_definition(stores, Version(1, definition))
    return stage(stores)


def drained(*rows: Row, last_seq: int = 9) -> Drained:
    return Drained(rows_to_columns(rows) if rows else None, last_seq, None)


def test_a_stage_that_is_not_overridden_accepts_everything() -> None:
    requirement, now = Requirement(), stage(new_stores())
    requirement.before_rewrite(now)
    requirement.before_claim(now)
    requirement.after_drain(now, drained(Row(b"a", 1)))
    requirement.before_publishing(now)


def test_there_is_no_table_yet() -> None:
    with pytest.raises(TableExistsError):
        NoTable().before_rewrite(stage(new_stores()))


# --- sequence numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trees_seq", "wal_seq"), [(7, None), (6, 7), (7, 7), (0, 7), (0, None)])
def test_rows_up_to_the_limit_were_known(trees_seq: int, wal_seq: int | None) -> None:
    stores = new_stores()
    if wal_seq is not None:
        stores.main.put(wal_path(1), [encode_wal([Row(b"a", wal_seq)])])
    now = stage(stores, last_l0_seq=trees_seq)
    LastSeq(7).before_rewrite(now)
    if max(trees_seq, wal_seq or 0) == 7:
        with pytest.raises(CommitConflictError, match="above 6"):
            LastSeq(6).before_rewrite(now)


def test_rows_of_the_drained_wal_count() -> None:
    requirement, now = LastSeq(7), stage(new_stores())
    requirement.after_drain(now, drained(last_seq=7))
    with pytest.raises(CommitConflictError):
        requirement.after_drain(now, drained(last_seq=8))


def test_versions_of_the_drained_wal_count() -> None:
    stores = new_stores()
    files = upload_rows(stores, [Row(b"a", 1, create_ts_ms=10)], FakeClock(1000))
    requirement = OrderOfHistory(RAW_CODEC, 1 << 20)
    now = Stage(stores, Version(1, Manifest()), files)
    requirement.after_drain(now, drained(Row(b"a", 3, create_ts_ms=10), Row(b"b", 3, create_ts_ms=11)))
    with pytest.raises(CommitConflictError, match=r"1970-01-01T00:00:00.010Z"):
        requirement.after_drain(now, drained(Row(b"a", 3, create_ts_ms=11)))


# --- operands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "is_refused"),
    [
        ([], False),
        ([RowKind.PUT, RowKind.DELETE], False),
        ([RowKind.PUT, RowKind.MERGE, RowKind.PUT], True),
        ([RowKind.MERGE], True),
    ],
)
def test_new_operands(kinds: Sequence[RowKind], is_refused: bool) -> None:
    found, now = drained(*(Row(b"%d" % number, number, kind) for number, kind in enumerate(kinds))), stage(new_stores())
    if is_refused:
        with pytest.raises(CommitConflictError, match="operands"):
            NoNewOperands().after_drain(now, found)
    else:
        NoNewOperands().after_drain(now, found)


# --- files and definition, right before the version is published -----------------------------------------------------


def test_the_outputs_of_a_compaction_exist() -> None:
    stores, clock = new_stores(), FakeClock(1000)
    files = tuple(file for key in (b"a", b"b") for file in upload_rows(stores, [Row(key, 1)], clock))
    FilesExist().before_publishing(stage(stores))
    FilesExist().before_publishing(stage(stores, merged=files))
    stores.main.delete(sst_path(files[1].handle.id))
    FilesExist().before_publishing(stage(stores, merged=files[:1]))
    with pytest.raises(CommitConflictError, match="collected"):
        FilesExist().before_publishing(stage(stores, merged=files))


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        (TableDefinition(), TableDefinition(), True),
        (TableDefinition(properties={"retention": "7d"}), TableDefinition(properties={"retention": "P7D"}), True),
        (TableDefinition(properties={"retention": "7d"}), TableDefinition(properties={"retention": "6d"}), False),
        (TableDefinition(properties={"retention": "7d"}), TableDefinition(), False),
        (TableDefinition(), TableDefinition(properties={"autoCompact": "false"}), True),
        (TableDefinition(full_history_ts_low_ms=5), TableDefinition(full_history_ts_low_ms=5), True),
        (TableDefinition(full_history_ts_low_ms=5), TableDefinition(full_history_ts_low_ms=6), False),
        (TableDefinition(), TableDefinition(full_history_ts_low_ms=0), False),
    ],
)
def test_the_retention_by_which_rows_were_chosen(
    before: TableDefinition, after: TableDefinition, is_same: bool
) -> None:
    if is_same:
        SameRetention(before).before_publishing(defined(after))
    else:
        with pytest.raises(CommitConflictError, match="retention"):
            SameRetention(before).before_publishing(defined(after))


@pytest.mark.parametrize(("before", "after"), [("concat", "concat"), (None, None), ("concat", None), (None, "concat")])
def test_the_operator_by_which_operands_were_folded(before: str | None, after: str | None) -> None:
    planned, newest = (
        TableDefinition(properties={} if name is None else {"mergeOperator": name}) for name in (before, after)
    )
    if before == after:
        SameMergeOperator(planned).before_publishing(defined(newest))
    else:
        with pytest.raises(CommitConflictError, match="mergeOperator"):
            SameMergeOperator(planned).before_publishing(defined(newest))
