"""Which segment a key belongs to: by the prefixes of a manifest, or by a declared extractor.

See docs/reference/format/segments.md. A database without segments is one segment whose prefix is empty.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from slatespark.errors import InvalidRequestError
from slatespark.format.manifest import Manifest


@dataclass(frozen=True, slots=True)
class SegmentExtractor:
    """A segment extractor as SlateDB clients are built with: it cuts a key by a length, or after a delimiter.

    Attributes
    ----------
    name : name as the manifest stores it
    prefix_length : length of each prefix, in bytes; None if a delimiter ends it
    delimiter : the first one in a key ends its prefix, and belongs to it; None if prefixes have a length
    """

    name: str
    prefix_length: int | None = None
    delimiter: bytes | None = None

    def find_prefix(self, key: bytes) -> bytes | None:
        """Return the prefix of a key; None if it is too short or has no delimiter."""
        if self.delimiter is None:
            length = self.prefix_length or 0
            return key[:length] if 0 < length <= len(key) else None
        at = key.find(self.delimiter)
        return None if at < 0 else key[: at + len(self.delimiter)]

    def __str__(self) -> str:
        """Name and rule, for messages."""
        if self.delimiter is None:
            return f"{self.name} (the first {self.prefix_length} bytes)"
        return f"{self.name} (up to the first {self.delimiter!r})"


@dataclass(frozen=True, slots=True)
class KeySegments:
    """The segments of a database, as far as a write needs them. Small and picklable.

    Attributes
    ----------
    prefixes : prefixes of the existing segments, ascending, none the beginning of another; one that is empty without
        segments
    extractor : what cuts the keys of new segments; None if it is not declared
    """

    prefixes: tuple[bytes, ...] = (b"",)
    extractor: SegmentExtractor | None = None

    @classmethod
    def of(cls, manifest: Manifest, extractor: SegmentExtractor | None = None) -> KeySegments:
        """Return the segments of a version."""
        if manifest.segment_extractor_name is None:
            return WHOLE
        return cls(tuple(segment.prefix for segment in manifest.segments), extractor)

    def joined(self, other: KeySegments) -> KeySegments:
        """Return the segments of both, such as those of a plan and of the version that it is committed on."""
        return KeySegments(tuple(sorted({*self.prefixes, *other.prefixes})), self.extractor or other.extractor)

    def find_prefix(self, key: bytes) -> bytes | None:
        """Return the prefix of the segment that a key belongs to; None if it belongs to none."""
        at = bisect_right(self.prefixes, key) - 1
        if at >= 0 and key.startswith(self.prefixes[at]):
            return self.prefixes[at]
        return None if self.extractor is None else self.extractor.find_prefix(key)

    def prefix_of(self, key: bytes) -> bytes:
        """Return the prefix of the segment that a key belongs to; raises `InvalidRequestError` if there is none."""
        prefix = self.find_prefix(key)
        if prefix is not None:
            return prefix
        if self.extractor is not None:
            raise InvalidRequestError(
                f"The segment extractor {self.extractor} finds no prefix in the key {key.hex()}.",
                why="Every key of a segmented database belongs to a segment.",
                todo="Write keys that have a prefix.",
            )
        raise InvalidRequestError(
            f"The key {key.hex()} needs a new segment, and how prefixes are cut is not known.",
            why="The database stores only the name of its segment extractor.",
            todo="Give segmentExtractor with segmentPrefixLength or segmentDelimiter, as options or table properties.",
        )


WHOLE = KeySegments()
