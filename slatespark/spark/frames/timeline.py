"""The timeline of a table as a DataFrame: one row per key interval and file, with bounds as key columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slatespark.encoding.row_codec import RowCodec
from slatespark.spark.pyspark_api import arrow_frame
from slatespark.spark.shown_times import bounded_ms
from slatespark.spark.type_mapping import spark_schema
from slatespark.table.inspection.timeline import KeyTimeline
from slatespark.table.inspection.timeline_intervals import FileVersion, TimelineInterval
from slatespark.table.read.planning.key_prefixes import AFTER, decode_prefixes, prefix_behind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def timeline_frame(spark: SparkSession, timeline: KeyTimeline) -> DataFrame:
    """Return one row per interval and file; an interval without files has one row."""
    table = timeline_table(timeline)
    return arrow_frame(spark, table, spark_schema(table.schema))


def timeline_table(timeline: KeyTimeline) -> pa.Table:
    """Return the rows of `timeline_frame`."""
    rows = [(item, file) for item in timeline.intervals for file in item.files or (None,)]
    bounds = _Bounds(timeline.codec, (key for item in timeline.intervals for key in (item.start, item.end)))
    columns: dict[str, pa.Array] = {
        "first": bounds.structs([item.start for item, _ in rows]),
        "firstIncluded": pa.array([not bounds.is_behind(item.start) for item, _ in rows], pa.bool_()),
        "last": bounds.structs([item.end for item, _ in rows]),
        "lastIncluded": pa.array([bounds.is_behind(item.end) for item, _ in rows], pa.bool_()),
    }
    kinds: dict[str, pa.DataType] = {
        "state": pa.string(),
        "file": pa.string(),
        "root": pa.string(),
        "layer": pa.string(),
        "added": pa.int64(),
        "since": pa.int64(),
        "replaced": pa.int64(),
        "storedBytes": pa.int64(),
        "created": pa.timestamp("ms", "UTC"),
        "startKey": pa.binary(),
        "endKey": pa.binary(),
    }
    cells = list(zip(*(_cells(item, file) for item, file in rows), strict=True)) or [()] * len(kinds)
    for (name, kind), values in zip(kinds.items(), cells, strict=True):
        columns[name] = pa.array(list(values), kind)
    table = pa.table(columns)
    return table.set_column(
        table.schema.get_field_index("created"), "created", table["created"].cast(pa.timestamp("us", "UTC"))
    )


def _cells(item: TimelineInterval, file: FileVersion | None) -> tuple[Any, ...]:
    if file is None:
        return ("empty", None, None, None, None, None, item.replaced, None, None, item.start, item.end)
    return (
        "visible" if file.is_visible else "overshadowed",
        file.id,
        file.root,
        file.layer,
        file.added,
        file.since,
        item.replaced,
        file.stored_bytes,
        bounded_ms(file.created_ms),
        item.start,
        item.end,
    )


class _Bounds:
    """The bounds of intervals as key columns."""

    def __init__(self, codec: RowCodec, keys: Iterable[bytes | None]) -> None:
        wanted = {key for key in keys if key}
        wanted |= {key[:-1] for key in wanted if key.endswith((b"\0", AFTER))} - {b""}
        wanted |= {prefix for key in wanted if (prefix := prefix_behind(key))}
        self._fields = codec.key_fields
        self._is_tuple = codec.key_format == "tuple"
        self._found: dict[bytes, dict[str, pa.Scalar]] = {}
        for group, columns in decode_prefixes(codec, sorted(wanted)):
            for row, key in enumerate(group):
                self._found[key] = {name: column[row] for name, column in columns.items()}

    def is_behind(self, key: bytes | None) -> bool:
        """Tell whether a bound lies behind the keys that begin with its columns, rather than before them."""
        return key is not None and self._behind(key) is not None

    def _behind(self, key: bytes) -> bytes | None:
        """Return the key or the leading columns that a bound lies behind; None if it lies before its own."""
        prefix = prefix_behind(key)
        if self._is_tuple and prefix in self._found and not (key.endswith(AFTER) and key in self._found):
            return prefix
        if not key.endswith(b"\0") or key[:-1] not in self._found:
            return None
        # Without tuples any bytes are a key; writers mean the shorter one, as in key names.
        return None if self._is_tuple and key in self._found else key[:-1]

    def structs(self, keys: list[bytes | None]) -> pa.Array:
        """Return the key columns of bounds; null for bounds without columns, and for missing columns."""
        found = [self._columns(key) for key in keys]
        arrays = [_array([(each or {}).get(item.name) for each in found], item.type) for item in self._fields]
        fields = [pa.field(item.name, item.type) for item in self._fields]
        mask = pa.array([each is None for each in found], pa.bool_())
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)

    def _columns(self, key: bytes | None) -> dict[str, pa.Scalar] | None:
        if key is None:
            return None
        return self._found.get(self._behind(key) or key)


def _array(scalars: list[pa.Scalar | None], kind: pa.DataType) -> pa.Array:
    """Return scalars as an array, without Python values: Python has none for the year 10000."""
    null = pa.scalar(None, kind)
    parts = [pa.repeat(null if item is None else item, 1) for item in scalars]
    return pa.concat_arrays(parts) if parts else pa.array([], kind)
