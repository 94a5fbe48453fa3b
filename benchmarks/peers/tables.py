"""What every format does here, with the best of its own documented means."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Rows = TypeVar("Rows")

# name -> module and class
_KINDS: Final = {
    "slatespark": "benchmarks.peers.slate:SlateSparkTable",
    "slatespark-copies": "benchmarks.peers.slate:SlateCopiesTable",
    "delta": "benchmarks.peers.delta:DeltaTable",
    "delta-feed": "benchmarks.peers.delta:DeltaFeedTable",
    "iceberg": "benchmarks.peers.iceberg:IcebergTable",
    "paimon": "benchmarks.peers.paimon:PaimonTable",
    "hudi": "benchmarks.peers.hudi:HudiTable",
}
_ARROW_KINDS: Final = {  # without Spark
    "slatespark-store": "benchmarks.peers.slate_store:SlateStoreTable",
    "delta-rs": "benchmarks.peers.delta_rs:DeltaRsTable",
}


class KeyedTable(Protocol[Rows]):
    """A table of a format with the key columns of the typed rows. A new one does not exist before `load`."""

    def load(self, rows: Rows) -> None:
        """Create the table, and write its first rows, sorted by key."""

    def upsert(self, rows: Rows) -> None:
        """Insert rows, or replace those with their keys."""

    def look_up(self, condition: str) -> Rows:
        """Return the row of a key, given as comparisons joined by AND."""

    def look_up_keys(self, keys: Rows) -> Rows:
        """Return the rows that have some keys."""

    def delete_keys(self, keys: Rows) -> None:
        """Delete the rows that have some keys."""

    def delete_range(self, condition: str) -> None:
        """Delete an interval of keys, given as comparisons joined by AND."""

    def replace_range(self, condition: str, rows: Rows) -> None:
        """Replace an interval of keys by rows of it."""

    def compact(self) -> None:
        """Merge the files as a user would from time to time."""

    def stored_bytes(self) -> int:
        """Return the bytes of the files that hold the current rows."""


class PeerTable(KeyedTable["DataFrame"], Protocol):
    """A table that Spark reads and writes."""

    @staticmethod
    def settings() -> dict[str, str]:
        """Return what a session needs, beside the jars."""

    def frame(self) -> DataFrame:
        """Return all rows."""


class ArrowTable(KeyedTable["pa.Table"], Protocol):
    """A table without Spark: rows come and go as Arrow tables."""

    def scan(self, columns: list[str]) -> pa.Table:
        """Return columns of all rows."""


class FeedTable(PeerTable, Protocol):
    """A table that tells what changed."""

    def version(self) -> int:
        """Return the current version."""

    def changes(self, since: int, *, pre_images: bool) -> DataFrame:
        """Return what changed after a version: all columns and `_change_type`.

        Parameters
        ----------
        pre_images : whether updates have their old rows too; without, inserts and updates are `upsert`
        """


class StreamTable(PeerTable, Protocol):
    """A table that takes streams."""

    def stream(self, rows: DataFrame, checkpoint: Path, *, is_new: bool) -> StreamingQuery:
        """Start a query that writes what is there, and ends.

        Parameters
        ----------
        is_new : the table does not exist, and no key occurs twice; otherwise rows are upserted
        """


def session_settings(kind: str, jars: Sequence[str]) -> dict[str, str]:
    """Return the settings of a session for tables of a format."""
    own = _class(kind).settings()
    return {**own, "spark.jars": ",".join(jars)} if jars else own


def new_table(kind: str, folder: Path, spark: SparkSession | None = None) -> Any:
    """Return a table that is to be loaded, in a folder of its own, below one in the working directory.

    It is a `PeerTable`, and whatever more its format can; or, without a session, an `ArrowTable`.
    """
    return _class(kind)(folder) if spark is None else _class(kind)(spark, folder)


def _class(kind: str) -> Any:
    module, _, name = {**_KINDS, **_ARROW_KINDS}[kind].partition(":")
    return getattr(importlib.import_module(module), name)
