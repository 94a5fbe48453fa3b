from __future__ import annotations

import os
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore, TableNotFoundError, UnavailableError
from slatespark.format.compactions import Compactions, encode_compactions
from slatespark.format.info import decode_footer, decode_info_section, footer_range, info_range
from slatespark.format.manifest import Checkpoint
from slatespark.format.paths import boundary_path, compactions_path, wal_path
from slatespark.format.sst import SstLayout, layout_of
from slatespark.storage.local_store import LocalStore
from slatespark.table.clock import SystemClock
from slatespark.table.stores import open_stores
from slatespark.table.verify import files, parts, sst
from slatespark.table.verify.files import FileCheck
from slatespark.table.verify.findings import Findings
from slatespark.table.verify.plan import VersionSurvey
from slatespark.table.verify.run import verify_table
from slatespark.table.verify.sst import SstOutcome, SstTarget, check_sst
from tests.faults.jobs import stores_of
from tests.support.failing_store import FailingStore
from tests.support.fake_clock import FakeClock
from tests.support.fixture_databases import FIXTURES, FixtureDatabase, fixture_databases
from tests.support.round_trips import DistantTable
from tests.unit.table.verify.conftest import Copy, CopyMaker, flip

DATABASES = fixture_databases()
by_name = pytest.mark.parametrize("database", DATABASES, ids=[database.name for database in DATABASES])


def layout(path: Path) -> SstLayout:
    data = path.read_bytes()
    tail = footer_range(len(data))
    footer = decode_footer(data[tail.start : tail.end])
    span = info_range(footer, len(data))
    return layout_of(decode_info_section(data[span.start : span.end]), footer, len(data))


def own_table(folder: Path) -> Copy:
    """A table of ours: two overlapping files with properties and filters."""
    store = SlateStore.create(str(folder))
    for start in (0, 500):
        keys = [f"key{number:05d}".encode() for number in range(start, start + 1500)]
        store.write(pa.table({"key": keys, "value": keys}), blockSize=1024, ttl="7d")
    return Copy(folder)


# --- sound tables ---------------------------------------------------------------------------------------------------


@by_name
@pytest.mark.parametrize("all_versions", [False, True])
def test_tables_of_the_client_are_sound(database: FixtureDatabase, all_versions: bool) -> None:
    stores = open_stores(str(database.path), storage={"root": str(FIXTURES)})
    report = verify_table(stores, SystemClock(), all_versions=all_versions)
    assert report.findings == ()
    assert report.incomplete_versions == ()
    assert report.versions[-1] == database.expected["manifest_id"]
    assert report.rows >= len(database.stored_rows())


def test_our_tables_are_sound(tmp_path: Path) -> None:
    report = own_table(tmp_path / "t").verify(all_versions=True)
    assert report.findings == ()
    assert report.rows == 3000
    assert not report.has_damage
    assert report.is_complete


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[str, int, int]] = []
    stores = open_stores(str(FIXTURES / "codec_zstd"), storage={})
    verify_table(stores, SystemClock(), progress=lambda *step: seen.append(step))
    done = [done for step, done, _ in seen if step == "Checking files"]
    assert done == sorted(done)
    assert 0.8 < done[-1] / seen[0][2] <= 1


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        Copy(tmp_path).verify()


# --- flipped bytes --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0, sst.SMALL_FILE_BYTES], ids=["in parts", "whole"])
def small_file_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sst, "SMALL_FILE_BYTES", request.param)


fetched_either_way = pytest.mark.usefixtures("small_file_bytes")


