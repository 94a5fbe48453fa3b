"""Dumps of single objects, against what independent decoders found in the files of real clients."""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from slatespark import CorruptDataError, InvalidRequestError, SlateStore, SstWriter, UnsupportedFormatError
from slatespark.format.ulid import Ulid
from slatespark.format.wal import decode_wal
from slatespark.table.inspection.dump import ObjectDump, dump_object
from slatespark.table.stores import open_stores
from tests.support.fake_clock import FakeClock
from tests.support.fixture_databases import FixtureDatabase, fixture_databases

NOW_MS = 1_700_000_000_000
MANY = 1 << 40
SCHEMA = pa.schema([pa.field("tenant", pa.string(), nullable=False), ("n", pa.int64()), ("v", pa.string())])

_names = count()


def bytes_of(text: str | None) -> bytes | None:
    """Bytes as the fixtures spell them."""
    return None if text is None else bytes.fromhex(text.removeprefix("x"))


def ulid_bytes(text: str) -> bytes:
    """An id that they spell as a ULID."""
    ulid = Ulid.parse(text)
    return ulid.high.to_bytes(8, "big") + ulid.low.to_bytes(8, "big")


def dump(database: FixtureDatabase, name: str = "manifest", **more: Any) -> ObjectDump:
    return dump_object(open_stores(str(database.path), storage={}), name, **more)


@pytest.fixture(params=fixture_databases(), ids=lambda database: f"{database.root.name}-{database.name}")
def database(request: pytest.FixtureRequest) -> FixtureDatabase:
    found: FixtureDatabase = request.param
    return found


# --- files of real clients ------------------------------------------------------------------------------------------


def test_the_newest_manifest(database: FixtureDatabase) -> None:
    expected = database.expected["manifest"]
    found = dump(database)
    content = found.content
    assert (found.kind, content["number"]) == ("manifest", database.expected["manifest_id"])
    for name in ("writer_epoch", "compactor_epoch", "replay_after_wal_id", "wal_id_last_seen", "last_l0_clock_tick"):
        assert content[name] == expected[name], name
    assert {sst["id"]: (sst["first_entry"], sst["index_offset"], sst["stats_len"]) for sst in content["ssts"]} == {
        sst["id"]: (bytes_of(sst["info"]["first_entry"]), sst["info"]["index_offset"], sst["info"]["stats_len"])
        for sst in expected["ssts"]
    }
    root = [view for view in content["views"] if not view["segment"]]
    assert [view["sst"] for view in root if view["layer"] == "L0"] == [view["sst_id"] for view in expected["l0"]]
    assert [(view["layer"], view["sst"]) for view in root if view["layer"] != "L0"] == [
        (f"run {run['id']}", view["sst_id"]) for run in expected["compacted"] for view in run["ssts"]
    ]
    points = [(UUID(point["id"]), point["manifest_id"], point["name"]) for point in content["checkpoints"]]
    assert points == [
        (UUID(bytes=ulid_bytes(point["id"])), point["manifest_id"], point["name"])
        for point in expected["checkpoints"] or []
    ]


def test_all_rows_of_all_files(database: FixtureDatabase) -> None:
    found = set()
    content = dump(database).content
    folder = database.path / "wal"
    names = [sst["id"] for sst in content["ssts"]]
    names += [f"wal/{path.name}" for path in folder.glob("*.sst")] if folder.exists() else []
    for name in names:
        for row in dump(database, name, rows=MANY).content.get("rows", ()):
            value = None if row["op"] == "delete" else row["value"]
            found.add((row["key"], row["seq"], row["op"], value, row["create_ts_ms"], row["expire_ts_ms"]))
    assert set(database.stored_rows()) <= found


def test_sections_are_where_the_manifest_says(database: FixtureDatabase) -> None:
    for sst in dump(database).content["ssts"]:
        content = dump(database, sst["id"]).content
        assert content["info"] == {name: value for name, value in sst.items() if name not in ("id", "format")}
        sections = {part["section"]: (part["start"], part["bytes"]) for part in content["layout"]}
        assert sections["index"] == (sst["index_offset"], sst["index_len"])
        assert sum(block["bytes"] for block in content["blocks"]) == sections["data"][1]
        assert "rows" not in content


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> SlateStore:
    table = SlateStore.create(f"memory://dump-{next(_names)}", SCHEMA, ["tenant", "n"], clock=FakeClock(NOW_MS))
    table.write(pa.table({"tenant": ["a", "b"], "n": [1, 2], "v": ["x", "y"]}, schema=SCHEMA))
    return table


def test_objects_have_several_names(store: SlateStore) -> None:
    number = store.detail().version
    names = ["manifest", f"manifest/{number}", f"manifest/{number:020d}.manifest"]
    assert len({str(store.dump(name)) for name in names}) == 1
    [file] = store.files()
    assert store.dump(file.id) == store.dump(f"compacted/{file.id}.sst") == store.dump(f"{file.id}.sst")
    assert store.dump("manifest/1").content["ssts"] == []


