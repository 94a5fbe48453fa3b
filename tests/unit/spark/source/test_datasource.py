"""The columns of a stream that is started later than it was loaded, as Spark makes its source in several processes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slatespark import SlateStore

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from slatespark.spark.source.datasource import SlateDataSource

REFUSED = r"^SchemaError: .*load\(\)"
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])


class Loaded:
    """A DataFrame of `readStream`: its schema and its source, which Spark pickles when they are resolved."""

    def __init__(self, store: SlateStore, schema: StructType | None = None, **options: Any) -> None:
        source = SlateDataSource({"path": store.url, "readChangeFeed": "true", **options})
        self.schema = source.schema() if schema is None else schema
        self._pickled = pickle.dumps(source)

    def start(self) -> DataSourceStreamReader:
        """Return the reader of a query."""
        found = pickle.loads(self._pickled).streamReader(self.schema)
        assert isinstance(found, DataSourceStreamReader)
        return found


@pytest.fixture
def store(tmp_path: Path) -> SlateStore:
    store = SlateStore.create(str(tmp_path / "t"), SCHEMA, keyColumns="id")
    store.write(pa.table({"id": [1], "n": [1]}, SCHEMA))
    return store


def widen(store: SlateStore) -> None:
    wider = pa.table({"id": [2], "n": [2]}, SCHEMA).append_column("more", pa.array(["x"]))
    store.write(wider, mergeSchema=True)


@pytest.mark.parametrize("options", [{}, {"changes": "log"}, {"startingVersion": "1"}, {"metadataColumns": "seq"}])
def test_a_stream_of_all_columns_does_not_start_without_a_new_one(store: SlateStore, options: dict[str, Any]) -> None:
    loaded = Loaded(store, **options)
    start = loaded.start().initialOffset()
    widen(store)
    reader: Any = loaded.start()
    for call in (reader.initialOffset, reader.latestOffset, lambda: reader.partitions(start, start)):
        with pytest.raises(RuntimeError, match=REFUSED):
            call()
    again = Loaded(store, **options)
    assert "more" in again.schema.names
    assert again.start().initialOffset()


def test_a_stream_of_all_columns_does_not_start_with_one_that_is_gone(store: SlateStore) -> None:
    loaded = Loaded(store)
    store.dropColumns("n")
    with pytest.raises(RuntimeError, match=REFUSED):
        loaded.start().initialOffset()


@pytest.mark.parametrize(
    "given", [{"schema": StructType().add("n", "long").add("id", "long")}, {"columns": "id,n"}, {"columns": "n"}]
)
def test_a_stream_of_named_columns_starts_after_another_was_added(store: SlateStore, given: dict[str, Any]) -> None:
    loaded = Loaded(store, **given)
    names = loaded.schema.names
    widen(store)
    assert loaded.start().initialOffset()
    assert loaded.schema.names == names
    store.dropColumns("n")
    with pytest.raises(RuntimeError, match=REFUSED):
        loaded.start().initialOffset()
