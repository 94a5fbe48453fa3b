from __future__ import annotations

from slatespark.display.summary_text import summary_text
from tests.unit.display.summaries import typed_summary


def test_a_typed_table_as_text() -> None:
    assert (
        summary_text(typed_summary("a", "b"))
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
