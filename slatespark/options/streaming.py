"""Options of a stream into a table: those of a write, but for those that make no sense for many batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from slatespark.errors import OptionError
from slatespark.options.values import normalize_name, parse_app_id
from slatespark.options.writing import WriteOptions

_OF_SPARK: Final = frozenset(map(normalize_name, ("checkpointLocation", "queryName")))  # it hands them on
_NAME: Final = "txnAppId"
_REFUSED: Final = {
    "txnVersion": "The number of each batch takes its place.",
    "ifExists": "Every batch but the first finds the table.",
    "ifLastSeq": "Every batch raises it.",
}


@dataclass(frozen=True, slots=True)
class StreamWriteOptions:
    """Options of the sink of a stream.

    Attributes
    ----------
    write : the options of each batch, without its name and number
    name : the name of the stream, `txnAppId`; None for that of its query
    """

    write: WriteOptions
    name: str | None

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> StreamWriteOptions:
        """Return the options of a mapping; raises `OptionError`."""
        kept, name = {}, None
        refused = {normalize_name(key): (key, why) for key, why in _REFUSED.items()}
        for key, value in given.items():
            plain = normalize_name(key)
            if plain in refused:
                option, why = refused[plain]
                raise OptionError(f"{option}: a stream does not take it.", why=why, todo="Omit it.")
            if plain == normalize_name(_NAME):
                name = None if value is None else parse_app_id(value, _NAME)
            elif plain not in _OF_SPARK:
                kept[key] = value
        return cls(WriteOptions.parse(kept), name)
