"""Properties that a table keeps in its definition: names, values, and text form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slatespark.errors import OptionError
from slatespark.options.values import (
    Parser,
    bytes_text,
    parse_bytes_or_text,
    parse_choice,
    parse_columnar,
    parse_count,
    parse_duration_or_none,
    parse_flag,
    parse_lasting_duration,
    parse_text,
    parse_ttl_or_none,
    refuse_misspelt,
    unknown_option,
    with_own_spelling,
)
from slatespark.texts import is_encodable

MAX_PREFIX_BYTES: Final = 65535  # of a key
BUILT_IN_OPERATORS: Final = ("concat", "sum", "max", "min")

TABLE_PROPERTIES: Final[Mapping[str, Parser]] = {
    "autoCompact": parse_flag,
    "clock": parse_choice("system", "custom"),
    "columnar": parse_columnar,
    "defaultTtl": parse_duration_or_none,
    "history": parse_flag,
    "historyRetention": parse_duration_or_none,
    "holdHistory": parse_flag,
    "mergeOperator": parse_choice(*BUILT_IN_OPERATORS),
    "periodicCompactionInterval": parse_duration_or_none,
    "retention": parse_duration_or_none,
    "retentionFrom": parse_choice("row", "write"),
    "segmentDelimiter": parse_bytes_or_text,
    "segmentExtractor": parse_text,
    "segmentPrefixLength": parse_count(1, MAX_PREFIX_BYTES),
    "versionRetention": parse_duration_or_none,
}

# Stricter than what stored definitions are read with.
_PARSERS_OF_INPUT: Final[Mapping[str, Parser]] = {
    "defaultTtl": parse_ttl_or_none,
    "historyRetention": parse_lasting_duration,
    "retention": parse_lasting_duration,
    "versionRetention": parse_lasting_duration,
}

FIXED_PROPERTIES: Final = {
    "history": "false",
    "clock": "system",
    "retentionFrom": "row",
}  # they cannot be changed; the values of a table without them

DEFAULTS: Final = {
    **FIXED_PROPERTIES,
    "autoCompact": "true",
    "columnar": "false",
    "defaultTtl": "none",
    "historyRetention": "none",
    "holdHistory": "false",
    "periodicCompactionInterval": "none",
    "retention": "none",
}  # the values of a table without them

SEGMENT_PROPERTIES: Final = ("segmentExtractor", "segmentPrefixLength", "segmentDelimiter")

_OF_HISTORY: Final = ("holdHistory", "historyRetention", "retentionFrom")  # of history tables alone


def parse_property(name: str, value: object) -> Any:
    """Return the typed value of a table property; the value unchanged if the name is unknown."""
    parse = TABLE_PROPERTIES.get(name)
    return value if parse is None else parse(value, name)


def property_text(value: object, name: str) -> str:
    """Return a property as text for a definition; raises `OptionError` for an invalid value."""
    parsed = parse_property(name, value)
    if (parse_given := _PARSERS_OF_INPUT.get(name)) is not None:
        parse_given(value, name)
    if isinstance(parsed, bytes):
        return bytes_text(parsed)
    if isinstance(value, str):
        if not is_encodable(value):
            raise OptionError(f"{name}: {value!r} is not valid Unicode.", todo="Choose another text.")
        return value.strip()
    if isinstance(parsed, bool):
        return str(parsed).lower()
    return "none" if parsed is None else str(parsed)


def parse_properties(given: Mapping[str, Any]) -> dict[str, str]:
    """Return table properties as text under their canonical names; raises `OptionError` for one unknown or repeated."""
    properties = {}
    for name, value in with_own_spelling(given, [*TABLE_PROPERTIES]).items():
        if name not in TABLE_PROPERTIES:
            raise unknown_option(name, list(TABLE_PROPERTIES))
        properties[name] = property_text(value, name)
    return properties


def require_consistent_properties(properties: Mapping[str, str]) -> None:
    """Raise `OptionError` if the properties of a table, as text, contradict each other."""
    has_history = parse_property("history", properties.get("history", "false"))
    for name in _OF_HISTORY:
        without = DEFAULTS[name]
        if not has_history and parse_property(name, properties.get(name, without)) != parse_property(name, without):
            raise OptionError(
                f"{name} is for history tables.", todo="Leave it out, or create a table with history=true."
            )
    starts = parse_property("retentionFrom", properties.get("retentionFrom", "row"))
    if starts == "write" and parse_property("clock", properties.get("clock", "system")) == "custom":
        raise OptionError(
            "retentionFrom=write and clock=custom are both given.",
            why="No clock tells the time of a write there.",
            todo="Give one of them.",
        )
    if has_history and parse_property("columnar", properties.get("columnar", "false")) != "false":
        raise OptionError(
            "columnar is not for history tables.",
            why="A columnar copy holds one version of each row.",
            todo="Leave it out.",
        )
    _require_consistent_segments(properties)


def _require_consistent_segments(properties: Mapping[str, str]) -> None:
    given = [name for name in SEGMENT_PROPERTIES if name in properties]
    if not given:
        return
    if len(given) != 2 or given[0] != "segmentExtractor":
        raise OptionError(
            f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} given.",
            todo="Give segmentExtractor, the name that SlateDB clients use, with segmentPrefixLength or "
            "segmentDelimiter.",
        )
    refuse_hold(properties)


def refuse_hold(properties: Mapping[str, str]) -> None:
    """Raise `OptionError` if the properties of a segmented table, as text, ask for a hold."""
    if parse_property("holdHistory", properties.get("holdHistory", "false")):
        raise OptionError(
            "holdHistory: a segmented table cannot be held.",
            why="A hold would take a slot of the client's compactor for each segment.",
            todo="Leave it out; keep a checkpoint of what must stay readable.",
        )


def split_creation(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """Return the formats, the table properties, and the remaining arguments of a creation; None means not given.

    Raises
    ------
    OptionError
        When a property has an invalid value, one is given twice, or a remaining name is similar to a known one.
    """
    formats = ("keyFormat", "valueFormat")
    own = [*TABLE_PROPERTIES, *formats]
    given = with_own_spelling({key: value for key, value in given.items() if value is not None}, own)
    properties = parse_properties({name: value for name, value in given.items() if name in TABLE_PROPERTIES})
    chosen = {name: given[name] for name in formats if name in given}
    rest = {name: value for name, value in given.items() if name not in own}
    refuse_misspelt(rest, [*own, "keyColumns", "schema"])
    return chosen, properties, rest
