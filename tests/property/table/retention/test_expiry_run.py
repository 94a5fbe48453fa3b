from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from slatespark import SlateStore
from slatespark.format.codecs import Compression
from slatespark.format.row import Row, RowKind
from slatespark.ranges import KeyRange
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import publish_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.read.planning.plan import FileSlice, Layer
from slatespark.table.stores import TableStores
from tests.unit.table.layers import new_stores, put_file
from tests.unit.table.retention.expiry_model import (
    DAY_MS,
    HORIZON_MS,
    HOUR_MS,
    Model,
    cut,
    publish_layers,
    report_parts,
    strip_properties,
)
from tests.unit.table.retention.test_expiry_run import NOW_MS, WIDTHS, report


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableStores, list[Layer], list[list[Row]]]:
    """Layers of files, ours and of other clients, some cut, and a WAL."""
    stores, seqs, layers = new_stores(), itertools.count(900, -1), []
    for _ in range(draw(st.integers(0, 3))):
        keys = sorted(draw(st.sets(st.binary(min_size=1, max_size=3), min_size=1, max_size=40)))
        # Neighbours tend to expire together, so that whole blocks and files do, too.
        tempo = draw(expiries())
        rows = [draw(versions(key, next(seqs), tempo)) for key in keys]
        edges = sorted({0, len(rows), *(at % len(rows) for at in draw(st.lists(st.integers(0, 40), max_size=2)))})
        slices = [part for a, b in itertools.pairwise(edges) for part in draw(slices_of(stores, rows[a:b]))]
        if slices:
            layers.append(Layer("run", tuple(slices)))
    # All of the first file is in the trees already, or nothing.
    wal = [
        [draw(versions(b"w%d" % number, 1001 + number, draw(expiries())))] if filled else []
        for number, filled in enumerate(draw(st.lists(st.booleans(), max_size=3)))
    ]
    publish_layers(stores, layers, wal)
    return stores, layers, wal


def expiries() -> st.SearchStrategy[st.SearchStrategy[int | None]]:
    """Strategies of expiry: all the same, near each other, anything."""
    limits = [-(2**63), 2**63 - 1, NOW_MS, NOW_MS + 1, NOW_MS - 1, NOW_MS // DAY_MS * DAY_MS + HORIZON_MS]
    near = st.integers(NOW_MS - 2 * HOUR_MS, NOW_MS + 4 * DAY_MS)
    one = st.one_of(st.none(), st.sampled_from(limits), near, st.integers(-(2**63), 2**63 - 1))
    return st.one_of(
        one.map(st.just),
        near.map(lambda at: st.integers(at, at + HOUR_MS // 2)),
        near.map(lambda at: st.one_of(st.none(), st.integers(at, at + 10))),
        st.just(one),
    )


@st.composite
def versions(draw: st.DrawFn, key: bytes, seq: int, tempo: st.SearchStrategy[int | None]) -> Row:
    kind = draw(st.sampled_from([RowKind.PUT, RowKind.PUT, RowKind.PUT, RowKind.MERGE, RowKind.DELETE]))
    if kind is RowKind.DELETE:
        return Row(key, seq, kind, create_ts_ms=seq)
    value = b"v" * draw(st.sampled_from([0, 1, 30, 200]))
    return Row(key, seq, kind, value, seq, draw(tempo))


@st.composite
def slices_of(draw: st.DrawFn, stores: TableStores, rows: Sequence[Row]) -> list[FileSlice]:
    """A file, visible wholly, in part, or in two parts."""
    part = put_file(
        stores,
        rows,
        block_size=draw(st.sampled_from([1, 100, 400, 4096])),
        compression=draw(st.sampled_from([Compression.NONE, Compression.ZSTD])),
    )
    if draw(st.integers(0, 2)) == 0:
        strip_properties(stores, part)
    bounds = sorted(draw(st.lists(st.binary(min_size=1, max_size=3), min_size=2, max_size=2)))
    shape = draw(st.sampled_from(["whole", "whole", "cut", "twice"]))
    if shape == "whole":
        return [part]
    halves = [KeyRange(b"", bounds[0]), KeyRange(bounds[1], None)]
    ranges = [KeyRange(*bounds)] if shape == "cut" else halves
    return [found for keys in ranges if not (found := cut(part, keys)).keys.is_empty()]


# Rows are created at about 900 to 1010.
retentions = st.sampled_from(
    [None, None, 0, NOW_MS - 950, NOW_MS - 1000, NOW_MS + HOUR_MS // 2, NOW_MS + 5 * DAY_MS, 2**63 - 950, 2**63 - 1]
)


@given(tables(), st.sampled_from(["hour", "day"]), st.sampled_from([1 << 16, 1 << 26]), retentions)
def test_the_report_matches_a_row_by_row_count(
    table: tuple[TableStores, list[Layer], list[list[Row]]], per: str, buffer: int, retention_ms: int | None
) -> None:
    stores, layers, wal = table
    if retention_ms is not None:
        publish_definition(stores, Version(1, TableDefinition(properties={"retention": str(retention_ms)})))
    model = Model(NOW_MS, WIDTHS[per], retention_ms)
    for layer in layers:
        for part in layer.slices:
            model.add_slice(stores, part)
    model.add_wal(stores, range(1, len(wal) + 1), 0)
    found = report(stores, per, readBuffer=buffer)
    assert report_parts(found) == model.parts()
    chosen = report(stores)
    assert report_parts(chosen) == report_parts(report(stores, chosen.per))
    store = SlateStore.open(stores.url)
    assert store.scan(readVersions="all", columns=["_seq"]).read_all().num_rows == found.rows
