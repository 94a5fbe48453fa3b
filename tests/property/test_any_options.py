"""One history under any options shows the same rows: blocks, codecs, files, filters, copies, threads, splits."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from tests.support.effort import examples
from tests.support.fake_clock import FakeClock

NOW_MS = 1_700_000_000_000
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64()), ("text", pa.string())])
KEYS = st.integers(0, 40)
_names = itertools.count()

files = st.fixed_dictionaries(
    {},
    optional={
        "blockSize": st.sampled_from(["1k", "4k", "64k"]),
        "compression": st.sampled_from(["none", "snappy", "zlib", "lz4", "zstd"]),
        "sstSize": st.sampled_from(["4k", "64m"]),
        "bloomBitsPerKey": st.sampled_from([0, 10]),
        "writeBuffer": st.sampled_from(["1m", "64m"]),
    },
)
reads = st.fixed_dictionaries(
    {},
    optional={
        "splitSize": st.sampled_from(["1k", "64k", "64m"]),
        "parallelism": st.sampled_from([1, 3]),
        "readBuffer": st.sampled_from(["1m", "64m"]),
        "useCopies": st.booleans(),
    },
)
tables = st.fixed_dictionaries(
    {"columnar": st.sampled_from(["true", "false", "seq"]), "autoCompact": st.sampled_from(["true", "false"])}
)
stores = st.sampled_from(["memory", "folder"])

Step = tuple[str, Any]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.dictionaries(KEYS, st.integers(0, 9), min_size=1, max_size=20)),
        st.tuples(st.just("delete"), st.sets(KEYS, min_size=1, max_size=5)),
        st.tuples(st.just("where"), st.integers(0, 9)),
        st.tuples(st.just("range"), KEYS),
        st.tuples(st.just("replace"), st.tuples(KEYS, st.dictionaries(KEYS, st.integers(0, 9), max_size=5))),
        st.tuples(st.just("compact"), st.booleans()),
    ),
    min_size=1,
    max_size=8,
)


def rows_of(numbers: dict[int, int]) -> pa.Table:
    found = [{"id": key, "n": number, "text": "x" * (key * 7)} for key, number in sorted(numbers.items())]
    return pa.Table.from_pylist(found, SCHEMA)


def take(store: SlateStore, model: dict[int, int], step: Step, options: dict[str, Any]) -> None:
    """Do a step, in the table and in the model."""
    word, given_value = step
    if word == "write":
        store.write(rows_of(given_value), **options)
        model |= given_value
    elif word == "delete":
        store.write(pa.table({"id": sorted(given_value)}), operation="delete", **options)
        for key in given_value:
            model.pop(key, None)
    elif word == "where":
        store.delete(f"n = {given_value}", **options)
        for key in [key for key, number in model.items() if number == given_value]:
            del model[key]
    elif word == "range":
        store.deleteRange(f"id >= {given_value} AND id < {given_value + 9}", **options)
        for key in range(given_value, given_value + 9):
            model.pop(key, None)
    elif word == "replace":
        first, numbers = given_value
        inside = {key: number for key, number in numbers.items() if first <= key < first + 9}
        condition = f"id >= {first} AND id < {first + 9}"
        store.write(rows_of(inside), mode="overwrite", replaceWhere=condition, **options)
        for key in range(first, first + 9):
            model.pop(key, None)
        model |= inside
    else:
        store.compact(full=given_value, **{name: value for name, value in options.items() if name != "writeBuffer"})


@settings(max_examples=examples(6))
@given(history=steps, properties=tables, kind=stores, data=st.data())
def test_the_same_rows_under_any_options(
    history: list[Step], properties: dict[str, Any], kind: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"memory://any-options/{next(_names)}" if kind == "memory" else str(Path(folder) / "table")
        clock, model = FakeClock(NOW_MS), dict[int, int]()
        store = SlateStore.create(url, SCHEMA, "id", clock=clock, **properties)
        shown: list[tuple[int, pa.Table]] = []
        for step in history:
            take(store, model, step, data.draw(files))
            clock.advance(1000)
            shown.append((store.resolve().version, rows_of(model)))
        for version, expected in shown[-3:]:
            for _ in range(2):
                options: dict[str, Any] = data.draw(reads)
                scanned = store.scan(versionAsOf=version, **options).read_all()
                assert scanned.to_pylist() == expected.to_pylist(), (version, options)
        chosen: dict[str, Any] = data.draw(reads)
        wanted = [row for row in shown[-1][1].to_pylist() if row["n"] > 4]
        assert store.scan(filter="n > 4", **chosen).read_all().to_pylist() == wanted
