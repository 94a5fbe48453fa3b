"""SlateDataSource: the entry point of `format("slate")`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from slatespark.errors import OptionError, SchemaError

if TYPE_CHECKING:
    from slatespark.encoding.row_codec import RowCodec
    from slatespark.options import ReadOptions
    from slatespark.table.read.arrow import Projection

_PLACES = ("path", "walpath")

# Spark looks a source up, makes it, plans with it and commits through it in a process each. So each method imports what
# it needs: a process that only looks the class up starts in a third of the time.


class SlateDataSource(DataSource):
    """A SlateDB database as a Spark table.

    Spark pickles it once it knows the schema, given or not, and makes all readers of a DataFrame from that.
    """

    _is_inferred = False  # nobody gave a schema

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._load = os.urandom(16).hex()  # names the DataFrame, if it is one that is read

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "slate"

    def schema(self) -> StructType:
        """Return the columns of a read; a missing table raises here."""
        from slatespark.spark.failures import spark_errors
        from slatespark.table.read.arrow import project
        from slatespark.table.read.reader import check_filter

        with spark_errors():
            options = self._read_options()
            codec = _fetch_codec(options)
            check_filter(options, codec)
            self._is_inferred = True
            return _spark_schema(project(options, codec=codec))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader; a schema given by the user selects columns."""
        from slatespark.spark.failures import spark_errors
        from slatespark.spark.source.reader import open_reader

        with spark_errors():
            options = self._read_options()
            return open_reader(options, _projection_of(schema, options, _fetch_codec(options)), self._load)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # Spark's signature
        """Return a writer."""
        from slatespark.options import WriteOptions
        from slatespark.spark.failures import spark_errors
        from slatespark.spark.source.writer import SlateWriter
        from slatespark.spark.type_mapping import arrow_schema

        with spark_errors():
            options = WriteOptions.parse(_given(self.options))
            columns = arrow_schema(schema)
        return SlateWriter(options, columns, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # Spark's signature
        """Return a writer of one micro-batch; `overwrite` says that it is the whole result."""
        from slatespark.options.streaming import StreamWriteOptions
        from slatespark.spark.failures import spark_errors
        from slatespark.spark.source.streaming.sink import SlateStreamWriter
        from slatespark.spark.type_mapping import arrow_schema

        with spark_errors():
            options = StreamWriteOptions.parse(_given(self.options))
            columns = arrow_schema(schema)
        return SlateStreamWriter(options, columns, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # Spark's name
        """Return a reader of the changes as a stream, of all columns; a schema given by the user selects some."""
        from slatespark.spark.failures import spark_errors
        from slatespark.spark.source.kept_stores import kept_stores
        from slatespark.spark.source.streaming.source import RefusedStreamReader, SlateStreamReader
        from slatespark.table.streams.promised_columns import GOES_ON, PromisedColumns

        try:
            with spark_errors():
                options = self._read_options()
                options.refuse_for_stream()
                try:
                    projection = _projection_of(schema, options, _fetch_codec(options))
                except SchemaError as exc:
                    exc.todo = f"{exc.todo} If the columns have changed since load(), call it again: {GOES_ON}."
                    raise
                if self._is_inferred:  # else a column that was added since would be left out for good
                    PromisedColumns(kept_stores(options).url, options, projection).require_all()
        except Exception as exc:  # its caller raises it
            return RefusedStreamReader(exc)
        return SlateStreamReader(options, projection)

    def _read_options(self) -> ReadOptions:
        from slatespark.options import ReadOptions

        return ReadOptions.parse(_given(self.options))


def _given(options: Mapping[str, str]) -> dict[str, Any]:
    if "paths" in options:
        raise OptionError("Several paths were given.", todo="Load one table at a time and union the DataFrames.")
    if {"owner", "provider"} <= {name.lower() for name in options}:  # added by CREATE TABLE
        from slatespark.options import no_path

        raise no_path("A catalog table cannot be created here.")
    from slatespark.options.values import normalize_name
    from slatespark.table.stores import absolute_location

    # Only here is the working folder that of the caller: each executor has one of its own.
    return {
        name: absolute_location(value) if normalize_name(name) in _PLACES else value for name, value in options.items()
    }


def _fetch_codec(options: ReadOptions) -> RowCodec:
    """Return the codec of the table's rows; a missing table raises here."""
    from slatespark.spark.source.kept_stores import kept_stores
    from slatespark.table.definition.versions import fetch_codec

    return fetch_codec(kept_stores(options))


def _spark_schema(projection: Projection) -> StructType:
    from slatespark.spark.type_mapping import spark_schema

    return spark_schema(projection.schema)


def _projection_of(schema: StructType, options: ReadOptions, codec: RowCodec) -> Projection:
    """Return the projection that yields exactly the columns that Spark expects."""
    from slatespark.table.read.arrow import project

    if not schema.names:
        raise SchemaError("No column was requested.", todo="Omit the schema, or name a column in it.")
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
