"""The kernels of Avro values give what their plain twins give, for any schema and any bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slatespark.kernels.avro_program import (
    ARRAY,
    BOOLEAN,
    DATA,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    MAP,
    RECORD,
    TAKES,
    TEXT,
    WRITTEN,
    AvroNode,
    AvroStep,
    AvroWriter,
    DecodeProgram,
    EncodeProgram,
)
from slatespark.kernels.flat import BOOL, BYTES, ITEM_BYTES, FlatColumn
from tests.support.avro_numbers import zigzag
from tests.support.effort import examples
from tests.unit.kernels.implementations import COMPILED, REFERENCE
from tests.unit.kernels.rows import Version, all_rows, columns, delete, put, same

FINGERPRINTS = [0, 1, 2**64 - 1]

branches = st.sampled_from([-1, 0, 1])
parts = st.sampled_from([BOOLEAN, INT, LONG, FLOAT, DOUBLE, DATA, TEXT, DECIMAL])
nodes = st.recursive(
    st.builds(AvroNode, parts, branches, st.just(())),
    lambda inner: st.one_of(
        st.builds(AvroNode, st.sampled_from([ARRAY, MAP]), branches, st.tuples(inner)),
        st.builds(AvroNode, st.just(RECORD), branches, st.lists(inner, min_size=1, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)
numbers = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))


@st.composite
def bodies(draw: st.DrawFn, node: AvroNode) -> bytes:
    """Bytes that are a value of a type, or nearly so."""
    if node.null_branch >= 0:
        if draw(st.integers(0, 3)) == 0:
            return bytes([2 * node.null_branch])
        return bytes([2 - 2 * node.null_branch]) + draw(bodies(node._replace(null_branch=-1)))
    if node.wire in (INT, LONG):
        return zigzag(draw(numbers))
    if node.wire == BOOLEAN:
        return bytes([draw(st.sampled_from([0, 1, 1, 2]))])
    if node.wire in (FLOAT, DOUBLE):
        return draw(st.binary(min_size=4 * (node.wire - 3), max_size=4 * (node.wire - 3)))
    if node.wire == RECORD:
        return b"".join(draw(bodies(child)) for child in node.children)
    if node.wire in (ARRAY, MAP):
        return draw(blocks(node))
    data = draw(st.text(max_size=20).map(str.encode) | st.binary(max_size=18))
    return zigzag(len(data)) + data


@st.composite
def blocks(draw: st.DrawFn, node: AvroNode) -> bytes:
    data = b""
    for _ in range(draw(st.integers(0, 2))):
        count = draw(st.integers(1, 2))
        items = b"".join((b"\2k" if node.wire == MAP else b"") + draw(bodies(node.children[0])) for _ in range(count))
        data += zigzag(-count) + zigzag(len(items)) + items if draw(st.booleans()) else zigzag(count) + items
    return data + b"\0"


@st.composite
def programs(draw: st.DrawFn) -> DecodeProgram:
    kinds = draw(st.lists(st.sampled_from([BOOL, BYTES, *ITEM_BYTES]), max_size=3))
    writers = []
    for fingerprint in draw(st.lists(st.sampled_from(FINGERPRINTS), max_size=3, unique=True)):
        steps, left = [], list(range(len(kinds)))
        for node in draw(st.lists(nodes, max_size=5)):
            fitting = [column for column in left if (node.wire, kinds[column]) in TAKES]
            column = draw(st.sampled_from([-1, *fitting, *fitting]))
            if column >= 0:
                left.remove(column)
            high = draw(st.sampled_from([1, 127, 2**31 - 1, 2**63 - 1] if node.wire != DECIMAL else [9, 10**38 - 1]))
            if column >= 0 and node.wire in (INT, LONG):  # a value that is in range fits its column
                high = min(high, 2 ** (8 * ITEM_BYTES[kinds[column]] - 1) - 1)
            steps.append(AvroStep(node, column, -high, high))
        writers.append(AvroWriter(fingerprint, tuple(steps), draw(st.booleans()), tuple(left)))
    return DecodeProgram(tuple(kinds), tuple(writers))


@st.composite
def stored(draw: st.DrawFn, program: DecodeProgram) -> list[Version]:
    rows = []
    for number in range(draw(st.integers(0, 6))):
        key = b"%d" % number
        if not program.writers or draw(st.integers(0, 9)) == 0:
            rows.append(draw(st.sampled_from([delete(key, 1), put(key, 1, b"\xc3\x01"), put(key, 1, b"\xc3" * 12)])))
            continue
        writer = draw(st.sampled_from(program.writers))
        value = bytearray(b"\xc3\x01" + writer.fingerprint.to_bytes(8, "little"))
        for step in writer.steps:
            value += draw(bodies(step.node))
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            at = draw(st.integers(0, len(value)))
            value[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2) | st.just(b"\xff" * 9))
        rows.append(put(key, 1, bytes(value)))
    return rows


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None, max_examples=examples(100)
)
@given(st.data())
def test_decoding(data: st.DataObject) -> None:
    program = data.draw(programs())
    rows = data.draw(stored(program))
    sources = [columns(*rows[:2]), columns(*rows[2:])]
    named = np.array(data.draw(st.permutations(all_rows(sources).tolist())), np.int64)
    with np.errstate(all="ignore"):
        (compiled, statuses), (plain, expected) = (
            kernels.decode_avro(sources, named, program) for kernels in (COMPILED, REFERENCE)
        )
    assert same((*compiled, statuses), (*plain, expected))


@st.composite
def flat_columns(draw: st.DrawFn, count: int) -> tuple[FlatColumn, AvroNode]:
    wire, kind = draw(st.sampled_from([pair for pair, take in TAKES.items() if take in WRITTEN]))
    node = AvroNode(wire, draw(branches), (AvroNode(INT),) if wire >= RECORD else ())
    valid: Any = None
    if node.null_branch >= 0 and draw(st.booleans()):
        valid = np.array(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)), np.uint8)
    if kind == BYTES:
        item = st.text(max_size=70).map(str.encode) if wire == TEXT else st.binary(max_size=200)
        items = draw(st.lists(item, min_size=count, max_size=count))
        start = draw(st.integers(0, 3))  # as of a slice
        offsets = np.cumsum([start, *map(len, items)], dtype=np.int64)
        return FlatColumn(BYTES, np.frombuffer(b"xxx"[:start] + b"".join(items), np.uint8), offsets, valid), node
    width = ITEM_BYTES[kind]
    data = draw(st.binary(min_size=count * width, max_size=count * width) | st.just(bytes(count * width)))
    return FlatColumn(kind, np.frombuffer(data, np.uint8), valid=valid), node


@settings(deadline=None)
@given(st.data(), st.integers(0, 5))
def test_encoding(data: st.DataObject, count: int) -> None:
    pairs = data.draw(st.lists(flat_columns(count), max_size=4))
    program = EncodeProgram(data.draw(st.sampled_from(FINGERPRINTS)), tuple(node for _, node in pairs))
    given_columns = [column for column, _ in pairs]
    assert same(
        COMPILED.encode_avro(given_columns, program, count), REFERENCE.encode_avro(given_columns, program, count)
    )
