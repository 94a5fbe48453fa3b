from __future__ import annotations

import pytest

from slatespark.display.text import (
    align_facts,
    align_table,
    bytes_text,
    describe_text,
    files_text,
    finding_text,
    numbers_text,
    verify_text,
)
from slatespark.table.checkpoints.store import CheckpointFacts
from slatespark.table.read.describe import (
    CodecFacts,
    ExternalFacts,
    JobFacts,
    RowFacts,
    TableFacts,
    WalFacts,
)
from slatespark.table.read.files import FileFacts
from slatespark.table.verify.findings import Finding, VerifyReport

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
)


def test_a_table_aligns_numbers_on_the_right() -> None:
    text = align_table(["name", "rows"], [["a", "1,000"], ["long one", "7"]], right={"rows"})
    assert text == "name       rows\na         1,000\nlong one      7"


def test_facts_keep_further_lines_in_their_column() -> None:
    assert align_facts([("a", "1\n2"), ("long", "3")]) == "a     1\n      2\nlong  3"
    assert align_facts([]) == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("größer".encode(), "größer"),
        (b"\xff\x00", "0xff00"),
        (b"a\x1b[2Jb\n", "a\\u001b[2Jb\\n"),
        (b"", ""),
    ],
)
def test_bytes_as_text_never_command_the_terminal(data: bytes, text: str) -> None:
    assert bytes_text(data, as_text=True) == text
    assert bytes_text(data, as_text=False) == data.hex()


def test_numbers_join_what_follows_each_other() -> None:
    assert numbers_text([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
    assert numbers_text([]) == "-"


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
segments           6161
checkpoint         id-1 daily: version 5, created 1970-01-01T00:00:00.000Z, expires 1970-01-01T00:00:01.000Z
checkpoint         id-2: version 6, created 1970-01-01T00:00:00.000Z, stays
external database  other/db: 2 files, checkpoint id-3
compaction job     01J: running, 3 sources, created 1970-01-01T00:00:00.000Z, worker worker-1"""
    )


def test_files_show_only_columns_of_which_something_is_known() -> None:
    file = FileFacts("run 1", "01J", None, b"a", b"c\0", 2048, "none", 0)
    cut = FileFacts("L0", "01K", None, b"k" * 50, None, 1, "zstd", 0, rows=1500, min_seq=3, max_seq=5)
    assert files_text([cut, file], as_text=True) == (
        f"layer  file  from key{' ' * 34}to key    bytes  codec   rows  seqs  created\n"
        f"L0     01K   {'k' * 39}…  open        1 B  zstd   1,500  3-5   1970-01-01T00:00:00.000Z\n"
        f"run 1  01J   a{' ' * 41}c       2.0 KiB  none                1970-01-01T00:00:00.000Z"
    )
    assert files_text([]) == "The table has no files."


def test_findings_say_where_and_what() -> None:
    damage = Finding("file:///t/wal/1.sst", "block 3", 4096, "It is wrong.")
    gap = Finding("file:///t", "WAL", None, "It is elsewhere.", is_damage=False)
    assert finding_text(damage) == "file:///t/wal/1.sst at byte 4,096 (block 3): It is wrong."
    report = VerifyReport("file:///t", (4, 5), (4,), 3, 2048, 10, (damage, gap), omitted=2)
    assert verify_text(report).splitlines()[1:] == [
        "file:///t (WAL): not checked: It is elsewhere.",
        "2 more findings are not listed.",
        "Note: files of version 4 were collected; such versions can no longer be read.",
        "Read 3 objects, 2.0 KiB, 10 row versions; version 4-5 of file:///t.",
        "3 faults found, 1 part could not be checked.",
    ]


def test_a_sound_table_is_called_so() -> None:
    assert verify_text(VerifyReport("t", (1,), (), 1, 1, 0, ())).endswith("Everything is sound.")
