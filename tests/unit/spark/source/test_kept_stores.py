"""What a planning process of Spark keeps of tables: the next query only looks for what is newer, and misses nothing."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.options import ReadOptions
from slatespark.spark.source import kept_stores as module
from slatespark.spark.source.datasource import SlateDataSource
from slatespark.spark.source.kept_stores import MOST_TABLES, kept_stores
from slatespark.spark.source.partitions import SlatePartition
from slatespark.storage import open_store
from slatespark.storage.counted_store import CountedStore, RequestTally
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.held_tail import HeldTail
from slatespark.table.stores import open_stores
from tests.support.wal_files import encode_wal


@pytest.fixture(autouse=True)
def _no_kept_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    module._kept.clear()


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> RequestTally:
    """The requests of stores that are opened for options."""
    tally = RequestTally()
    monkeypatch.setattr("slatespark.table.stores.open_store", lambda *given: CountedStore(open_store(*given), tally))
    return tally


def queried(path: str, **options: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a query, planned as Spark does in its processes."""
    source = SlateDataSource({"path": path, **options})
    schema = source.schema()
    reader = pickle.loads(pickle.dumps(source)).reader(schema)
    planned = pickle.loads(pickle.dumps(reader))
    parts = pickle.loads(pickle.dumps(planned.partitions()))
    return [
        row for part in parts for batch in planned.read(part) for row in zip(*batch.to_pydict().values(), strict=True)
    ]


def made(path: Path, rows: int = 2) -> SlateStore:
    store = SlateStore.create(str(path), "id BIGINT, name STRING", "id")
    store.write(pa.table({"id": range(rows), "name": ["a"] * rows}))
    return store


def requests_of(tally: RequestTally, path: str) -> int:
    before = tally.total
    queried(path)
    found = tally.total - before
    return found.get + found.list


def test_a_second_query_looks_for_what_is_newer_alone(tmp_path: Path, tally: RequestTally) -> None:
    path = str(tmp_path / "t")
    made(tmp_path / "t")
    first = requests_of(tally, path)
    again = requests_of(tally, path)
    assert again < first - 5
    assert requests_of(tally, path) == again


def test_a_query_sees_what_others_have_done_since(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    store = made(tmp_path / "t")
    assert queried(path) == [(0, "a"), (1, "a")]
    store.write(pa.table({"id": [1], "name": ["b"]}))
    assert queried(path) == [(0, "a"), (1, "b")]
    store.write(pa.table({"id": [2], "name": ["c"], "n": [7]}), mergeSchema=True)
    assert queried(path) == [(0, "a", None), (1, "b", None), (2, "c", 7)]
    store.dropColumns("n")
    assert queried(path) == [(0, "a"), (1, "b"), (2, "c")]
    SlateStore.drop(path)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="TableNotFoundError"):
            queried(path)
    SlateStore.create(path, "key STRING, n INT", "key").write(pa.table({"key": ["x"], "n": pa.array([1], pa.int32())}))
    assert queried(path) == [("x", 1)]


def test_a_client_creates_a_database_where_a_typed_table_was(tmp_path: Path) -> None:
    path = tmp_path / "t"
    made(path)
    opened = SlateStore.open(str(path))
    assert len(opened.scan().read_all()) == len(queried(str(path))) == 2
    SlateStore.drop(str(path))
    SlateStore.create(str(path)).write(pa.table({"key": [b"k"], "value": [b"v"]}))
    shutil.rmtree(path / "slatespark")  # of which a client writes nothing
    for _ in range(3):  # the first look finds no definition, and later ones remember that
        assert queried(str(path)) == [(b"k", b"v")]
        assert opened.scan().read_all().to_pylist() == [{"key": b"k", "value": b"v"}]


def test_another_location_or_storage_option_has_stores_of_its_own(tmp_path: Path) -> None:
    def kept(**options: str) -> object:
        return kept_stores(ReadOptions.parse({"path": str(tmp_path / "t"), **options}))

    assert kept() is kept()
    assert kept() is kept(filter="id = 1")
    assert len({*map(id, (kept(), kept(walPath=str(tmp_path / "w")), kept(**{"storage.region": "r"})))}) == 3


def test_a_relative_root_of_external_paths_is_that_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ReadOptions.parse({"path": str(tmp_path / "clone"), "storage.root": "parents"})
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert kept_stores(options).storage["root"] == str(tmp_path / name / "parents")


def test_only_the_tables_used_last_are_kept(tmp_path: Path) -> None:
    options = [ReadOptions.parse({"path": str(tmp_path / str(number))}) for number in range(MOST_TABLES + 1)]
    first = [kept_stores(each) for each in options[:2]]
    assert kept_stores(options[0]) is first[0]
    for each in options[2:]:
        kept_stores(each)
    assert kept_stores(options[0]) is first[0]
    assert kept_stores(options[1]) is not first[1]


@pytest.fixture
def live(tmp_path: Path) -> Path:
    """A table with rows in its WAL, as a client leaves them."""
    path = tmp_path / "live"
    store = SlateStore.create(str(path))
    for key in (b"a", b"z"):
        store.write(pa.table({"key": [key], "value": [b"1"]}))
    _, manifest = fetch_latest_manifest(open_stores(str(path), storage={}))
    rows = [Row(b"%c" % key, manifest.last_l0_seq + 1 + at, value=b"2") for at, key in enumerate(b"bcd")]
    for number, row in enumerate(rows, manifest.wal_id_last_seen + 1):
        (path / wal_path(number)).write_bytes(encode_wal([replace(row, seq=row.seq)]))
    return path


def test_the_wal_is_kept_for_the_next_queries(live: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while other tables are read, unless all of them take too much memory: the last used ones stay."""
    expected = [(b"a", b"1"), (b"b", b"2"), (b"c", b"2"), (b"d", b"2"), (b"z", b"1")]
    paths = [live, shutil.copytree(live, tmp_path / "second"), shutil.copytree(live, tmp_path / "third")]
    kept = [kept_stores(ReadOptions.parse({"path": str(path)})).heads for path in paths]
    for path in (*paths, *paths):
        assert sorted(queried(str(path), splitSize="1")) == expected
    assert all(isinstance(heads.tail, HeldTail) for heads in kept)
    tail = kept[0].tail
    queried(str(live), splitSize="1")
    assert kept[0].tail is tail
    assert isinstance(tail, HeldTail)
    monkeypatch.setattr(module, "MOST_TAIL_BYTES", tail.memory_bytes)
    assert tail.memory_bytes > 3 * 2
    made(tmp_path / "other")
    for path in (live, tmp_path / "other"):
        queried(str(path))
    assert [heads.tail is not None for heads in kept] == [True, False, False]
    for path in paths:
        assert sorted(queried(str(path), splitSize="1")) == expected


def test_parts_take_nothing_along_that_is_kept(live: Path) -> None:
    source = SlateDataSource({"path": str(live)})
    reader = source.reader(source.schema())
    sizes = []
    for _ in range(2):
        parts = reader.partitions()
        assert all(isinstance(part, SlatePartition) for part in parts)
        sizes.append(len(pickle.dumps([reader, *parts])))
    assert sizes[0] == sizes[1]
