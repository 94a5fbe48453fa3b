"""Items of Avro arrays and maps, compiled. Layout: `slatespark.kernels.reference.avro_decode`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slatespark.kernels._avro_skip import (
    BLOCK_END,
    COUNT,
    FRAME_BYTES,
    NODE_BYTES,
    STACK_BYTES,
    begin_block,
    skip_value,
)
from slatespark.kernels._compile import Kernel, inlined
from slatespark.kernels._native import load8, load64, store8, store64
from slatespark.kernels._sources import address_of, address_of_spans, cut_to
from slatespark.kernels.avro_program import FINE, MALFORMED, AvroNode, flatten_nodes
from slatespark.kernels.results import AvroItems


def split_avro(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: NDArray[np.uint8] | None,
    item: AvroNode,
) -> AvroItems:
    """See `slatespark.kernels.split_avro`."""
    spans, count = address_of_spans(data, starts, ends, valid), len(starts)
    nodes = list(flatten_nodes([item]))
    lines = np.empty((len(nodes), NODE_BYTES // 8), np.int64)
    for number, (node, child) in enumerate(nodes):
        lines[number] = node.wire, node.null_branch, address_of(lines) + child * NODE_BYTES, len(node.children)
    # An item takes at least one byte; untouched pages cost nothing.
    room = int((ends - starts).sum())
    first, last = np.empty(room, np.int64), np.empty(room, np.int64)
    bounds, status = np.zeros(count + 1, np.int64), np.empty(count, np.uint8)
    stack = np.empty(FRAME_BYTES + STACK_BYTES, np.uint8)
    found = address_of(bounds), address_of(first), address_of(last), address_of(status), room
    total = _split(*spans, count, address_of(lines), address_of(stack), *found)
    return AvroItems(bounds, cut_to(first, total), cut_to(last, total), status)


@inlined
def _split_value(
    at: int, end: int, limit: int, data: int, node: int, stack: int, first: int, last: int, found: int, room: int
) -> int:
    """Note the items of a value after those that were found before; return their number with these, or -1."""
    store64(stack + COUNT, 0)
    store64(stack + BLOCK_END, 0)
    while True:
        at = begin_block(at, end, limit, stack)
        if at == 0:
            return -1
        items = load64(stack + COUNT)
        if items == 0:
            return found if at == end else -1
        if items > room - found:
            return -1
        for _ in range(items):
            after = skip_value(at, end, limit, node, stack + FRAME_BYTES, False)
            if after == 0:
                return -1
            store64(first + 8 * found, at - data)
            store64(last + 8 * found, after - data)
            found += 1
            at = after


@Kernel
def _split(
    data: int,
    size: int,
    starts: int,
    ends: int,
    valid: int,
    count: int,
    node: int,
    stack: int,
    bounds: int,
    first: int,
    last: int,
    statuses: int,
    room: int,
) -> int:
    """Find the items of all values, and return their number; a null and a malformed value have none."""
    found = 0
    for number in range(count):
        status = FINE
        if valid == 0 or load8(valid + number) != 0:
            at, end = data + load64(starts + 8 * number), data + load64(ends + 8 * number)
            after = _split_value(at, end, data + size, data, node, stack, first, last, found, room)
            if after < 0:
                status = MALFORMED
            else:
                found = after
        store8(statuses + number, status)
        store64(bounds + 8 * (number + 1), found)
    return found
