from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import (
    CompactionWorker,
    InvalidRequestError,
    OptionError,
    SchemaError,
    SlateStore,
    SstWriter,
    TableExistsError,
    TableNotFoundError,
    Upkeep,
)
from tests.support.client import Client, ClientOptions, Location, Ttl


def new_store(name: str) -> SlateStore:
    return SlateStore.create(f"memory://slate-store-{name}")


def test_an_expiry_beyond_the_calendar_is_a_number(tmp_path: Path) -> None:
    location = Location.local(tmp_path / "db")
    with Client.open(location, ClientOptions()) as client:
        client.put(b"a", b"1", Ttl(after_ms=2**61))
        client.flush_wal()
    row = SlateStore.open(str(location.folder)).get(b"a", metadataColumns=True)
    assert row is not None
    assert isinstance(row["_expire_ts"], int)
    assert row["_expire_ts"] > 2**53


def test_invalid_creations_and_opens_are_refused() -> None:
    store = new_store("exists")
    with pytest.raises(TableExistsError):
        SlateStore.create(store.url)
    with pytest.raises(TableNotFoundError):
        SlateStore.open("memory://slate-store-nowhere")


def test_columns_as_text_are_those_of_a_schema() -> None:
    store = SlateStore.create("memory://slate-store-text", "id BIGINT NOT NULL, `a b` STRING", "id")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a b", pa.string())])
    assert store.definition.schema == schema
    with pytest.raises(SchemaError):
        SlateStore.create("memory://slate-store-bad-text", "id WHATEVER", "id")


@pytest.mark.parametrize("key", [(), (b"",), ("text",), (b"a", b"b")])
def test_get_takes_one_key_as_bytes(key: tuple[object, ...]) -> None:
    with pytest.raises(InvalidRequestError, match="key"):
        new_store(f"get-{len(key)}-{key!r}").get(*key)


def test_a_misspelt_checkpoint_is_no_trimmed_history() -> None:
    store = new_store("misspelt")
    store.createCheckpoint("nightly")
    for call in (store.scan, store.resolve, store.snapshot):
        with pytest.raises(InvalidRequestError, match=r"no checkpoint 'nigtly'.* nightly"):
            call(checkpoint="nigtly")


def test_wrong_calls_are_refused_and_change_nothing() -> None:
    store = new_store("calls")
    with pytest.raises(OptionError, match="order"):
        store.scan(order="sideways")
    with pytest.raises(OptionError, match="mode"):
        store.write(pa.table({"key": [b"a"], "value": [b"1"]}), mode="replace")
    with pytest.raises(SchemaError, match="columns"):
        store.write([1, 2])
    with pytest.raises(TableExistsError, match="ifExists"):
        store.write(pa.table({"key": [b"a"], "value": [b"1"]}), ifExists="error")
    assert store.write(pa.table({"key": [b"a"], "value": [b"1"]}), ifExists="ignore") == 1
    assert store.scan().read_all().num_rows == 0


def test_rows_come_from_tables_batches_readers_and_iterables() -> None:
    store = new_store("inputs")
    table = pa.table({"key": [b"a", b"b"], "value": [b"1", b"2"]})
    for given in (table, table.to_batches()[0], table.to_reader(), iter(table.to_batches()), table.to_batches()):
        store.write(given, mode="overwrite")
        assert store.scan().read_all().to_pylist() == table.to_pylist()


def test_paths_may_be_path_objects(tmp_path: Path) -> None:
    store = SlateStore.create(tmp_path / "t")
    SstWriter(tmp_path / "file.sst").write(pa.table({"key": [b"a"], "value": [b"1"]}))
    store.ingest(tmp_path / "file.sst")
    store.ingest([tmp_path / "file.sst"])
    clone = store.clone(tmp_path / "clone")
    assert clone.get(b"a") == SlateStore.open(tmp_path / "t").get(b"a") == {"key": b"a", "value": b"1"}


def test_relative_paths_are_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    store, writer = SlateStore.create("t"), SstWriter("file.sst")
    monkeypatch.chdir(tmp_path / "there")
    writer.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    store.ingest(tmp_path / "here" / "file.sst")
    with store.begin() as transaction:
        transaction.write(pa.table({"key": [b"b"], "value": [b"2"]}))
    assert store.scan().read_all()["key"].to_pylist() == [b"a", b"b"]
    assert list((tmp_path / "there").iterdir()) == []


def test_a_path_may_begin_or_end_with_a_space(tmp_path: Path) -> None:
    store = SlateStore.create(f"{tmp_path}/t ")
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    assert store._read_options({}).path == f"{tmp_path}/t "


