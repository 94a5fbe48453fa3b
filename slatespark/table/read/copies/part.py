"""CopyPart: what a scan reads of one columnar copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from slatespark.format.columnar_copy import CopyFooter
from slatespark.format.copy_chunks import chunk_range, leaf_columns
from slatespark.ranges import ByteRange
from slatespark.storage import ObjectMeta
from slatespark.table.read.planning.plan import FileSlice


@dataclass(frozen=True, slots=True)
class CopyGroup:
    """A row group of a copy that may have rows to show.

    Attributes
    ----------
    number : number of the group in the copy
    first_row : number of its first row, in the copy and in the SST
    is_cut : whether some of its rows may lie outside the slice
    """

    number: int
    first_row: int
    is_cut: bool


@dataclass(frozen=True, slots=True)
class CopyPart:
    """A slice of a file that is read from the file's copy.

    Attributes
    ----------
    part : the slice
    meta, footer : metadata and footer of the copy
    groups : ascending; the others have no row to show
    names : columns of the copy that are read
    key_names : those that are read as well where keys are needed
    is_covered : whether newer rows may lie above
    with_keys : whether the keys of all rows are needed
    """

    part: FileSlice
    meta: ObjectMeta
    footer: CopyFooter
    groups: tuple[CopyGroup, ...]
    names: tuple[str, ...]
    key_names: tuple[str, ...]
    is_covered: bool
    with_keys: bool
    _leaves: dict[bool, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def needs_keys(self, group: CopyGroup) -> bool:
        """Tell whether the keys of a row group are needed."""
        return self.with_keys or group.is_cut

    def names_of(self, group: CopyGroup) -> tuple[str, ...]:
        """Return the columns of a row group that are read."""
        return (*self.names, *self.key_names) if self.needs_keys(group) else self.names

    def spans(self, group: CopyGroup) -> list[ByteRange]:
        """Return where the column chunks of a row group lie that are read."""
        metadata, with_keys = self.footer.metadata, self.needs_keys(group)
        if with_keys not in self._leaves:
            self._leaves[with_keys] = leaf_columns(metadata, self.names_of(group))
        return [chunk_range(metadata, group.number, leaf) for leaf in self._leaves[with_keys]]

    def fetched_together(self, window_bytes: int) -> Iterator[list[CopyGroup]]:
        """Yield consecutive row groups that a window holds, or one that is larger."""
        batch: list[CopyGroup] = []
        size = 0
        for group in self.groups:
            added = sum(map(len, self.spans(group)))
            if batch and size + added > window_bytes:
                yield batch
                batch, size = [], 0
            batch.append(group)
            size += added
        if batch:
            yield batch

    @property
    def stored_bytes(self) -> int:
        """Stored bytes that are read."""
        return sum(len(span) for group in self.groups for span in self.spans(group))
