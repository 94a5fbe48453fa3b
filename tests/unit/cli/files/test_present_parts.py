"""Structs that are null in a file of Parquet, though their parts take no nulls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slatespark import SlateStore
from slatespark.cli.files.present_parts import with_present_parts
from slatespark.encoding.column_types import VARIANT, list_of, map_of
from tests.unit.cli.shell import done, rows


def required(**parts: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, kind, nullable=False) for name, kind in parts.items()])


INNER = required(n=pa.int32(), data=pa.binary())
FLAT = required(
    flag=pa.bool_(), amount=pa.decimal128(9, 2), text=pa.string(), day=pa.date32(), at=pa.timestamp("us", "UTC")
)
CASES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "variant": (VARIANT, [{"value": b"\0", "metadata": b"\1"}, None]),
    "flat": (FLAT, [None]),
    "structs": (required(inner=INNER, n=pa.int8()), [{"inner": {"n": 1, "data": b""}, "n": 2}, None]),
    "a struct that may be null": (
        pa.struct([pa.field("inner", INNER), pa.field("n", pa.int8(), nullable=False)]),
        [{"inner": None, "n": 2}, None, {"inner": {"n": 1, "data": b"x"}, "n": 3}],
    ),
    "lists and maps": (
        required(items=list_of(INNER), named=map_of(pa.string(), INNER)),
        [None, {"items": [None, {"n": 1, "data": b""}], "named": [("k", None), ("l", {"n": 2, "data": b"y"})]}],
    ),
    "list": (list_of(VARIANT), [[None, {"value": b"", "metadata": b""}], None, []]),
    "map": (map_of(pa.string(), VARIANT), [[("k", None)], None, [], [("l", {"value": b"", "metadata": b""})]]),
}


@pytest.mark.parametrize("case", CASES)
def test_values_stay_the_same(case: str, tmp_path: Path) -> None:
    kind, values = CASES[case]
    nulls = pa.nulls(2, kind)
    whole = pa.concat_arrays([nulls, pa.array(values, kind), nulls])
    for array in (whole, whole.slice(1), whole.slice(2, len(values)), whole.slice(3), whole.slice(0, 0), nulls):
        table = pa.table({"c": array})
        pq.write_table(with_present_parts(table), tmp_path / "t.parquet")
        assert pq.read_table(tmp_path / "t.parquet").column("c").to_pylist() == array.to_pylist()


def test_an_export_of_null_variants_can_be_imported(tmp_path: Path) -> None:
    for name in ("t", "copy"):
        SlateStore.create(tmp_path / name, "id INT, v VARIANT", "id")
    given = pa.array([None, {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}], VARIANT)
    SlateStore.open(tmp_path / "t").write(pa.table({"id": pa.array([1, 2], pa.int32()), "v": given}))
    done("export", tmp_path / "t", tmp_path / "t.parquet")
    done("import", tmp_path / "copy", tmp_path / "t.parquet")
    assert [row["v"] is None for row in rows(tmp_path / "t")] == [True, False]
    assert rows(tmp_path / "copy") == rows(tmp_path / "t")
