"""Every decoder as a function of bytes, which may raise errors of ours and nothing else.

Checksums keep a fuzzer out: `without_checksums` takes them away, or a target puts right ones around what it is given.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeAlias
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from slatespark import kernels
from slatespark.cli.files.input_values import array_of_json, array_of_text
from slatespark.cli.key_arguments import key_row
from slatespark.encoding.avro_schema import avro_schema, fingerprint
from slatespark.encoding.column_list import parse_columns
from slatespark.encoding.predicates.binding import bind_filter
from slatespark.encoding.predicates.grammar import parse_alternatives, parse_filter
from slatespark.encoding.predicates.key_plan import plan_keys
from slatespark.encoding.row_codec import RowCodec
from slatespark.encoding.spark_schema import schema_of_spark_json
from slatespark.encoding.tuple_key import decode_tuple_keys
from slatespark.errors import CorruptDataError, SchemaError, SlateError
from slatespark.format import block_group, codecs, info
from slatespark.format.block_group import unpack_blocks
from slatespark.format.codecs import CRC_BYTES, Buffer, Compression, decompress
from slatespark.format.columnar_copy import CopyLabel
from slatespark.format.compactions import decode_compactions, encode_compactions
from slatespark.format.filter import decode_filter_section, decode_filters
from slatespark.format.index import decode_index_section
from slatespark.format.info import decode_footer, decode_info_section, footer_range, info_range
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.manifest_outline import decode_outline
from slatespark.format.paths import decode_boundary
from slatespark.format.properties import MAGIC, decode_label, decode_properties
from slatespark.format.sequence_tracker import decode_sequence_tracker
from slatespark.format.sst import layout_of
from slatespark.format.stats import decode_stats, decode_stats_section
from slatespark.format.wal import decode_first_seq, decode_last_block, decode_wal
from slatespark.kernels import Visibility
from slatespark.kernels.columns import RowColumns
from slatespark.options.values import (
    parse_duration,
    parse_key,
    parse_metadata_columns,
    parse_size,
    parse_throughput,
    parse_time,
)
from slatespark.storage.memory_store import MemoryStore
from slatespark.table.definition.definition_json import decode_definition, encode_definition
from slatespark.table.records.commit_batches import fetch_commit_object
from slatespark.table.records.commit_record import BATCHES_DIR, commit_of, commit_path
from slatespark.table.records.filtered_jobs import FILTERED_DIR, fetch_filtered_job
from slatespark.table.records.handed_loads import HANDED_LOADS_DIR, fetch_handed_load
from slatespark.table.records.json_objects import decode_json, encode_json, with_checksum
from slatespark.table.records.leases import fetch_lease, lease_path
from slatespark.table.streams.position import decode_position, encode_position

Target: TypeAlias = Callable[[bytes], object]
Place: TypeAlias = Callable[[bytes], NDArray[np.uint8]]

# Where the bytes are put that kernels see: `guarded_memory` has another place.
place: Place = lambda data: np.frombuffer(data, np.uint8)  # noqa: E731  # it is replaced

# A block may hold 4 GiB once it is unpacked; a fuzzer would find only that.
MAX_PAYLOAD_BYTES: Final = 1 << 20


@contextmanager
def without_checksums() -> Iterator[None]:
    """Take every checksum of SSTs for a right one."""

    def body(data: Buffer, *, what: str) -> memoryview:
        view = memoryview(data)
        if len(view) <= CRC_BYTES:
            raise CorruptDataError(f"{what} has {len(view)} bytes, expected more than {CRC_BYTES}.", offset=0)
        return view[:-CRC_BYTES]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codecs, "check_crc", body)
        patch.setattr(info, "check_crc", body)
        patch.setattr(block_group, "_check_sums", lambda *_: None)
        patch.setattr(block_group, "MAX_BLOCK_BYTES", MAX_PAYLOAD_BYTES)
        patch.setattr(codecs, "MAX_SECTION_BYTES", MAX_PAYLOAD_BYTES)
        yield


# --- SlateDB's files --------------------------------------------------------------------------------------------------


def manifest(data: bytes) -> None:
    try:
        found = decode_manifest(data)
    except SlateError:
        decode_outline(data)
        return
    outline = decode_outline(data)
    assert (outline.writer_epoch, outline.compactor_epoch) == (found.writer_epoch, found.compactor_epoch)
    if not found.unknown_fields and found.wal_object_store_uri is None:
        assert decode_manifest(encode_manifest(found)) == found


def compactions(data: bytes) -> None:
    found = decode_compactions(data)
    assert decode_compactions(encode_compactions(found)) == found


def sst(data: bytes) -> None:
    """All that reads of a file decode: from the footer to the rows."""
    view = place(data).data
    tail = footer_range(len(view))
    footer = decode_footer(view[tail.start : tail.end])
    span = info_range(footer, len(view))
    found = decode_info_section(view[span.start : span.end])
    layout = layout_of(found, footer, len(view))
    gap = view[layout.gap.start : layout.gap.end]
    for decode in (decode_properties, decode_label):
        _try(decode, gap)
    if layout.stats is not None:
        _try(decode_stats_section, view[layout.stats.start : layout.stats.end], found)
    hashes = np.array([0, 1, 2**64 - 1], np.uint64)
    if layout.filter is not None:
        filters = _try(decode_filter_section, view[layout.filter.start : layout.filter.end], found)
        if filters is not None:
            filters.probe(hashes)
    index = decode_index_section(view[layout.index.start : layout.index.end], found)
    for few in (block_group.MIN_TOGETHER, 1):  # one by one, and together as many are
        with patch.object(block_group, "MIN_TOGETHER", few):
            blocks = unpack_blocks(
                np.frombuffer(view, np.uint8),
                index.block_edges(found),
                index.encoded_bytes,
                found.compression,
                limit_bytes=MAX_PAYLOAD_BYTES,
            )
    use_rows(kernels.decode_blocks(blocks.data, blocks.starts, blocks.ends, version=footer.version))


def wal(data: bytes) -> None:
    _try(decode_first_seq, data, len(data))
    _try(decode_last_block, data, len(data))
    use_rows(decode_wal(place(data).data), ordered=False)


def blocks(data: bytes) -> None:
    """Payloads of blocks, the first byte says of which version, the second how many."""
    if len(data) < 3:
        return
    version, count = 1 + data[0] % 2, 1 + data[1] % 3
    rows = place(data[2:])
    edges = np.linspace(0, len(rows), count + 1).astype(np.int64)
    use_rows(kernels.decode_blocks(rows, edges[:-1], edges[1:], version=version))


def index(data: bytes) -> None:
    """Payloads of indexes, the first byte says how many."""
    if not data:
        return
    rows = place(data[1:])
    edges = np.linspace(0, len(rows), 2 + data[0] % 3).astype(np.int64)
    counts, offsets, key_bytes, key_offsets, _ = kernels.decode_indexes(rows, edges[:-1], edges[1:])
    assert len(key_offsets) == len(offsets) + 1 == counts.sum() + 1
    kernels.lower_bounds(key_bytes, key_offsets, key_bytes, key_offsets)


def properties(data: bytes) -> None:
    """The payload of properties, in whole."""
    gap = data + struct.pack(">II8s", zlib.crc32(data), len(data), MAGIC)
    _try(decode_label, gap)
    found = decode_properties(gap)
    if found is not None:
        found[0].is_consistent()
        found[0].features()


def codec(data: bytes) -> None:
    """The first byte names the codec."""
    if data:
        decompress(data[1:], Compression(data[0] % 5), max_bytes=MAX_PAYLOAD_BYTES)


def tracker(data: bytes) -> None:
    decode_sequence_tracker(data)


def stats(data: bytes) -> None:
    decode_stats(data)


def filters(data: bytes) -> None:
    decode_filters(data).probe(np.array([0, 1, 2**63], np.uint64))


def boundary(data: bytes) -> None:
    decode_boundary(data)


# --- files of ours ----------------------------------------------------------------------------------------------------


def definition(data: bytes) -> None:
    """The fingerprints of schemas and the checksum are made right."""
    content = _json(data)
    if isinstance(content, dict):
        schemas = content.get("writerSchemas")
        if isinstance(schemas, dict):
            content["writerSchemas"] = {_fingerprint(schema): schema for schema in schemas.values()}
        with suppress(RecursionError):
            data = json.dumps(with_checksum(content)).encode()
    found = decode_definition(data)
    assert decode_definition(encode_definition(found)) == found
    found.codec()


def _fingerprint(schema: Any) -> str:
    try:
        return f"{fingerprint(schema):016x}"
    except Exception:  # the Avro library raises many types
        return "0" * 16


def records(data: bytes) -> None:
    """Each kind of JSON record, with its checksum made right."""
    path = commit_path(1)
    content = decode_json(path, data)
    _try(commit_of, path, content)
    sealed = with_checksum(content)
    _try(commit_of, path, sealed)
    store = MemoryStore("fuzz")
    for place, stored in (
        (lease_path("0" * 16), content),
        (f"{HANDED_LOADS_DIR}{1:020d}-x.json", sealed),
        (f"{FILTERED_DIR}x.json", sealed),
        (f"{BATCHES_DIR}{1:020d}.json", {"commits": [content, sealed]}),
    ):
        store.put(place, [encode_json(stored)])
    _try(fetch_lease, store, lease_path("0" * 16))
    _try(fetch_handed_load, store, f"{HANDED_LOADS_DIR}{1:020d}-x.json")
    _try(fetch_filtered_job, store, f"{FILTERED_DIR}x.json")
    fetch_commit_object(store, f"{BATCHES_DIR}{1:020d}.json")


def offset(data: bytes) -> None:
    content = _json(data)
    if isinstance(content, dict):
        found = decode_position(content)
        assert decode_position(encode_position(found)) == found


def copy_label(data: bytes) -> None:
    CopyLabel.decode(data)


# --- rows -------------------------------------------------------------------------------------------------------------

_INNER: Final = pa.struct([("x", pa.int32()), ("y", pa.string())])
COLUMNS: Final = pa.schema(
    [
        pa.field("word", pa.string(), nullable=False),
        ("n", pa.int64()),
        ("d", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("half", pa.float32()),
        ("whole", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("blob", pa.binary()),
        ("inner", _INNER),
        ("list", pa.list_(_INNER)),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("small", pa.int8()),
    ]
)
_KEY_TYPES: Final = [
    pa.string(),
    pa.int64(),
    pa.binary(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.decimal128(38, 4),
    pa.date32(),
    pa.timestamp("us", "UTC"),
    pa.int8(),
    _INNER,
    pa.struct([("a", _INNER), ("b", pa.binary())]),
]


def _stored(keys: Sequence[bytes], values: Sequence[bytes]) -> RowColumns:
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    count = len(keys)
    return RowColumns(
        place(b"".join(keys)),
        np.cumsum([0, *map(len, keys)], dtype=np.int64),
        np.ones(count, np.uint64),
        np.zeros(count, np.uint8),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        place(b"".join(values)),
        ends[:-1],
        np.diff(ends),
    )


def tuples(data: bytes) -> None:
    """Two bytes choose the columns, the rest is a key, and then one that ends early."""
    if len(data) < 3:
        return
    types = [_KEY_TYPES[octet % len(_KEY_TYPES)] for octet in data[: 1 + data[0] % 2 + 1]]
    sources = [_stored([data[3:], data[3:-1]], [b"", b""])]
    for wanted in ([True] * len(types), [False, *[True] * (len(types) - 1)]):
        arrays, status = decode_tuple_keys(sources, np.arange(2), types, wanted)
        for array in arrays:
            if array is not None:
                array.validate(full=True)
                assert len(array) == len(status)


def avro(data: bytes) -> None:
    """A value of the table's schema, and of an older one with narrower columns; the first byte chooses the columns."""
    if not data:
        return
    fields = list(COLUMNS)[1:]
    narrow = [pa.field("n", pa.int32()), *(item for item in fields if item.name in ("day", "list", "blob"))]
    writers = {0: avro_schema(fields), 1: avro_schema(narrow)}
    values = [b"\xc3\x01" + number.to_bytes(8, "little") + data[1:] for number in (0, 1, 2)]
    codec = RowCodec(
        key_format="tuple", value_format="avro", key_columns=("word",), schema=COLUMNS, writer_schemas=writers
    )
    wanted = [item.name for place, item in enumerate(fields) if data[0] >> place % 8 & 1]
    _decode(codec, values, wanted)


