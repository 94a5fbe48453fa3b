"""How large tables, rows and schemas may be: served, or refused with nothing changed. Thorough runs try full sizes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest

from slatespark import CorruptDataError, SchemaError, SlateStore, TableNotFoundError
from slatespark.format.codecs import Compression
from slatespark.format.index import decode_index_section, encode_index_section
from slatespark.format.info import (
    Footer,
    decode_footer,
    decode_info_section,
    encode_footer,
    encode_info_section,
    footer_range,
    info_range,
)
from slatespark.format.manifest import Checkpoint
from slatespark.format.paths import sst_path
from slatespark.format.row import Row
from slatespark.format.sst import layout_of
from slatespark.table.clock import SystemClock
from slatespark.table.log.manifests import fetch_latest_manifest, publish_manifest
from slatespark.table.stores import open_stores
from tests.support.effort import THOROUGH
from tests.support.wal_files import encode_wal

MAX_KEY_BYTES = 65_535
VALUE_BYTES = 1 << 30 if THOROUGH else 20 << 20
COLUMNS = 10_000 if THOROUGH else 1_000
CHECKPOINTS = 10_000 if THOROUGH else 1_000
WAL_FILES = 100_000 if THOROUGH else 500
SST_BYTES = 20 << 30


def test_keys() -> None:
    store = SlateStore.create("memory://limits/keys")
    longest = b"k" * MAX_KEY_BYTES
    store.write(pa.table({"key": [longest], "value": [b"v"]}))
    assert store.get(longest) == {"key": longest, "value": b"v"}
    with pytest.raises(SchemaError):
        store.write(pa.table({"key": [longest + b"k"], "value": [b"v"]}))
    store.write(pa.table({"key": [longest + b"k"]}), operation="delete")  # perhaps of a row that a client wrote
    store.compact(full=True, force=True)
    assert store.scan().read_all().num_rows == 1


def test_a_large_value(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "table"))
    data, offsets = np.full(VALUE_BYTES, 7, np.uint8), np.array([0, VALUE_BYTES], np.int64)
    value = pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    store.write(pa.table({"key": [b"large"], "value": value}))
    store.compact(full=True, force=True)
    found = store.scan().read_all().column("value")[0].as_buffer()
    assert len(found) == VALUE_BYTES
    assert bytes(found[-2:]) == b"\7\7"


def test_many_columns() -> None:
    names = [f"c{number}" for number in range(COLUMNS)]
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), *((name, pa.int32()) for name in names)])
    store = SlateStore.create("memory://limits/columns", schema, "id", columnar=True)
    rows = pa.table({"id": [1, 2], **{name: pa.array([number, None], pa.int32()) for number, name in enumerate(names)}})
    store.write(rows)
    store.write(rows.append_column("one more", pa.array([1, 2])), mergeSchema=True)
    store.compact(full=True)
    last = names[-1]
    assert store.scan(columns=f"id,{last}", filter="c7 = 7").read_all().to_pylist() == [{"id": 1, last: COLUMNS - 1}]
    assert store.scan().read_all().drop_columns("one more").to_pydict() == rows.to_pydict()


def nested(levels: int) -> pa.DataType:
    kind: pa.DataType = pa.int32()
    for level in range(levels):
        kind = (pa.list_(kind), pa.struct([("part", kind)]), pa.map_(pa.int32(), kind))[level % 3]
    return kind


def value(levels: int) -> object:
    found: object = 7
    for level in range(levels):
        found = ([found], {"part": found}, [(level, found)])[level % 3]
    return found


@pytest.mark.parametrize("formats", [{}, {"keyFormat": "utf8", "valueFormat": "json"}], ids=["avro", "json"])
def test_nesting(formats: dict[str, str]) -> None:
    if formats:  # whose maps have keys of text alone
        kind: pa.DataType = pa.int32()
        row: object = 7
        for level in range(100):
            kind, row = (pa.list_(kind), [row]) if level % 2 else (pa.struct([("part", kind)]), {"part": row})
    else:
        kind, row = nested(100), value(100)
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("v", kind)])
    url = f"memory://limits/nesting-{len(formats)}"
    store = SlateStore.create(url, schema, "id", columnar=True, **formats)
    store.write(pa.Table.from_pylist([{"id": "a", "v": row}], schema))
    store.compact(full=True, force=True)
    assert store.scan().read_all().to_pylist() == [{"id": "a", "v": row}]
    assert not store.verify().findings


@pytest.mark.parametrize("levels", [101, 400, 2000])
def test_nesting_beyond_that(levels: int) -> None:
    schema = pa.schema([("id", pa.string()), ("v", nested(levels))])
    url = f"memory://limits/nesting-{levels}"
    with pytest.raises(SchemaError, match="nests more than 100"):
        SlateStore.create(url, schema, "id")
    with pytest.raises(TableNotFoundError):
        SlateStore.open(url)


def test_many_checkpoints() -> None:
    url = "memory://limits/checkpoints"
    store = SlateStore.create(url)
    version = store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    stores = open_stores(url, storage={})
    number, manifest = fetch_latest_manifest(stores)
    points = tuple(Checkpoint(UUID(int=at + 1), version, 0, 1_700_000_000, f"c{at}") for at in range(CHECKPOINTS))
    publish_manifest(stores, number + 1, replace(manifest, checkpoints=points, nonce=7), manifest, SystemClock())
    store = SlateStore.open(url)
    store.createCheckpoint("one more")
    store.write(pa.table({"key": [b"a"], "value": [b"2"]}))
    assert len(store.checkpoints()) == CHECKPOINTS + 1
    last = f"c{CHECKPOINTS - 1}"
    assert store.scan(checkpoint=last).read_all().to_pylist() == [{"key": b"a", "value": b"1"}]
    store.deleteCheckpoint(last)
    store.compact(full=True)
    store.vacuum(minAge="0s", force=True)
    assert store.scan(checkpoint="c0").read_all().to_pylist() == [{"key": b"a", "value": b"1"}]


def test_a_long_wal(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "table"))
    store.write(pa.table({"key": [b"first"], "value": [b"v"]}))
    _, manifest = fetch_latest_manifest(open_stores(store.url, storage={}))
    for at in range(WAL_FILES):
        row = Row(b"k%06d" % at, manifest.last_l0_seq + 1 + at, value=b"v")
        (tmp_path / f"table/wal/{manifest.wal_id_last_seen + 1 + at:020d}.sst").write_bytes(encode_wal([row]))
    store = SlateStore.open(store.url)
    assert store.scan().read_all().num_rows == WAL_FILES + 1
    assert store.get(b"k%06d" % (WAL_FILES - 1)) == {"key": b"k%06d" % (WAL_FILES - 1), "value": b"v"}


def test_a_large_sst(tmp_path: Path) -> None:
    """Its last block lies 20 GiB behind the first one, and the file has a hole between them."""
    store = SlateStore.create(str(tmp_path / "table"))
    values = [np.random.default_rng(number).bytes(1000) for number in range(3)]
    rows = pa.table({"key": [b"a", b"b", b"c"], "value": values})
    store.write(rows, blockSize=1024, compression="none", bloomBitsPerKey=0)
    stores = open_stores(store.url, storage={})
    number, manifest = fetch_latest_manifest(stores)
    [ulid] = manifest.ssts
    path = tmp_path / "table" / sst_path(ulid)
    data = path.read_bytes()
    tail = footer_range(len(data))
    footer = decode_footer(data[tail.start : tail.end])
    span = info_range(footer, len(data))
    info = decode_info_section(data[span.start : span.end])
    layout = layout_of(info, footer, len(data))
    index = decode_index_section(data[layout.index.start : layout.index.end], info)
    first, second, third, end = index.block_edges(info).tolist()
    moved = replace(index, block_offsets=np.array([first, second, SST_BYTES], np.int64))
    section = encode_index_section(moved, Compression.NONE)
    index_at = SST_BYTES + end - third
    info = replace(
        info, index_offset=index_at, index_len=len(section), filter_offset=index_at, stats_offset=0, stats_len=0
    )
    path.unlink()  # it is mapped, maybe
    with path.open("wb") as file:
        file.write(data[:third])
        file.seek(SST_BYTES)
        file.write(data[third:end] + section + encode_info_section(info))
        file.write(encode_footer(Footer(index_at + len(section), footer.version)))
    handle = replace(manifest.ssts[ulid], info=info)
    changed = replace(manifest, ssts=manifest.ssts.keeping(set()).adding([handle]), nonce=manifest.nonce + 1)
    publish_manifest(stores, number + 1, changed, manifest, SystemClock())
    store = SlateStore.open(store.url)
    assert store.get(b"a") == {"key": b"a", "value": values[0]}
    [file_facts] = store.files()
    assert file_facts.stored_bytes > SST_BYTES
    if THOROUGH:  # the hole counts as a block
        with pytest.raises(CorruptDataError, match="checksum"):
            store.scan().read_all()
