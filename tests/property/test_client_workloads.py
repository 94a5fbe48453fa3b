"""Whatever the real client did to a database, we read it as the model says: any codec, block size, layout."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from tests.support.client import ClientOptions, Location
from tests.support.effort import examples
from tests.support.our_reads import our_rows
from tests.support.workload import FAR_FUTURE_MS, Run, Step, client_options, without_keys, workloads

NOW_MS = FAR_FUTURE_MS - 1  # after every past expiry, before every future one


@pytest.mark.slow
@settings(max_examples=examples(13))
@given(client_options(), workloads(max_steps=30, past_ttl=True), st.sampled_from([1, 300, 1 << 26]))
def test_reads_equal_the_model(options: ClientOptions, workload: list[Step], read_buffer: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = Location.local(Path(folder) / "db")
        with Run(location, options) as run:
            run.apply(workload)
            run.make_durable()
            store = SlateStore.open(str(location.folder))
            assert our_rows(store, now=NOW_MS, readBuffer=read_buffer) == run.model.visible(NOW_MS)
            assert our_rows(store, now=FAR_FUTURE_MS + 10, splitSize=100) == run.model.visible(FAR_FUTURE_MS + 10)
            touched = run.model.keys_with_expiry_by(NOW_MS)
            assert without_keys(our_rows(store, includeExpired=True), touched) == without_keys(
                run.client_rows(), touched
            )


@settings(max_examples=examples(4))
@given(workloads(max_steps=20))
def test_point_reads_and_descending_scans_equal_the_model(workload: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        location = Location.local(Path(folder) / "db")
        with Run(location) as run:
            run.apply(workload)
            run.make_durable()
            store = SlateStore.open(str(location.folder))
            visible = {row.key: row.value for row in run.model.visible(NOW_MS)}
            descending = store.scan(order="desc", mergeOperator="concat", splitSize=300).read_all().to_pylist()
            assert [row["key"] for row in descending] == sorted(visible, reverse=True)
            for key in [*run.model.versions, b"missing", b"\x00\x00\x00\x00\x00"]:
                row = store.get(key, mergeOperator="concat")
                assert (None if row is None else row["value"]) == visible.get(key)
