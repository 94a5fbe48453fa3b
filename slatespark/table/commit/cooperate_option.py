"""`ifClientActive=cooperate`, refused for the operations that do not take it."""

from __future__ import annotations

from typing import Final

from slatespark.errors import OptionError
from slatespark.options import WriteOptions

_OTHER_MODES: Final = "Set ifClientActive=fail or fence."


def refuse_cooperation(options: WriteOptions, operation: str, instead: str = "") -> None:
    """Refuse `ifClientActive=cooperate` for an operation that a client cannot commit; raises `OptionError`.

    Parameters
    ----------
    operation : the subject of the message
    instead : what a client could commit
    """
    if options.cooperates:
        raise cooperation_refused(operation, instead)


def cooperation_refused(operation: str, instead: str = "") -> OptionError:
    """Return the error of `refuse_cooperation`."""
    return OptionError(
        f"ifClientActive=cooperate: {operation} does not take it.",
        why="A live client only adds rows for others: it validates no reads, and cuts no files.",
        todo=f"{instead} Or: {_OTHER_MODES}" if instead else _OTHER_MODES,
    )
