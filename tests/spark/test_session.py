from __future__ import annotations

import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from slatespark import InvalidRequestError, OptionError, SlateStore, SlateTable, storageOptions
from slatespark.options import ReadOptions


@pytest.fixture
def fresh(spark: SparkSession) -> SparkSession:
    """A session with settings of its own."""
    return spark.newSession()


def test_no_settings_no_options(fresh: SparkSession) -> None:
    assert storageOptions(fresh) == {}


def test_a_path_is_text_or_a_path(fresh: SparkSession, tmp_path: Path) -> None:
    assert storageOptions(fresh, tmp_path) == {}
    with pytest.raises(OptionError, match="path: 5 is neither"):
        storageOptions(fresh, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="s3a://lake/x as text"):
        storageOptions(fresh, Path("s3a://lake/x"))


def test_keys_endpoint_region_and_path_style(fresh: SparkSession) -> None:
    fresh.conf.set("spark.hadoop.fs.s3a.access.key", "AK")
    fresh.conf.set("spark.hadoop.fs.s3a.secret.key", "SK")
    fresh.conf.set("fs.s3a.session.token", "ST")
    fresh.conf.set("fs.s3a.endpoint", "http://127.0.0.1:9000")
    fresh.conf.set("fs.s3a.endpoint.region", "eu-central-1")
    fresh.conf.set("fs.s3a.path.style.access", "True")
    assert storageOptions(fresh) == {
        "storage.key": "AK",
        "storage.secret": "SK",
        "storage.token": "ST",
        "storage.endpoint_url": "http://127.0.0.1:9000",
        "storage.region": "eu-central-1",
        "storage.addressing_style": "path",
    }


def test_a_setting_of_the_session_wins_over_the_hadoop_one(fresh: SparkSession) -> None:
    fresh.conf.set("spark.hadoop.fs.s3a.access.key", "hadoop")
    fresh.conf.set("fs.s3a.access.key", "session")
    assert storageOptions(fresh) == {"storage.key": "session"}


@pytest.mark.parametrize(
    ("endpoint", "tls", "expected"),
    [
        ("minio:9000", None, {"storage.endpoint_url": "https://minio:9000"}),
        ("minio:9000", "false", {"storage.endpoint_url": "http://minio:9000"}),
        ("https://minio:9000", "false", {"storage.endpoint_url": "https://minio:9000"}),
        (None, "false", {"storage.use_ssl": "false"}),
        (None, "true", {}),
    ],
)
def test_tls(endpoint: str | None, tls: str | None, expected: dict[str, str], fresh: SparkSession) -> None:
    if endpoint is not None:
        fresh.conf.set("fs.s3a.endpoint", endpoint)
    if tls is not None:
        fresh.conf.set("fs.s3a.connection.ssl.enabled", tls)
    assert storageOptions(fresh) == expected


@pytest.mark.parametrize(
    ("providers", "expected"),
    [
        ("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", {"storage.anon": "true"}),
        ("software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider", {"storage.anon": "true"}),
        ("org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider, x.AnonymousAWSCredentialsProvider", {}),
    ],
)
def test_anonymous_access(providers: str, expected: dict[str, str], fresh: SparkSession) -> None:
    fresh.conf.set("fs.s3a.aws.credentials.provider", providers)
    assert storageOptions(fresh) == expected


def test_the_options_are_accepted_by_a_read(fresh: SparkSession) -> None:
    fresh.conf.set("fs.s3a.endpoint.region", "eu-central-1")
    options = ReadOptions.parse({"path": "s3a://bucket/table", **storageOptions(fresh)})
    assert options.storage == {"region": "eu-central-1"}


def test_workers_run_the_python_of_the_tests(spark: SparkSession) -> None:
    [row] = spark.range(1).rdd.map(lambda _: sys.executable).collect()
    assert row == sys.executable


def test_tables_of_facts_have_instants_whatever_the_session_takes_timestamps_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    local = spark.newSession()
    local.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    table = SlateTable.create(local, tmp_path / "t", "id BIGINT", "id", defaultTtl="1d")
    table.write(local.range(3))
    table.createCheckpoint("kept")
    for found in (table.history(), table.detail(), table.files(), table.checkpoints(), table.expiry()):
        kinds = {field.dataType.simpleString() for field in found.schema}
        assert "timestamp" in kinds
        assert "timestamp_ntz" not in kinds
        assert found.collect()


def test_ddl_has_the_meaning_of_the_given_session(spark: SparkSession, fresh: SparkSession, tmp_path: Path) -> None:
    fresh.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    spark.createDataFrame([], "id INT")  # now this session is the active one
    ddl, created = "id INT NOT NULL, at TIMESTAMP", {}

    def create(name: str, session: SparkSession) -> None:
        SlateTable.create(session, str(tmp_path / name), ddl, "id")
        created[name] = pa.schema(SlateStore.open(str(tmp_path / name)).scan().schema).field("at").type

    create("other", fresh)
    assert SparkSession.getActiveSession() is spark
    create("active", spark)
    thread = threading.Thread(target=create, args=("thread", fresh))  # which has no active session
    thread.start()
    thread.join()
    naive = pa.timestamp("us")
    assert created == {"other": naive, "active": pa.timestamp("us", "UTC"), "thread": naive}
