"""The snapshot of a DataFrame, one for all processes that plan it.

Spark keeps the plan of a DataFrame once it has one. Until then, adaptive execution plans each use of the DataFrame in a
thread of its own, such as both sides of a self-join, and each thread has a Python process. The first of these processes
notes the snapshot in a file, and the others take it from there: they all run on the machine of the driver.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from slatespark.options import ReadOptions
from slatespark.private_folder import private_folder
from slatespark.table.clock import Clock, SystemClock
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import DefinitionFetch
from slatespark.table.log.manifests import fetch_manifest
from slatespark.table.read.planning.plan import Layer
from slatespark.table.read.reader import resolve_held
from slatespark.table.read.versions.floor import judged_definition
from slatespark.table.snapshot import Snapshot, WalTail, fetch_wal_tail, make_snapshot
from slatespark.table.stores import TableStores

KEPT_MS: Final = 60_000  # longer than two plans of one query are apart
_NS: Final = 1_000_000  # in a ms
_NOTE: Final = re.compile(rb"(\d+) (\d+) (\d+) (-?\d+) (-?\d+|all)\n")
_NO_BOUND: Final = b"all"  # rows of any time


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """The state of a table that a DataFrame shows, as the first process has found it that planned the DataFrame.

    The past is noted too: meanwhile a history table may get rows with earlier times, and `seqAsOf` has the present as
    the instant for expiry. Without a place for the note, each process finds the state itself.

    Attributes
    ----------
    load : the name of the DataFrame
    """

    stores: TableStores
    clock: Clock
    load: str

    @property
    def own(self) -> tuple[Layer, ...]:
        """No rows are the reader's own."""
        return ()

    def resolve(self, options: ReadOptions) -> tuple[Snapshot, TableDefinition]:
        """Return the snapshot and definition that a read with these options sees; raises as `resolve_held`."""
        with _locked_note(self.load) as note:
            found = None if note is None else _NOTE.fullmatch(note.read())
            if found is not None:
                return self._noted(options, *found.groups())
            snapshot, definition = resolve_held(self.stores, options, self.clock)
            if note is not None:
                with suppress(OSError):  # the disk is full
                    note.truncate(0)  # in case of a process that was killed while it wrote
                    note.write(_note_of(snapshot))
            return snapshot, definition

    def _noted(
        self, options: ReadOptions, number: bytes, wal_end: bytes, max_seq: bytes, now_ms: bytes, as_of_ms: bytes
    ) -> tuple[Snapshot, TableDefinition]:
        """Return the state that a note tells; the parameters are its parts."""
        manifest = fetch_manifest(self.stores, int(number))
        wal = WalTail.nothing(manifest)
        if wal.end < int(wal_end):
            wal = fetch_wal_tail(self.stores, manifest, int(wal_end))
        snapshot = replace(
            make_snapshot(int(number), manifest, wal, int(now_ms)),
            max_seq=int(max_seq),
            as_of_ts_ms=None if as_of_ms == _NO_BOUND else int(as_of_ms),
        )
        definition = DefinitionFetch(self.stores, reuses=True).resolve(snapshot.version).value
        return snapshot, judged_definition(definition, options, snapshot, self.clock)


def _note_of(snapshot: Snapshot) -> bytes:
    as_of = _NO_BOUND if snapshot.as_of_ts_ms is None else b"%d" % snapshot.as_of_ts_ms
    seen = snapshot.manifest_id, snapshot.wal.end, snapshot.max_seq, snapshot.now_ms, as_of
    return b"%d %d %d %d %s\n" % seen


@contextmanager
def _locked_note(load: str) -> Iterator[BinaryIO | None]:
    """Return the file of a DataFrame, which others wait for; None if there can be none."""
    try:
        file = _open_note(load)
    except OSError:  # no place to write to, or no locks there
        file = None
    if file is None:
        yield None
        return
    with file:  # the lock ends with it, and with the process at the latest
        yield file


def _open_note(load: str) -> BinaryIO | None:
    base = private_folder()
    if base is None:
        return None
    folder = base / "loads"
    folder.mkdir(mode=0o700, exist_ok=True)
    _remove_old(folder)
    file = (folder / load).open("a+b", buffering=0)  # so that a full disk shows at once
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _remove_old(folder: Path) -> None:
    until_ms = SystemClock().now_ms() - KEPT_MS
    for path in folder.iterdir():
        with suppress(FileNotFoundError, BlockingIOError):
            if path.stat().st_mtime_ns < until_ms * _NS:
                _remove_unless_held(path)


def _remove_unless_held(path: Path) -> None:
    """Remove a note; raises `BlockingIOError` while a process still looks for the snapshot, as of a slow store."""
    with path.open("r+b") as file:  # NFS locks for no reader exclusively
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