def json_values(data: bytes) -> None:
    codec = RowCodec(key_format="utf8", value_format="json", key_columns=("word",), schema=COLUMNS, writer_schemas={})
    _decode(codec, [data], COLUMNS.names[1:])


def _decode(codec: RowCodec, values: list[bytes], names: list[str]) -> None:
    sources, rows = [_stored([b"\x02k\0"] * len(values), values)], np.arange(len(values))
    codec.decodable_mask(sources, rows, names)
    found = codec.decode(sources, rows, names)
    for array in found.values():
        array.validate(full=True)


def use_rows(rows: RowColumns, *, ordered: bool = True) -> None:
    """What reads do with decoded rows."""
    everything = Visibility(max_seq=2**64 - 1, now_ms=0, all_versions=True)
    ends = np.array([len(rows)], np.int64)
    if ordered:
        for visibility in (everything, Visibility(max_seq=2**63, now_ms=10**12)):
            chosen = kernels.merge_visible([rows], np.zeros(1, np.int64), ends, visibility).rows
            kernels.gather_keys([rows], chosen)
            kernels.gather_values([rows], chosen)
    kernels.sort_rows(rows)
    kernels.hash_keys([rows], np.arange(len(rows)))


# --- text -------------------------------------------------------------------------------------------------------------


