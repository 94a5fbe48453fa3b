"""The options of deletes, updates and merges: the write options that apply to rows which the table selects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from slatespark.options import Call, WriteOptions


class _Change(NamedTuple):
    name: str
    arguments: tuple[str, ...]
    why: str


_CHANGES: Final = {
    Call.DELETE: _Change(
        "delete",
        ("condition", "keys", "progress"),
        "A delete writes tombstones to an existing table: options of new rows and of new tables have no effect.",
    ),
    Call.UPDATE: _Change(
        "update",
        ("condition", "set", "progress"),
        "An update writes rows of an existing table: options of new tables, of modes and of single rows have no "
        "effect.",
    ),
    Call.MERGE: _Change("merge", ("progress",), "The clauses of a merge say what happens to each row."),
}


def parse_change(call: Call, common: Mapping[str, Any], given: Mapping[str, Any]) -> WriteOptions:
    """Return the options of a change of rows that a condition, a key or a source selects.

    Parameters
    ----------
    call : `DELETE`, `UPDATE` or `MERGE`
    common : path and storage
    given : the further options of the call

    Raises
    ------
    OptionError
        When one is unknown, malformed, or would have no effect.
    """
    change = _CHANGES[call]
    options = WriteOptions.of_call(change.name, call, common, given, arguments=change.arguments, why=change.why)
    return replace(options, operation="delete") if call is Call.DELETE else options
