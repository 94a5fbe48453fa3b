from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import OptionError, SlateStore
from slatespark.display.files_text import files_text
from slatespark.options import ReadOptions
from slatespark.table.clock import SystemClock
from slatespark.table.inspection.describe import ColumnFacts, RowFacts, TableFacts, describe_table
from slatespark.table.inspection.files import FileFacts, list_files
from slatespark.table.records.commit_record import COMMITS_DIR
from slatespark.table.stores import open_stores
from tests.support.fake_clock import FakeClock
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_databases
from tests.support.round_trips import DistantTable

DATABASES = fixture_databases()


def describe(path: Path, *, count_rows: bool = False, **options: object) -> TableFacts:
    stores = open_stores(str(path), storage={"root": str(FIXTURES)})
    parsed = ReadOptions.parse({"path": str(path), **options})
    return describe_table(stores, parsed, SystemClock(), count_rows=count_rows)


def files(path: Path, *, count_rows: bool = False) -> tuple[FileFacts, ...]:
    stores = open_stores(str(path), storage={"root": str(FIXTURES)})
    return list_files(stores, ReadOptions(path=str(path)), SystemClock(), count_rows=count_rows)


@pytest.mark.parametrize("database", DATABASES, ids=[database.name for database in DATABASES])
def test_facts_of_every_fixture(database: FixtureDatabase) -> None:
    facts = describe(database.path, count_rows=True)
    assert facts.version == database.expected["manifest_id"]
    assert facts.versions[-1] == facts.version
    assert facts.last_seq >= max((row[1] for row in database.stored_rows()), default=0)
    listed = files(database.path, count_rows=True)
    assert len({(file.root, file.id) for file in listed}) == facts.files
    assert facts.stored_bytes == sum({file.id: file.stored_bytes for file in listed}.values())
    assert sum(codec.files for codec in facts.codecs) == facts.files
    assert facts.l0_views == sum(file.layer == "L0" for file in listed)
    assert facts.rows is not None
    known = {file.id: file.rows for file in listed if file.rows is not None}
    assert facts.rows.puts + facts.rows.deletes + facts.rows.merges == sum(known.values())


def test_checkpoints_and_older_versions() -> None:
    facts = describe(FIXTURES / "checkpoints")
    assert [(point.name, point.version) for point in facts.checkpoints] == [("named", 4), (None, 5)]
    assert [point.expires_ms is None for point in facts.checkpoints] == [True, False]
    older = describe(FIXTURES / "checkpoints", checkpoint="named")
    assert (older.version, older.l0_views) == (4, facts.l0_views - 1)


def test_clones_segments_and_held_compactions() -> None:
    [parent] = describe(FIXTURES / "clone" / "child").external
    assert (parent.path, parent.files) == ("clone/parent", 1)
    assert {file.root for file in files(FIXTURES / "clone" / "child")} == {None, str(FIXTURES / "clone" / "parent")}
    assert describe(FIXTURES / "segments").segments == ("616161", "626262", "636363")
    [job] = describe(FIXTURES / "history").jobs
    assert (job.status, job.heartbeat_ms) == ("running", 1 << 62)


def test_an_empty_table(tmp_path: Path) -> None:
    SlateStore.create(str(tmp_path / "t"))
    facts = describe(tmp_path / "t", count_rows=True)
    assert (facts.version, facts.files, facts.last_seq, facts.clock_tick_ms) == (1, 0, 0, None)
    assert facts.rows == RowFacts(0, 0, 0, 0)
    assert facts.wal.last_seq is None
    assert files(tmp_path / "t") == ()


def test_commit_records_add_file_facts_and_are_harmless_when_damaged(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]}), ttl=1000, compression="zstd")
    [file] = files(tmp_path / "t")
    assert (file.rows, file.min_seq, file.max_seq, file.compression) == (2, 1, 1, "zstd")
    assert file.min_create_ms is not None
    assert file.max_expire_ms == file.min_create_ms + 1000
    for record in (tmp_path / "t" / COMMITS_DIR).iterdir():
        record.write_text("{")
    [file] = files(tmp_path / "t")
    assert (file.rows, file.min_seq) == (None, None)


# --- definitions ----------------------------------------------------------------------------------------------------


