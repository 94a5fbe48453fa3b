"""Row times from a column: the option `timestampColumn`, on history tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from slatespark.encoding import arrow_compute as pc
from slatespark.encoding.instants import check_instant_type, to_ms
from slatespark.errors import SchemaError
from slatespark.units import MAX_MS


def check_timestamp_type(field: pa.Field) -> None:
    """Refuse a column type that holds no times for `timestampColumn`; raises `SchemaError`."""
    check_instant_type("timestampColumn", field)


def times_of(column: pa.ChunkedArray, name: str) -> NDArray[np.int64]:
    """Return the times in ms, parts of a millisecond cut off; without a time zone they are UTC.

    Parameters
    ----------
    column : of a type that `check_timestamp_type` accepts
    name : of the column, for the message

    Raises
    ------
    SchemaError
        When one is null, or beyond what 64 bits of milliseconds hold.
    """
    if column.null_count:
        raise SchemaError(
            f"timestampColumn: {name} is null in some row.",
            why="Every version of a row has a time.",
            todo="Filter such rows out, or fill the column in.",
        )
    if kinds.is_uint64(column.type) and len(column) and pc.max(column).as_py() > MAX_MS:
        raise _out_of_range(name)
    numbers = column.cast(pa.int64()).to_numpy()
    times, fits = to_ms(numbers, column.type)
    if kinds.is_timestamp(column.type) and column.type.unit == "s":
        fits &= times // 1000 == numbers  # one that is too early was moved
    if not fits.all():
        raise _out_of_range(name)
    return times


def _out_of_range(name: str) -> SchemaError:
    return SchemaError(
        f"timestampColumn: {name} is out of range in some row.", todo="Give ms since 1970 that fit 64 bits."
    )
