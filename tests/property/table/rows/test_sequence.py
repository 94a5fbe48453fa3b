"""`sequenceColumn`: the highest value of a key wins, within a chunk, across spills, and across tasks that overlap."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from tests.support.effort import examples
from tests.unit.table.rows.test_sequence import SCHEMA, Rows, _numbers, found, table_of, write_tasks


def rows_of_keys(keys: int = 5) -> st.SearchStrategy[Rows]:
    row = st.tuples(st.integers(0, keys - 1), st.none() | st.integers(-2, 2), st.text("abc", max_size=3))
    return st.lists(row, max_size=40)


def model(rows: Rows) -> Rows:
    best: dict[int, tuple[tuple[bool, int], tuple[int, int | None, str]]] = {}
    for row in rows:
        rank = (row[1] is not None, row[1] or 0)
        if row[0] not in best or rank >= best[row[0]][0]:
            best[row[0]] = rank, row
    return [best[key][1] for key in sorted(best)]


@settings(deadline=None, max_examples=examples(20))
@given(rows_of_keys(), st.sampled_from([200, 500, 1 << 20]), st.integers(1, 7))
def test_the_highest_wins_across_chunks_and_spills(rows: Rows, buffer: int, batch_rows: int) -> None:
    url = f"memory://sequence-{next(_numbers)}"
    store = SlateStore.create(url, SCHEMA, "k")
    reader = pa.RecordBatchReader.from_batches(SCHEMA, table_of(rows).to_batches(max_chunksize=batch_rows))
    store.write(reader, sequenceColumn="AT", writeBuffer=buffer)
    assert found(url) == model(rows)
    stamps = {row["_seq"] for row in store.scan(metadataColumns="seq,create_ts").read_all().to_pylist()}
    assert len(stamps) <= 1


@settings(deadline=None, max_examples=examples(15))
@given(st.lists(rows_of_keys(8), min_size=1, max_size=4), st.sampled_from(["avro", "json"]))
def test_the_highest_wins_across_tasks(tasks: list[Rows], value_format: str) -> None:
    url = f"memory://sequence-{next(_numbers)}"
    write_tasks(url, tasks, keyColumns="k", valueFormat=value_format, sstSize=1)
    assert found(url) == model([row for rows in tasks for row in rows])
