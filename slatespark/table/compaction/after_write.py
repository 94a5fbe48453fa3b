"""The table property autoCompact: a write may be followed by a compaction of small runs or due files.

Each write adds a run, and each read merges all runs; files are due under `periodicCompactionInterval`. The compaction
is a commit of its own, bounded, and independent of the write: if it fails, the rows are still written.

Most writes are followed by none. So this module only decides whether to look for one; it imports nothing that compacts.
"""

from __future__ import annotations

import logging

from slatespark.errors import ConflictError
from slatespark.options import WriteOptions
from slatespark.table.clock import Clock
from slatespark.table.compaction.small_runs import may_be_many
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.table.definition.versions import resolve_definition, seen_definition
from slatespark.table.log.manifests import created_manifest
from slatespark.table.records.commit_record import CommitRecord
from slatespark.table.stores import TableStores

_log = logging.getLogger(__name__)


def compact_after_write(
    stores: TableStores,
    clock: Clock,
    record: CommitRecord | None,
    options: WriteOptions,
    definition: TableDefinition | None = None,
) -> None:
    """Merge the small runs of a table if a write has left too many, else rewrite its due files; never raises.

    A failure is logged, unless it was a conflict.

    Parameters
    ----------
    record : record of the write's commit; None if there was no commit
    definition : definition as the write found it; by default the newest that was seen, else it is read
    """
    if record is None:
        return
    try:
        _compact(stores, clock, record, options, definition)
    except ConflictError:
        return
    except Exception as exc:  # the rows are written; `.compactions` lists what was tried
        _log.warning("autoCompact of %s failed: %s", stores.url, exc)


def _compact(
    stores: TableStores, clock: Clock, record: CommitRecord, options: WriteOptions, found: TableDefinition | None
) -> None:
    found = found or seen_definition(stores)
    if found is not None and not _may_compact(found):
        return
    manifest = created_manifest(stores, record.manifest_id)
    if not manifest.run_ids():
        return
    definition = found or resolve_definition(stores, manifest)
    if not _may_compact(definition):
        return
    if may_be_many(manifest) or definition.periodic_compaction_ms is not None:
        from slatespark.table.compaction.auto import compact_automatically

        compact_automatically(stores, clock, record, options, manifest, definition)


def _may_compact(definition: TableDefinition) -> bool:
    return definition != NO_DEFINITION and definition.auto_compacts
