"""Skipping Avro values without decoding them, compiled. A type is a record of NODE_BYTES."""

from __future__ import annotations

from typing import Final

from slatespark.kernels._compile import called, inlined
from slatespark.kernels._native import load8, load64, store64
from slatespark.kernels._utf8 import is_utf8
from slatespark.kernels._varint import read_long, skip_long
from slatespark.kernels.avro_program import BOOLEAN, DECIMAL, DOUBLE, FLOAT, INT, LONG, MAP, MAX_DEPTH, RECORD, TEXT

# Byte offsets in the record of a node.
WIRE: Final = 0
NULL_BRANCH: Final = 8
CHILDREN: Final = 16  # address of the first child's record
CHILD_COUNT: Final = 24
NODE_BYTES: Final = 32

# Stack frame of an open nested value. Byte offsets: its node; fields done, or items left in this block; the end of the
# block if stated, else 0.
_NODE: Final = 0
COUNT: Final = 8
BLOCK_END: Final = 16
FRAME_BYTES: Final = 24

STACK_BYTES: Final = MAX_DEPTH * FRAME_BYTES


@inlined
def skip_bytes(at: int, end: int, limit: int, text: bool) -> int:
    """Return the end of length-prefixed bytes; 0 if they are malformed, or not UTF-8 although `text`."""
    size, at = read_long(at, end, limit)
    if at == 0 or size < 0 or size > end - at or (text and not is_utf8(at, size)):
        return 0
    return at + size


@called
def _skip_part(at: int, end: int, limit: int, wire: int, strict: bool) -> int:
    """Return the end of a value that is not nested, or 0."""
    if wire == INT:
        number, at = read_long(at, end, limit)
        return 0 if at != 0 and strict and not -(1 << 31) <= number < 1 << 31 else at
    if wire == LONG:
        return skip_long(at, end, limit)
    if wire == BOOLEAN:
        return 0 if at >= end or (strict and load8(at) > 1) else at + 1
    if wire == FLOAT:
        return at + 4 if end - at >= 4 else 0
    if wire == DOUBLE:
        return at + 8 if end - at >= 8 else 0
    after = skip_bytes(at, end, limit, strict and wire == TEXT)
    if strict and wire == DECIMAL and after != 0 and read_long(at, end, limit)[0] == 0:
        return 0
    return after


@inlined
def begin_block(at: int, end: int, limit: int, frame: int) -> int:
    """Store the item count of the next block in the frame, 0 after the last one; return the start of the items."""
    block_end = load64(frame + BLOCK_END)
    if block_end != 0 and at != block_end:
        return 0
    count, at = read_long(at, end, limit)
    block_end = 0
    if at != 0 and count < 0:  # followed by the size of the block
        count = -count
        size, at = read_long(at, end, limit)
        if size < 0 or size > end - at:
            return 0
        block_end = at + size
    if at == 0 or count < 0 or count > end - at:  # an item takes at least one byte
        return 0
    store64(frame + COUNT, count)
    store64(frame + BLOCK_END, block_end)
    return at


@called
def skip_value(at: int, end: int, limit: int, node: int, stack: int, strict: bool) -> int:  # noqa: C901
    """Return the end of a value, or 0 if it is malformed or does not end before `end`.

    With `strict`, everything that an Avro reader refuses is malformed; otherwise only lengths and counts are checked.
    """
    top = stack
    while True:
        present = True
        null_branch = load64(node + NULL_BRANCH)
        if null_branch >= 0:
            if at >= end:
                return 0
            branch = load8(at)
            if branch != 0 and branch != 2:
                return 0
            at += 1
            present = branch >> 1 != null_branch
        if present:
            if load64(node + WIRE) >= RECORD:
                store64(top + _NODE, node)
                store64(top + COUNT, 0)
                store64(top + BLOCK_END, 0)
                top += FRAME_BYTES
            else:
                at = _skip_part(at, end, limit, load64(node + WIRE), strict)
                if at == 0:
                    return 0
        while True:  # until another value follows
            if top == stack:
                return at
            frame = top - FRAME_BYTES
            node = load64(frame + _NODE)
            if load64(node + WIRE) == RECORD:
                done = load64(frame + COUNT)
                if done < load64(node + CHILD_COUNT):
                    store64(frame + COUNT, done + 1)
                    node = load64(node + CHILDREN) + done * NODE_BYTES
                    break
                top = frame
                continue
            if load64(frame + COUNT) == 0:
                at = begin_block(at, end, limit, frame)
                if at == 0:
                    return 0
                if load64(frame + COUNT) == 0:
                    top = frame
                    continue
            store64(frame + COUNT, load64(frame + COUNT) - 1)
            if load64(node + WIRE) == MAP:
                at = skip_bytes(at, end, limit, strict)
                if at == 0:
                    return 0
            node = load64(node + CHILDREN)
            break
