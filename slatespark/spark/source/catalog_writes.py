"""Refuses the writes that Spark makes for a table of its catalog: `saveAsTable`, `writeTo(...).create()`, CTAS.

The catalog keeps no options of a Python source, so such a table could never be read. With an option `path` Spark gives
the source exactly what `save(path)` gives it. But Spark runs such a write as an execution within the one that adds the
table to the catalog, and tasks see the ids of both. If the write fails, Spark removes the entry from the catalog.

Spark's shell for SQL runs every statement within an execution of its own. So an INSERT looks the same there, but for
the description of its jobs, which is the text of the statement.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark import TaskContext

from slatespark.options import no_path

_EXECUTION: Final = "spark.sql.execution.id"
_OUTERMOST: Final = "spark.sql.execution.root.id"
_DESCRIPTION: Final = "spark.job.description"
_INSERT: Final = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:INSERT|WITH)\b", re.DOTALL | re.IGNORECASE)
QUERY_ID: Final = "sql.streaming.queryId"  # of a stream, by its checkpoint location; the id of a run changes


def refuse_catalog_write(context: TaskContext) -> None:
    """Raise `OptionError` if the task belongs to a write that fills a new table of Spark's catalog."""
    outermost, stream = context.getLocalProperty(_OUTERMOST), context.getLocalProperty(QUERY_ID)
    if outermost is None or stream is not None:  # batches are executions too: `foreachBatch` writes within one
        return
    if context.getLocalProperty(_EXECUTION) == outermost:
        return
    if not _INSERT.match(context.getLocalProperty(_DESCRIPTION) or ""):
        raise no_path("A catalog table cannot be written here.")
