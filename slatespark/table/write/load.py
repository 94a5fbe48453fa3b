"""A load of Arrow batches, as it travels from the process that plans it to those of its tasks and its commit.

Each of these imports what its step needs: with Spark they are new processes, and importing takes most of a small write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slatespark.options import WriteOptions
from slatespark.options.values import MergeOperator
from slatespark.table.commit.job import WriteJob
from slatespark.table.rows.encoder import RowEncoder

TOMBSTONE_TASK: Final = 0  # of a load that keeps the past: below the rows, which may have the same keys


@dataclass(frozen=True, slots=True)
class Load:
    """A write that was checked against its table; small and picklable.

    Attributes
    ----------
    bytes_per_s : upload limit of all tasks together; None for no limit
    """

    job: WriteJob
    encoder: RowEncoder
    options: WriteOptions
    bytes_per_s: int | None = None

    @property
    def keeps_past(self) -> bool:
        """Whether it replaces an interval of a history table: each old row gets a tombstone, and no view is cut."""
        definition = self.job.definition
        return self.encoder.bounds is not None and definition.has_history

    @property
    def is_merged(self) -> bool:
        """Whether its rows are merged with others before their commit: those of a live client."""
        return self.options.cooperates and self.encoder.sequence_column is None and self.bytes_per_s is None

    @property
    def merge_operator(self) -> MergeOperator | None:
        """How operands of one key fold within a task: by the options, else by the table property."""
        return self.options.merge_operator or self.job.definition.merge_operator
