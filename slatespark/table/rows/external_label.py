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
    """

    definition: TableDefinition
    stamp_ms: int | None
    has_instants: bool
    ttl_from_write: bool = False

    def to_json(self) -> dict[str, object]:
        """Return the label as the file holds it."""
        return {
            "version": LABEL_VERSION,
            "definition": json.loads(encode_definition(self.definition)),
            "stampMs": self.stamp_ms,
            "instants": self.has_instants,
            **({"ttlFrom": "write"} if self.ttl_from_write else {}),
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
        stamp_ms, has_instants = content.get("stampMs"), content.get("instants")
        number = isinstance(stamp_ms, int) and not isinstance(stamp_ms, bool) and 0 <= stamp_ms < CLOCK_END_MS
        if not (number or stamp_ms is None) or not isinstance(has_instants, bool):
            raise CorruptDataError(f"The label says stampMs = {stamp_ms!r} and instants = {has_instants!r}.")
        definition = decode_definition(json.dumps(content.get("definition")).encode())
        stamp = stamp_ms if isinstance(stamp_ms, int) else None
        return cls(definition, stamp, has_instants, content.get("ttlFrom") == "write")
