"""The state of the table that a statement changes, where a query of the statement reads that table too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slatespark.spark.slate_table.base import frames_of
from slatespark.table.stores import real_url

if TYPE_CHECKING:
    from slatespark.spark.frames.table_frames import TableFrames
    from slatespark.spark.slate_table import SlateTable
    from slatespark.table.commit.read_set import ReadSet


class OwnState:
    """What a statement depends on, if its query reads the newest state of the table that it changes.

    Another writer may change the table after the query has read it. An overwrite would lose these rows, and others
    would be of values that have changed.
    """

    def __init__(self, frames: TableFrames) -> None:
        self._frames = frames
        self._reads: ReadSet | None = None

    @property
    def reads(self) -> ReadSet | None:
        """All keys of the state before the query has read it; None if it does not read the table."""
        return self._reads

    def note(self, read: SlateTable) -> None:
        """Take the state if a table whose newest state is about to be read is the one that is changed."""
        if self._reads is None and _place(frames_of(read)) == _place(self._frames):
            self._reads = self._frames.read_set()

    def write_options(self) -> dict[str, Any]:
        """Return the options by which the write fails if somebody has changed the table since then."""
        return {} if self._reads is None else {"readSet": self._reads.to_text()}


def _place(frames: TableFrames) -> str:
    """Return where a table is, however its path is written."""
    return real_url(frames.stores().url)
