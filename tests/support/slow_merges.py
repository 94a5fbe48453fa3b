"""The command `slatespark`, with merges that never end but can be stopped: `python -m tests.support.slow_merges`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from slatespark.cli.main import main
from slatespark.table.compaction import merge


def endless(pieces: Iterator[Any], check: Callable[[], None]) -> Iterator[Any]:
    while True:
        check()
        time.sleep(0.01)
        yield from ()


if __name__ == "__main__":
    merge._checked = endless
    main()
