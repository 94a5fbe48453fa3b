"""The real client's administration calls: compactions, checkpoints, garbage collection.

They need no open database, except that a compaction only runs while a writer with a compactor is open.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from slatedb import uniffi

from tests.support.client import Client, Location, run_once

COMPACTION_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class CheckpointHandle:
    """A checkpoint that was created."""

    id: str
    manifest_id: int


def compact_full(client: Client) -> int | None:
    """Flush, then merge all of L0 and every sorted run into one run; return its id, None when there was nothing.

    Requires: `client` was opened with a compactor, and is not segmented.
    """
    client.flush_memtable()
    return _compact(client, _full_compaction)


def compact_segments(client: Client) -> None:
    """Flush, then merge each segment into one run. Requires: `client` was opened with a compactor."""
    client.flush_memtable()
    for segment in read_manifest(client.location).segments:
        _compact(client, partial(_full_compaction, prefix=bytes(segment.prefix)))


def compact_l0(client: Client) -> int | None:
    """Merge all of L0 into a run above all others, which stay as they are; return its id, None when L0 was empty."""
    return _compact(client, _l0_compaction)


def _compact(client: Client, plan: Callable[[Location], Any]) -> int | None:
    deadline = time.monotonic() + COMPACTION_TIMEOUT_S
    while time.monotonic() < deadline:
        spec = plan(client.location)
        if spec is None:
            return None
        submitted = _submit(client.location, spec)
        if _outcome(client.location, submitted.id, deadline) == uniffi.CompactionStatus.COMPLETED:
            return int(spec.destination)
        # It lost against a job of the scheduler: plan again.
    raise TimeoutError(f"No compaction of {client.location} came to its end.")


def create_checkpoint(
    location: Location, name: str | None = None, *, lifetime_ms: int | None = None
) -> CheckpointHandle:
    """Pin the newest manifest, for ever unless a lifetime is given."""
    options = uniffi.CheckpointOptions(lifetime_ms=lifetime_ms, source=None, name=name)
    made = _admin(location, lambda admin: admin.create_detached_checkpoint(options))
    return CheckpointHandle(made.id, made.manifest_id)


def delete_checkpoint(location: Location, checkpoint_id: str) -> None:
    """Release a checkpoint."""
    _admin(location, lambda admin: admin.delete_checkpoint(checkpoint_id))


def list_checkpoints(location: Location) -> list[CheckpointHandle]:
    """All checkpoints, in no order."""
    points = _admin(location, lambda admin: admin.list_checkpoints(None))
    return [CheckpointHandle(point.id, point.manifest_id) for point in points]


def collect_garbage(location: Location, *, min_age_ms: int = 0) -> None:
    """Run the client's garbage collector once, on every kind of object."""
    folder = uniffi.GarbageCollectorDirectoryOptions(min_age_ms=min_age_ms, dry_run=False)
    options = uniffi.GarbageCollectorOptions(
        manifest_options=folder, wal_options=folder, compacted_options=folder, compactions_options=folder
    )
    _admin(location, lambda admin: admin.run_gc_once(options))


def read_manifest(location: Location, manifest_id: int | None = None) -> Any:
    """The newest manifest, or one by id, as the client decodes it (a `VersionedManifest`)."""
    return _admin(location, lambda admin: admin.read_manifest(manifest_id))


def clone_database(source: Location, path: str, *, keys: tuple[bytes | None, bytes | None] | None = None) -> None:
    """Make a clone of a database, or of its rows with keys in [start, end), at another path of the object store."""
    union_databases([(source, keys)], path)


def union_databases(sources: Sequence[tuple[Location, tuple[bytes | None, bytes | None] | None]], path: str) -> None:
    """Join databases, each whole or its rows with keys in [start, end), at another path of the object store."""
    specs = [
        uniffi.CloneSourceSpec(
            path=source.path,
            checkpoint=None,
            projection_range=None
            if keys is None
            else uniffi.KeyRange(start=keys[0], start_inclusive=True, end=keys[1], end_inclusive=False),
        )
        for source, keys in sources
    ]

    async def build(admin: Any) -> None:
        builder = admin.create_clone_builder_from_source(specs[0])
        for spec in specs[1:]:
            builder.with_source(spec)
        await builder.build()

    run_once(build(uniffi.AdminBuilder(path, sources[0][0].object_store()).build()))


def delete_database(location: Location) -> None:
    """Delete a whole database, or finish that."""
    _admin(location, lambda admin: admin.delete_db(True))


def list_compactions(location: Location) -> list[Any]:
    """The jobs that `.compactions` names, as the client decodes them."""
    versioned = _admin(location, lambda admin: admin.read_compactions(None))
    return [] if versioned is None else list(versioned.recent_compactions)


def seq_for_time(location: Location, time_s: int, *, round_up: bool = False) -> int | None:
    """Look a time up in the client's sequence tracker."""
    seq: int | None = _admin(location, lambda admin: admin.get_sequence_for_timestamp(time_s, round_up))
    return seq


def time_for_seq(location: Location, seq: int, *, round_up: bool = False) -> int | None:
    """Look a sequence number up in the client's sequence tracker; seconds since the epoch."""
    time_s: int | None = _admin(location, lambda admin: admin.get_timestamp_for_sequence(seq, round_up))
    return time_s


def _admin(location: Location, call: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    builder = uniffi.AdminBuilder(location.path, location.object_store())
    return run_once(call(builder.build()))


def _full_compaction(location: Location, prefix: bytes = b"") -> Any:
    """Plan the merge of all of a tree into its lowest run; None when it is one run, or nothing."""
    manifest = read_manifest(location)
    trees = {b"": manifest, **{bytes(segment.prefix): segment for segment in manifest.segments}}
    tree = trees.get(prefix)
    if tree is None or (not tree.l0 and len(tree.compacted) <= 1):
        return None
    runs = sorted((run.id for run in tree.compacted), reverse=True)
    sources = [uniffi.SourceId.SST_VIEW(view.id) for view in tree.l0]  # newest first, as the manifest has them
    sources += [uniffi.SourceId.SORTED_RUN(run) for run in runs]
    unused = max((run.id for each in trees.values() for run in each.compacted), default=-1) + 1
    return uniffi.CompactionSpec.TIERED(prefix, sources, runs[-1] if runs else unused)


def _l0_compaction(location: Location) -> Any:
    manifest = read_manifest(location)
    if not manifest.l0:
        return None
    sources = [uniffi.SourceId.SST_VIEW(view.id) for view in manifest.l0]
    return uniffi.CompactionSpec.TIERED(b"", sources, max((run.id for run in manifest.compacted), default=-1) + 1)


def _submit(location: Location, spec: Any) -> Any:
    return _admin(location, lambda admin: admin.submit_compaction(spec))


def _outcome(location: Location, compaction_id: str, deadline: float) -> Any:
    done = (uniffi.CompactionStatus.COMPLETED, uniffi.CompactionStatus.FAILED)
    while time.monotonic() < deadline:
        compaction = _admin(location, lambda admin: admin.read_compaction(compaction_id, None))
        if compaction is not None and compaction.status in done:
            return compaction.status
        time.sleep(0.01)
    raise TimeoutError(f"Compaction {compaction_id} of {location} did not end.")
