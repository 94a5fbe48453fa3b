"""Databases of clients before 0.13.1, kept in `tests/data/slatedb-older`, and what the 0.17 client reads from them."""

from __future__ import annotations

import json
from typing import TypeAlias

from tests.support.fixture_databases import DATA

OLDER = DATA / "slatedb-older"
OLDER_NAMES = ("0.10-runs", "0.10-wal", "0.13-fences")

OlderRow: TypeAlias = tuple[bytes, bytes, int, int | None, int | None]


def older_rows(name: str) -> list[OlderRow]:
    """Return the visible rows (key, value, seq, create_ts, expire_ts)."""
    rows = json.loads((OLDER / "expected.json").read_text())[name]
    return [(key.encode(), value.encode(), *numbers) for key, value, *numbers in rows]


def older_pairs(name: str) -> dict[bytes, bytes]:
    """Return the visible rows as values by key."""
    return {row[0]: row[1] for row in older_rows(name)}
