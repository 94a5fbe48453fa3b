"""Operands of a key that no window holds: they are folded as they are read, and the row is the same."""

from __future__ import annotations

import pytest

from slatespark.format.row import Row, RowKind
from slatespark.kernels.columns import Visibility
from slatespark.table.read.merge.cursor import LayerCursor, layer_windows
from slatespark.table.read.merge.merge_function import fold_concat
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.scan import MAX_PARTS, visible_windows
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.read.merge.test_retention import shown

COUNT = 1500
LATEST = Visibility(max_seq=2**63, now_ms=100)
BASES = {
    "none": [],
    "put": [Row(b"k", 2, RowKind.PUT, b"base", create_ts_ms=2, expire_ts_ms=900)],
    "deletion": [Row(b"k", 2, RowKind.DELETE, b"", create_ts_ms=2), Row(b"k", 1, RowKind.PUT, b"hidden")],
    "expired put": [Row(b"k", 2, RowKind.PUT, b"expired", expire_ts_ms=100)],
}


def operand(number: int) -> Row:
    times = (number, 1000 + number) if number % 3 else (None, None)
    return Row(b"k", 10 + number, RowKind.MERGE, b"%d," % number, create_ts_ms=times[0], expire_ts_ms=times[1])


@pytest.mark.parametrize("block_size", [1, 200])
@pytest.mark.parametrize("base", BASES)
def test_operands_are_folded_as_they_are_read(base: str, block_size: int) -> None:
    folded: list[int] = []

    def fold(existing: bytes | None, operands: list[bytes]) -> bytes:
        folded.append(len(operands))
        return fold_concat(existing, operands)

    stores = new_stores()
    newer = [operand(number) for number in range(COUNT, COUNT // 2, -1)]
    older = [operand(number) for number in range(COUNT // 2, 0, -1)]
    files = [put_file(stores, rows, block_size=block_size) for rows in (newer, [*older, *BASES[base]])]
    cursors = [LayerCursor(layer_windows(stores, Layer("run", (part,)), 1)) for part in files]
    [row] = shown(visible_windows(cursors, LATEST, fold))
    found = base == "put"
    value = b"".join(b"%d," % number for number in range(1, COUNT + 1))
    assert row.value == (b"base" if found else b"") + value
    assert (row.kind, row.seq, row.create_ts_ms) == (RowKind.PUT, 10 + COUNT, COUNT - 1)
    assert row.expire_ts_ms == (900 if found else 1001)
    assert max(folded) <= MAX_PARTS + 1, "more are not held at a time"
