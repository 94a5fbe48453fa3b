"""Copies of packed rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels.columns import ROW_BITS, RowColumns
from slatespark.kernels.results import Fields

_MAX_ARROW_BYTES = 2**31 - 1


def gather_keys(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """See `slatespark.kernels.gather_keys`."""
    return _arrow_buffers([source.key(row) for source, row in unpacked(sources, rows)])


def gather_values(
    sources: Sequence[RowColumns], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """See `slatespark.kernels.gather_values`."""
    return _arrow_buffers([source.value(row) for source, row in unpacked(sources, rows)])


def key_lengths(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `slatespark.kernels.key_lengths`."""
    return np.array([len(source.key(row)) for source, row in unpacked(sources, rows)], np.int64)


def value_lengths(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """See `slatespark.kernels.value_lengths`."""
    return np.array([source.value_lengths[row] for source, row in unpacked(sources, rows)], np.int64)


def gather_fields(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> Fields:
    """See `slatespark.kernels.gather_fields`."""
    named = list(unpacked(sources, rows))
    return Fields(
        seqs=np.array([source.seqs[row] for source, row in named], np.uint64),
        flags=np.array([source.flags[row] for source, row in named], np.uint8),
        create_ts=np.array([source.create_ts[row] for source, row in named], np.int64),
        expire_ts=np.array([source.expire_ts[row] for source, row in named], np.int64),
    )


def take_rows(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> RowColumns:
    """See `slatespark.kernels.take_rows`."""
    named = list(unpacked(sources, rows))
    values = [source.value(row) for source, row in named]
    fields = gather_fields(sources, rows)
    return RowColumns(
        key_bytes=_joined([source.key(row) for source, row in named]),
        key_offsets=_offsets([source.key(row) for source, row in named]),
        seqs=fields.seqs,
        flags=fields.flags,
        create_ts=fields.create_ts,
        expire_ts=fields.expire_ts,
        value_bytes=_joined(values),
        value_starts=_offsets(values)[:-1],
        value_lengths=value_lengths(sources, rows),
    )


def new_key_mask(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """See `slatespark.kernels.new_key_mask`."""
    keys = [source.key(row) for source, row in unpacked(sources, rows)]
    return np.array([number == 0 or key != keys[number - 1] for number, key in enumerate(keys)], np.bool_)


def unpacked(sources: Sequence[RowColumns], rows: NDArray[np.int64]) -> Iterator[tuple[RowColumns, int]]:
    """Yield source and position of every packed row."""
    for packed in rows.tolist():
        number, position = packed >> ROW_BITS, packed & ((1 << ROW_BITS) - 1)
        if not (0 <= number < len(sources) and position < len(sources[number])):
            raise InternalError(f"Row {position} of source {number} does not exist.")
        yield sources[number], position


def _arrow_buffers(items: list[bytes]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    offsets = _offsets(items)
    if offsets[-1] > _MAX_ARROW_BYTES:
        raise InternalError(f"{offsets[-1]} bytes do not fit into one Arrow array, at most {_MAX_ARROW_BYTES} do.")
    return offsets.astype(np.int32), _joined(items)


def _offsets(items: list[bytes]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, items)], dtype=np.int64)


def _joined(items: list[bytes]) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(items), np.uint8)
