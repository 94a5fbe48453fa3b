"""Functions that need a Spark session: registering the data source, and reading the session's settings of stores.

A Python data source sees neither the session nor the Hadoop configuration, so such settings must come as options. Only
`spark.conf.get` and `spark.dataSource` are used, which Spark Connect sessions have too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slatespark.options.values import STORAGE_PREFIX, parse_location
from slatespark.spark.hadoop_settings import hadoop_options
from slatespark.table.stores import refuse_few_slashes

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register `format("slate")` in a session, and make it the active one of this thread if that has none.

    Needed only if Spark does not find the data source by itself: when slatespark was added with `--py-files`, when
    another `pyspark_*` module on the path fails to import, when Spark looked for data sources before slatespark was
    installed, or before `df.write.format("slate")` in a thread that your program began.

    Parameters
    ----------
    spark : the session; others, such as `spark.newSession()`, are not changed
    """
    from slatespark.spark.pyspark_api import activate
    from slatespark.spark.source.datasource import SlateDataSource

    spark.dataSource.register(SlateDataSource)
    activate(spark)


def storageOptions(spark: SparkSession, path: str | os.PathLike[str] = "s3a://") -> dict[str, str]:
    """Return the session's Hadoop settings of a store as `storage.*` options.

    ``spark.read.format("slate").options(**slatespark.storageOptions(spark, path)).load(path)``

    Reads settings with and without the prefix `spark.hadoop.` of the session, preferring those without as Spark does:

    - `s3a://`: of `fs.s3a.*`, and of `fs.s3a.bucket.NAME.*` first, keys and session token, endpoint, region, TLS, path
      style, encryption, requester pays, anonymous access.
    - `abfss://`: of `fs.azure.*`, those of the account first, account key, fixed SAS token, and the service principal.
    - `gs://`: of `fs.gs.*`, key file of a service account, server, anonymous access.

    Other credential providers, and files such as core-site.xml, are not read; without them the environment of the
    executors applies.

    Parameters
    ----------
    spark : the session whose settings are read
    path : address of the table; its protocol, bucket and account say whose settings count

    Returns
    -------
    Options for a reader or a writer; empty if the session has no such settings. They hold credentials: do not print
    them.

    Raises
    ------
    OptionError
        When `path` is empty, or neither text nor a path.
    InvalidRequestError
        When its protocol has one slash, as `pathlib.Path` makes of an address.
    """
    where = parse_location(path, "path")
    refuse_few_slashes(where)

    def setting(name: str) -> str:
        found = (spark.conf.get(prefix + name, None) for prefix in ("", "spark.hadoop."))
        return next((value.strip() for value in found if value), "")

    return {STORAGE_PREFIX + option: value for option, value in hadoop_options(where, setting).items()}
