from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.display.describe_text import describe_text
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.inspection.describe import CodecFacts, ExternalFacts, JobFacts, RowFacts, TableFacts, WalFacts
from tests.unit.display.summaries import typed_summary

FACTS = TableFacts(
    url="file:///t",
    kind="raw",
    version=7,
    manifest_format=2,
    sst_formats=(1, 2),
    writer_epoch=3,
    compactor_epoch=1,
    l0_views=1,
    sorted_runs=2,
    segments=("6161",),
    files=3,
    stored_bytes=5000,
    codecs=(CodecFacts("none", 2, 3000), CodecFacts("zstd", 1, 2000)),
    rows=RowFacts(1200, 1, 0, 1),
    last_seq=99,
    clock_tick_ms=0,
    wal=WalFacts(4, 7, 99),
    checkpoints=(CheckpointFacts("id-1", "daily", 5, 0, 1000), CheckpointFacts("id-2", None, 6, 0, None)),
    external=(ExternalFacts("other/db", 2, "id-3"),),
    jobs=(JobFacts("01J", "running", 0, 3, "worker-1", 5),),
    versions=(3, 5, 6, 7),
    segment_extractor="by_tenant",
)


def test_description() -> None:
    assert (
        describe_text(FACTS)
        == """\
table              file:///t
kind               raw
version            7
versions present   3, 5-7
format             manifest 2, SSTs 1 and 2
epochs             writer 3, compactor 1
layers             1 L0 view, 2 sorted runs
files              3 files, 4.9 KiB
row versions       1,200 puts, 1 delete, 0 merges in files; unknown for 1 file
compression        none (2 files, 2.9 KiB), zstd (1 file, 2.0 KiB)
last seq           99
clock tick         1970-01-01T00:00:00.000Z
WAL tail           files 4-6, last seq 99
segments           1 by by_tenant: 6161
checkpoint         id-1 daily: version 5, created 1970-01-01T00:00:00.000Z, expires 1970-01-01T00:00:01.000Z
checkpoint         id-2: version 6, created 1970-01-01T00:00:00.000Z, does not expire
external database  other/db: 2 files, checkpoint id-3
compaction job     01J: running, 3 sources, created 1970-01-01T00:00:00.000Z, worker worker-1"""
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 by by_tenant"), (8, "8 by by_tenant: " + ", ".join(["61"] * 8)), (1010, ", 61, and 1,002 more")],
)
def test_many_segments_are_counted(count: int, text: str) -> None:
    (line,) = (line for line in describe_text(replace(FACTS, segments=("61",) * count)).splitlines() if "by_" in line)
    assert line.endswith(text)


def test_a_description_has_the_definition() -> None:
    lines = describe_text(typed_summary("a").facts).splitlines()
    assert lines[2:6] == [
        "definition        version 2",
        "key columns       tenant, id (tuple)",
        "values            avro, 2 schemas",
        "columns           tenant  STRING         key 1",
    ]
