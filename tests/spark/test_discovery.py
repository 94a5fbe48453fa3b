from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import slatespark
from tests.support.client import Client, Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(database: Location) -> str:
    with Client.open(database) as client:
        client.put(b"k", b"v")
        client.flush_memtable()
    return str(database.folder)


@pytest.mark.smoke
def test_spark_finds_the_format_without_registration(spark: SparkSession, path: str) -> None:
    assert spark.read.format("slate").load(path).collect() == [(b"k", b"v")]


def test_registration_works_as_well(spark: SparkSession, path: str) -> None:
    session = spark.newSession()
    slatespark.register(session)
    assert session.read.format("slate").load(path).collect() == [(b"k", b"v")]
