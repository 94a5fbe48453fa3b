"""Rows that were only in the WAL when a load began: which of them it waits for, and how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.encoding.row_codec import RAW_CODEC
from slatespark.errors import CommitConflictError
from slatespark.format.manifest import Manifest
from slatespark.format.paths import wal_path
from slatespark.format.row import Row
from slatespark.options import WriteOptions
from slatespark.table.cooperation.unflushed_rows import await_flush
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores
from tests.support.clock_set_back import ClockSetBack
from tests.support.fake_clock import FakeClock
from tests.support.wal_files import encode_wal
from tests.unit.table.cooperation.lists import publish
from tests.unit.table.layers import new_stores, upload_rows


class FlushingClock(FakeClock):
    """A client flushes one more sequence number while somebody sleeps, up to the last one."""

    def __init__(self, stores: TableStores, last_seq: int) -> None:
        super().__init__(1000)
        self.stores, self.last_seq = stores, last_seq

    def sleep_ms(self, duration_ms: int) -> None:
        super().sleep_ms(duration_ms)
        number, manifest = fetch_latest_manifest(self.stores)
        if manifest.last_l0_seq < self.last_seq:
            publish(self.stores, number + 1, replace(manifest, last_l0_seq=manifest.last_l0_seq + 1))


@pytest.mark.parametrize(("flushed", "is_enough"), [(5, False), (6, False), (7, True)])
def test_every_row_with_a_key_of_the_load_is_waited_for(flushed: int, is_enough: bool) -> None:
    """Those of keys a and c; b is no key of the load, and has the highest number."""
    stores = new_stores()
    publish(stores, 1, Manifest(last_l0_seq=4))
    for number, rows in enumerate([[Row(b"a", 5)], [Row(b"c", 6), Row(b"c", 7)], [Row(b"b", 8)]], 1):
        stores.main.put(wal_path(number), [encode_wal(rows)])
    clock = FlushingClock(stores, flushed)
    files = upload_rows(stores, [Row(key, 1) for key in (b"a", b"c", b"d")], clock)
    options = WriteOptions.parse({"path": stores.url, "clientTimeout": "1s"})
    if is_enough:
        await_flush(stores, clock, 4, RAW_CODEC, options, files=files)
        assert fetch_latest_manifest(stores).value.last_l0_seq == flushed
    else:
        with pytest.raises(CommitConflictError, match="key 61; key 63 before"):
            await_flush(stores, clock, 4, RAW_CODEC, options, files=files)


def test_a_clock_that_is_set_back_does_not_prolong_the_wait() -> None:
    stores, clock = new_stores(), ClockSetBack()
    publish(stores, 1, Manifest(last_l0_seq=4))
    stores.main.put(wal_path(1), [encode_wal([Row(b"a", 5)])])
    options = WriteOptions.parse({"path": stores.url, "clientTimeout": "1s"})
    with pytest.raises(CommitConflictError, match="has not flushed them"):
        await_flush(stores, clock, 2, RAW_CODEC, options)
    assert sum(clock.slept_ms) == 1000
