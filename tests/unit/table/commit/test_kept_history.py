"""KeptHistory: the sequence number above which a client's compaction keeps every version of a history table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import encode_manifest
from slatespark.format.paths import manifest_path
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.table.commit import kept_history
from slatespark.table.commit.kept_history import KeptHistory, record_losses
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import fetch_definition, publish_definition
from slatespark.table.log.versioned_object import Version
from slatespark.table.rows.sst_upload import NewFile
from tests.support.fake_clock import FakeClock
from tests.unit.table.commit.test_tree_edit import handle
from tests.unit.table.layers import new_stores


def properties(first_seq: int, last_ms: int | None) -> SstProperties:
    return SstProperties(
        created_ms=0, min_create_ts=last_ms, max_create_ts=last_ms, min_expire_ts=None, max_expire_ts=None,
        min_seq=first_seq, max_seq=first_seq + 5, puts=1, deletes=0, merges=0, any_flags=4, all_flags=4,
        all_versions=True,
    )  # fmt: skip


FILES = {
    Ulid(1): properties(1, 10),
    Ulid(2): properties(7, 20),
    Ulid(3): properties(20, 30),
    Ulid(4): properties(0, None),
}


@pytest.mark.parametrize(
    ("floor_ms", "shown", "expected"),
    [
        (None, [1, 2, 3], 0),
        (9, [1, 2, 3], 0),
        (10, [1, 2, 3], 6),
        (19, [3, 1, 2], 6),
        (20, [1, 2, 3], 19),
        (30, [1, 2, 3], 99),
        (30, [], 99),
        (20, [1, 2, 5], 0),
        (20, [1, 2, 4], 99),
    ],
)
def test_what_a_clients_compaction_has_to_keep(floor_ms: int | None, shown: list[int], expected: int) -> None:
    assert KeptHistory(floor_ms, FILES).min_seq([Ulid(number) for number in shown], 99) == expected


def test_new_files_count_as_known() -> None:
    file = NewFile(handle(5, b"a", b"b"), properties(4, 30), 100)
    kept = KeptHistory(20, FILES)
    assert kept.min_seq([file.handle.id], 99) == 0, "every version of an unknown file is kept"
    assert kept.including([file]).min_seq([file.handle.id, Ulid(1), Ulid(3)], 99) == 3
    assert kept.including([]) == kept


def test_a_slower_commit_does_not_lower_a_recorded_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    stores, clock = new_stores(), FakeClock()
    base = Version(1, Manifest())
    planned = TableDefinition(properties={"history": "true"})
    publish_definition(stores, Version(1, replace(planned, lost_through_ms=20)))  # by a commit that was faster
    stores.main.create(manifest_path(1), encode_manifest(base.value))
    for lost_ms, recorded_ms in ((10, 20), (30, 30)):
        monkeypatch.setattr(kept_history, "lost_through", lambda *_, found=lost_ms: found)
        record_losses(stores, clock, base, planned)
        assert fetch_definition(stores, base.value).value.lost_through_ms == recorded_ms
