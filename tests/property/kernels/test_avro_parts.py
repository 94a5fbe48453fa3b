from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slatespark.kernels.avro_program import ARRAY, BOOLEAN, DOUBLE, INT, LONG, MAP, RECORD, TEXT, AvroNode
from tests.unit.kernels.implementations import COMPILED, REFERENCE
from tests.unit.kernels.test_avro import items_of
from tests.unit.kernels.test_avro_parts import RECORDS, spans_of

BRANCHES = st.sampled_from([-1, 0, 1])
FLAT = st.builds(
    lambda wire, branch: AvroNode(wire, branch), st.sampled_from([BOOLEAN, INT, LONG, DOUBLE, TEXT]), BRANCHES
)


def with_parts(inner: st.SearchStrategy[AvroNode]) -> st.SearchStrategy[AvroNode]:
    items = st.builds(
        lambda wire, branch, item: AvroNode(wire, branch, (item,)), st.sampled_from([ARRAY, MAP]), BRANCHES, inner
    )
    fields = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return items | st.builds(lambda branch, parts: AvroNode(RECORD, branch, parts), BRANCHES, fields)


NODES = st.recursive(FLAT, with_parts, max_leaves=4)
# Mostly counts and BRANCHES, few of them large.
VALUES = st.lists(
    st.none() | st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 0x80, 0xFF]), max_size=24).map(bytes), max_size=5
)


@given(VALUES, NODES)
def test_kernel_and_twin_find_the_same_items(values: list[bytes | None], item: AvroNode) -> None:
    def found(kernels: Any) -> list[list[int]]:
        items = kernels.split_avro(*spans_of(*values), item)
        return [array.tolist() for array in (items.bounds, items.starts, items.ends, items.status)]

    assert found(COMPILED) == found(REFERENCE)


@given(VALUES)
def test_kernel_and_twin_decode_the_same_records(values: list[bytes | None]) -> None:
    def decoded(kernels: Any) -> Any:
        columns, status = kernels.decode_avro_parts(*spans_of(*values), RECORDS)
        assert np.isin(status, [0, 2]).all()
        return [items_of(column) for column in columns], status.tolist()

    assert decoded(COMPILED) == decoded(REFERENCE)
