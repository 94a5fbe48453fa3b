"""What the version before and slatespark's commit records tell: manifests changed, replaced or lost, files replaced."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import SlateStore
from slatespark.format.manifest import Checkpoint
from slatespark.format.paths import manifest_path
from tests.support.fake_clock import FakeClock
from tests.unit.table.verify.conftest import Copy, CopyMaker, flip


def table_of(*values: bytes, folder: Path) -> SlateStore:
    """A table with a commit for each value of its only key."""
    store = SlateStore.create(folder, clock=FakeClock(), autoCompact=False)
    for value in values:
        store.write(pa.table({"key": [b"a"], "value": [value]}), mode="overwrite", compression="none")
    return store


def test_a_flipped_bit_anywhere_in_the_newest_manifest(tmp_path: Path) -> None:
    table_of(b"1", folder=tmp_path)
    copy = Copy(tmp_path)
    path = copy.newest("manifest")
    unseen = []
    for offset in range(path.stat().st_size):
        flip(path, offset, 1 << offset % 8)
        if not copy.verify().has_damage:
            unseen.append(offset)
        flip(path, offset, 1 << offset % 8)
    assert unseen == []
    assert copy.findings() == []


@pytest.mark.parametrize("all_versions", [False, True])
@pytest.mark.parametrize("back", [1, 2, 3])
def test_an_older_manifest_in_place_of_the_newest(tmp_path: Path, back: int, all_versions: bool) -> None:
    table_of(b"1", b"2", folder=tmp_path)
    copy = Copy(tmp_path)
    newest = copy.newest("manifest")
    newest.write_bytes((tmp_path / manifest_path(copy.manifest_id - back)).read_bytes())
    assert newest.name in {Path(found.object).name for found in copy.findings(all_versions=all_versions)}


def test_a_manifest_of_a_client_that_goes_back(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    copy.newest("manifest").write_bytes((copy.folder / manifest_path(copy.manifest_id - 3)).read_bytes())
    assert {finding.section for finding in copy.findings() if finding.is_damage} >= {"manifest"}


@pytest.mark.parametrize("all_versions", [False, True])
def test_decreasing_epochs_are_found_across_versions(copy_of: CopyMaker, all_versions: bool) -> None:
    copy = copy_of("l0_basic")
    copy.publish(replace(copy.manifest(), writer_epoch=0))
    found = copy.findings(all_versions=all_versions)
    assert ["epochs_do_not_decrease" in finding.what for finding in found] == [True]


@pytest.mark.parametrize("lost", [1, 2])
def test_a_newest_manifest_that_is_lost(tmp_path: Path, lost: int) -> None:
    table_of(b"1", b"2", folder=tmp_path)
    copy = Copy(tmp_path)
    newest = copy.manifest_id
    for number in range(newest, newest - lost, -1):
        (tmp_path / manifest_path(number)).unlink()
    [found] = [finding for finding in copy.findings() if finding.section == "object"]
    assert (found.object.endswith(manifest_path(newest)), found.is_damage) == (True, True)


def test_a_definition_that_is_lost(tmp_path: Path) -> None:
    store = SlateStore.create(tmp_path / "t", "id BIGINT, v STRING", "id")
    store.write(pa.table({"id": [1], "v": ["a"]}))
    store.copyTo(tmp_path / "copy")
    for folder, found in (("t", ["definition"]), ("copy", [])):
        assert Copy(tmp_path / folder).findings() == []
        for definition in (tmp_path / folder / "slatespark" / "table").iterdir():
            definition.unlink()
        assert [finding.section for finding in Copy(tmp_path / folder).findings()] == found


def test_versions_without_a_record_are_sound(tmp_path: Path) -> None:
    store = table_of(b"1", folder=tmp_path)
    store.createCheckpoint("kept")
    for record in (tmp_path / "slatespark" / "commits").glob("*.json"):
        record.unlink()
    assert Copy(tmp_path).findings(all_versions=True) == []


def test_a_file_replaced_by_an_older_one_of_the_same_form(tmp_path: Path) -> None:
    store = table_of(b"1", folder=tmp_path)
    [older] = store.files()
    store.write(pa.table({"key": [b"a"], "value": [b"2"]}), mode="overwrite", compression="none")
    [newer] = store.files()
    names = [tmp_path / "compacted" / f"{file.id}.sst" for file in (older, newer)]
    names[1].write_bytes(names[0].read_bytes())
    assert SlateStore.open(tmp_path).scan().read_all()["value"].to_pylist() == [b"1"]  # no reader can tell
    [found] = Copy(tmp_path).findings()
    assert (found.object.endswith(names[1].name), found.is_damage) == (True, True)


def test_rows_before_the_replay_position_that_are_in_no_file(copy_of: CopyMaker) -> None:
    copy = copy_of("wal_only")
    manifest = copy.manifest()
    seen = max(int(path.stem) for path in (copy.folder / "wal").iterdir())
    copy.publish(replace(manifest, replay_after_wal_id=seen, wal_id_last_seen=seen))
    [found] = copy.findings()
    assert (found.section, found.is_damage) == ("manifest", True)
    assert "invisible" in found.what


def test_a_checkpoint_that_a_client_adds_is_no_damage(tmp_path: Path) -> None:
    table_of(b"1", folder=tmp_path)
    copy = Copy(tmp_path)
    pin = Checkpoint(uuid.UUID(int=1), copy.manifest_id, 0, 1)
    copy.publish(replace(copy.manifest(), checkpoints=(pin,)))
    assert copy.findings(all_versions=True) == []
