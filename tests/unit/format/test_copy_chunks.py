"""Column chunks of a copy: any changed bit is refused or changes no value; columns with odd names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slatespark.errors import CorruptDataError
from slatespark.format.columnar_copy import CopyBuilder, CopyFooter, CopyLabel, decode_end, end_range, seal_range
from slatespark.format.copy_chunks import GroupChunks, chunk_range, leaf_columns


def stored(table: pa.Table, groups: int = 1) -> tuple[bytes, CopyFooter]:
    builder = CopyBuilder(table.schema)
    size = -(-len(table) // groups)
    for start in range(0, len(table), size):
        builder.add(table.slice(start, size).to_batches())
    data = b"".join(builder.finish(CopyLabel("sst", "digest", len(table), 1, 2)))
    return data, decode_end(data[end_range(data, len(data)).start :])


def chunks(data: bytes, footer: CopyFooter, names: list[str], group: int = 0) -> dict[int, bytes]:
    spans = (chunk_range(footer.metadata, group, leaf) for leaf in leaf_columns(footer.metadata, names))
    return {span.start: data[span.start : span.end] for span in spans}


TABLE = pa.table(
    {
        "number": pa.array([None if number % 7 == 0 else number % 5 for number in range(60)], pa.int32()),
        "text": [f"s{number % 9}" for number in range(60)],
        "real": [number / 3 for number in range(60)],
        "list": pa.array([[1] * (number % 3) for number in range(60)], pa.list_(pa.int8())),
    }
)


@pytest.mark.parametrize("starts", [(), (b"a",), (b"a", b"b", b"c"), (b"b", b"a"), (b"a", b"a")])
def test_a_label_needs_an_ascending_key_for_each_row_group(starts: tuple[bytes, ...]) -> None:
    def end(keys: tuple[bytes, ...] | None) -> CopyFooter:
        builder = CopyBuilder(TABLE.schema)
        for start in (0, 30):
            builder.add(TABLE.slice(start, 30).to_batches())
        data = b"".join(builder.finish(CopyLabel("sst", "digest", len(TABLE), 1, 2, starts=keys)))
        return decode_end(data[end_range(data, len(data)).start :])

    with pytest.raises(CorruptDataError):
        end(starts)
    assert end((b"a", b"b\xff")).label.starts == (b"a", b"b\xff")
    assert end(None).label.starts is None


@pytest.mark.parametrize("name", TABLE.column_names)
def test_a_changed_bit_is_refused_or_changes_no_value(name: str) -> None:
    data, footer = stored(TABLE)
    [(start, chunk)] = chunks(data, footer, [name]).items()
    refused = 0
    for bit in range(8 * len(chunk)):
        changed = bytearray(chunk)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            found = GroupChunks(footer.metadata, 0, {start: bytes(changed)}).read([name])
        except CorruptDataError:
            refused += 1
        else:
            assert found.equals(TABLE.select([name]))
    assert refused > 7 * len(chunk)


def test_row_groups_are_read_by_their_chunks() -> None:
    data, footer = stored(TABLE, groups=3)
    found = [
        GroupChunks(footer.metadata, group, chunks(data, footer, ["list", "real"], group)).read(["list", "real"])
        for group in range(3)
    ]
    assert pa.concat_tables(found).equals(TABLE.select(["list", "real"]))


def test_missing_chunks_are_refused() -> None:
    data, footer = stored(TABLE)
    with pytest.raises(CorruptDataError):
        GroupChunks(footer.metadata, 0, chunks(data, footer, ["text"])).read(["real"])
    with pytest.raises(CorruptDataError):
        GroupChunks(footer.metadata, 0, chunks(data, footer, ["text"])).read(["other"])


def test_names_with_dots_are_told_apart() -> None:
    inner = pa.array([{"b": 1, "c": "x"}], pa.struct([("b", pa.int8()), ("c", pa.string())]))
    table = pa.table({"a": inner, "a.b": pa.array([7], pa.int64()), "ab": pa.array([9], pa.int64())})
    data, footer = stored(table)
    for names in (["a"], ["a.b"], ["ab"], ["ab", "a"], ["a.b", "a"]):
        assert GroupChunks(footer.metadata, 0, chunks(data, footer, names)).read(names).equals(table.select(names))


def test_the_seal_lies_before_the_footer() -> None:
    data, footer = stored(TABLE)
    span = seal_range(footer, len(data))
    assert data[span.start : span.end] == footer.seal
    assert footer.seal.startswith(b"SLATECOL")
