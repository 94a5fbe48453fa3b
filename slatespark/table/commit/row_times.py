"""What a commit must know of the times of its rows: whether they differ by row, and whether it may move them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.options import WriteOptions


@dataclass(frozen=True, slots=True)
class RowTimes:
    """The times of the rows of a write.

    Attributes
    ----------
    per_row : rows have times of their own, as `timestampColumn` gives them; else all have the time of the commit
    fixed : no create_ts or expire_ts may move: the user gave one, and the others stay beside it; or they are those of
        rows that are there
    """

    per_row: bool = False
    fixed: bool = False

    @classmethod
    def of_options(cls, options: WriteOptions) -> RowTimes:
        """Return the times that the options of a write give its rows."""
        given = (options.timestamp_ms, options.timestamp_column, options.expire_at_column)
        return cls(
            per_row=options.timestamp_column is not None,
            fixed=any(option is not None for option in given),
        )

    def joined(self, other: RowTimes) -> RowTimes:
        """Return the times of rows of two kinds together."""
        return RowTimes(per_row=self.per_row or other.per_row, fixed=self.fixed or other.fixed)


GIVEN_TIMES: Final = RowTimes(per_row=True, fixed=True)
COMMIT_TIMES: Final = RowTimes()  # all rows have the time of the commit, which may move
