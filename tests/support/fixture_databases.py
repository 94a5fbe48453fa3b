"""Databases that real clients made, kept in `tests/data/slatedb-*`, with what they must read as."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"
FIXTURES = DATA / "slatedb-0.17"
NEWER_FIXTURES = DATA / "slatedb-0.18"


@dataclass(frozen=True)
class FixtureDatabase:
    """One database of a case; `root` has all cases of a client, and `expected` is its part of `expected.json`."""

    name: str
    root: Path
    path: Path
    expected: dict[str, Any]

    def visible_rows(self) -> list[tuple[Any, ...]]:
        """Rows (key, value, seq, create_ts, expire_ts) of the client's full scan."""
        return [
            (bytes.fromhex(row["key"]), bytes.fromhex(row["value"]), row["seq"], row["create_ts"], row["expire_ts"])
            for row in self.expected["client_visible_rows"]
        ]

    def stored_rows(self) -> list[tuple[Any, ...]]:
        """Every reachable row (key, seq, op, value, create_ts, expire_ts), keys ascending, newest first."""
        ops = {"value": "put", "tombstone": "delete", "merge": "merge"}
        rows = [
            (
                bytes.fromhex(row["key"]),
                row["seq"],
                ops[row["kind"]],
                None if row["kind"] == "tombstone" else bytes.fromhex(row["value"]),
                row["create_ts"],
                # One hand-written tombstone carries an expiry, which means nothing.
                None if row["kind"] == "tombstone" else row["expire_ts"],
            )
            for row in self.expected["stored_rows"]
        ]
        return sorted(rows, key=lambda row: (row[0], -row[1]))


def fixture_cases() -> list[Path]:
    """Folders of all cases."""
    return sorted(path.parent for path in DATA.glob("slatedb-*/*/expected.json"))


def fixture_databases() -> list[FixtureDatabase]:
    """Every database of every case."""
    found = []
    for case in fixture_cases():
        databases = json.loads((case / "expected.json").read_text())["databases"]
        for name, expected in databases.items():
            label = case.name if name == "." else f"{case.name}-{name}"
            found.append(FixtureDatabase(label, case.parent, case / name, expected))
    return found
