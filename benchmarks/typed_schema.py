"""The columns of the typed rows, and a sum of each; without slatespark, so that any environment can import it."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

KEYS: Final = ("tenant", "id")

SCHEMA: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("id", pa.int64()),
        ("name", pa.string()),
        ("city", pa.string()),
        ("quantity", pa.int32()),
        ("amount", pa.float64()),
        ("discount", pa.float64()),
        ("created", pa.timestamp("us", tz="UTC")),
    ]
)

# One aggregate a column, so that every one of them is read.
SUMS: Final = {
    "tenant": "sum(length(tenant))",
    "id": "sum(id)",
    "name": "sum(length(name))",
    "city": "sum(length(city))",
    "quantity": "sum(quantity)",
    "amount": "sum(amount)",
    "discount": "sum(discount)",
    "created": "sum(unix_seconds(created))",
}
