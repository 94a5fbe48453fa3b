"""Messages between driver and executors: small, picklable, and without credentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition, WriterCommitMessage

if TYPE_CHECKING:  # what a message holds is imported where it arrives
    from slatespark.table.read.plan import Split
    from slatespark.table.read.scan_settings import ScanSettings
    from slatespark.table.rows.sst_upload import NewFile


@dataclass
class SlatePartition(InputPartition):
    """One split of a read, with its snapshot."""

    split: Split
    settings: ScanSettings


@dataclass
class SlateCommitMessage(WriterCommitMessage):
    """The files that one task uploaded, in key order."""

    partition: int
    files: tuple[NewFile, ...]