def condition(data: bytes) -> None:
    """A filter, bound to columns, and the keys that it can match."""
    text = data.decode("utf-8", "surrogateescape")
    _try(parse_alternatives, text, name="where")
    bound = bind_filter(parse_filter(text), COLUMNS)
    schemas = {0: avro_schema(list(COLUMNS)[4:])}
    for keys in (("word", "n"), ("d", "day", "flag")):
        codec = RowCodec(
            key_format="tuple", value_format="avro", key_columns=keys, schema=COLUMNS, writer_schemas=schemas
        )
        plan_keys(bound, codec)


def columns(data: bytes) -> None:
    parse_columns(data.decode("utf-8", "surrogateescape"))


def spark_schema(data: bytes) -> None:
    content = _json(data)
    if isinstance(content, dict):
        try:
            schema_of_spark_json(content)
        except SchemaError:
            return


def cells(data: bytes) -> None:
    """A cell of a CSV file or an argument, as each type of column; the first byte chooses one."""
    if not data:
        return
    field, text = COLUMNS.field(data[0] % len(COLUMNS)), data[1:].decode("utf-8", "replace")
    for as_text in (False, True):
        _try(array_of_text, pa.array([text]), field, as_text=as_text)
    key_field = field.name if field.name not in ("list", "map", "inner") else "word"
    codec = RowCodec(
        key_format="tuple", value_format="avro", key_columns=(key_field,), schema=COLUMNS, writer_schemas={}
    )
    key_row([text], codec, as_text=False)


