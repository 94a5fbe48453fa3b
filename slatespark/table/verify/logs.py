"""The numbered objects beside the manifests: compactions files, and the boundaries up to which numbers are dead."""

from __future__ import annotations

import contextlib
from typing import Literal

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.compactions import Compactions, decode_compactions
from slatespark.format.manifest import Manifest
from slatespark.format.paths import (
    COMPACTIONS_DIR,
    COMPACTIONS_EXTENSION,
    boundary_path,
    compactions_path,
    decode_boundary,
    numbered,
)
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.stores import TableStores
from slatespark.table.verify.findings import Findings
from slatespark.table.verify.plan import find_compaction_faults


def fetch_boundary(stores: TableStores, name: Literal["manifest", "compactions"], findings: Findings) -> int:
    """Return the number up to which objects are dead; 0 if there is no boundary, or an unreadable one."""
    path = boundary_path(name)
    try:
        data = bytes(stores.main.get(path))
    except FileNotFoundError:
        return 0
    findings.count(len(data))
    try:
        return decode_boundary(data)
    except CorruptDataError as exc:
        findings.error(f"{stores.url}/{path}", "boundary", exc, 0)
        return 0


def check_compactions(stores: TableStores, newest: Manifest | None, findings: Findings, *, all_versions: bool) -> None:
    """Check the newest compactions file, or all; only the newest must agree with the manifest."""
    listed = stores.main.list(COMPACTIONS_DIR)
    numbers = sorted(number for meta in listed if (number := numbered(meta.path, COMPACTIONS_EXTENSION)) is not None)
    dead = fetch_boundary(stores, "compactions", findings)
    alive = [number for number in numbers if number > dead]
    for number in alive if all_versions else alive[-1:]:
        compactions = _fetch(stores, number, findings)
        if compactions is not None and newest is not None and number == alive[-1]:
            for fact in _lasting_faults(stores, compactions, newest):
                findings.damage(f"{stores.url}/{compactions_path(number)}", "compactions", fact)


def _lasting_faults(stores: TableStores, compactions: Compactions, newest: Manifest) -> list[str]:
    """Return the faults of the compactor's state that no newer manifest explains; raises `UnavailableError`."""
    faults = [*find_compaction_faults(compactions, newest)]
    if faults:  # whoever claims an epoch publishes the manifest first, so one that is read now has it
        with contextlib.suppress(CorruptDataError, UnsupportedFormatError):
            faults = [*find_compaction_faults(compactions, fetch_latest_manifest(stores).value)]
    return faults


def _fetch(stores: TableStores, number: int, findings: Findings) -> Compactions | None:
    path = compactions_path(number)
    try:
        data = bytes(stores.main.get(path))
        findings.count(len(data))
        return decode_compactions(data)
    except FileNotFoundError:
        return None  # garbage-collected meanwhile
    except (CorruptDataError, UnsupportedFormatError) as exc:
        findings.error(f"{stores.url}/{path}", "compactions", exc, 0)
        return None
