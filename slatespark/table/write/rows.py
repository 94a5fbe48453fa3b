"""Arrow batches of a raw table -> row versions as columns, with kinds and times. Refuses what the table cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.options import WriteOptions
from slatespark.units import MAX_MS

MAX_KEY_BYTES: Final = 65535  # what blocks of both versions can hold (spec 7.1)

_FLAGS: Final = {"put": 0, "delete": TOMBSTONE, "merge": MERGE, "upsert": 0}


@dataclass(frozen=True, slots=True)
class Stamp:
    """What every row of a write carries besides key and value.

    Attributes
    ----------
    seq : one sequence number for all rows of the task
    create_ts_ms : the commit clock time
    ttl_ms : None for rows that do not expire
    """

    seq: int
    create_ts_ms: int
    ttl_ms: int | None

    @property
    def expire_ts_ms(self) -> int | None:
        """Return the instant of expiry; a sum beyond 64 bits never comes."""
        if self.ttl_ms is None or self.create_ts_ms + self.ttl_ms > MAX_MS:
            return None
        return self.create_ts_ms + self.ttl_ms


def check_schema(schema: pa.Schema, options: WriteOptions) -> None:
    """Refuse a schema that is not `key BINARY, value BINARY`, plus the column of `opColumn`.

    Raises
    ------
    SchemaError
        Naming the columns found and those expected.
    """
    wanted = {"key"} if options.operation == "delete" else {"key", "value"}
    optional = {"value"} if options.operation == "delete" else set()
    if options.op_column is not None:
        wanted.add(options.op_column)
    names = schema.names
    if len(set(names)) != len(names) or not wanted <= set(names) <= wanted | optional:
        raise SchemaError(
            f"The columns are {', '.join(names) or 'none'}; a raw table takes {', '.join(sorted(wanted))}.",
            todo="Select and rename the columns before writing.",
        )
    for name in sorted(wanted | (optional & set(names))):
        kind = schema.field(name).type
        expected = "STRING" if name == options.op_column else "BINARY"
        fits = (pa.types.is_string, pa.types.is_large_string) if expected == "STRING" else _BINARY_CHECKS
        if not any(check(kind) for check in fits) and not (pa.types.is_null(kind) and name == "value"):
            raise SchemaError(f"Column {name} is {kind}, expected {expected}.", todo=f"Cast it to {expected}.")


_BINARY_CHECKS: Final = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def batch_columns(table: pa.Table, options: WriteOptions, stamp: Stamp) -> RowColumns:
    """Return the rows of a table as columns, in input order.

    Requires: `check_schema` accepted its schema.

    Raises
    ------
    SchemaError
        On a null or empty key, an over-long key, a null value of a put or merge, or an unknown operation.
    """
    keys, key_offsets = _flat(table.column("key"), "key")
    _check_keys(table.column("key"), key_offsets)
    flags = _row_flags(table, options)
    deleted = (flags & TOMBSTONE) != 0
    if "value" in table.column_names and not deleted.all():
        column = table.column("value")
        if column.null_count and bool(pc.any(pc.and_(pc.is_null(column), pa.array(~deleted))).as_py()):
            raise SchemaError(
                "A value is null.", todo="Filter such rows out, or delete their keys with operation or opColumn."
            )
        values, value_offsets = _flat(column, "value")
    else:
        values, value_offsets = np.zeros(0, np.uint8), np.zeros(len(table) + 1, np.int64)
    rows = len(table)
    flags |= HAS_CREATE
    expire_ts = np.zeros(rows, np.int64)
    if stamp.expire_ts_ms is not None:
        flags[~deleted] |= HAS_EXPIRE
        expire_ts[~deleted] = stamp.expire_ts_ms
    return RowColumns(
        key_bytes=keys,
        key_offsets=key_offsets,
        seqs=np.full(rows, stamp.seq, np.uint64),
        flags=flags,
        create_ts=np.full(rows, stamp.create_ts_ms, np.int64),
        expire_ts=expire_ts,
        value_bytes=values,
        value_starts=value_offsets[:-1],
        value_lengths=np.where(deleted, 0, np.diff(value_offsets)),
    )


def _flat(column: pa.ChunkedArray, name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of a binary column and (n + 1) offsets into them; without a copy where it is one chunk."""
    kind = column.type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        column = column.cast(pa.binary())
        kind = column.type
    try:
        array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    except pa.ArrowInvalid as exc:
        raise InvalidRequestError(f"Column {name}: {exc}.", todo="Lower writeBuffer below 2g.") from exc
    if isinstance(array, pa.ChunkedArray):  # what does not fit one array's offsets
        raise InvalidRequestError(f"Column {name} holds more than 2 GiB at once.", todo="Lower writeBuffer.")
    width = np.int64 if pa.types.is_large_binary(kind) else np.int32
    _, offsets, data = array.buffers()
    if offsets is None or not len(array):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    starts = np.frombuffer(offsets, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), starts


def _check_keys(column: pa.ChunkedArray, offsets: NDArray[np.int64]) -> None:
    if column.null_count:
        raise SchemaError("A key is null.", todo="Filter such rows out before writing.")
    lengths = np.diff(offsets)
    if len(lengths) and int(lengths.min()) == 0:
        raise SchemaError("A key is empty; SlateDB has no empty keys.", todo="Filter such rows out before writing.")
    if len(lengths) and int(lengths.max()) > MAX_KEY_BYTES:
        raise SchemaError(f"A key has {int(lengths.max())} bytes; at most {MAX_KEY_BYTES} fit.", todo="Shorten it.")


def _row_flags(table: pa.Table, options: WriteOptions) -> NDArray[np.uint8]:
    if options.op_column is None:
        return np.full(len(table), _FLAGS[options.operation], np.uint8)
    ops = table.column(options.op_column)
    names = ["put", "delete", "merge"]
    codes = pc.index_in(ops, value_set=pa.array(names, ops.type))
    if codes.null_count:
        bad = ops.filter(pc.is_null(codes))[0].as_py()
        raise SchemaError(f"{options.op_column} is {bad!r} in some row.", todo=f"Use {', '.join(names)}.")
    flags: NDArray[np.uint8] = np.array([_FLAGS[name] for name in names], np.uint8)[codes.to_numpy()]
    return flags
