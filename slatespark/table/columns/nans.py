"""Which columns of a copy hold NaN: Parquet's statistics leave it out, and other readers of Parquet trust them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


class NanColumns:
    """Collects the columns with a NaN, be it in a part of them.

    Parameters
    ----------
    schema : schema of the batches
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._sought = [item.name for item in schema if has_floats(item.type)]
        self._found: set[str] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Look at some rows."""
        left = (name for name in self._sought if name not in self._found)
        self._found.update(name for name in left if _has_nan(batch.column(name)))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that were found, sorted."""
        return tuple(sorted(self._found))


def has_floats(kind: pa.DataType) -> bool:
    """Tell whether a type is a floating-point one, or has a part that is."""
    parts = (kind.field(number).type for number in range(kind.num_fields))
    return pa.types.is_floating(kind) or any(has_floats(part) for part in parts)


def _has_nan(values: pa.Array) -> bool:
    kind = values.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.is_nan(values)).as_py())
    if pa.types.is_map(kind):  # of the whole array, also if this is a slice: a NaN too many does no harm
        return _has_nan(values.keys) or _has_nan(values.items)
    if pa.types.is_struct(kind):
        return any(map(_has_nan, values.flatten()))
    return bool(kind.num_fields) and _has_nan(values.flatten())
