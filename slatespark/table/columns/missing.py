"""Copies for SSTs that exist already: which lack one, and adding it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from slatespark.errors import CorruptDataError, SnapshotExpiredError, UnsupportedFormatError
from slatespark.format.paths import copy_path
from slatespark.format.properties import SstProperties
from slatespark.format.ulid import Ulid
from slatespark.storage import ObjectMeta, run_concurrently
from slatespark.table.columns.read import is_current_copy
from slatespark.table.columns.write import CopyOutcome, CopyRule, write_copy
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.read.copies.stored import fetch_footer, list_copies
from slatespark.table.read.planning.plan import SstFile
from slatespark.table.stores import TableStores

GONE = "a commit replaced it meanwhile"


def find_missing(stores: TableStores, files: Iterable[SstFile], rule: CopyRule) -> list[SstFile]:
    """Return the files without a sound copy with today's columns."""
    copies, wanted = list_copies(stores.main), list(files)
    checks = [partial(_is_fine, stores, file, copies.get(file.id), rule) for file in wanted]
    are_fine = run_concurrently(checks, is_remote=stores.main.is_remote)
    return [file for file, is_fine in zip(wanted, are_fine, strict=True) if not is_fine]


def _is_fine(stores: TableStores, file: SstFile, meta: ObjectMeta | None, rule: CopyRule) -> bool:
    if meta is None:
        return False
    try:
        return is_current_copy(fetch_footer(stores.main, meta), file, rule)
    except (CorruptDataError, SnapshotExpiredError):
        return False
    except UnsupportedFormatError:  # a later release can read it
        return True


@dataclass(frozen=True, slots=True)
class AddCopy:
    """Adds the copy of an SST, in any process.

    Attributes
    ----------
    known : properties of files
    """

    stores: TableStores
    rule: CopyRule
    known: Mapping[Ulid, SstProperties] = field(default_factory=dict)

    def __call__(self, file: SstFile) -> CopyOutcome:
        """Write the copy of a file; if the newest version no longer shows the file, the copy is removed again.

        So no copy appears after an erasure has looked for rows: one put before is found there, and one put later finds
        its file gone here.
        """
        try:
            outcome = write_copy(self.stores, file, self.rule, self.known.get(file.id))
        except SnapshotExpiredError:
            return CopyOutcome(str(file.id), refused=GONE)
        if outcome.refused is None and file.id not in fetch_latest_manifest(self.stores)[1].ssts:
            self.stores.main.delete(copy_path(file.id))
            return CopyOutcome(str(file.id), refused=GONE)
        return outcome
