"""Messages between driver and executors: small, picklable, and without credentials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from pyspark.sql.datasource import InputPartition, WriterCommitMessage

from slatespark.errors import InternalError

if TYPE_CHECKING:  # what a message holds is imported where it arrives
    from slatespark.table.read.planning.plan import Split
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


Message = TypeVar("Message", bound=WriterCommitMessage)


def require_messages(kind: type[Message], messages: Sequence[WriterCommitMessage | None]) -> list[Message]:
    """Return the messages of all tasks. A commit without those of one would lose its rows: raises `InternalError`."""
    arrived = [message for message in messages if isinstance(message, kind)]
    if len(arrived) < len(messages):
        raise InternalError(f"{len(messages) - len(arrived)} of {len(messages)} tasks left no message for the commit.")
    return arrived