@pytest.mark.parametrize(
    "name",
    [
        *("", "manifests", "manifest/", "manifest/x", "manifest/99", f"manifest/{1 << 64}", f"wal/{'9' * 5000}"),
        *("compactions/7", "wal/88", "01M7YRCTNXV7M11BN6XY9T5SN6", "no.sst", "compacted/x.sst", "other.txt"),
    ],
)
def test_what_is_not_there(store: SlateStore, name: str) -> None:
    with pytest.raises(InvalidRequestError):
        store.dump(name)


def test_properties_and_a_label_are_shown(store: SlateStore, tmp_path: Path) -> None:
    [file] = store.files()
    own = store.dump(file.id, rows=1)
    assert own.content["properties"]["puts"] == 2
    assert own.content["label"] is None
    assert [row["seq"] for row in own.content["rows"]] == [1]
    rows = pa.table({"tenant": ["c"], "n": [3], "v": ["z"]}, schema=SCHEMA)
    SstWriter(str(tmp_path / "made.sst"), keyColumns=["tenant", "n"], clock=FakeClock(NOW_MS)).write(rows)
    made = dump_object(open_stores(str(tmp_path), storage={}), "made.sst", rows=5)
    assert made.kind == "external sst"
    assert made.content["label"]["stampMs"] == NOW_MS
    assert len(made.content["rows"]) == 1


def test_an_sst_of_the_parent_of_a_clone(tmp_path: Path) -> None:
    parent = SlateStore.create(str(tmp_path / "parent"))
    parent.write(pa.table({"key": [b"k"], "value": [b"v"]}))
    [file] = parent.files()
    found = parent.clone(str(tmp_path / "child")).dump(file.id, rows=1)
    assert found.url == parent.dump(file.id).url
    assert found.content["rows"][0]["key"] == b"k"


def test_a_fence(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"))
    store.write(pa.table({"key": [b"k"], "value": [b"v"]}))
    fence = next(path for path in (tmp_path / "db" / "wal").iterdir() if not path.stat().st_size)
    assert store.dump(f"wal/{fence.name}").content == {"fence": True}


@pytest.mark.parametrize(("name", "rows"), [(None, 0), (5, 0), (b"manifest", 0), ("wal/1", -1), ("wal/1", 1.5)])
def test_what_names_no_object(tmp_path: Path, name: Any, rows: Any) -> None:
    with pytest.raises(InvalidRequestError):
        SlateStore.create(str(tmp_path / "db")).dump(name, rows=rows)


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damage_is_never_shown(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"))
    store.write(pa.table({"key": [b"%03d" % n for n in range(100)], "value": [b"v"] * 100}), blockSize="1k")
    [path] = (tmp_path / "db" / "compacted").iterdir()
    whole, shown = path.read_bytes(), store.dump(path.name, rows=MANY).content
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with contextlib.suppress(CorruptDataError):
            found = store.dump(path.name, rows=MANY).content
            # Without the mark at its end the gap holds something that is not ours, as files of other clients may.
            assert found in (shown, {**shown, "properties": None}), at
    for length in range(0, len(whole), 50):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptDataError, match=path.name):
            store.dump(path.name, rows=MANY)


@pytest.mark.parametrize("folder", ["manifest", "compactions"])
def test_damaged_numbered_objects(tmp_path: Path, folder: str) -> None:
    store = SlateStore.create(str(tmp_path / "db"))
    store.write(pa.table({"key": [b"k"], "value": [b"v"]}))
    store.compact(full=True, force=True)
    assert store.dump(folder).kind == folder
    path = max((tmp_path / "db" / folder).iterdir())
    whole = path.read_bytes()
    for length in (0, 1, 2, 7, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises((CorruptDataError, UnsupportedFormatError), match=path.name):
            dump_object(open_stores(store.url, storage={}), folder)


def test_a_file_that_is_not_the_one_in_the_manifest(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "db"))
    for number in range(2):
        store.write(pa.table({"key": [b"%d" % number], "value": [b"v" * 50 * number]}))
    one, two = sorted((tmp_path / "db" / "compacted").iterdir())
    one.write_bytes(two.read_bytes())
    with pytest.raises(CorruptDataError, match=one.name):
        store.dump(one.name)


def test_rows_of_a_wal_file_are_in_its_order(database: FixtureDatabase) -> None:
    for path in sorted((database.path / "wal").glob("*.sst")) if (database.path / "wal").exists() else ():
        data = path.read_bytes()
        if not data:
            continue
        rows = decode_wal(data)
        content = dump(database, f"wal/{path.name}", rows=MANY).content
        assert [row["seq"] for row in content["rows"]] == rows.seqs.tolist()
        assert content["info"]["first_seq"] == int(rows.seqs[0])
