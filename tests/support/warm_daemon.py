"""Spark's daemon of Python workers, which has imported what they need: each worker is a fork of it.

Spark starts a worker for each plan and each commit of a data source, and most of its processor time goes into imports.
The tests with a cluster of their own use the daemon that Spark comes with.
"""

from __future__ import annotations

import contextlib

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import slatespark.spark.change_reader
import slatespark.spark.compaction_worker
import slatespark.spark.datasource
import slatespark.spark.range_merges
import slatespark.spark.reader
import slatespark.spark.streaming.sink
import slatespark.spark.streaming.source
import slatespark.spark.worker
import slatespark.spark.writer  # noqa: F401

with contextlib.suppress(ImportError):  # pyspark uses it where it is installed
    import pandas  # noqa: F401

if __name__ == "__main__":
    manager()