@fetched_either_way
@pytest.mark.parametrize("case", ["codec_none", "codec_snappy", "codec_zlib", "codec_lz4", "codec_zstd"])
@pytest.mark.parametrize("section", ["data", "filter", "index", "stats", "info"])
def test_a_flipped_byte_is_found_in_its_section(copy_of: CopyMaker, case: str, section: str) -> None:
    copy = copy_of(case)
    path = copy.newest("compacted")
    span = getattr(layout(path), section)
    for offset in (span.start, (span.start + span.end) // 2, span.end - 1):
        flip(path, offset)
        found = [finding for finding in copy.findings() if finding.object.endswith(path.name)]
        expected = "block " if section == "data" else section
        assert any(finding.section.startswith(expected) and finding.is_damage for finding in found), offset
        assert all(finding.offset is None or finding.offset <= offset for finding in found)
        flip(path, offset)
    assert copy.findings() == []


@fetched_either_way
@pytest.mark.parametrize("place", range(-10, 0))
def test_a_flipped_byte_in_the_footer_is_found(copy_of: CopyMaker, place: int) -> None:
    copy = copy_of("codec_none")
    path = copy.newest("compacted")
    flip(path, path.stat().st_size + place)
    found = copy.findings()
    assert {finding.section for finding in found} <= {"footer", "info", "properties"}
    assert found
    assert all(finding.object.endswith(path.name) for finding in found)


@fetched_either_way
def test_a_flipped_byte_in_our_properties_is_found(tmp_path: Path) -> None:
    copy = own_table(tmp_path / "t")
    path = copy.newest("compacted")
    flip(path, layout(path).gap.start + 10)
    [finding] = copy.findings()
    assert (finding.section, finding.is_damage) == ("properties", True)


@fetched_either_way
def test_every_damaged_block_is_listed(tmp_path: Path) -> None:
    copy = own_table(tmp_path / "t")
    path = copy.newest("compacted")
    edges = range(0, layout(path).data.end, 5000)
    for offset in edges:
        flip(path, offset)
    found = [finding for finding in copy.findings() if finding.object.endswith(path.name)]
    assert len(found) == len(edges)
    assert len({finding.section for finding in found}) == len(found)
    assert [finding.offset for finding in found] == sorted(finding.offset or 0 for finding in found)


@fetched_either_way
def test_every_byte_of_a_wal_file_counts(copy_of: CopyMaker) -> None:
    copy = copy_of("wal_only")
    path = copy.newest("wal")
    for offset in range(path.stat().st_size):
        flip(path, offset)
        found = copy.findings()
        assert found, offset
        assert all(finding.object.endswith(f"wal/{path.name}") for finding in found), offset
        flip(path, offset)


def test_a_flipped_manifest_never_raises_and_is_never_misread(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    path = copy.newest("manifest")
    noticed = 0
    for offset in range(0, path.stat().st_size, 3):
        flip(path, offset, 0x41)
        noticed += bool(copy.findings())
        flip(path, offset, 0x41)
    assert noticed > path.stat().st_size / 10  # a manifest has no checksum: only contradictions are noticed


def test_a_flipped_byte_in_a_compactions_file_is_named(copy_of: CopyMaker) -> None:
    copy = copy_of("compacted")
    path = copy.newest("compactions")
    flip(path, 2)
    [finding] = copy.findings()
    assert finding.object.endswith(f"compactions/{path.name}")
    assert finding.section == "compactions"


# --- objects of the wrong size, or missing --------------------------------------------------------------------------


@fetched_either_way
@pytest.mark.parametrize("left", [0, 5, 100])
@pytest.mark.parametrize("folder", ["compacted", "manifest"])
def test_truncated_objects_are_named(copy_of: CopyMaker, folder: str, left: int) -> None:
    copy = copy_of("codec_none")
    path = copy.newest(folder)
    path.write_bytes(path.read_bytes()[:left])
    report = copy.verify()
    assert report.has_damage
    assert all(finding.object.endswith(path.name) for finding in report.findings if finding.is_damage)


def test_a_missing_sst_is_named(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    path = copy.newest("compacted")
    path.unlink()
    [finding] = copy.findings()
    assert finding.object.endswith(f"compacted/{path.name}")
    assert (finding.section, finding.is_damage) == ("object", True)


def test_an_old_version_may_lack_files(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    manifest = copy.manifest()
    copy.publish(replace(manifest, l0=(), ssts=manifest.ssts.keeping(())))
    copy.newest("compacted").unlink()
    report = copy.verify(all_versions=True)
    assert report.findings == ()
    assert report.incomplete_versions == (4, 5)


def test_a_pinned_version_may_not_lack_files(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    manifest = copy.manifest()
    pin = Checkpoint(uuid.UUID(int=1), copy.manifest_id, 0, 1)
    copy.publish(replace(manifest, l0=(), ssts=manifest.ssts.keeping(()), checkpoints=(pin,)))
    copy.newest("compacted").unlink()
    assert [finding.section for finding in copy.findings(all_versions=True)] == ["object"]


def test_missing_and_stray_wal_files(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    newest = copy.newest("wal")
    number = int(newest.stem)
    (copy.folder / wal_path(number + 5)).write_bytes(newest.read_bytes())
    [finding] = copy.findings()
    assert finding.object.endswith(wal_path(number + 5))
    assert "gap" in finding.what
    newest.unlink()
    assert newest.name in {Path(finding.object).name for finding in copy.findings() if finding.is_damage}


@pytest.mark.parametrize(("case", "is_in_wal"), [("wal_only", True), ("no_wal", False)])
def test_rows_of_wal_files_are_counted_apart(copy_of: CopyMaker, case: str, is_in_wal: bool) -> None:
    report = copy_of(case).verify()
    assert report.rows > 0
    assert report.wal_rows == (report.rows if is_in_wal else 0)


def test_a_missing_wal_is_not_damage(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    for path in (copy.folder / "wal").iterdir():
        path.unlink()
    report = copy.verify()
    assert not report.has_damage
    assert not report.is_complete


def test_a_missing_fence_that_keeps_readers_away(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    for fence in (tmp_path / "t/wal").iterdir():
        fence.unlink()
    found = SlateStore.open(store.url)
    with pytest.raises(InvalidRequestError):
        found.scan()
    assert [finding.section for finding in found.verify().findings] == ["WAL"]


@pytest.mark.parametrize("columns", ["id BIGINT, v INT", None])
def test_a_damaged_definition(tmp_path: Path, columns: str | None) -> None:
    store = SlateStore.create(str(tmp_path / "t"), columns, "id" if columns else None)
    (definition,) = (tmp_path / "t/slatespark/table").iterdir()
    definition.write_bytes(definition.read_bytes().replace(b"formatVersion", b"formatversion"))
    (finding,) = SlateStore.open(store.url).verify().findings
    assert (finding.section, finding.is_damage) == ("definition", True)


def test_wal_files_in_the_wrong_order(copy_of: CopyMaker) -> None:
    copy = copy_of("wal_only")
    newest = copy.newest("wal")
    (copy.folder / wal_path(int(newest.stem) + 1)).write_bytes(newest.read_bytes())
    [finding] = copy.findings()
    assert "earlier" in finding.what


def test_a_missing_parent_is_not_damage(copy_of: CopyMaker) -> None:
    copy = copy_of("clone/child")
    stores = open_stores(str(copy.folder), storage={"root": str(copy.folder)})
    report = verify_table(stores, SystemClock())
    assert [(finding.section, finding.is_damage) for finding in report.findings] == [("external database", False)]


# --- manifests that contradict what is there ------------------------------------------------------------------------


@fetched_either_way
def test_a_manifest_that_describes_a_file_wrongly(copy_of: CopyMaker) -> None:
    copy = copy_of("codec_none")
    manifest = copy.manifest()
    handles = [replace(handle, info=replace(handle.info, last_entry=b"\xff" * 9)) for handle in manifest.ssts.values()]
    copy.publish(replace(manifest, ssts=type(manifest.ssts)(handles)))
    found = copy.findings()
    assert [finding.section for finding in found] == ["info"] * len(handles)
    assert all("last_entry" in finding.what for finding in found)
    assert any("differs" in finding.what for finding in copy.findings(all_versions=True))


def test_every_broken_rule_is_listed(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    manifest = copy.manifest()
    broken = replace(
        manifest,
        last_compacted_l0_sst_view_id=manifest.l0[0].id,
        replay_after_wal_id=manifest.wal_id_last_seen + 1,
    )
    copy.publish(broken)
    found = [finding.what for finding in copy.findings()]
    assert len(found) == 3
    assert "marker_is_not_in_l0" in found[0]
    assert "replay_position_is_not_past_the_wal" in found[1]
    assert "invisible" in found[2]


def test_rows_above_the_last_seq(copy_of: CopyMaker) -> None:
    copy = copy_of("no_wal")
    copy.publish(replace(copy.manifest(), last_l0_seq=1, recent_snapshot_min_seq=0))
    falls, *hides = copy.findings()
    assert "seq_does_not_decrease" in falls.what
    assert hides
    assert all("invisible" in finding.what for finding in hides)


def test_layers_in_the_wrong_order(copy_of: CopyMaker) -> None:
    copy = copy_of("many_runs")
    manifest = copy.manifest()
    newer, older, *others = manifest.compacted
    swapped = (replace(newer, views=older.views), replace(older, views=newer.views), *others)
    copy.publish(replace(manifest, compacted=swapped))
    found = copy.findings()
    assert [finding.section for finding in found] == ["layer order"]
    assert "run 14" in found[0].what
    assert "run 13" in found[0].what


def test_a_dangling_checkpoint(copy_of: CopyMaker) -> None:
    copy = copy_of("checkpoints")
    (copy.folder / "manifest" / f"{4:020d}.manifest").unlink()
    [finding] = copy.findings()
    assert finding.section == "checkpoints"
    assert "named" in finding.what


def test_a_parent_without_the_checkpoint_that_protects_its_clone(copy_of: CopyMaker) -> None:
    copy = copy_of("clone")
    parent = Copy(copy.folder / "parent")
    parent.publish(replace(parent.manifest(), checkpoints=()))
    stores = open_stores(str(copy.folder / "child"), storage={"root": str(copy.folder.parent)})
    (copy.folder.parent / "clone").symlink_to(copy.folder)
    [finding] = verify_table(stores, SystemClock()).findings
    assert "checkpoint" in finding.what


def test_a_compactor_epoch_above_that_of_the_manifest(copy_of: CopyMaker) -> None:
    copy = copy_of("compacted")
    number = int(copy.newest("compactions").stem) + 1
    (copy.folder / compactions_path(number)).write_bytes(encode_compactions(Compactions(99)))
    [finding] = copy.findings()
    assert finding.object.endswith(compactions_path(number))


def test_a_compactor_that_claims_its_epoch_meanwhile(copy_of: CopyMaker) -> None:
    copy = copy_of("compacted")
    number = int(copy.newest("compactions").stem) + 1

    def claim() -> None:
        copy.publish(replace(copy.manifest(), compactor_epoch=99))
        (copy.folder / compactions_path(number)).write_bytes(encode_compactions(Compactions(99)))

    store = FailingStore(LocalStore(copy.folder)).run(claim, "list", "compactions/")
    assert verify_table(stores_of(store), SystemClock()).findings == ()


def test_a_manifest_that_cannot_be_fetched_again_is_no_damage(copy_of: CopyMaker) -> None:
    copy = copy_of("compacted")
    number = int(copy.newest("compactions").stem) + 1
    (copy.folder / compactions_path(number)).write_bytes(encode_compactions(Compactions(99)))
    store = FailingStore(LocalStore(copy.folder))
    store.run(lambda: store.fail("list", "manifest/", times=99), "list", "compactions/")
    with pytest.raises(UnavailableError):
        verify_table(stores_of(store), SystemClock())


def test_boundaries(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    boundary = copy.folder / boundary_path("manifest")
    boundary.parent.mkdir()
    boundary.write_bytes(b"3")
    assert copy.verify(all_versions=True).versions == (4, 5)
    boundary.write_bytes(b"3x")
    assert [finding.section for finding in copy.findings()] == ["boundary"]
    boundary.write_bytes(b"5")
    assert any("dead" in finding.what for finding in copy.findings())


def test_a_database_that_is_being_deleted(copy_of: CopyMaker) -> None:
    copy = copy_of("l0_basic")
    (copy.folder / ".deleting").touch()
    [finding] = copy.findings()
    assert finding.section == "marker"


def test_a_store_verifies_itself(tmp_path: Path) -> None:
    copy = own_table(tmp_path / "t")
    store = SlateStore.open(str(copy.folder))
    assert not store.verify(allVersions=True).has_damage
    flip(copy.newest("compacted"), 0)
    assert [finding.section for finding in store.verify().findings] == ["block 0"]


def test_threads_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged files, layers in the wrong order in each part of the keys, and all of it with few threads and many."""
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    used: set[str] = set()

    def noted(target: SstTarget, findings: Findings, *, window_bytes: int) -> SstOutcome:
        used.add(threading.current_thread().name)
        return check_sst(target, findings, window_bytes=window_bytes)

    monkeypatch.setattr(files, "check_sst", noted)
    store = SlateStore.create(tmp_path / "t", autoCompact=False)
    keys = [f"key{number:05d}".encode() for number in range(3000)]
    for _ in range(3):
        store.write(pa.table({"key": keys, "value": keys}), blockSize=1024, sstSize="16kb")
    copy = Copy(tmp_path / "t")
    newer, middle, older = copy.manifest().compacted
    swapped = (replace(newer, views=older.views), middle, replace(older, views=newer.views))
    copy.publish(replace(copy.manifest(), compacted=swapped))
    for path in sorted((tmp_path / "t" / "compacted").iterdir())[:2]:
        flip(path, 100)
    alone, *others = [store.verify(parallelism=count) for count in (1, 2, 5)]
    sections = [finding.section for finding in alone.findings]
    assert sections == ["block 0"] * 2 + ["layer order"] * 2
    assert others == [alone] * 2
    assert len(used) > 3  # this thread, and those of two pools


def test_nothing_that_was_read_before_is_trusted(tmp_path: Path) -> None:
    """Bits turn on the disk, unseen by whoever looks at names, sizes and times."""
    store = SlateStore.create(tmp_path / "t")
    for value in (b"1", b"2"):
        store.write(pa.table({"key": [b"a"], "value": [value]}))
    store.compact(full=True)
    assert store.verify().findings == ()
    newest = max((tmp_path / "t" / "compactions").iterdir())
    before = newest.stat()
    newest.write_bytes(bytes(before.st_size))
    os.utime(newest, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [newest.name in finding.object for finding in store.verify().findings] == [True]


@pytest.mark.parametrize(("history", "section"), [(False, "layer order"), (True, "times")])
def test_files_that_a_collector_removes_between_two_passes(
    history: bool, section: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SlateStore.create(f"memory://verify-collected-{section}", history=history, versionRetention="none")
    for number in range(1 if history else 2):
        store.write(pa.table({"key": [b"a"], "value": [b"%d" % number]}))
    check_files = FileCheck.run

    def collected_after(check: FileCheck, survey: VersionSurvey) -> None:
        check_files(check, survey)
        for meta in store._stores.main.list("compacted/"):
            store._stores.main.delete(meta.path)

    monkeypatch.setattr(FileCheck, "run", collected_after)
    report = store.verify()
    assert not report.has_damage
    assert not report.is_complete
    (found,) = [finding for finding in report.findings if finding.section == section]
    assert found.what.endswith("run it again.")


@pytest.mark.parametrize(("small", "most"), [(0, 2), (sst.SMALL_FILE_BYTES, 1)])
def test_the_sections_of_a_file_are_fetched_together(small: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sst, "SMALL_FILE_BYTES", small)

    def requests(files: int) -> int:
        name, clock = f"verified-{small}-{files}", FakeClock()
        store = SlateStore.create(f"memory://{name}", clock=clock, autoCompact=False)
        keys = [b"%d" % number for number in range(files)]
        store.write(pa.table({"key": keys, "value": [bytes(17 << 10)] * files}), sstSize="16kb", compression="none")
        assert len(store.files()) == files
        return DistantTable(name, clock).spent(lambda store: store.verify(parallelism=1)).requests

    # No two files overlap, so the comparison of layers reads none of them again.
    assert requests(8) - requests(3) <= 5 * most
