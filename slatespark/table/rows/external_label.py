"""The label of an external SST: the definition of the table that its rows fit, and the meaning of their times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.table.clock import CLOCK_END_MS
from slatespark.table.definition.definition_json import decode_definition, encode_definition
from slatespark.table.definition.table_definition import TableDefinition

LABEL_VERSION: Final = 1  # on disk, do not change


@dataclass(frozen=True, slots=True)
class ExternalLabel:
    """The label of an external SST.

    Attributes
    ----------
    definition : of the table that its rows were encoded for: keys, columns and formats
    stamp_ms : the time of making, which all rows have; None if they have times of the user's, which stay
    has_instants : whether rows expire at instants of the user's, which stay
    ttl_from_write : whether TTLs count from the clock when the file is ingested, whatever time the rows are given
    made_ms : the time of making, from which such TTLs count so far; None where that is `stamp_ms`, and in older files
    time_column : `timestampColumn`, as the rows spelled it; None without one, and in older files
    has_remainders : whether times of it have lost parts of a millisecond
    """

    definition: TableDefinition
    stamp_ms: int | None
    has_instants: bool
    ttl_from_write: bool = False
    made_ms: int | None = None
    time_column: str | None = None
    has_remainders: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the label as the file holds it."""
        return {
            "version": LABEL_VERSION,
            "definition": json.loads(encode_definition(self.definition)),
            "stampMs": self.stamp_ms,
            "instants": self.has_instants,
            **({"ttlFrom": "write"} if self.ttl_from_write else {}),
            **({} if self.made_ms is None else {"madeMs": self.made_ms}),
            **({} if self.time_column is None else {"timestampColumn": self.time_column}),
            **({"remainders": True} if self.has_remainders else {}),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> ExternalLabel:
        """Return the label that a file holds.

        Raises
        ------
        UnsupportedFormatError
            When a later release wrote it.
        CorruptDataError
            When it is none.
        """
        if content.get("version") != LABEL_VERSION:
            raise UnsupportedFormatError(
                f"The label has version {content.get('version')!r}, this release knows {LABEL_VERSION}.",
                todo="Upgrade slatespark.",
            )
        stamp_ms, has_instants = _instant(content, "stampMs"), content.get("instants")
        column = content.get("timestampColumn")
        if not isinstance(has_instants, bool) or not isinstance(column, str | None):
            raise CorruptDataError(f"The label says instants = {has_instants!r} and timestampColumn = {column!r}.")
        return cls(
            decode_definition(json.dumps(content.get("definition")).encode()),
            stamp_ms,
            has_instants,
            ttl_from_write=content.get("ttlFrom") == "write",
            made_ms=_instant(content, "madeMs"),
            time_column=column,
            has_remainders=content.get("remainders") is True,
        )


def _instant(content: Mapping[str, object], name: str) -> int | None:
    value = content.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < CLOCK_END_MS):
        return value
    raise CorruptDataError(f"The label says {name} = {value!r}.")
