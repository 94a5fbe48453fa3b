"""Delta Lake by delta-rs, the library of Python programs without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from benchmarks.typed_schema import KEYS

_SAME_KEY: Final = " AND ".join(f"old.{key} = changed.{key}" for key in KEYS)


class DeltaRsTable:
    """A table of delta-rs, loaded in key order."""

    def __init__(self, folder: Path) -> None:
        self._path = str(folder)

    def load(self, rows: pa.Table) -> None:
        write_deltalake(self._path, rows)

    def scan(self, columns: list[str]) -> pa.Table:
        return self._query(f"SELECT {', '.join(columns)} FROM rows")

    def look_up(self, condition: str) -> pa.Table:
        return self._query(f"SELECT * FROM rows WHERE {condition}")

    def look_up_keys(self, keys: pa.Table) -> pa.Table:
        # Its queries take tables of its own only, so the join is pyarrow's
        rows = DeltaTable(self._path).to_pyarrow_table()
        return rows.join(keys.cast(pa.schema([rows.schema.field(key) for key in KEYS])), list(KEYS), join_type="inner")

    def upsert(self, rows: pa.Table) -> None:
        merge = DeltaTable(self._path).merge(rows, _SAME_KEY, source_alias="changed", target_alias="old")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete_keys(self, keys: pa.Table) -> None:
        merge = DeltaTable(self._path).merge(keys, _SAME_KEY, source_alias="changed", target_alias="old")
        merge.when_matched_delete().execute()

    def delete_range(self, condition: str) -> None:
        DeltaTable(self._path).delete(condition)

    def replace_range(self, condition: str, rows: pa.Table) -> None:
        write_deltalake(self._path, rows, mode="overwrite", predicate=condition)

    def compact(self) -> None:
        DeltaTable(self._path).optimize.compact()

    def stored_bytes(self) -> int:
        return sum(Path(self._path, name).stat().st_size for name in DeltaTable(self._path).file_uris())

    def _query(self, sql: str) -> pa.Table:
        return pa.table(QueryBuilder().register("rows", DeltaTable(self._path)).execute(sql))
