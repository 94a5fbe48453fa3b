"""SlateDataSource: what `format("slate")` is, and who serves a read or a write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from slatespark.errors import OptionError, SchemaError
from slatespark.options import ReadOptions, WriteOptions, no_path
from slatespark.spark.failures import spark_errors
from slatespark.spark.reader import SlateReader
from slatespark.spark.writer import SlateWriter
from slatespark.table.read.arrow import Projection, project
from slatespark.table.snapshot import fetch_latest_manifest
from slatespark.table.stores import open_stores


class SlateDataSource(DataSource):
    """A SlateDB database as a Spark table."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "slate"

    def schema(self) -> StructType:
        """Return the columns of a read; a missing table is noticed here."""
        with spark_errors():
            options = self._read_options()
            fetch_latest_manifest(open_stores(options.path, storage=options.storage, wal_path=options.wal_path))
            return from_arrow_schema(project(options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads; a schema that the user gave selects columns."""
        with spark_errors():
            options = self._read_options()
            return SlateReader(options, _projection_of(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # Spark's signature
        """Return what writes."""
        with spark_errors():
            options = WriteOptions.parse(_given(self.options))
        return SlateWriter(options, to_arrow_schema(schema), overwrite=overwrite)

    def _read_options(self) -> ReadOptions:
        return ReadOptions.parse(_given(self.options))


def _given(options: Mapping[str, str]) -> dict[str, Any]:
    if "paths" in options:
        raise OptionError("Several paths were given.", todo="Load one table at a time and union the DataFrames.")
    if {"owner", "provider"} <= {name.lower() for name in options}:  # what CREATE TABLE adds
        raise no_path("A catalog table cannot be made here.")
    return dict(options)


def _projection_of(schema: StructType, options: ReadOptions) -> Projection:
    """Return the projection that yields exactly the columns Spark expects."""
    projection = project(options, schema.names)
    expected = from_arrow_schema(projection.schema)
    for field in schema.fields:
        if field.dataType != expected[field.name].dataType:
            raise SchemaError(
                f"Column {field.name} was asked for as {field.dataType.simpleString()}, "
                f"but is {expected[field.name].dataType.simpleString()}.",
                todo="Ask for its own type and cast afterwards.",
            )
        if not field.nullable:
            raise SchemaError(f"Column {field.name} was asked for as not null.", todo="Drop NOT NULL.")
    return projection
