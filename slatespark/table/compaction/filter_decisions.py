"""Calling a compaction filter, and checking its decisions before they are applied."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding.exact_cast import cast_column
from slatespark.encoding.row_codec import WITH_COLUMNS, RowCodec
from slatespark.encoding.schema import find_name
from slatespark.errors import InvalidRequestError, SchemaError
from slatespark.kernels import gather_fields, gather_keys, new_key_mask
from slatespark.kernels.columns import TOMBSTONE
from slatespark.table.compaction.filter import ACTIONS, CompactionFilter, FilterDecisions
from slatespark.table.read.planning.key_prefixes import name_key
from slatespark.table.rows.row_expiry import Expiries, expire_at, same_expiry
from slatespark.table.rows.sorted_rows import SortedRows
from slatespark.texts import listed


class Action(IntEnum):
    """An action of a filter as a number, in the order of `ACTIONS`."""

    KEEP = 0
    DROP = 1
    TOMBSTONE = 2
    REPLACE = 3


@dataclass(frozen=True, slots=True, eq=False)
class CheckedDecisions:
    """The checked decisions of a filter.

    Attributes
    ----------
    actions : (n,) int8, of `Action`
    values : all value columns of the replaced versions; None if they keep their values
    expiries : new expiries of all versions; None if they keep their expiries
    """

    actions: NDArray[np.int8]
    values: pa.Table | None
    expiries: Expiries | None


def call_filter(
    chosen: CompactionFilter, versions: pa.RecordBatch, stored: SortedRows, codec: RowCodec, table: str
) -> CheckedDecisions:
    """Return the decisions of a filter about a batch.

    Parameters
    ----------
    versions : whole keys, as the filter sees them
    stored : the same versions
    codec, table : codec that checks values, and name of the table for messages

    Raises
    ------
    InvalidRequestError
        When the filter raises; the message names the key if a single key is enough for that. Or when its decisions do
        not fit the batch.
    """
    call = _FilterCall(chosen, versions, stored, codec, table)
    try:
        found = chosen.decide(versions)
    except Exception as exc:  # whatever a user's code raises
        raise call.failure(exc) from exc
    return call.check(found)


@dataclass(frozen=True, slots=True, eq=False)
class _FilterCall:
    chosen: CompactionFilter
    versions: pa.RecordBatch
    stored: SortedRows
    codec: RowCodec
    table: str

    def failure(self, exc: Exception) -> InvalidRequestError:
        """Return the error for a filter that raised, with the first key at which it raises again."""
        first = new_key_mask(self.stored.sources, self.stored.rows)
        starts = np.append(np.flatnonzero(first), len(first))
        low, high = 0, len(starts) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(starts[low], starts[middle]) else (middle, high)
        if self._fails(starts[low], starts[high]):
            where = f"at {self._key(int(starts[low]))}"
        else:  # it raises only for several keys together, or not again
            where = f"from {self._key(0)} to {self._key(len(first) - 1)}"
        return self._refused(f"failed {where}: {type(exc).__name__}: {exc}.")

    def _fails(self, start: int, end: int) -> bool:
        try:
            self.chosen.decide(self.versions.slice(start, end - start))
        except Exception:  # the first one is reported
            return True
        return False

    def check(self, found: object) -> CheckedDecisions:
        if isinstance(found, pa.Array | pa.ChunkedArray):
            found = FilterDecisions(found)
        if not isinstance(found, FilterDecisions):
            raise self._refused(f"returned {_kind(found)}.", "Return FilterDecisions, or an array of actions.")
        actions = self._actions(found.actions)
        replaced = actions == Action.REPLACE
        if replaced.any():
            self._check_replaced(found, replaced)
        values = None if found.values is None else self._values(found.values, replaced)
        return CheckedDecisions(actions, values, None if found.expiries is None else self._expiries(found.expiries))

    def _actions(self, given: object) -> NDArray[np.int8]:
        array = self._column(given, "actions")
        if not (kinds.is_string(array.type) or kinds.is_large_string(array.type) or kinds.is_dictionary(array.type)):
            raise self._refused(f"returned actions of type {array.type}.", f"Use {', '.join(ACTIONS)}.")
        codes = pc.index_in(array.cast(pa.string()), value_set=pa.array(ACTIONS))
        if codes.null_count:
            at = int(np.flatnonzero(codes.is_null().to_numpy(zero_copy_only=False))[0])
            what, todo = repr(array[at].as_py()), f"Use {', '.join(ACTIONS)}."
            if array[at].as_py() is None:
                what, todo = "null", "Comparisons with null are null: use pyarrow.compute.fill_null."
            raise self._refused(f"returned the action {what} for {self._key(at)}.", todo)
        numbers: NDArray[np.int8] = codes.to_numpy(zero_copy_only=False).astype(np.int8)
        return numbers

    def _check_replaced(self, found: FilterDecisions, replaced: NDArray[np.bool_]) -> None:
        if found.values is None and found.expiries is None:
            raise self._refused("replaces versions without a replacement.", "Give values, expiries, or both.")
        deleted = replaced & ((gather_fields(self.stored.sources, self.stored.rows).flags & TOMBSTONE) != 0)
        if deleted.any():
            name = self._key(int(np.flatnonzero(deleted)[0]))
            raise self._refused(f"replaces the tombstone of {name}.", "A tombstone has no value: keep it, or drop it.")

    def _values(self, given: object, replaced: NDArray[np.bool_]) -> pa.Table | None:
        """Return all value columns of the replaced versions, cast to the types of the table."""
        if not isinstance(given, pa.Table | pa.RecordBatch):
            raise self._refused(f"returned values as {_kind(given)}.", "Give a pyarrow Table or RecordBatch.")
        if given.num_rows != len(replaced):
            raise self._refused(f"returned {given.num_rows} rows of values for {len(replaced)} versions.")
        fields = self.codec.value_fields
        known = pa.schema(fields)
        columns = {field.name: self.versions.column(field.name) for field in fields}
        for name in given.schema.names:
            own = find_name(known, name)
            if own is None:
                raise self._refused(
                    f"returned values of {name}, which is not a value column.",
                    f"Choose from {listed(known.names) or 'none'}.",
                )
            columns[own] = given.column(name)
        mask = pa.array(replaced)
        return pa.table({field.name: self._cast(columns[field.name], field, mask, replaced) for field in fields})

    def _cast(
        self, column: pa.Array | pa.ChunkedArray, field: pa.Field, mask: pa.Array, replaced: NDArray[np.bool_]
    ) -> pa.ChunkedArray:
        wanted = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
        wanted = wanted.filter(mask)
        if wanted.null_count and not (field.nullable and self.codec.value_format in WITH_COLUMNS):
            row = np.flatnonzero(replaced)[int(np.flatnonzero(wanted.is_null().to_numpy())[0])]
            raise self._refused(f"returned null for {field.name} of {self._key(int(row))}, which takes no nulls.")
        try:
            return cast_column(wanted, field)
        except SchemaError as exc:
            raise self._refused(f"returned values that do not fit: {exc}") from exc

    def _expiries(self, given: object) -> Expiries:
        array = self._column(given, "expiries")
        if not (kinds.is_timestamp(array.type) or kinds.is_null(array.type)):
            raise self._refused(f"returned expiries of type {array.type}.", "Give timestamps, null for never.")
        never, live = same_expiry(len(array), None), np.ones(len(array), bool)
        return expire_at(array, "expiries", default=never, live=live, refuses_far=False)

    def _column(self, given: object, name: str) -> pa.ChunkedArray:
        if not isinstance(given, pa.Array | pa.ChunkedArray):
            raise self._refused(f"returned {name} as {_kind(given)}.", "Give a pyarrow array.")
        if len(given) != self.versions.num_rows:
            raise self._refused(f"returned {len(given)} {name} for {self.versions.num_rows} versions.")
        return pa.chunked_array([given]) if isinstance(given, pa.Array) else given

    def _key(self, row: int) -> str:
        return name_key(self.codec, gather_keys(self.stored.sources, self.stored.rows[row : row + 1])[1].tobytes())

    def _refused(self, what: str, todo: str = "") -> InvalidRequestError:
        name = type(self.chosen).__name__
        return InvalidRequestError(
            f"{self.table}: the compaction filter {name} {what}",
            why="The table is unchanged.",
            todo=todo or "Correct the filter.",
        )


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
