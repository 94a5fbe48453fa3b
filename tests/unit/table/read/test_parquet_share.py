"""What another reader of Parquet takes of a read, and what is left."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.paths import copy_path
from slatespark.format.ulid import Ulid
from slatespark.options import ReadOptions
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read import parquet_share
from slatespark.table.read.copies.choice import NO_COPY
from slatespark.table.read.parquet_share import SHADOWED, WHOLE, ParquetShare, plan_parquet_share
from slatespark.table.read.reader import fetch_read_plan, run_read

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.int32())])
_names = itertools.count()


def rows(ids: range, name: str = "old") -> pa.Table:
    return pa.table({"id": ids, "name": [name] * len(ids), "n": ids}, SCHEMA)


def filled() -> SlateStore:
    """A table of several files with copies."""
    store = SlateStore.create(f"memory://parquet-share-{next(_names)}", SCHEMA, "id", columnar=True, autoCompact=False)
    store.write(rows(range(3000)))
    store.compact(full=True, blockSize="1k", sstSize="8k")
    assert len(store.files()) > 3
    return store


def share_of(store: SlateStore, **options: Any) -> ParquetShare:
    parsed = ReadOptions.parse({"path": store.url, "useCopies": True, **options})
    plan = fetch_read_plan(store._stores, parsed, store._clock)
    return plan_parquet_share(store._stores, plan, parsed, plan.settings.projection.names)


def rest_of(store: SlateStore, share: ParquetShare) -> list[int]:
    return [number for batch in run_read(store._stores, share.rest) for number in batch["id"].to_pylist()]


def data_bytes(store: SlateStore) -> int:
    return sum(file.info.data_bytes for file in fetch_latest_manifest(store._stores)[1].ssts.values())


def test_only_files_with_newer_keys_among_theirs_have_shadows() -> None:
    store = filled()
    files, old_bytes = len(store.files()), data_bytes(store)
    store.write(rows(range(5, 7), "new"))
    store.write(rows(range(9, 10)).select(["id"]), operation="delete")
    store.write(rows(range(2990, 2991)))
    store.write(rows(range(5000, 5001)))
    share = share_of(store)
    assert share.reasons == {WHOLE: files - 2, SHADOWED: 2, NO_COPY: 1}, "nothing lies below the last new row"
    assert [file.has_shadows for file in share.files] == [True, *[False] * (files - 2), True]
    assert share.shadows.to_pylist() == [{"id": number} for number in (5, 6, 9, 2990)]
    assert rest_of(store, share) == [5, 6, 2990, 5000]
    assert sum(file.rows for file in share.files) == 3000
    assert (share.stored_bytes, share.rest_bytes) == (old_bytes, data_bytes(store) - old_bytes)


def test_nothing_is_left_of_a_read_of_whole_files() -> None:
    store = filled()
    share = share_of(store)
    assert share.reasons == {WHOLE: len(store.files())}
    assert (share.shadows.num_rows, share.rest.splits, share.rest_bytes) == (0, (), 0)


def test_a_file_of_which_a_part_is_hidden_stays_with_the_rest() -> None:
    store = filled()
    files = len(store.files())
    store.deleteRange("id >= 10 AND id < 2990")
    share = share_of(store)
    assert share.reasons == {"a part of the file is not visible": 2}
    assert files > 2, "the files in between are gone"
    assert (share.files, rest_of(store, share)) == ((), [*range(10), *range(2990, 3000)])


def test_a_read_that_no_copy_answers_says_why() -> None:
    store = filled()
    assert share_of(store, includeDeleted=True).reasons == {"the read shows deletions": len(store.files())}


def test_files_under_many_newer_rows_stay_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_share, "SHADOW_BYTES", 10)
    store = filled()
    files = len(store.files())
    store.write(rows(range(1, 2), "new"))
    share = share_of(store)
    assert share.reasons == {WHOLE: files - 1, "many newer rows, or operands, may lie above": 1}
    assert share.shadows.to_pylist() == []
    taken = sum(file.rows for file in share.files)
    assert 0 < taken < 3000
    assert rest_of(store, share) == list(range(3000 - taken)), "the first file, with the newer row"


def test_files_beside_those_that_are_taken_are_no_newer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the same run without a copy, or of which a part is hidden, hides nothing of its neighbours."""
    store = filled()
    files = store.files()
    store._stores.main.delete(copy_path(Ulid.parse(files[1].id)))
    store.deleteRange("id >= 1500 AND id < 1510")
    store.write(rows(range(1, 2), "new"))
    store.write(rows(range(2998, 2999), "new"))
    newer_bytes = sum(file.stored_bytes for file in store.files()[:2])
    monkeypatch.setattr(parquet_share, "SHADOW_BYTES", newer_bytes)
    share = share_of(store)
    assert share.reasons.get(SHADOWED) == 2
    assert share.shadows.to_pylist() == [{"id": 1}, {"id": 2998}]
    taken = sum(file.rows for file in share.files)
    assert taken + len(rest_of(store, share)) == 3000 - 10 + 2, "the old rows that are hidden are counted twice"


@pytest.mark.parametrize(("share", "is_taken"), [(1, True), (1 << 20, False)])
def test_newer_rows_may_be_a_share_of_what_is_taken(
    monkeypatch: pytest.MonkeyPatch, share: int, is_taken: bool
) -> None:
    """A share of one in `share`."""
    monkeypatch.setattr(parquet_share, "LEAST_SHADOW_BYTES", 0)
    monkeypatch.setattr(parquet_share, "_SHADOW_SHARE", share)
    store = filled()
    store.write(rows(range(1, 2), "new"))
    assert (SHADOWED in share_of(store).reasons) is is_taken


def test_only_files_that_the_read_needs_are_taken() -> None:
    store = filled()
    share = share_of(store, filter="id >= 2995")
    assert share.reasons == {WHOLE: 1}
    assert share.rest.splits == ()


def test_a_column_that_was_widened_since_is_not_taken() -> None:
    store = filled()
    files = len(store.files())
    store.write(pa.table({"id": [5000], "name": ["new"], "n": pa.array([1 << 40], pa.int64())}), mergeSchema=True)
    wider = {"the copy has no column n of the type of the read": files, NO_COPY: 1}
    assert share_of(store, columns="id, n").reasons == wider
    assert share_of(store, columns="id, name").reasons == {WHOLE: files, NO_COPY: 1}


def test_a_file_says_which_columns_have_nan() -> None:
    schema = pa.schema([("id", pa.int64()), ("f", pa.float64()), ("g", pa.float64())])
    store = SlateStore.create(f"memory://parquet-share-{next(_names)}", schema, "id", columnar=True, autoCompact=False)
    store.write(pa.table({"id": range(999), "f": [math.nan] * 999, "g": [0.5] * 999}, schema))
    store.compact(full=True)
    [file] = share_of(store).files
    assert (file.nans, file.rows) == (frozenset({"f"}), 999)
    assert {"id", "f", "g"} <= file.names


def test_whatever_is_newest_hides_an_older_row_also_when_the_read_does_not_show_it() -> None:
    store = filled()
    store.write(rows(range(5, 6), "new"), ttl="1h")
    store.write(rows(range(7, 8), "new"))
    now_ms = SystemClock().now_ms() + 2 * 3_600_000
    share = share_of(store, now=now_ms, filter="name = 'old' AND n >= 0")
    assert share.shadows.to_pylist() == [{"id": 5}, {"id": 7}]
    assert rest_of(store, share) == []
