from __future__ import annotations

from slatespark.display.portrait_text import portrait_text
from slatespark.display.text import describe_text
from slatespark.display.versions_text import versions_text
from slatespark.table.read.history.timeline import VersionFacts
from tests.unit.display.portraits import typed_portrait


def test_a_typed_table_as_text() -> None:
    assert (
        portrait_text(typed_portrait("a", "b"))
        == """\
table            file:///t
kind             typed
definition       version 2
key columns      tenant, id (tuple)
values           avro, 2 schemas
dropped columns  old
defaultTtl       7d
version          7
files            1 file, 100 B
last seq         99
last write       1970-01-01T00:00:00.000Z
columns          tenant  STRING         key 1
                 id      BIGINT         key 2
                 amount  DECIMAL(10,2)
                 day     DATE           not null
layers           run 3  ████████████████████████████████████████  2 files, 200 B
                 keys tenant=a, id=1 to tenant=b, id=9"""
    )


def test_a_description_has_the_definition() -> None:
    lines = describe_text(typed_portrait("a").facts).splitlines()
    assert lines[2:6] == [
        "definition        version 2",
        "key columns       tenant, id (tuple)",
        "values            avro, 2 schemas",
        "columns           tenant  STRING         key 1",
    ]


def test_versions() -> None:
    found = [
        VersionFacts(3, 0, "write", "slatespark", "abc", 5, 7, {"put": 1200, "delete": 0}, 2, 14),
        VersionFacts(2, 0, "claim", "slatespark"),
        VersionFacts(1, 0, "cre\x1bate", None, None, 5, 5, {}, 0),
    ]
    assert versions_text(found).splitlines() == [
        "version  committed                 operation     rows       files  removed  seqs  engine      write",
        "      3  1970-01-01T00:00:00.000Z  write         1,200 put      2       14  5-7   slatespark  abc",
        "      2  1970-01-01T00:00:00.000Z  claim         -              -        -  -     slatespark  -",
        "      1  1970-01-01T00:00:00.000Z  cre\\u001bate  -              0        -  5     -           -",
    ]
