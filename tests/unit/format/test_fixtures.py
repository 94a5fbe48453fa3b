"""Databases of the real client: decoded values equal `expected.json`, encoded files decode to the same values."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from slatespark.errors import InternalError
from slatespark.format.codecs import Compression
from slatespark.format.compactions import (
    Compaction,
    Compactions,
    Subcompaction,
    TieredSpec,
    decode_compactions,
    encode_compactions,
)
from slatespark.format.filter import encode_filters
from slatespark.format.info import FOOTER_BYTES, SstInfo, SstType, decode_footer, decode_info_section
from slatespark.format.invariants import check_manifest
from slatespark.format.manifest import Manifest
from slatespark.format.manifest_codec import decode_manifest, encode_manifest
from slatespark.format.paths import numbered, sst_id
from slatespark.format.references import Bound, BytesRange, SortedRun, SstHandle, SstView
from slatespark.format.row import Row, RowKind
from slatespark.format.sequence_tracker import decode_sequence_tracker, encode_sequence_tracker
from slatespark.format.sst import SstBuilder
from slatespark.format.ulid import Ulid
from slatespark.format.wal import decode_wal
from slatespark.ranges import ALL_KEYS
from tests.support.fixture_databases import NEWER_FIXTURES, FixtureDatabase, fixture_cases, fixture_databases
from tests.support.row_values import columns_to_rows
from tests.support.wal_files import encode_wal
from tests.unit.format.reading import fixture_files, label, manifest_folders, read_sst, sst_files

DATABASES = fixture_databases()
KINDS = {"value": RowKind.PUT, "tombstone": RowKind.DELETE, "merge": RowKind.MERGE}


def in_hex(data: bytes | None) -> str | None:
    return None if data is None else "x" + data.hex()


def as_ulid(value: UUID) -> str:
    return str(Ulid(value.int))


def info_as_json(info: SstInfo) -> dict[str, Any]:
    return {
        "first_entry": in_hex(info.first_entry),
        "index_offset": info.index_offset,
        "index_len": info.index_len,
        "filter_offset": info.filter_offset,
        "filter_len": info.filter_len,
        "compression_format": int(info.compression),
        "sst_type": int(info.sst_type),
        "last_entry": in_hex(info.last_entry),
        "stats_offset": info.stats_offset,
        "stats_len": info.stats_len,
        "filter_format": int(info.filter_format),
    }


def range_as_json(keys: BytesRange | None) -> dict[str, Any] | None:
    def bound(end: Bound) -> dict[str, Any]:
        return {"key": in_hex(end.key), "bound_type": int(end.kind)}

    return None if keys is None else {"start_bound": bound(keys.start), "end_bound": bound(keys.end)}


def view_as_json(view: SstView) -> dict[str, Any]:
    return {"id": str(view.id), "sst_id": str(view.sst_id), "visible_range": range_as_json(view.visible_range)}


def run_as_json(run: SortedRun) -> dict[str, Any]:
    return {"id": run.id, "ssts": [view_as_json(view) for view in run.views]}


def handle_as_json(handle: SstHandle) -> dict[str, Any]:
    return {"id": str(handle.id), "info": info_as_json(handle.info), "format_version": handle.format_version}


def manifest_as_json(manifest: Manifest) -> dict[str, Any]:
    def marker(ulid: Ulid | None) -> str | None:
        return None if ulid is None else str(ulid)

    return {
        "manifest_id": manifest.nonce,
        "external_dbs": [
            {
                "path": entry.path,
                "source_checkpoint_id": as_ulid(entry.source_checkpoint_id),
                "final_checkpoint_id": None
                if entry.final_checkpoint_id is None
                else as_ulid(entry.final_checkpoint_id),
                "sst_ids": [str(ulid) for ulid in entry.sst_ids],
            }
            for entry in manifest.external_dbs
        ],
        "initialized": manifest.initialized,
        "writer_epoch": manifest.writer_epoch,
        "compactor_epoch": manifest.compactor_epoch,
        "replay_after_wal_id": manifest.replay_after_wal_id,
        "wal_id_last_seen": manifest.wal_id_last_seen,
        "last_compacted_l0_sst_view_id": marker(manifest.last_compacted_l0_sst_view_id),
        "ssts": [handle_as_json(handle) for handle in manifest.ssts.values()],
        "l0": [view_as_json(view) for view in manifest.l0],
        "compacted": [run_as_json(run) for run in manifest.compacted],
        "last_l0_clock_tick": manifest.last_l0_clock_tick,
        "checkpoints": [
            {
                "id": as_ulid(point.id),
                "manifest_id": point.manifest_id,
                "checkpoint_expire_time_s": point.expire_time_s,
                "checkpoint_create_time_s": point.create_time_s,
                "metadata_type": 0,
                "metadata": None,
                "name": point.name,
            }
            for point in manifest.checkpoints
        ],
        "last_l0_seq": manifest.last_l0_seq,
        "recent_snapshot_min_seq": manifest.recent_snapshot_min_seq,
        "sequence_tracker": in_hex(encode_sequence_tracker(manifest.sequence_tracker)),
        "segments": [
            {
                "prefix": in_hex(segment.prefix),
                "last_compacted_l0_sst_view_id": marker(segment.last_compacted_l0_sst_view_id),
                "l0": [view_as_json(view) for view in segment.l0],
                "compacted": [run_as_json(run) for run in segment.compacted],
            }
            for segment in manifest.segments
        ],
        "segment_extractor_name": manifest.segment_extractor_name,
    }


def newest_manifest(database: FixtureDatabase) -> Manifest:
    name = f"manifest/{database.expected['manifest_id']:020d}.manifest"
    return decode_manifest((database.path / name).read_bytes())


@pytest.mark.parametrize("database", DATABASES, ids=lambda database: database.name)
def test_newest_manifest_is_as_expected(database: FixtureDatabase) -> None:
    expected = dict(database.expected["manifest"])
    expected["external_dbs"] = expected["external_dbs"] or []
    expected["segments"] = expected["segments"] or []
    assert manifest_as_json(newest_manifest(database)) == expected
    points = [list(point) for point in newest_manifest(database).sequence_tracker.points]
    assert points == database.expected["sequence_tracker"]


def rows_of(database: FixtureDatabase) -> Iterator[tuple[str, Row]]:
    """Return rows by place, as a reader of the newest manifest finds them."""
    manifest = newest_manifest(database)
    external = {ulid: entry.path for entry in manifest.external_dbs for ulid in entry.sst_ids}
    places = [(f"l0:{view.sst_id}", view) for tree in manifest.trees() for view in tree.l0]
    for run in (run for tree in manifest.trees() for run in tree.compacted):
        places += [(f"sr{run.id}:{view.sst_id}", view) for view in run.views]
    for where, view in places:
        root = database.root / external[view.sst_id] if view.sst_id in external else database.path
        sst = read_sst((root / "compacted" / f"{view.sst_id}.sst").read_bytes())
        shown = view.key_range(manifest.ssts[view.sst_id])
        yield from ((where, row) for row in columns_to_rows(sst.rows) if shown.contains(row.key))
    for path in sorted((database.path / "wal").glob("*.sst")):
        number = numbered(path.name, "sst") or 0
        if number > manifest.replay_after_wal_id and path.stat().st_size:
            for row in columns_to_rows(decode_wal(path.read_bytes())):
                if row.seq > manifest.last_l0_seq:
                    yield f"wal:{number}", row


@pytest.mark.parametrize("database", DATABASES, ids=lambda database: database.name)
def test_stored_rows_are_the_expected_ones(database: FixtureDatabase) -> None:
    expected: dict[str, list[Row]] = defaultdict(list)
    for row in database.expected["stored_rows"]:
        kind = KINDS[row["kind"]]
        gone = kind is RowKind.DELETE
        expected[row["where"]].append(
            Row(
                key=bytes.fromhex(row["key"]),
                seq=row["seq"],
                kind=kind,
                value=b"" if gone else bytes.fromhex(row["value"]),
                create_ts_ms=row["create_ts"],
                expire_ts_ms=None if gone else row["expire_ts"],  # one handmade tombstone has one
            )
        )
    found: dict[str, list[Row]] = defaultdict(list)
    for where, stored in rows_of(database):
        found[where].append(stored)
    for rows in (*found.values(), *expected.values()):
        rows.sort(key=lambda row: (row.key, -row.seq))  # WAL rows are in commit order, the expected ones in key order
    assert found == expected


@pytest.mark.parametrize("path", sst_files(), ids=label)
def test_every_sst_is_consistent(path: Path) -> None:
    data = path.read_bytes()
    sst = read_sst(data)
    rows = columns_to_rows(sst.rows)
    assert sst.info.sst_type is SstType.COMPACTED
    assert sst.info.first_entry == rows[0].key
    assert sst.info.last_entry == rows[-1].key
    assert sst.index.blocks_for(ALL_KEYS) == (0, len(sst.index))
    if sst.stats is not None:
        assert sst.stats.num_rows == len(rows)
        assert sst.stats.raw_key_size == sum(len(row.key) for row in rows)
        assert sst.stats.raw_val_size == sum(len(row.value) for row in rows)
    # Only slatespark writes properties; one fixture has foreign bytes in their place.
    assert sst.properties is None


def test_manifest_copies_of_infos_equal_those_of_the_files() -> None:
    compared = 0
    for database in DATABASES:
        manifest = newest_manifest(database)
        for handle in manifest.ssts.values():
            path = database.path / "compacted" / f"{handle.id}.sst"
            if path.exists():
                sst = read_sst(path.read_bytes())
                assert (sst.info, sst.footer.version) == (handle.info, handle.format_version)
                compared += 1
    assert compared > 40


BLOCK_SIZES = (128, 256, 1024, 4096)  # the fixtures do not state their block size


@pytest.mark.parametrize("path", sst_files(), ids=label)
def test_uncompressed_ssts_are_written_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    sst = read_sst(data)
    if sst.info.compression is not Compression.NONE:
        return  # another library of the same codec compresses differently
    if sst.index.encoded_bytes.any():
        return  # we do not align blocks
    built = b""
    for block_size in BLOCK_SIZES:
        builder = SstBuilder(block_size=block_size, min_filter_keys=1 if sst.info.filter_len else 1 << 40)
        builder.add([sst.rows], np.arange(len(sst.rows), dtype=np.int64))
        built = b"".join(builder.finish().parts)
        if built[: sst.info.data_bytes] == data[: sst.info.data_bytes]:
            break
    else:
        assert path.parts[-3] == "history"  # handmade, with another restart interval
        return
    ours = read_sst(built)
    assert [ours.index.first_key(block) for block in range(len(ours.index))] == [
        sst.index.first_key(block) for block in range(len(sst.index))
    ]
    if sst.stats is not None and len(sst.stats.block_counts):
        assert ours.stats == sst.stats
    if sst.filters is not None and sst.filters.filters[0].name == "_bf":
        assert ours.filters == sst.filters
    if sst.filters is not None:
        assert len(encode_filters(sst.filters)) + 4 == sst.info.filter_len


@pytest.mark.parametrize("paths", manifest_folders(), ids=lambda paths: label(paths[0].parent))
def test_every_manifest_round_trips(paths: list[Path]) -> None:
    for path in paths:
        manifest = decode_manifest(path.read_bytes())
        assert decode_manifest(encode_manifest(manifest)) == manifest


@pytest.mark.parametrize("paths", manifest_folders(), ids=lambda paths: label(paths[0].parent))
def test_the_clients_own_changes_keep_the_invariants(paths: list[Path]) -> None:
    current = None
    for path in paths:
        new = decode_manifest(path.read_bytes())
        # One handmade manifest moves old files back to L0; slatespark would add them as runs.
        by_hand = path.parts[-3] == "restored" and path.stem.endswith("13")
        expected: AbstractContextManager[object] = (
            pytest.raises(InternalError, match="watermark") if by_hand else nullcontext()
        )
        with expected:
            check_manifest(new, current, new_id=numbered(path.name, "manifest") or 0, now_ms=2_000_000_000_000)
        current = new


def test_trackers_are_written_byte_for_byte() -> None:
    texts = {database.expected["manifest"]["sequence_tracker"] for database in DATABASES}
    for text in texts - {None}:
        data = bytes.fromhex(text[1:])
        assert encode_sequence_tracker(decode_sequence_tracker(data)) == data
    assert len(texts) > 3


def wal_info(data: bytes) -> SstInfo:
    footer = decode_footer(data[-FOOTER_BYTES:])
    return decode_info_section(data[footer.info_offset : -FOOTER_BYTES])


@pytest.mark.parametrize("path", fixture_files("**/wal/*.sst"), ids=label)
def test_every_wal_file_round_trips(path: Path) -> None:
    data = path.read_bytes()
    if not data:
        return  # a fence
    rows = columns_to_rows(decode_wal(data))
    assert columns_to_rows(decode_wal(encode_wal(rows))) == rows
    info = wal_info(data)
    assert info.sst_type is SstType.WAL
    if info.compression is Compression.NONE:
        assert encode_wal(rows)[: info.data_bytes] == data[: info.data_bytes]


def subcompaction_as_json(part: Subcompaction, *, states_status: bool) -> dict[str, Any]:
    outputs = [{**handle_as_json(handle), "visible_range": None} for handle in part.output_ssts]
    found = {"range": range_as_json(part.keys), "output_ssts": outputs or None}
    return {**found, "status": part.status} if states_status else found


def job_as_json(job: Compaction, *, states_status: bool) -> dict[str, Any]:
    assert isinstance(job.spec, TieredSpec)
    worker = job.worker
    outputs = [{**handle_as_json(handle), "visible_range": None} for handle in job.output_ssts]
    context = None
    if job.context is not None:
        parts = [subcompaction_as_json(part, states_status=states_status) for part in job.context.subcompactions]
        context = {"subcompactions": parts, "retention_min_seq": job.context.retention_min_seq}
    return {
        "id": str(job.id),
        "spec_type": 1,
        "spec": {
            "ssts": None,
            "sorted_runs": list(job.spec.sorted_runs) or None,
            "l0_view_ids": [str(ulid) for ulid in job.spec.l0_view_ids] or None,
            "segment": in_hex(job.spec.segment),
            "destination": job.spec.destination,
        },
        "status": int(job.status),
        "output_ssts": outputs,
        "worker": None
        if worker is None
        else {"worker_id": worker.worker_id, "last_heartbeat_ms": worker.last_heartbeat_ms},
        "ctx_type": 0 if context is None else 1,
        "ctx": context,
    }


def compactions_by_case() -> list[tuple[Path, str, Any]]:
    found = []
    for case in fixture_cases():
        for name, expected in json.loads((case / "expected.json").read_text()).get("compactions", {}).items():
            found.append((case, name, expected))
    return found


@pytest.mark.parametrize(
    ("case", "name", "expected"), compactions_by_case(), ids=lambda value: getattr(value, "name", "")
)
def test_compactions_files_are_as_expected(case: Path, name: str, expected: dict[str, Any]) -> None:
    state = decode_compactions((case / "compactions" / name).read_bytes())
    newer = case.parent == NEWER_FIXTURES
    found = {
        "compactor_epoch": state.compactor_epoch,
        "recent_compactions": [job_as_json(job, states_status=newer) for job in state.jobs],
    }
    for job in expected["recent_compactions"]:  # absent equals empty
        spec = job["spec"]
        spec["sorted_runs"], spec["l0_view_ids"] = spec["sorted_runs"] or None, spec["l0_view_ids"] or None
        spec["segment"], job["output_ssts"] = spec["segment"] or "x", job["output_ssts"] or []
    assert found == expected


@pytest.mark.parametrize("path", fixture_files("**/*.compactions"), ids=label)
def test_every_compactions_file_round_trips(path: Path) -> None:
    state = decode_compactions(path.read_bytes())
    assert isinstance(state, Compactions)
    assert decode_compactions(encode_compactions(state)) == state


def test_names_of_fixture_objects_parse() -> None:
    assert all(sst_id(path.name) is not None for path in sst_files())
    assert all(numbered(path.name, "manifest") for path in fixture_files("**/*.manifest"))
