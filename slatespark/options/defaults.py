"""Defaults of arguments that several calls, or a call and a command, share."""

from __future__ import annotations

from typing import Final

MIN_AGE: Final = "24h"  # of what a vacuum deletes

MIN_INTERVAL: Final = "1m"  # of a Reaper and an Upkeep
MAX_INTERVAL: Final = "1h"

POLL_INTERVAL: Final = "1s"  # of a CompactionWorker
HEARTBEAT_INTERVAL: Final = "3s"

MIN_COMPACTION_SOURCES: Final = 4  # here and below: those of the SlateDB client's scheduler
MAX_COMPACTION_SOURCES: Final = 8
INCLUDE_SIZE_THRESHOLD: Final = 4.0
