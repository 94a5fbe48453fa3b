"""RowEncoder: Arrow batches -> row versions as columns, with kinds and times. Refuses rows the table cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slatespark.encoding import arrow_compute as pc
from slatespark.encoding.exact_cast import cast_column
from slatespark.encoding.row_codec import WITH_COLUMNS, RowCodec
from slatespark.encoding.schema import find_name
from slatespark.encoding.without_pandas import array_of, array_of_numpy, numpy_of
from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.kernels.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, RowColumns
from slatespark.table.rows.key_bounds import KeyBounds
from slatespark.table.rows.lost_versions import DistinctTimes, remainders_of
from slatespark.table.rows.row_expiry import (
    Expiries,
    expire_after,
    expire_at,
    expire_each,
    same_expiry,
)
from slatespark.table.rows.row_times import times_of
from slatespark.table.rows.sequence import Ranks, rank_values
from slatespark.units import MAX_MS

MAX_KEY_BYTES: Final = 65535  # of a new row: all that version 1 of a block can hold (docs/reference/format/rows.md)
OPERATIONS: Final = ("put", "delete", "merge")

_FLAGS: Final = {"put": 0, "delete": TOMBSTONE, "merge": MERGE, "upsert": 0}


@dataclass(frozen=True, slots=True)
class Stamp:
    """The sequence number and times that every row of a write gets.

    Attributes
    ----------
    seq : one sequence number for all rows of the task; where rows have times of their own, that of the oldest version
    create_ts_ms : the commit clock time
    ttl_ms : None for rows that do not expire
    ttl_from_ms : the start of TTLs; None for the time of the row
    latest_expire_ms : no row expires later, whatever its TTL; None without such a bound
    """

    seq: int
    create_ts_ms: int
    ttl_ms: int | None
    ttl_from_ms: int | None = None
    latest_expire_ms: int | None = None

    @property
    def expire_ts_ms(self) -> int | None:
        """Return when rows without a time of their own expire; None also for an instant beyond 64 bits."""
        start_ms = self.create_ts_ms if self.ttl_from_ms is None else self.ttl_from_ms
        if self.ttl_ms is None or start_ms + self.ttl_ms > MAX_MS:
            return None
        return start_ms + self.ttl_ms


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """Rows as columns, in input order.

    Attributes
    ----------
    ranks : decide between rows of one key and time; None if their order does
    remainders : (n,) int64, what their own times lost when they became ms; None if nothing, or if no version can
        be lost by it
    """

    rows: RowColumns
    ranks: Ranks | None
    remainders: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class RowEncoder:
    """How the rows of one write become rows of the table. Made by `plan_encoder`; small, the same for all tasks.

    Attributes
    ----------
    codec : of the table
    operation : of each row, unless `op_column` gives it
    op_column : as the rows spell it; None if not given
    sequence_column : as the table spells it; None if not given
    ttl_column, expire_at_column, timestamp_column : as the rows spell them; None if not given
    bounds : the key ranges that are replaced; None where rows may have any key
    has_own_time : whether the table has a clock of its own, whose numbers no calendar limits
    """

    codec: RowCodec
    operation: str = "upsert"
    op_column: str | None = None
    sequence_column: str | None = None
    ttl_column: str | None = None
    expire_at_column: str | None = None
    timestamp_column: str | None = None
    bounds: KeyBounds | None = None
    has_own_time: bool = False

    @property
    def has_times(self) -> bool:
        """Whether each row says its time, so that a key may have several versions."""
        return self.timestamp_column is not None

    @property
    def distinct_times(self) -> DistinctTimes | None:
        """The check of the rows' own times; None if they have none, or if none can be lost.

        `sequenceColumn` may decide which one stays. And rows of one key have one time if that is part of the key.
        """
        if self.timestamp_column is None or self.sequence_column is not None:
            return None
        if find_name(self.codec.schema, self.timestamp_column) in self.codec.key_columns:
            return None
        return DistinctTimes(self.timestamp_column, self.codec)

    def encode(self, table: pa.Table, stamp: Stamp) -> EncodedRows:
        """Return the rows of a table.

        Requires: `plan_encoder` accepted its schema.

        Raises
        ------
        SchemaError
            On a null where none may be, a value that its column does not hold, a key that is empty or too long, an
            unknown operation, a time to live that is negative or above 1,000 years, or an expiry beyond the year 9999.
        InvalidRequestError
            On a key outside of the bounds.
        """
        flags = self._flags(table)
        deleted = (flags & TOMBSTONE) != 0
        keys, key_offsets = self._encode_keys(table, deleted)
        if self.bounds is not None:
            self.bounds.check(table, (keys, key_offsets), codec=self.codec)
        values, starts, lengths = self._encode_values(table, deleted)
        flags |= HAS_CREATE
        times = self._times(table)
        expiries = self._expiries(table, stamp, times, ~deleted).no_later_than(stamp.latest_expire_ms)
        flags[expiries.expires & ~deleted] |= HAS_EXPIRE
        rows = RowColumns(
            key_bytes=keys,
            key_offsets=key_offsets,
            seqs=np.full(len(table), stamp.seq, np.uint64),
            flags=flags,
            create_ts=np.full(len(table), stamp.create_ts_ms, np.int64) if times is None else times,
            expire_ts=np.where(deleted, 0, expiries.expire_ts),
            value_bytes=values,
            value_starts=starts,
            value_lengths=lengths,
        )
        return EncodedRows(rows, self._ranks(table), self._remainders(table))

    def _flags(self, table: pa.Table) -> NDArray[np.uint8]:
        if self.op_column is None:
            return np.full(len(table), _FLAGS[self.operation], np.uint8)
        ops = cast_column(table.column(self.op_column), pa.field(self.op_column, pa.string()))
        codes = pc.index_in(ops, value_set=array_of(OPERATIONS, pa.string()))
        if codes.null_count:
            bad = ops.filter(pc.is_null(codes))[0].as_py()
            raise SchemaError(f"{self.op_column} is {bad!r} in some row.", todo=f"Use {', '.join(OPERATIONS)}.")
        flags: NDArray[np.uint8] = np.array([_FLAGS[name] for name in OPERATIONS], np.uint8)[numpy_of(codes)]
        if (flags & MERGE).any():
            check_takes_operands(self.codec)
        return flags

    def _encode_keys(self, table: pa.Table, deleted: NDArray[np.bool_]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        fields = self.codec.key_fields
        takes_nulls = self.codec.key_format == "tuple"
        keys = _cast(table, fields)
        _check_nulls(keys, [field for field in fields if not (takes_nulls and field.nullable)], "Key column")
        data, offsets = self.codec.encode_keys(keys)
        lengths = np.diff(offsets)
        if len(lengths) and int(lengths.min()) == 0:
            raise SchemaError("A key is empty; SlateDB has no empty keys.", todo="Filter such rows out before writing.")
        longest = int(lengths.max(initial=0, where=~deleted))  # clients write longer ones, which can be deleted
        if longest > MAX_KEY_BYTES:
            raise SchemaError(f"A key has {longest} bytes; at most {MAX_KEY_BYTES} fit.", todo="Shorten it.")
        return data, offsets

    def _encode_values(
        self, table: pa.Table, deleted: NDArray[np.bool_]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """Return bytes, starts and lengths; those of deleted rows are empty, whatever their columns hold."""
        lengths = np.zeros(len(table), np.int64)
        if deleted.all():
            return np.zeros(0, np.uint8), lengths, lengths
        live = table.filter(array_of_numpy(~deleted)) if deleted.any() else table
        fields = self.codec.value_fields
        values = _cast(live, fields)
        takes_nulls = self.codec.value_format in WITH_COLUMNS
        _check_nulls(values, [field for field in fields if not (takes_nulls and field.nullable)], "Column")
        data, offsets = self.codec.encode_values(values)
        if len(live) == len(table):
            return data, offsets[:-1], np.diff(offsets)
        starts = np.zeros(len(table), np.int64)
        starts[~deleted], lengths[~deleted] = offsets[:-1], np.diff(offsets)
        return data, starts, lengths

    def _times(self, table: pa.Table) -> NDArray[np.int64] | None:
        """Return the times that rows have of their own; None if they have none."""
        if self.timestamp_column is None:
            return None
        return times_of(table.column(self.timestamp_column), self.timestamp_column)

    def _remainders(self, table: pa.Table) -> NDArray[np.int64] | None:
        check = self.distinct_times
        return None if check is None else remainders_of(table.column(check.column))

    def _expiries(
        self, table: pa.Table, stamp: Stamp, times: NDArray[np.int64] | None, live: NDArray[np.bool_]
    ) -> Expiries:
        counted_from: int | NDArray[np.int64] = stamp.create_ts_ms if stamp.ttl_from_ms is None else stamp.ttl_from_ms
        default = same_expiry(len(table), stamp.expire_ts_ms)
        if times is not None and stamp.ttl_from_ms is None:
            counted_from, default = times, expire_each(times, stamp.ttl_ms)
        refuses_far = not self.has_own_time
        if self.ttl_column is not None:
            return expire_after(
                table.column(self.ttl_column),
                self.ttl_column,
                created_ms=counted_from,
                default=default,
                live=live,
                refuses_far=refuses_far,
            )
        if self.expire_at_column is not None:
            return expire_at(
                table.column(self.expire_at_column),
                self.expire_at_column,
                default=default,
                live=live,
                refuses_far=refuses_far,
            )
        return default

    def _ranks(self, table: pa.Table) -> Ranks | None:
        if self.sequence_column is None:
            return None
        return rank_values(_cast(table, [self.codec.schema.field(self.sequence_column)]).column(0))


def check_takes_operands(codec: RowCodec) -> None:
    """Refuse merge operands where values are not bytes; raises `InvalidRequestError`."""
    if codec.value_format != "raw":
        raise InvalidRequestError(
            f"Merge operands need valueFormat=raw, the table has {codec.value_format}.",
            todo="Upsert the rows, or use SlateTable.merge.",
        )


def _cast(table: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Return columns of the table as the codec wants them; one that the rows lack is null."""
    columns = {}
    names = {name.lower(): name for name in table.column_names}
    for field in fields:
        name = names.get(field.name.lower())
        given = pa.chunked_array([pa.nulls(len(table), field.type)]) if name is None else table.column(name)
        columns[field.name] = cast_column(given, field)
    if not columns:  # all columns are in the key; the rows still count
        return table.select([])
    return pa.table(columns)


def _check_nulls(table: pa.Table, required: Sequence[pa.Field], what: str) -> None:
    bad = [field.name for field in required if table.column(field.name).null_count]
    if bad:
        raise SchemaError(
            f"{what} {', '.join(bad)} is null in some row, but takes no nulls.",
            todo="Filter them out, or delete their keys with operation or opColumn.",
        )
