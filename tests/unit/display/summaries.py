"""Summaries of tables made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from slatespark.encoding.row_codec import RAW_CODEC, RowCodec
from slatespark.table.inspection.describe import (
    ColumnFacts,
    DefinitionFacts,
    TableFacts,
    TableSummary,
    WalFacts,
)
from slatespark.table.inspection.files import FileFacts, LayerFacts

FACTS = TableFacts(
    url="file:///t",
    kind="raw",
    version=7,
    manifest_format=2,
    sst_formats=(2,),
    writer_epoch=3,
    compactor_epoch=1,
    l0_views=0,
    sorted_runs=1,
    segments=(),
    files=1,
    stored_bytes=100,
    codecs=(),
    rows=None,
    last_seq=99,
    clock_tick_ms=0,
    wal=WalFacts(4, 4, None),
    checkpoints=(),
    external=(),
    jobs=(),
    versions=(7,),
)
DEFINITION = DefinitionFacts(
    version=2,
    key_columns=("tenant", "id"),
    key_format="tuple",
    value_format="avro",
    columns=(
        ColumnFacts("tenant", "STRING", False, 0),
        ColumnFacts("id", "BIGINT", False, 1),
        ColumnFacts("amount", "DECIMAL(10,2)", True, None),
        ColumnFacts("day", "DATE", False, None),
    ),
    properties={"defaultTtl": "7d"},
    dropped_columns=("old",),
    writer_schemas=2,
)
CODEC = RowCodec(
    schema=pa.schema([("tenant", pa.string()), ("id", pa.int64()), ("amount", pa.decimal128(10, 2))]),
    key_columns=("tenant", "id"),
    key_format="tuple",
    value_format="avro",
)


def file(layer: str, start: bytes, end: bytes | None, size: int, number: int = 0) -> FileFacts:
    return FileFacts(layer, f"FILE{number}", None, start, end, size, "none", 0)


def layer(number: int, name: str, parts: Sequence[tuple[bytes, bytes | None, int]]) -> LayerFacts:
    files = tuple(file(name, *part, number=100 * number + at) for at, part in enumerate(parts))
    size = sum(part.stored_bytes for part in files)
    return LayerFacts(number, name, len(files), size, files[0].start, files[-1].end, files)


def summary(layers: Sequence[LayerFacts], *, codec: RowCodec = RAW_CODEC, facts: TableFacts = FACTS) -> TableSummary:
    return TableSummary(facts, tuple(layers), codec)


def typed_summary(*tenants: str) -> TableSummary:
    """A typed table with one file per tenant, keys from (tenant, 1) to (tenant, 9)."""
    parts = [(CODEC.encode_key([name, 1]), CODEC.encode_key([name, 9]) + b"\0", 100) for name in tenants]
    facts = replace(FACTS, kind="typed", definition=DEFINITION)
    return summary([layer(0, "run 3", parts)], codec=CODEC, facts=facts)
