"""Segment extractors as applications give them to the real client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slatedb import uniffi


@dataclass(frozen=True)
class FixedPrefix(uniffi.PrefixExtractor):  # type: ignore[misc]  # the binding has no types
    """Keys are cut after so many bytes."""

    length: int
    called: str = "fixed"

    def name(self) -> str:
        """The name that manifests store."""
        return self.called

    def prefix_len(self, target: uniffi.PrefixTarget) -> int | None:
        """The length of a prefix."""
        return self.length if len(_bytes_of(target)) >= self.length else None

    @property
    def options(self) -> dict[str, Any]:
        """The same as options of ours."""
        return {"segmentExtractor": self.called, "segmentPrefixLength": self.length}


@dataclass(frozen=True)
class UpTo(uniffi.PrefixExtractor):  # type: ignore[misc]  # the binding has no types
    """Keys are cut behind the first delimiter."""

    delimiter: bytes
    called: str = "up_to"

    def name(self) -> str:
        """The name that manifests store."""
        return self.called

    def prefix_len(self, target: uniffi.PrefixTarget) -> int | None:
        """The length of a prefix."""
        head, found, _ = _bytes_of(target).partition(self.delimiter)
        return len(head) + len(found) if found else None

    @property
    def options(self) -> dict[str, Any]:
        """The same as options of ours."""
        return {"segmentExtractor": self.called, "segmentDelimiter": self.delimiter}


def _bytes_of(target: uniffi.PrefixTarget) -> bytes:
    return bytes(target.key if target.is_POINT() else target.prefix)
