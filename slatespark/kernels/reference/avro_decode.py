"""Decoder of Avro values of rows to columns.

A value consists of MARKER, the fingerprint, and the fields in order. Numbers are zigzag varints. A union is the number
of its branch, one byte since there are two, followed by the value. Arrays and maps are stored in blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slatespark.errors import InternalError
from slatespark.kernels.avro_program import (
    BOOLEAN,
    DATA,
    DECIMAL,
    DOUBLE,
    FINE,
    FLOAT,
    HEAD_BYTES,
    INT,
    LONG,
    MALFORMED,
    MAP,
    MARKER,
    NOT_NULLABLE,
    RECORD,
    SKIPPED,
    TEXT,
    UNKNOWN_FINGERPRINT,
    AvroNode,
    AvroWriter,
    DecodeProgram,
)
from slatespark.kernels.columns import TOMBSTONE, RowColumns
from slatespark.kernels.flat import BOOL, BYTES, FLOAT32, FLOAT64, ITEM_BYTES, FlatColumn, check_spans
from slatespark.kernels.reference.gather import unpacked

_MAX_ARROW_BYTES = 2**31 - 1


class MalformedError(Exception):
    """The bytes do not match their schema."""


@dataclass(slots=True)
class AvroBytes:
    """The unread rest of a value."""

    data: bytes
    at: int = field(default=HEAD_BYTES)

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= size <= len(self.data) - self.at:
            raise MalformedError
        self.at += size
        return self.data[self.at - size : self.at]

    def take_long(self) -> int:
        """Return the next number."""
        word = 0
        for number in range(10):
            byte = self.take(1)[0]
            word |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                if word >> 64:
                    raise MalformedError
                return (word >> 1) ^ -(word & 1)
        raise MalformedError

    def take_branch(self) -> int:
        """Return the next branch of a union."""
        branch = self.take(1)[0]
        if branch not in (0, 2):
            raise MalformedError
        return branch >> 1


def decode_avro(
    sources: Sequence[RowColumns], rows: NDArray[np.int64], program: DecodeProgram
) -> tuple[list[FlatColumn], NDArray[np.uint8]]:
    """See `slatespark.kernels.decode_avro`."""
    decoded, status = [], []
    named = list(unpacked(sources, rows))
    if BYTES in program.kinds and sum(int(source.value_lengths[row]) for source, row in named) > _MAX_ARROW_BYTES:
        raise InternalError("The bytes do not fit into one Arrow array.")
    nulls: list[bytes | None] = [None] * len(program.kinds)
    writers = {writer.fingerprint: writer for writer in reversed(program.writers)}
    for source, row in named:
        value = source.value(row)
        items, found = nulls, FINE
        if not source.flags[row] & TOMBSTONE:
            writer = writers.get(int.from_bytes(value[2:HEAD_BYTES], "little"))
            if len(value) < HEAD_BYTES or not value.startswith(MARKER) or writer is None:
                found = UNKNOWN_FINGERPRINT
            else:
                try:
                    items = _row(AvroBytes(value), writer, program.kinds)
                except MalformedError:
                    found = MALFORMED
        decoded.append(items)
        status.append(found)
    columns = [_column(kind, [items[number] for items in decoded]) for number, kind in enumerate(program.kinds)]
    return columns, np.array(status, np.uint8)


def decode_avro_parts(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: NDArray[np.uint8] | None,
    program: DecodeProgram,
) -> tuple[list[FlatColumn], NDArray[np.uint8]]:
    """See `slatespark.kernels.decode_avro_parts`."""
    check_spans(data, starts, ends)
    (writer,) = program.writers
    decoded: list[list[bytes | None]] = []
    status = np.full(len(starts), FINE, np.uint8)
    for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        items: list[bytes | None] = [None] * len(program.kinds)
        if valid is None or valid[number]:
            try:
                items = _row(AvroBytes(data[start:end].tobytes(), 0), writer, program.kinds)
            except MalformedError:
                status[number] = MALFORMED
        decoded.append(items)
    columns = [_column(kind, [items[number] for items in decoded]) for number, kind in enumerate(program.kinds)]
    return columns, status


def _row(value: AvroBytes, writer: AvroWriter, kinds: tuple[int, ...]) -> list[bytes | None]:
    """Return the encoded item of each column."""
    items: list[bytes | None] = [None] * len(kinds)
    for step in writer.steps:
        node = step.node
        if node.null_branch != NOT_NULLABLE and value.take_branch() == node.null_branch:
            continue
        start = value.at
        item = read_value(value, node._replace(null_branch=NOT_NULLABLE), strict=step.column != SKIPPED)
        if step.column == SKIPPED:
            continue
        if node.wire in (INT, LONG) and not step.low <= item <= step.high:
            raise MalformedError
        if node.wire == DECIMAL and not -step.high <= item <= step.high:
            raise MalformedError
        if node.wire >= RECORD:
            item = value.data[start : value.at]
        items[step.column] = _as_item(item, kinds[step.column])
    if writer.whole and value.at != len(value.data):
        raise MalformedError
    return items


def read_value(value: AvroBytes, node: AvroNode, *, strict: bool) -> Any:  # noqa: C901
    """Decode a value, None if it is nested; its content is checked only if `strict`."""
    if node.null_branch != NOT_NULLABLE and value.take_branch() == node.null_branch:
        return None
    if node.wire in (INT, LONG):
        number = value.take_long()
        if strict and node.wire == INT and not -(2**31) <= number < 2**31:
            raise MalformedError
        return number
    if node.wire == BOOLEAN:
        flag = value.take(1)[0]
        if strict and flag > 1:
            raise MalformedError
        return flag
    if node.wire == FLOAT:
        return np.frombuffer(value.take(4), "<f4")[0]  # not a Python float: that would quiet a NaN
    if node.wire == DOUBLE:
        return struct.unpack("<d", value.take(8))[0]
    if node.wire in (DATA, TEXT, DECIMAL):
        return _bytes(value, node.wire if strict else DATA)
    if node.wire == RECORD:
        for child in node.children:
            read_value(value, child, strict=strict)
    else:
        _items(value, node, strict=strict)
    return None


def _bytes(value: AvroBytes, wire: int) -> Any:
    data = value.take(value.take_long())
    if wire == TEXT:
        try:
            data.decode()
        except UnicodeDecodeError as exc:
            raise MalformedError from exc
    if wire == DECIMAL:
        if not data:
            raise MalformedError
        return int.from_bytes(data, "big", signed=True)
    return data


def each_item(value: AvroBytes) -> Iterator[None]:
    """Yield at the start of each item of an array or map; the caller takes the item. Raises `MalformedError`."""
    while count := value.take_long():
        end = None
        if count < 0:
            count, size = -count, value.take_long()
            end = value.at + size
            if not 0 <= size <= len(value.data) - value.at:
                raise MalformedError
        if count > len(value.data) - value.at:  # an item takes at least one byte
            raise MalformedError
        for _ in range(count):
            yield
        if end is not None and value.at != end:
            raise MalformedError


def _items(value: AvroBytes, node: AvroNode, *, strict: bool) -> None:
    for _ in each_item(value):
        if node.wire == MAP:
            _bytes(value, TEXT if strict else DATA)
        read_value(value, node.children[0], strict=strict)


def _as_item(item: Any, kind: int) -> bytes:
    if kind == BYTES:
        return bytes(item)
    if kind == FLOAT32:  # an integer is rounded once, not by way of a double
        return (np.int64(item).astype(np.float32) if isinstance(item, int) else np.float32(item)).tobytes()
    if kind == FLOAT64:
        return np.float64(item).tobytes()
    return int(item).to_bytes(ITEM_BYTES[kind], "little", signed=kind != BOOL)


def _column(kind: int, items: list[bytes | None]) -> FlatColumn:
    valid = np.array([item is not None for item in items], np.uint8)
    filler = bytes(ITEM_BYTES.get(kind, 0))
    data = np.frombuffer(b"".join(filler if item is None else item for item in items), np.uint8)
    if kind != BYTES:
        return FlatColumn(kind, data, valid=valid)
    offsets = np.cumsum([0, *(0 if item is None else len(item) for item in items)], dtype=np.int64)
    return FlatColumn(kind, data, offsets.astype(np.int32), valid)
