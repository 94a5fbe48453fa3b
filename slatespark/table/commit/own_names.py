"""Names of the objects of a table: everything else at its place may be another table, or a file of somebody. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from slatespark.format.paths import (
    COLUMNS_DIR,
    COMPACTED_DIR,
    COMPACTIONS_DIR,
    GC_DIR,
    MANIFEST_DIR,
    WAL_DIR,
    copy_id,
    is_object,
    numbered,
)
from slatespark.table.definition.versions import DEFINITION_DIR, DEFINITION_EXTENSION
from slatespark.table.records.claims import CLAIMS_DIR
from slatespark.table.records.commit_record import BATCHES_DIR, COMMITS_DIR
from slatespark.table.records.filtered_jobs import FILTERED_DIR
from slatespark.table.records.handed_loads import HANDED_LOADS_DIR
from slatespark.table.records.idempotent_writes import TXN_DIR
from slatespark.table.records.identity import IDENTITY_PATH
from slatespark.table.records.json_objects import JSON_SUFFIX, ROOT, WRITE_ID, WRITE_ID_CHARS
from slatespark.table.records.leases import LEASES_DIR
from slatespark.table.records.streams import STREAMS_DIR


def is_own(path: str) -> bool:
    """Tell whether an object of a table, in SlateDB's folders or below `slatespark/`, has this name."""
    is_name = _RECORDS.get(_folder_of(path))
    return is_object(path) if is_name is None else is_name(path)


def is_in_own_folder(path: str) -> bool:
    """Tell whether an object lies in a folder of a table, not in one below that somebody else made."""
    return _folder_of(path) in _FOLDERS


def _folder_of(path: str) -> str:
    folder = path[: path.rfind("/") + 1]
    is_of_application = folder.startswith(TXN_DIR) and folder.count("/") == TXN_DIR.count("/") + 1
    return _ANY_APPLICATION if is_of_application else folder


def _is_json(path: str) -> bool:
    return path.endswith(JSON_SUFFIX)


def _is_lease(name: str) -> bool:
    """Tell whether this is the name of a lease, or of the mark of a task or a probe."""
    write_id, rest = name[:WRITE_ID_CHARS], name[WRITE_ID_CHARS:]
    return WRITE_ID.fullmatch(write_id) is not None and (rest == JSON_SUFFIX or rest.startswith("-"))


_ANY_APPLICATION: Final = f"{TXN_DIR}*/"  # no name of an application contains an asterisk

_RECORDS: Final[Mapping[str, Callable[[str], bool]]] = {
    ROOT: lambda path: path == IDENTITY_PATH,
    BATCHES_DIR: _is_json,
    CLAIMS_DIR: _is_json,
    COLUMNS_DIR: lambda path: copy_id(path) is not None,
    COMMITS_DIR: _is_json,
    DEFINITION_DIR: lambda path: numbered(path, DEFINITION_EXTENSION) is not None,
    FILTERED_DIR: _is_json,
    HANDED_LOADS_DIR: _is_json,
    LEASES_DIR: lambda path: _is_lease(path.removeprefix(LEASES_DIR)),
    STREAMS_DIR: _is_json,
    _ANY_APPLICATION: _is_json,
}
_FOLDERS: Final = {"", MANIFEST_DIR, WAL_DIR, COMPACTED_DIR, COMPACTIONS_DIR, GC_DIR, *_RECORDS}
