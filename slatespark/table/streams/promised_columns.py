"""The columns that a stream promised when it was loaded: a batch has them, or the query ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from slatespark.encoding.row_codec import RowCodec
from slatespark.errors import SchemaError
from slatespark.options import ReadOptions
from slatespark.table.read.arrow import Projection, project

GOES_ON: Final = "it goes on where it stopped, with the columns of now"


class PromisedColumns:
    """The columns of a stream."""

    def __init__(self, url: str, options: ReadOptions, projection: Projection) -> None:
        self._url, self._options = url, options
        self.projection = projection
        self._are_all = projection.schema == project(options, codec=projection.codec).schema

    def require_all(self) -> None:
        """Raise `SchemaError` unless they are all columns that the options allow for, in their order."""
        if not self._are_all:
            raise self._changed()

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Say of a `SchemaError` how the query goes on."""
        try:
            yield
        except SchemaError as exc:
            raise self._changed() from exc

    def check(self, codec: RowCodec) -> None:
        """Raise `SchemaError` where a stream of all columns would have others now."""
        if self._are_all and project(self._options, codec=codec).schema != self.projection.schema:
            raise self._changed()

    def _changed(self) -> SchemaError:
        return SchemaError(
            f"{self._url}: the columns of the table have changed since the stream was loaded.",
            todo=f"Restart the query with a new load(): {GOES_ON}.",
        )
