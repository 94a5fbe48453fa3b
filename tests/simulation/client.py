"""A SlateDB client as one more actor: the protocol of its writer, one storage call after the other.

It claims the writer epoch, fences and replays the WAL, writes batches to it, and flushes them to L0; whatever it finds
of another writer shuts it out. Source: `docs/explanation/taking-over-a-database.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slatespark.format.invariants import l0_watermark_ms
from slatespark.format.manifest import Manifest
from slatespark.format.paths import sst_path, wal_path
from slatespark.format.references import SstHandle, SstView
from slatespark.format.row import Row, RowKind, rows_to_columns
from slatespark.format.sst import SST_FORMAT_VERSION, SstBuilder
from slatespark.format.wal import decode_wal
from slatespark.storage.object_store import ObjectStore
from slatespark.table.clock import Clock, new_ulid
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores
from tests.faults.jobs import stores_of
from tests.simulation.manifests import create_version
from tests.support.row_values import columns_to_rows
from tests.support.wal_files import encode_wal


class FencedClientError(Exception):
    """Another writer has taken the database over."""


@dataclass(slots=True)
class ClientWriter:
    """An open client.

    Attributes
    ----------
    epoch : its own
    next_wal : the id of its next WAL file
    last_seq : of its last row
    l0 : its own list, newest first
    unflushed : rows that are in the WAL alone
    """

    store: ObjectStore
    clock: Clock
    epoch: int = 0
    next_wal: int = 0
    last_seq: int = 0
    tick: int = 0
    l0: tuple[SstView, ...] = ()
    unflushed: list[Row] = field(default_factory=list)

    @property
    def stores(self) -> TableStores:
        """Without anything that it has seen before."""
        return stores_of(self.store)

    def open(self) -> None:
        """Take the database over; raises `FencedClientError` if somebody else does meanwhile."""
        while True:
            number, manifest = fetch_latest_manifest(self.stores)
            self.next_wal = self._first_free(manifest.replay_after_wal_id)
            claim = replace(manifest, nonce=0, writer_epoch=manifest.writer_epoch + 1)
            if create_version(self.stores, number + 1, claim):
                break
        self.epoch, self.l0 = claim.writer_epoch, claim.l0
        while True:
            try:
                self.store.create(wal_path(self.next_wal), b"")
                break
            except FileExistsError:
                self._newest()
                self.next_wal += 1
        manifest = self._newest().value
        self.last_seq, self.tick = manifest.last_l0_seq, manifest.last_l0_clock_tick
        for number in range(manifest.replay_after_wal_id + 1, self.next_wal):
            try:
                data = self.store.get(wal_path(number))
            except FileNotFoundError:  # a commit has taken the rows over, and a collector the file
                raise FencedClientError from None
            if len(data):
                self.unflushed += [row for row in columns_to_rows(decode_wal(data)) if row.seq > manifest.last_l0_seq]
        self.next_wal += 1
        self.last_seq = max([self.last_seq, *(row.seq for row in self.unflushed)])

    def write(self, changes: Sequence[tuple[bytes, RowKind, bytes]]) -> None:
        """Write a batch durably; raises `FencedClientError` if the WAL is not ours any more."""
        self.last_seq += 1
        self.tick = max(self.tick, self.clock.now_ms())
        rows = [Row(key, self.last_seq, kind, value, self.tick) for key, kind, value in changes]
        try:
            self.store.create(wal_path(self.next_wal), encode_wal(rows))
        except FileExistsError:
            raise FencedClientError from None
        self.next_wal += 1
        self.unflushed += rows

    def flush(self) -> None:
        """Put the rows that only the WAL has into L0."""
        if not self.unflushed:
            return
        rows = sorted(self.unflushed, key=lambda row: (row.key, -row.seq))
        newest = self._newest().value
        ulid = new_ulid(self.clock, max(self.clock.now_ms(), l0_watermark_ms(newest) or 0))
        builder = SstBuilder(block_size=4096, created_ms=self.tick)
        builder.add([rows_to_columns(rows)], np.arange(len(rows), dtype=np.int64))
        built = builder.finish()
        self.store.put(sst_path(ulid), built.parts)
        handle = SstHandle(ulid, built.info, SST_FORMAT_VERSION)
        while True:
            number, newest = self._newest()
            older = _before(self.l0, newest.last_compacted_l0_sst_view_id)
            after = replace(
                newest,
                nonce=0,
                ssts=newest.ssts.adding([handle]),
                l0=(SstView(ulid, ulid), *older),
                last_l0_seq=self.last_seq,
                last_l0_clock_tick=self.tick,
                recent_snapshot_min_seq=self.last_seq,
                replay_after_wal_id=self.next_wal - 1,
                wal_id_last_seen=self.next_wal - 1,
            )
            after = replace(after, ssts=after.ssts.keeping({view.sst_id for view in after.views()}))
            if create_version(self.stores, number + 1, after):
                break
        self.l0, self.unflushed = after.l0, []

    def _first_free(self, after: int) -> int:
        """Probe for the first WAL id that does not exist."""
        step = 1
        while self._exists(after + step):
            step *= 2
        low, high = after + step // 2, after + step  # the first exists, or is not looked at; the other does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._exists(middle) else (low, middle)
        return high

    def _exists(self, number: int) -> bool:
        try:
            self.store.head(wal_path(number))
        except FileNotFoundError:
            return False
        return True

    def _newest(self) -> Version[Manifest]:
        found = fetch_latest_manifest(self.stores)
        if found.value.writer_epoch != self.epoch:
            raise FencedClientError
        return found


def _before(l0: tuple[SstView, ...], marker: object) -> tuple[SstView, ...]:
    """Return the views in front of the marker, which were not compacted."""
    place = next((at for at, view in enumerate(l0) if view.id == marker), len(l0))
    return l0[:place]
