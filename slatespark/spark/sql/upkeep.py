"""DESCRIBE HISTORY, RESTORE, OPTIMIZE and VACUUM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from slatespark.options.values import parse_min_age
from slatespark.spark.frames.local_rows import local_frame
from slatespark.spark.slate_table import SlateTable
from slatespark.spark.slate_table.base import frames_of
from slatespark.spark.sql.session_times import in_session_zone
from slatespark.spark.sql.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

RESTORED: Final = "version BIGINT"
OPTIMIZED: Final = (
    "version BIGINT, kind STRING, filesIn BIGINT, filesOut BIGINT, bytesIn BIGINT, bytesOut BIGINT, rowsIn BIGINT, "
    "rowsOut BIGINT"
)
VACUUMED: Final = "kind STRING, path STRING, bytes BIGINT, action STRING, reason STRING"


def describe_history(statement: Statement, table: SlateTable) -> DataFrame:
    """Run the rest of `DESCRIBE HISTORY table`: `[LIMIT n]`."""
    limit = statement.whole_number() if statement.take("LIMIT") else None
    statement.end()
    return table.history(limit)


def restore(statement: Statement, table: SlateTable, spark: SparkSession, instant: Callable[[str], int]) -> DataFrame:
    """Run the rest of `RESTORE TABLE table`: `[TO] VERSION AS OF n`, or `[TO] TIMESTAMP AS OF time`.

    Parameters
    ----------
    instant : returns the ms of a constant expression of Spark SQL
    """
    statement.take("TO")
    if statement.take("VERSION", "AS", "OF"):
        number = statement.whole_number()
        statement.end()
        version = table.restoreToVersion(number)
    else:
        statement.expect("TIMESTAMP", "AS", "OF")
        text = statement.text_until(called="a timestamp")
        statement.end()
        version = table.restoreToTimestamp(instant(text))
    return local_frame(spark, RESTORED, [(version,)])


def optimize(statement: Statement, table: SlateTable, spark: SparkSession) -> DataFrame:
    """Run the rest of `OPTIMIZE table`: `[FULL]`, or `[WHERE condition]` on leading key columns; return its jobs."""
    full = statement.take("FULL")
    where = statement.text_until("ZORDER", called="a condition") if statement.take("WHERE") else None
    if statement.next.is_word("ZORDER"):
        raise statement.error("rows are sorted by the key alone", todo="Leave ZORDER BY out.")
    statement.end()
    if where is not None:
        where = in_session_zone(where, frames_of(table).codec().schema, spark, name="where")
    jobs = table.compact(full, where).jobs
    rows = [
        (job.version, job.kind, job.files_in, job.files_out, job.bytes_in, job.bytes_out, job.rows_in, job.rows_out)
        for job in jobs
    ]
    return local_frame(spark, OPTIMIZED, rows)


def vacuum(statement: Statement, table: SlateTable, spark: SparkSession) -> DataFrame:
    """Run the rest of `VACUUM table`: `[RETAIN n HOURS] [DRY RUN]`; return what was deleted, or would be, and kept."""
    age: dict[str, Any] = {}
    if statement.take("RETAIN"):
        hours = statement.whole_number()
        statement.expect("HOURS")
        age = {"minAge": f"{hours}h"}
    dry_run = statement.take("DRY", "RUN")
    statement.end()
    if age:  # what the statement cannot say is said of the method
        parse_min_age(age["minAge"], is_forced=dry_run, force="Call SlateTable.vacuum with force=True")
    report = table.vacuum(**age, dryRun=dry_run)
    rows = [(file.kind, file.path, file.size, file.action, file.reason) for file in report.files]
    return local_frame(spark, VACUUMED, rows)
