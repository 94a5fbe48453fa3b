"""SlateDataSource: the entry point of `format("slate")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import OptionError, SchemaError
from slatespark.options import ReadOptions, WriteOptions, no_path
from slatespark.spark.failures import spark_errors
from slatespark.spark.reader import open_reader
from slatespark.spark.type_mapping import arrow_schema, spark_schema
from slatespark.table.definition.versions import resolve_codec
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.arrow import Projection, project
from slatespark.table.read.reader import check_filter
from slatespark.table.stores import open_stores


class SlateDataSource(DataSource):
    """A SlateDB database as a Spark table."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "slate"

    def schema(self) -> StructType:
        """Return the columns of a read; a missing table raises here."""
        with spark_errors():
            options = self._read_options()
            codec = _fetch_codec(options)
            check_filter(options, codec)
            return _spark_schema(project(options, codec=codec))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader; a schema given by the user selects columns."""
        with spark_errors():
            options = self._read_options()
            return open_reader(options, _projection_of(schema, options, _fetch_codec(options)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # Spark's signature
        """Return a writer."""
        from slatespark.spark.writer import SlateWriter  # not needed in the processes that read

        with spark_errors():
            options = WriteOptions.parse(_given(self.options))
            columns = arrow_schema(schema, options.key_columns or ())
        return SlateWriter(options, columns, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # Spark's signature
        """Return a writer of one micro-batch; `overwrite` says that it is the whole result."""
        from slatespark.options.streaming import StreamWriteOptions
        from slatespark.spark.streaming.sink import SlateStreamWriter

        with spark_errors():
            options = StreamWriteOptions.parse(_given(self.options))
            columns = arrow_schema(schema, options.write.key_columns or ())
        return SlateStreamWriter(options, columns, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        """Return a reader of the changes as a stream; a schema given by the user selects columns."""
        from slatespark.spark.streaming.source import SlateStreamReader

        with spark_errors():
            options = self._read_options()
            options.refuse_for_stream()
            return SlateStreamReader(options, _projection_of(schema, options, _fetch_codec(options)))

    def _read_options(self) -> ReadOptions:
        return ReadOptions.parse(_given(self.options))


def _given(options: Mapping[str, str]) -> dict[str, Any]:
    if "paths" in options:
        raise OptionError("Several paths were given.", todo="Load one table at a time and union the DataFrames.")
    if {"owner", "provider"} <= {name.lower() for name in options}:  # added by CREATE TABLE
        raise no_path("A catalog table cannot be created here.")
    return dict(options)


def _fetch_codec(options: ReadOptions) -> RowCodec:
    """Return the codec of the table's rows; a missing table raises here."""
    stores = open_stores(options.path, storage=options.storage, wal_path=options.wal_path)
    _, manifest = fetch_latest_manifest(stores)
    return resolve_codec(stores, manifest)


def _spark_schema(projection: Projection) -> StructType:
    return spark_schema(projection.schema)


def _projection_of(schema: StructType, options: ReadOptions, codec: RowCodec) -> Projection:
    """Return the projection that yields exactly the columns that Spark expects."""
    projection = project(options, schema.names, codec=codec)
    for asked, field in zip(schema.fields, _spark_schema(projection).fields, strict=True):
        if asked.dataType != field.dataType:
            kinds = asked.dataType.simpleString(), field.dataType.simpleString()
            if kinds[0] == kinds[1]:  # they differ only in nullability
                kinds = asked.dataType.json(), field.dataType.json()
            raise SchemaError(
                f"Column {asked.name} was requested as {kinds[0]}, but is {kinds[1]}.",
                todo="Request its own type and cast afterwards.",
            )
        if not asked.nullable:
            raise SchemaError(f"Column {asked.name} was requested as not null.", todo="Drop NOT NULL.")
    return projection