def test_an_explanation_shows_itself() -> None:
    store = new_store("explained")
    found = store.explain(prices="get=0.4")
    assert str(found).startswith(f"table      {store.url}\n")
    assert "price" in str(found)
    assert found._repr_html_().startswith("<div class='slatespark'")
    assert store.explain("vacuum").operation == "vacuum"


def test_a_table_that_was_created_anew_in_its_place(tmp_path: Path) -> None:
    """A store that has seen the table before, with as many versions, shows nothing of it."""
    folder = tmp_path / "t"

    def create(value: bytes) -> SlateStore:
        store = SlateStore.create(folder)
        store.write(pa.table({"key": [b"a"], "value": [value]}))
        return store

    store = create(b"old")
    assert store.get(b"a") == {"key": b"a", "value": b"old"}
    shutil.rmtree(folder)
    anew = create(b"new")
    assert store.resolve().version == anew.resolve().version
    assert store.get(b"a") == {"key": b"a", "value": b"new"}
    store.write(pa.table({"key": [b"b"], "value": [b"1"]}))
    assert anew.scan().read_all().num_rows == 2


@pytest.mark.parametrize("given", [b"x", 5, None, ["x"]])
def test_what_is_no_location(given: Any, tmp_path: Path) -> None:
    store = new_store(f"no-location-{type(given).__name__}")
    calls: list[Callable[[], object]] = [
        lambda: SlateStore.open(given),
        lambda: SlateStore.create(given),
        lambda: SlateStore.drop(given),
        lambda: store.clone(given),
        lambda: store.copyTo(given),
        lambda: SstWriter(given),
    ]
    if given is not None:
        calls.append(lambda: SlateStore.create(tmp_path / "t", walPath=given))
    for call in calls:
        with pytest.raises(OptionError):
            call()


@pytest.mark.parametrize("name", ["a\0b", "n" * 256, "/".join(["n" * 200] * 30)])
def test_a_local_path_that_no_folder_can_have(name: str, tmp_path: Path) -> None:
    store = new_store(f"no-folder-{len(name)}")
    for path in (f"{tmp_path}/{name}", f"file://{tmp_path}/{name}"):
        calls: list[Callable[[str], object]] = [SlateStore.open, SlateStore.create, SlateStore.drop, store.copyTo]
        for call in calls:
            with pytest.raises(InvalidRequestError):
                call(path)
        with pytest.raises(InvalidRequestError):
            SlateStore.create(tmp_path / "t", walPath=path)


@pytest.mark.parametrize("opened", [SlateStore.open, CompactionWorker, Upkeep])
@pytest.mark.parametrize(
    "given", [{"walPath": 5}, {"walPath": ""}, {"walPath": "memory://a", "wal_path": "memory://b"}]
)
def test_a_location_of_the_wal_that_is_none_or_given_twice(
    opened: Callable[..., object], given: dict[str, Any]
) -> None:
    url = new_store(f"wal-paths-{opened.__name__}-{list(given.values())}").url
    with pytest.raises(OptionError):
        opened(url, **given)


def test_a_schema_without_key_columns(tmp_path: Path) -> None:
    for schema in ("id BIGINT, v STRING", pa.schema([("id", pa.int64())])):
        with pytest.raises(OptionError):
            SlateStore.create(tmp_path / "t", schema)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("name", ["path", "walPath", "wal_path", "storage.endpoint_url"])
def test_a_call_stays_in_the_place_of_the_table(name: str) -> None:
    store = new_store(f"place-{name}")
    rows, options = pa.table({"key": [b"a"], "value": [b"1"]}), {name: "memory://elsewhere"}
    calls: list[Callable[..., object]] = [
        store.scan,
        store.detail,
        store.resolve,
        store.explain,
        partial(store.get, b"a"),
        partial(store.lookup, rows),
        partial(store.write, rows),
    ]
    for call in calls:
        with pytest.raises(OptionError, match=name):
            call(**options)
    assert store.scan().read_all().num_rows == 0


@pytest.mark.parametrize("name", ["startKey", "end_key", "keyPrefix"])
def test_a_range_does_not_narrow_a_look_up(name: str) -> None:
    store = new_store(f"range-{name}")
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    options: dict[str, Any] = {name: b"a"}
    for read in (store.get, store.snapshot().get, store.begin().get):
        with pytest.raises(OptionError, match=r"get: .* does not apply"):
            read(b"a", **options)
    with pytest.raises(OptionError, match=r"getForUpdate: .* does not apply"):
        store.begin().getForUpdate([b"a"], **options)
    assert store.begin().getForUpdate(where="key = x'61'", **options).read_all().num_rows == (name != "end_key")
