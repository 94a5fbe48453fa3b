"""A definition as JSON: the content of `slatespark/table/<id>.json`. Pure.

Layout (do not change; other clients read it, docs/reference/table-metadata.md)::

    formatVersion   1
    createdBy       write id of the job that created the table
    keyFormat       tuple | utf8 | raw
    keyColumns      names, in the order of the key; none for a raw table
    valueFormat     avro | json | utf8 | raw
    schema          Spark's StructType JSON; null for a raw table
    writerSchemas   fingerprint in 16 hexadecimal digits -> Avro record schema
    properties      name -> text
    droppedColumns  names that must not come back
    fullHistoryTsLow, lostThrough, reapedThrough    ms since the epoch, or null
    earlierBounds   the first two for versions up to `through`, in its order; absent in early releases
    checksum        as of a commit record; absent in early releases
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from slatespark.encoding.row_codec import KEY_FORMATS, VALUE_FORMATS
from slatespark.encoding.schema import schema_of_spark_json, spark_json
from slatespark.errors import CorruptDataError, OptionError, SchemaError, UnsupportedFormatError
from slatespark.options.properties import parse_property
from slatespark.table.definition.plan import check_formats
from slatespark.table.definition.table_definition import EarlierBounds, TableDefinition
from slatespark.table.records.json_objects import matches_checksum, with_checksum

FORMAT_VERSION: Final = 1

_FINGERPRINT_DIGITS: Final = 16
_INSTANTS: Final = {
    "fullHistoryTsLow": "full_history_ts_low_ms",
    "lostThrough": "lost_through_ms",
    "reapedThrough": "reaped_through_ms",
}
_BOUNDS: Final = {name: _INSTANTS[name] for name in ("fullHistoryTsLow", "lostThrough")}


def encode_definition(definition: TableDefinition) -> bytes:
    """Return a definition as JSON, indented for human readers."""
    content = {
        "formatVersion": FORMAT_VERSION,
        "createdBy": definition.created_by,
        "keyFormat": definition.key_format,
        "keyColumns": list(definition.key_columns),
        "valueFormat": definition.value_format,
        "schema": None if definition.schema is None else spark_json(definition.schema),
        "writerSchemas": {f"{number:016x}": schema for number, schema in sorted(definition.writer_schemas.items())},
        "properties": dict(sorted(definition.properties.items())),
        "droppedColumns": list(definition.dropped_columns),
        **{key: getattr(definition, name) for key, name in _INSTANTS.items()},
        "earlierBounds": [
            {"through": earlier.through, **{key: getattr(earlier, name) for key, name in _BOUNDS.items()}}
            for earlier in definition.earlier_bounds
        ],
    }
    return json.dumps(with_checksum(content), indent=1, ensure_ascii=False).encode()


def decode_definition(data: bytes) -> TableDefinition:
    """Return the definition that the bytes describe.

    Raises
    ------
    UnsupportedFormatError
        When a later release wrote them.
    CorruptDataError
        When this release would not write them.
    """
    try:
        content = json.loads(data)
        json.dumps(content, ensure_ascii=False).encode()  # refuses lone surrogates, which could not be written again
    except (ValueError, RecursionError) as exc:
        raise _corrupt(f"it is not JSON: {exc}") from exc
    _check(isinstance(content, dict), "it is not a JSON object")
    _check_version(content.get("formatVersion"))
    _check(matches_checksum(content), "it does not match its checksum")
    try:
        arguments = _arguments(content)
    except KeyError as exc:
        raise _corrupt(f"it lacks {exc}") from exc
    _check_keys(arguments)
    definition = TableDefinition(**arguments)
    if definition.is_typed:
        try:
            check_formats(definition)
        except SchemaError as exc:
            raise _corrupt(f"its columns do not fit its formats: {exc}") from exc
    return definition


def _check_version(version: object) -> None:
    _check(isinstance(version, int) and not isinstance(version, bool) and version > 0, "it has no formatVersion")
    if version != FORMAT_VERSION:
        raise UnsupportedFormatError(
            f"The table's definition has format version {version}; this release reads version {FORMAT_VERSION}.",
            todo="Upgrade slatespark.",
        )


def _arguments(content: Mapping[str, Any]) -> dict[str, Any]:
    created_by, key_format, value_format = content["createdBy"], content["keyFormat"], content["valueFormat"]
    _check(isinstance(created_by, str), "createdBy is not text")
    _check(key_format in KEY_FORMATS, f"keyFormat is {key_format!r}")
    _check(value_format in VALUE_FORMATS, f"valueFormat is {value_format!r}")
    return {
        "created_by": created_by,
        "key_format": key_format,
        "key_columns": _names(content, "keyColumns"),
        "value_format": value_format,
        "schema": None if content["schema"] is None else _schema(content["schema"]),
        "writer_schemas": _writer_schemas(content["writerSchemas"]),
        "properties": _properties(content["properties"]),
        "dropped_columns": _names(content, "droppedColumns"),
        **{name: _instant(content, key) for key, name in _INSTANTS.items()},
        "earlier_bounds": _earlier_bounds(content.get("earlierBounds", [])),
    }


def _names(content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    names = content[key]
    _check(
        isinstance(names, list) and all(isinstance(name, str) and name for name in names),
        f"{key} is not a list of names",
    )
    _check(len({name.lower() for name in names}) == len(names), f"{key} has a name twice")
    return tuple(names)


def _schema(content: Any) -> Any:
    try:
        return schema_of_spark_json(content)
    except SchemaError as exc:
        raise _corrupt(f"its schema cannot be read: {exc}") from exc


def _writer_schemas(content: Any) -> dict[int, dict[str, Any]]:
    _check(isinstance(content, dict), "writerSchemas is not an object")
    schemas = {}
    for text, schema in content.items():
        number = _fingerprint_number(text)
        _check(isinstance(schema, dict) and schema.get("type") == "record", f"writer schema {text} is not a record")
        _check(_fingerprint_of(schema) == number, f"writer schema {text} has another fingerprint")
        schemas[number] = schema
    return schemas


def _fingerprint_number(text: str) -> int:
    try:
        number = int(text, 16)
    except ValueError:
        number = -1
    _check(f"{number:0{_FINGERPRINT_DIGITS}x}" == text, f"{text!r} is not a fingerprint")
    return number


def _fingerprint_of(schema: dict[str, Any]) -> int | None:
    """Return the fingerprint of an untrusted schema; None if it is not an Avro schema."""
    from slatespark.encoding.avro_schema import fingerprint

    try:
        return fingerprint(schema)
    except Exception:  # the Avro library raises many types
        return None


def _properties(content: Any) -> dict[str, str]:
    """Return the properties, including unknown ones, which a later release may have set."""
    _check(isinstance(content, dict), "properties is not an object")
    for name, text in content.items():
        _check(isinstance(text, str), f"property {name} is not text")
        try:
            parse_property(name, text)
        except OptionError as exc:
            raise _corrupt(f"property {exc}") from exc
    return dict(content)


def _instant(content: Mapping[str, Any], key: str) -> int | None:
    value = content[key]
    fits = isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    _check(value is None or fits, f"{key} is {value!r}")
    return value if fits else None


def _earlier_bounds(content: Any) -> tuple[EarlierBounds, ...]:
    _check(isinstance(content, list) and all(isinstance(each, dict) for each in content), "earlierBounds is not a list")
    found: list[EarlierBounds] = []
    for each in content:
        through = each["through"]
        is_id = isinstance(through, int) and not isinstance(through, bool) and 0 < through < 2**64
        _check(is_id, "through is not an id")
        _check(not found or found[-1].through < through, "earlierBounds are out of order")
        found.append(EarlierBounds(through, **{name: _instant(each, key) for key, name in _BOUNDS.items()}))
    return tuple(found)


def _check_keys(arguments: Mapping[str, Any]) -> None:
    keys, schema = arguments["key_columns"], arguments["schema"]
    _check(bool(keys) == (schema is not None), "it has key columns without a schema, or a schema without key columns")
    if schema is None:
        _check((arguments["key_format"], arguments["value_format"]) == ("raw", "raw"), "a raw table has raw rows")
        return
    missing = [name for name in keys if name not in schema.names]
    _check(not missing, f"key column {missing[:1]} is not a column")
    dropped = {name.lower() for name in arguments["dropped_columns"]}
    _check(not dropped & {name.lower() for name in schema.names}, "a dropped column is still in the schema")


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise _corrupt(what)


def _corrupt(what: str) -> CorruptDataError:
    return CorruptDataError(
        f"the table's definition is damaged: {what}.", todo="Restore this object, or take it from a clone of the table."
    )
