"""What does the work of statements that `slatespark.sql` does not have."""

from __future__ import annotations

from typing import Final

from slatespark.spark.sql.statement import Statement

_OTHERWISE: Final = "Use SlateTable.forPath(spark, path) and its methods, or a query in a DataFrame."
_OF_QUERY: Final = "slatespark.sql(spark, query), and {} of the DataFrame that it returns"

# The longest beginning comes first.
_REPLACEMENTS: Final = (
    (("DROP", "TABLE"), "SlateTable.drop(spark, path)"),
    (("DROP", "VIEW"), "spark.catalog.dropTempView(name)"),
    (("TRUNCATE",), "SlateTable.forPath(spark, path).delete(), or DELETE FROM slate.`path`"),
    (
        ("ALTER",),
        "setProperties and dropColumns of SlateTable.forPath(spark, path); write with mergeSchema=True adds columns",
    ),
    (("CREATE", "OR", "REPLACE", "TABLE"), "SlateTable.drop(spark, path) and then CREATE TABLE, or INSERT OVERWRITE"),
    (("REPLACE",), "SlateTable.drop(spark, path) and then CREATE TABLE, or INSERT OVERWRITE"),
    (("CREATE", "EXTERNAL"), "CREATE TABLE slate.`path`"),
    (("CREATE",), _OF_QUERY.format("createOrReplaceTempView(name)")),
    (("EXPLAIN",), f"{_OF_QUERY.format('explain()')}, or SlateTable.forPath(spark, path).explain()"),
    (("CACHE",), _OF_QUERY.format("cache() and createOrReplaceTempView(name)")),
    (("UNCACHE",), "unpersist() of the DataFrame, or spark.catalog.uncacheTable(name) of its view"),
    (("REFRESH",), "nothing: each statement reads the newest state"),
    (("ANALYZE",), "nothing: files have their statistics, and DESCRIBE DETAIL slate.`path` shows the table's"),
    (("SHOW",), "DESCRIBE DETAIL slate.`path`, or toDF().printSchema() of SlateTable.forPath(spark, path)"),
    (("DESCRIBE",), "DESCRIBE DETAIL or DESCRIBE HISTORY slate.`path`, or toDF().printSchema() of the SlateTable"),
    (("DESC",), "DESCRIBE DETAIL or DESCRIBE HISTORY slate.`path`, or toDF().printSchema() of the SlateTable"),
    (("COPY",), "spark.read of the files, and write of SlateTable.forPath(spark, path)"),
    (("LOAD",), "spark.read of the files, and write of SlateTable.forPath(spark, path)"),
    (("CONVERT",), "spark.read of the table, and write of SlateTable.create(spark, path, ...)"),
)
CLONE: Final = "Use clone(target) of SlateTable.forPath(spark, source), or copyTo(target) for a deep copy."
AS_SELECT: Final = (
    "Give the columns and a PRIMARY KEY, and INSERT INTO afterwards. Or in one step: slatespark.sql(spark, query)"
    ".write.format('slate').option('keyColumns', 'id').save(path)."
)


def replacement(read: Statement) -> str:
    """Return what to use instead of a statement none of which has been read."""
    found = (instead for words, instead in _REPLACEMENTS if read.take(*words))
    instead = next(found, None)
    return _OTHERWISE if instead is None else f"Use {instead}."
