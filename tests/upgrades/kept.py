"""One table of the fixtures: where it is made, and what it must show."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

import pyarrow as pa

from slatespark import SlateStore
from tests.support.fake_clock import FakeClock
from tests.upgrades.plain_rows import plain

START_MS = 2_000_000_000_000  # later than any file: a vacuum judges their ages
SECOND_MS, HOUR_MS, DAY_MS = 1_000, 3_600_000, 86_400_000

Row: TypeAlias = dict[str, Any]


@dataclass
class Kept:
    """A table in the making, with a model of its rows beside it.

    Attributes
    ----------
    root, name : the table is the folder `name` in `root`; paths in it are relative to `root`
    keys : names of the key columns
    rows : the model: what a read of the newest state must show, by key
    reads : options of reads, with the rows that they must show, in the order of keys
    past : the same of reads that must show it also after later writes and compactions
    more, write : rows to be written later, with the options for it
    after : what reads must show then
    stream : a stream's options, its last offset, and the rows that it has delivered
    """

    root: Path
    keys: list[str]
    name: str = "table"
    clock: FakeClock = field(default_factory=lambda: FakeClock(START_MS))
    rows: dict[tuple[Any, ...], Row] = field(default_factory=dict)
    reads: list[tuple[Row, list[Row]]] = field(default_factory=list)
    past: list[tuple[Row, list[Row]]] = field(default_factory=list)
    more: list[Row] = field(default_factory=list)
    write: Row = field(default_factory=dict)
    after: list[tuple[Row, list[Row]]] = field(default_factory=list)
    stream: Row | None = None

    @classmethod
    def create(cls, root: Path, keys: str, schema: pa.Schema | None = None, **properties: Any) -> Self:
        """Create the table; a raw one without a schema."""
        kept = cls(root, keys.split(","))
        created = {"versionRetention": "3650d", "autoCompact": False, **properties}
        clock = created.pop("clock", kept.clock)
        SlateStore.create(
            str(root / kept.name), schema, None if schema is None else keys, clock=clock, root=str(root), **created
        )
        return kept

    @property
    def store(self) -> SlateStore:
        """The table as another process opens it."""
        return SlateStore.open(str(self.root / self.name), clock=self.clock, root=str(self.root))

    def key_of(self, row: Row) -> tuple[Any, ...]:
        """Return the key of a row."""
        return tuple(row[name] for name in self.keys)

    def put(self, *rows: Row, **options: Any) -> int:
        """Write rows, in the table and in the model; returns the version."""
        version = self.store.write(self.table(rows), **options)
        self.rows |= {self.key_of(row): row for row in rows}
        self.tick()
        return version

    def delete(self, *keys: Any) -> int:
        """Delete keys of one column."""
        version = self.store.write(
            pa.table({self.keys[0]: pa.array(keys, self.schema.field(self.keys[0]).type)}), operation="delete"
        )
        for key in keys:
            del self.rows[(key,)]
        self.tick()
        return version

    def table(self, rows: Any) -> pa.Table:
        """Return rows with the columns that they have."""
        return pa.Table.from_pylist(list(rows), pa.schema([each for each in self.schema if each.name in rows[0]]))

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.store.scan().schema

    def tick(self, by_ms: int = SECOND_MS) -> None:
        """Let time pass."""
        self.clock.advance(by_ms)

    def visible(self) -> list[Row]:
        """Return what the model shows, in the order of keys."""
        return [self.rows[key] for key in sorted(self.rows)]

    def keep(self, **options: Any) -> None:
        """Note that a read with these options, which choose a version, must show what the model shows now."""
        self.past.append((options, self.visible()))

    def go_on(self, *rows: Row, **options: Any) -> Self:
        """End the making: note what the newest state shows, and rows to be written later."""
        self.reads.append(({}, self.visible()))
        self.more, self.write = list(rows), options
        self.rows |= {self.key_of(row): row for row in rows}
        self.after.append(({}, self.visible()))
        return self

    def expected(self) -> Row:
        """Return all of that as JSON."""
        return {
            "name": self.name,
            "now_ms": self.clock.now_ms(),
            "keys": self.keys,
            "reads": _plain_reads([*self.reads, *self.past]),
            "more": plain(self.more),
            "write": self.write,
            "after": _plain_reads([*self.after, *self.past]),
            "stream": self.stream,
        }


def _plain_reads(reads: list[tuple[Row, list[Row]]]) -> list[Row]:
    return [{"options": options, "rows": plain(rows)} for options, rows in reads]
