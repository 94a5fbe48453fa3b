"""The form of a log line: the place, what happened, and facts as `name=value`; `table/` and `storage/` write them.

Every module logs under its own name, below `slatespark`. A line holds no row, no key and no option of a storage
backend. What programs want to read is in the record too: `event`, `place` and `facts`.
"""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

Fact: TypeAlias = int | str | bool | None

LEVEL_VARIABLE: Final = "SLATESPARK_LOG"
ROOT: Final = "slatespark"

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


def log_event(logger: logging.Logger, event: str, place: str, *, level: int = logging.INFO, **facts: Fact) -> None:
    """Log that something happened.

    Parameters
    ----------
    event : one word, such as `commit`
    place : URL of the table or object
    facts : numbers and short words; those that are None are left out

    `log_event(_log, "commit", stores.url, version=7, operation="write")` writes the line
    `file:///data/orders: commit version=7 operation=write`.
    """
    if not logger.isEnabledFor(level):
        return
    known = {name: fact for name, fact in facts.items() if fact is not None}
    text = " ".join([event, *(f"{name}={fact}" for name, fact in known.items())])
    logger.log(level, "%s: %s", place, text, extra={"event": event, "place": place, "facts": known})


def log_to_stderr(level: str) -> None:
    """Write what slatespark logs from a level on to standard error: for processes in which nobody else sets it up.

    Spark's Python processes are such: `SLATESPARK_LOG=INFO` in their environment calls this. If there is no such level,
    warnings are written, of which this is the first: no process fails for its log.
    """
    number = logging.getLevelNamesMapping().get(level.strip().upper())
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_FORMAT))
    logger = logging.getLogger(ROOT)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if number is None else number)
    logger.propagate = False  # a root logger with a handler would print each line twice
    if number is None:
        logger.warning("%s: %r is not a level. Choose DEBUG, INFO, WARNING or ERROR.", LEVEL_VARIABLE, level)
