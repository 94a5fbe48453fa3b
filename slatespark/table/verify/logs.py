"""The numbered objects beside the manifests: compactions files, and the boundaries up to which numbers are dead."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Literal, TypeVar

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.format.compactions import Compactions, decode_compactions
from slatespark.format.manifest import Manifest
from slatespark.format.paths import (
    COMPACTIONS_DIR,
    COMPACTIONS_EXTENSION,
    boundary_path,
    compactions_path,
    decode_boundary,
)
from slatespark.table.log.manifests import fetch_latest_manifest
from slatespark.table.log.numbered_log import by_number
from slatespark.table.stores import TableStores
from slatespark.table.verify.findings import Findings
from slatespark.table.verify.plan import find_compaction_faults

Content = TypeVar("Content")


def fetch_boundary(stores: TableStores, name: Literal["manifest", "compactions"], findings: Findings) -> int:
    """Return the number up to which objects are dead; 0 if there is no boundary, or an unreadable one."""
    with contextlib.suppress(FileNotFoundError):
        return fetch_noted(stores, boundary_path(name), "boundary", decode_boundary, findings) or 0
    return 0


def check_compactions(stores: TableStores, newest: Manifest | None, findings: Findings, *, all_versions: bool) -> None:
    """Check the newest compactions file, or all; only the newest must agree with the manifest."""
    numbers = sorted(by_number(stores.main.list(COMPACTIONS_DIR), COMPACTIONS_EXTENSION))
    dead = fetch_boundary(stores, "compactions", findings)
    alive = [number for number in numbers if number > dead]
    for number in alive if all_versions else alive[-1:]:
        path, compactions = compactions_path(number), None
        with contextlib.suppress(FileNotFoundError):  # it was garbage-collected meanwhile
            compactions = fetch_noted(stores, path, "compactions", decode_compactions, findings)
        if compactions is not None and newest is not None and number == alive[-1]:
            for fact in _lasting_faults(stores, compactions, newest):
                findings.damage(f"{stores.url}/{path}", "compactions", fact)


def _lasting_faults(stores: TableStores, compactions: Compactions, newest: Manifest) -> list[str]:
    """Return the faults of the compactor's state that no newer manifest explains; raises `UnavailableError`."""
    faults = [*find_compaction_faults(compactions, newest)]
    if faults:  # whoever claims an epoch publishes the manifest first, so one that is read now has it
        with contextlib.suppress(CorruptDataError, UnsupportedFormatError):
            faults = [*find_compaction_faults(compactions, fetch_latest_manifest(stores).value)]
    return faults


def fetch_noted(
    stores: TableStores, path: str, section: str, decode: Callable[[bytes], Content], findings: Findings
) -> Content | None:
    """Return the content of an object; None if it cannot be decoded, which is noted.

    Raises
    ------
    FileNotFoundError
        When it does not exist: most objects may be garbage-collected meanwhile.
    """
    data = bytes(stores.main.get(path))
    findings.count(len(data))
    try:
        return decode(data)
    except (CorruptDataError, UnsupportedFormatError) as exc:
        findings.error(f"{stores.url}/{path}", section, exc, 0)
        return None
