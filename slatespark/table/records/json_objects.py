"""JSON objects under `slatespark/`: encoding, checksums, numbered names, key bounds in hexadecimal.

The client and its garbage collector ignore the folder (docs/reference/format/garbage-collection.md).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.ranges import KeyRange
from slatespark.storage import ObjectMeta, ObjectStore
from slatespark.table.log.numbered_log import by_number

ROOT: Final = "slatespark/"
JSON_SUFFIX: Final = ".json"
WRITE_ID_CHARS: Final = 16
WRITE_ID: Final = re.compile(rf"[0-9a-f]{{{WRITE_ID_CHARS}}}")
CHECKSUM: Final = "checksum"  # of some records; commit records of old releases have none

# A record that older releases would misread carries a number above this one; none does so far, and none says 1.
_FORMAT: Final = "formatVersion"
_FORMAT_VERSION: Final = 1


def encode_json(content: Mapping[str, Any]) -> bytes:
    """Return JSON with sorted names and no spaces: equal contents give equal bytes."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def decode_json(path: str, data: bytes) -> dict[str, Any]:
    """Return a JSON object.

    Raises
    ------
    CorruptDataError
        When the bytes are none; the error names `path`.
    UnsupportedFormatError
        When a later release wrote it in a way of its own.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise CorruptDataError(f"record is not JSON: {exc}.", path=path) from exc
    if not isinstance(content, dict):
        raise CorruptDataError("record is not a JSON object.", path=path)
    version = content.get(_FORMAT, _FORMAT_VERSION)
    if version != _FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"{path}: record has format version {version}; this release reads version {_FORMAT_VERSION}.",
            todo="Upgrade slatespark.",
        )
    return content


def find_object(store: ObjectStore, path: str) -> bytes | None:
    """Return the content of an object; None if there is none, or none any more."""
    try:
        return bytes(store.get(path))
    except FileNotFoundError:
        return None


def find_json(store: ObjectStore, path: str) -> dict[str, Any] | None:
    """Return the JSON object at a path; None if there is none. Raises as `decode_json`."""
    data = find_object(store, path)
    return None if data is None else decode_json(path, data)


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a record with the CRC-32 of its encoded other fields."""
    rest = {name: value for name, value in content.items() if name != CHECKSUM}
    return {**rest, CHECKSUM: zlib.crc32(encode_json(rest))}


def matches_checksum(content: Mapping[str, Any]) -> bool:
    """Tell whether a record has the right checksum, or none, as those of old releases."""
    try:
        return CHECKSUM not in content or content == with_checksum(content)
    except RecursionError:  # it was barely shallow enough to decode
        return False


def find_checked(store: ObjectStore, path: str, what: str) -> dict[str, Any] | None:
    """Return a record that must have a checksum; None if it is gone. `what` names it in a `CorruptDataError`."""
    content = find_json(store, path)
    if content is not None and content != with_checksum(content):
        raise CorruptDataError(f"{what} does not match its checksum.", path=path)
    return content


def check_types(content: Mapping[str, Any], kinds: Mapping[str, type], what: str, path: str) -> None:
    """Raise `CorruptDataError` unless each of some fields has its type; `what` names the record."""
    for name, kind in kinds.items():
        if type(content.get(name)) is not kind:
            raise CorruptDataError(f"{what} has {name} = {content.get(name)!r}.", path=path)


def hex_bounds(keys: KeyRange) -> tuple[str, str | None]:
    """Return a range as JSON holds it: in commit records, claims, and the read sets of writes."""
    return keys.start.hex(), None if keys.end is None else keys.end.hex()


def range_of_hex(start: str, end: str | None) -> KeyRange:
    """Return the range that `hex_bounds` encoded."""
    return KeyRange(bytes.fromhex(start), None if end is None else bytes.fromhex(end))


def list_numbered(store: ObjectStore, folder: str, start_after: str = "") -> dict[int, ObjectMeta]:
    """Return the objects of a folder by the number in their name."""
    return by_number(store.list(folder, start_after), JSON_SUFFIX[1:])