def test_files_list_their_features(tmp_path: Path) -> None:
    clock = FakeClock(1_700_000_000_000)
    store = SlateStore.create(str(tmp_path), clock=clock)
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}), ttl="1h")
    store.write(pa.table({"key": [b"a"]}), operation="delete")
    clock.advance(5)
    rows = pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"], "op": ["merge", "put"]})
    store.write(rows, opColumn="op", ttl="1s")
    found = store.files()
    assert [(file.features, file.properties_version) for file in found] == [
        (("create_ts", "ttl", "merges"), 1),
        (("create_ts", "tombstones"), 1),
        (("create_ts", "ttl"), 1),
        (("create_ts",), 1),
    ]
    newest = found[0]
    assert (newest.created_ms, newest.rows, newest.min_seq, newest.max_seq) == (1_700_000_000_005, 2, 4, 4)
    assert (newest.min_create_ms, newest.max_create_ms) == (1_700_000_000_005, 1_700_000_000_005)
    assert (newest.min_expire_ms, newest.max_expire_ms) == (1_700_000_001_005, 1_700_000_001_005)
    assert "has" in files_text(found).splitlines()[0].split()
    assert "create_ts, ttl, merges" in files_text(found)


def test_files_of_other_clients_have_only_manifest_facts() -> None:
    file = files(FIXTURES / "merge")[0]
    assert (file.features, file.properties_version, file.min_seq, file.rows) == (None, None, None, None)
    assert file.created_ms > 0


def test_a_typed_table(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("tags", pa.list_(pa.string()))])
    store = SlateStore.create(str(tmp_path / "t"), schema=schema, keyColumns=["id"], defaultTtl="7d")
    facts = store.detail()
    assert facts.kind == "typed"
    assert facts.definition is not None
    assert (facts.definition.key_columns, facts.definition.key_format) == (("id",), "tuple")
    assert facts.definition.columns == (
        ColumnFacts("id", "BIGINT", False, 0),
        ColumnFacts("tags", "ARRAY<STRING>", True, None),
    )
    assert "defaultTtl" in facts.definition.properties


def test_a_raw_table_with_properties_has_a_definition(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    assert (store.detail().kind, store.detail().definition) == ("raw", None)
    store.setProperties(defaultTtl="7d")
    definition = store.detail().definition
    assert definition is not None
    assert (definition.columns, definition.key_columns) == ((), ())
    assert "defaultTtl" in str(store)


def test_layers(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a", b"m"], "value": [b"1", b"2"]}))
    store.write(pa.table({"key": [b"c"], "value": [b"3"]}))
    newer, older = store.runs()
    assert (newer.number, newer.name, newer.files, newer.start, newer.end) == (0, "run 1", 1, b"c", b"c\0")
    assert (older.number, older.start, older.end) == (1, b"a", b"m\0")
    assert [part.id for part in older.parts] == [store.files()[1].id]
    assert store.runs(versionAsOf=3) == (replace(older, number=0),)


def test_a_clone_without_its_parent(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "clone" / "child", tmp_path / "child")
    store = SlateStore.open(str(tmp_path / "child"))
    assert store.detail().kind == "unknown"
    assert "kind  " in str(store)


@pytest.mark.parametrize(
    "option", [{"filter": "_seq = 1"}, {"includeExpired": True}, {"now": 0}, {"startKey": b"a"}, {"readBuffer": "1m"}]
)
def test_an_option_that_would_change_nothing_is_refused(option: dict[str, Any]) -> None:
    store = SlateStore.create("memory://described")
    for call in (store.detail, store.files, store.runs, store.timeline):
        with pytest.raises(OptionError, match=next(iter(option))):
            call(**option)
    SlateStore.drop(store.url)


def test_none_is_no_property_of_a_new_table() -> None:
    store = SlateStore.create(
        "memory://with-none", "id BIGINT", "id", versionRetention=None, history=None, walPath=None
    )
    assert store.definition.properties == {}
    SlateStore.drop(store.url)


def test_what_a_description_lists_is_fetched_together() -> None:
    SlateStore.create("memory://described", "id BIGINT", "id", clock=(clock := FakeClock()))
    spent = DistantTable("described", clock).spent(lambda store: store.detail())
    assert spent.round_trips <= spent.requests - 3  # copies, jobs, versions, and the newest of them
