"""Functions that need a Spark session: registering the data source, and reading the session's S3 settings.

A Python data source sees neither the session nor the Hadoop configuration, so such settings must come as options. Only
`spark.conf.get` and `spark.dataSource` are used, which Spark Connect sessions have too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slatespark.options.values import STORAGE_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Option of the S3 backend <- setting of S3A with the same text as value.
_SAME_TEXT: Final = {
    "key": "access.key",
    "secret": "secret.key",
    "token": "session.token",
    "region": "endpoint.region",
}


def register(spark: SparkSession) -> None:
    """Register `format("slate")` in a session.

    Needed only if Spark does not find the data source by itself: when slatespark was added with `--py-files`, when
    another `pyspark_*` module on the path fails to import, or when Spark looked for data sources before slatespark was
    installed.
    """
    from slatespark.spark.datasource import SlateDataSource

    spark.dataSource.register(SlateDataSource)


def storageOptions(spark: SparkSession) -> dict[str, str]:
    """Return the session's S3A settings as `storage.*` options.

    ``spark.read.format("slate").options(**slatespark.storageOptions(spark)).load("s3a://bucket/table")``

    Reads `fs.s3a.*` and `spark.hadoop.fs.s3a.*` of the session, preferring the first as Spark does: keys and session
    token, endpoint, region, TLS, path style, anonymous access. Settings per bucket (`fs.s3a.bucket.*`), credential
    providers other than the anonymous one, and files such as core-site.xml are not read; without them the AWS
    environment of the executors applies.

    Returns
    -------
    Options for a reader or a writer; empty if the session has no such settings. They hold credentials: do not print
    them.
    """
    options = {option: value for option, setting in _SAME_TEXT.items() if (value := _setting(spark, setting))}
    with_tls = _setting(spark, "connection.ssl.enabled").lower() != "false"
    if endpoint := _setting(spark, "endpoint"):
        options["endpoint_url"] = endpoint if "://" in endpoint else f"http{'s' * with_tls}://{endpoint}"
    elif not with_tls:
        options["use_ssl"] = "false"
    if _setting(spark, "path.style.access").lower() == "true":
        options["addressing_style"] = "path"
    first_provider = _setting(spark, "aws.credentials.provider").split(",")[0].strip()
    if first_provider.rpartition(".")[2] in ("AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider"):
        options["anon"] = "true"
    return {STORAGE_PREFIX + option: value for option, value in options.items()}


def _setting(spark: SparkSession, name: str) -> str:
    for prefix in ("fs.s3a.", "spark.hadoop.fs.s3a."):
        if value := spark.conf.get(prefix + name, None):
            return value.strip()
    return ""