def json_cells(data: bytes) -> None:
    if data:
        content = _json(data[1:])
        array_of_json([content, None], COLUMNS.field(data[0] % len(COLUMNS)), as_text=False)


def options(data: bytes) -> None:
    """Values of options: durations, times, sizes, keys."""
    text = data.decode("utf-8", "surrogateescape")
    for parse in (parse_duration, parse_time, parse_size, parse_throughput, parse_key, parse_metadata_columns):
        _try(parse, text, "option")


def _json(data: bytes) -> Any:
    """Return what JSON says; None for what is none, which others refuse."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _try(decode: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Return what a decoder returns; None if it raises an error of ours."""
    try:
        return decode(*given, **named)
    except SlateError:
        return None


TARGETS: Final[dict[str, Target]] = {
    target.__name__: target
    for target in (
        manifest,
        compactions,
        sst,
        wal,
        blocks,
        index,
        properties,
        codec,
        tracker,
        stats,
        filters,
        boundary,
        definition,
        records,
        offset,
        copy_label,
        tuples,
        avro,
        json_values,
        condition,
        columns,
        spark_schema,
        cells,
        json_cells,
        options,
    )
}


def run(name: str, data: bytes) -> None:
    """Decode bytes; errors of ours are as good as a result."""
    with without_checksums():
        _try(TARGETS[name], data)
