"""The segments of a table as a write needs them: those of its newest version, and the declared extractor."""

from __future__ import annotations

from slatespark.errors import OptionError
from slatespark.format.manifest import Manifest
from slatespark.format.segments import KeySegments, SegmentExtractor


def plan_segments(url: str, manifest: Manifest | None, extractor: SegmentExtractor | None) -> KeySegments:
    """Return the segments of a table.

    Parameters
    ----------
    manifest : the newest version; None if there is no table yet
    extractor : the declared extractor; None without one

    Raises
    ------
    OptionError
        When the declaration is not that of the table.
    """
    if extractor is None:
        return KeySegments() if manifest is None else KeySegments.of(manifest)
    if manifest is not None:
        check_extractor(url, manifest, extractor)
    return KeySegments((), extractor)


def check_extractor(url: str, manifest: Manifest, extractor: SegmentExtractor) -> None:
    """Refuse a declared extractor that cannot be that of the table; raises `OptionError`.

    Its name has to agree, and it has to find the prefix of each segment.
    """
    name = manifest.segment_extractor_name
    if name is None:
        raise OptionError(f"segmentExtractor: {url} is not segmented.", todo="Leave it out, or create another table.")
    if name != extractor.name:
        raise OptionError(
            f"segmentExtractor is {extractor.name!r}, but {url} has {name!r}.", todo="Give the name of the table's own."
        )
    for segment in manifest.segments:
        if extractor.find_prefix(segment.prefix) != segment.prefix:
            raise OptionError(
                f"The segment extractor {extractor} does not make the prefix {segment.prefix.hex()} of {url}.",
                why="The table's own one cuts keys in another way.",
                todo="Give the segmentPrefixLength or segmentDelimiter that its clients use.",
            )
