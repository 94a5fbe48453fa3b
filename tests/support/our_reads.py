"""What our own reads show, in the form of the model's rows."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa

from slatespark import SlateStore
from tests.support.client import ScanRow


def our_rows(store: SlateStore, **options: Any) -> list[ScanRow]:
    """A full scan with concatenation as merge operator."""
    options = {"mergeOperator": "concat", "metadataColumns": True, **options}
    return table_rows(store.scan(**options).read_all())


def table_rows(table: pa.Table) -> list[ScanRow]:
    """Rows of a table that has all metadata columns."""
    return [
        ScanRow(row["key"], row["value"], row["_seq"], to_ms(row["_create_ts"]), to_ms(row["_expire_ts"]))
        for row in table.to_pylist()
    ]


def to_ms(moment: datetime | None) -> int | None:
    """Ms since the epoch."""
    return None if moment is None else round(moment.timestamp() * 1000)
