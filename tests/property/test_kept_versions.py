"""Random lives of a table under both writers, with checkpoints, restores, clones and collections, against a model."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slatespark import SlateStore
from tests.support.client import Client, ClientOptions, Delete, Location, Put, read_rows
from tests.support.client_admin import collect_garbage, compact_full, create_checkpoint
from tests.support.effort import examples

Rows: TypeAlias = dict[bytes, bytes]
Step: TypeAlias = tuple[str, int]

COMPACTING = ClientOptions(compactor=True)
KEYS = [b"k%d" % number for number in range(6)]
STEPS = ("write", "overwrite", "log", "flush", "compact", "keep", "their_keep", "let_go", "restore", "clone")


@dataclass
class Life:
    """A table, what it must show, and what its checkpoints must."""

    root: Path
    name: str = "t0"
    rows: Rows = field(default_factory=dict)
    kept: dict[str, Rows] = field(default_factory=dict)
    known: dict[int, Rows] = field(default_factory=dict)  # versions of ours since the last collection
    serial: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.store = SlateStore.create(str(self.root / self.name), versionRetention="1h")

    @property
    def location(self) -> Location:
        return Location(self.name, directory=self.root)

    def take(self, step: Step) -> None:
        what, number = step
        value = b"%d" % next(self.serial)
        getattr(self, what)(number, dict.fromkeys(KEYS[number % 4 : number % 4 + 2], value))

    def write(self, _: int, changes: Rows) -> None:
        self._note(self.store.write(table_of(changes)), self.rows | changes)

    def overwrite(self, _: int, changes: Rows) -> None:
        self._note(self.store.write(table_of(changes), mode="overwrite"), changes)

    def log(self, _: int, changes: Rows) -> None:
        self._let_client_write(changes)

    def flush(self, _: int, changes: Rows) -> None:
        self._let_client_write(changes, flush=True)

    def compact(self, _: int, changes: Rows) -> None:
        self._let_client_write(changes, flush=True, compact=True)

    def keep(self, _: int, changes: Rows) -> None:
        self.kept[self.store.createCheckpoint(f"c{changes}").id] = self.rows

    def their_keep(self, _: int, changes: Rows) -> None:
        del changes
        if self.store.detail().wal.last_seq is None:  # else theirs may not show all: the manifest may not count on it
            self.kept[create_checkpoint(self.location, lifetime_ms=3_600_000).id] = self.rows

    def let_go(self, number: int, changes: Rows) -> None:
        del changes
        if self.kept:
            point = list(self.kept)[number % len(self.kept)]
            del self.kept[point]
            self.store.deleteCheckpoint(point)

    def restore(self, number: int, changes: Rows) -> None:
        del changes
        if not self.known:
            return
        version = list(self.known)[number % len(self.known)]
        before, made = self.rows, self.store.restoreToVersion(version)
        assert scanned(self.store, versionAsOf=made - 1) == before
        self.known[made - 1] = before
        self._note(made, self.known[version])

    def clone(self, _: int, changes: Rows) -> None:
        """Go on in a clone; what becomes of the parent then must not matter."""
        parent, self.name = self.name, f"t{next(self.serial)}"
        self.store.clone(str(self.root / self.name))
        self.store.write(table_of(changes), mode="overwrite")
        collect_garbage(Location(parent, directory=self.root))
        self.store = SlateStore.open(str(self.root / self.name))
        self.kept, self.known = {}, {}

    def _note(self, version: int, rows: Rows) -> None:
        self.rows = dict(rows)
        self.known[version] = self.rows

    def _let_client_write(self, changes: Rows, *, flush: bool = False, compact: bool = False) -> None:
        (gone, _), *others = changes.items()
        with Client.open(self.location, COMPACTING) as client:
            client.write([Delete(gone), *(Put(key, value) for key, value in others)])
            client.flush_wal()
            if flush:
                client.flush_memtable()
            if compact:
                compact_full(client)
        self.rows = {key: value for key, value in (self.rows | changes).items() if key != gone}

    def check(self) -> None:
        assert scanned(self.store) == {row.key: row.value for row in read_rows(self.location)} == self.rows
        for point, rows in self.kept.items():
            assert scanned(self.store, checkpoint=point) == rows
        for version, rows in self.known.items():
            assert scanned(self.store, versionAsOf=version) == rows

    def collect(self) -> None:
        """Let the client take what nothing keeps; versions of ours are kept for an hour."""
        collect_garbage(self.location)
        self.check()
        report = self.store.verify(allVersions=True)
        assert (report.findings, report.incomplete_versions) == ((), ())
        for point, rows in self.kept.items():
            assert {row.key: row.value for row in read_rows(self.location, checkpoint=point)} == rows


def table_of(rows: Rows) -> pa.Table:
    return pa.table({"key": list(rows), "value": list(rows.values())})


def scanned(store: SlateStore, **options: Any) -> Rows:
    return {row["key"]: row["value"] for row in store.scan(**options).read_all().to_pylist()}


@pytest.mark.slow
@settings(max_examples=examples(4))
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 20)), min_size=3, max_size=9))
def test_what_is_kept_is_shown_and_comes_back(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for step in steps:
            life.take(step)
            life.check()
        life.collect()
        life.restore(len(steps), {})
        life.check()
