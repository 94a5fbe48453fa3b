"""Plans of a table's definition: for a new table, for the rows of a write, and after a race. Pure.

See docs/reference/table-metadata.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as kinds

from slatespark.encoding.collations import require_byte_order
from slatespark.encoding.column_types import all_nullable, canonical_schema
from slatespark.encoding.row_codec import BYTES_TYPES
from slatespark.encoding.schema import find_misread, find_name, merge_schemas
from slatespark.encoding.tuple_key import require_key_type
from slatespark.encoding.type_names import sql_type
from slatespark.errors import ConflictError, OptionError, SchemaError, TableExistsError
from slatespark.options import WriteOptions
from slatespark.options.properties import (
    FIXED_PROPERTIES,
    SEGMENT_PROPERTIES,
    parse_property,
    require_consistent_properties,
)
from slatespark.table.definition.columns import check_distinct, resolve_op_column
from slatespark.table.definition.table_definition import NO_DEFINITION, TableDefinition
from slatespark.texts import listed

# --- creation -------------------------------------------------------------------------------------------------------


def plan_creation(schema: pa.Schema | None, options: WriteOptions, properties: Mapping[str, str]) -> TableDefinition:
    """Return the definition of a new table.

    Parameters
    ----------
    schema : its columns, any Arrow types; None for a raw table
    options : `keyColumns` makes it a typed one, with `keyFormat` and `valueFormat`
    properties : properties as text, checked by `options.parse_properties`

    Raises
    ------
    SchemaError
        When a key column is missing, or a type cannot be stored.
    OptionError, UnsupportedFormatError
        When options contradict each other, or need a feature that this release lacks.
    """
    require_consistent_properties(properties)
    if options.key_columns is None:
        if formats := [name for name in (options.key_format, options.value_format) if name not in (None, "raw")]:
            raise OptionError(f"A table without key columns is raw, not {formats[0]}.", todo="Give keyColumns.")
        if schema is not None:
            raise OptionError("A schema is given, but no keyColumns.", todo="Give both, or neither for a raw table.")
        return TableDefinition(properties=properties)
    if schema is None:
        raise OptionError("keyColumns is given, but no schema.", todo="Give the columns of the table.")
    columns = canonical_schema(schema)
    keys = tuple(_resolve_key_column(columns, name) for name in options.key_columns)
    for name in keys:
        require_byte_order(schema.field(find_name(schema, name)))
    if len(set(keys)) < len(keys):
        raise OptionError(f"keyColumns: {','.join(options.key_columns)} has a column twice.", todo="Give it once.")
    definition = TableDefinition(
        key_format=options.key_format or "tuple",
        key_columns=keys,
        value_format=options.value_format or "avro",
        schema=columns,
        properties=properties,
    )
    check_formats(definition)
    return definition.with_schema(columns)


def _resolve_key_column(schema: pa.Schema, name: str) -> str:
    found = find_name(schema, name)
    if found is None:
        raise SchemaError(
            f"Key column {name} is missing among {listed(schema.names)}.", todo="Add it, or change keyColumns."
        )
    return found


def check_formats(definition: TableDefinition) -> None:
    """Raise `SchemaError` if the columns of a typed table cannot be stored in its formats."""
    codec = definition.codec()
    if definition.key_format == "tuple":
        for field in codec.key_fields:
            require_key_type(field)
    else:
        _check_single(codec.key_fields, "key", "keyFormat", definition.key_format)
    if definition.value_format in BYTES_TYPES:
        _check_single(codec.value_fields, "value", "valueFormat", definition.value_format)


def _check_single(fields: Sequence[pa.Field], part: str, option: str, chosen: str) -> None:
    """Refuse columns that cannot be stored directly as bytes."""
    kind = BYTES_TYPES[chosen]
    if len(fields) != 1 or fields[0].type != kind:
        found = ", ".join(f"{field.name} {sql_type(field)}" for field in fields) or "none"
        raise SchemaError(
            f"{option}={chosen} needs one {part} column of type {sql_type(pa.field('', kind))}, got {found}.",
            todo=f"Change the columns, or omit {option}.",
        )


# --- writing --------------------------------------------------------------------------------------------------------


def plan_definition(
    current: TableDefinition, schema: pa.Schema, options: WriteOptions, *, is_new: bool
) -> TableDefinition:
    """Return the definition that a write needs.

    Parameters
    ----------
    current : the definition of the table; `NO_DEFINITION` if there is no table
    is_new : whether the write creates the table

    Raises
    ------
    SchemaError, OptionError, UnsupportedFormatError
        When the write does not fit the table.
    """
    check_distinct(schema)
    op_column = resolve_op_column(schema, options)
    stored = pa.schema([field for field in schema if field.name != op_column])
    if is_new:
        columns = None if options.key_columns is None else all_nullable(canonical_schema(stored))
        return plan_creation(columns, options, options.properties)
    _check_agreement(current, options)
    current = current.declaring(options.properties)
    if current.schema is None or not options.merge_schema or options.operation == "delete":
        return current
    return grow_definition(current, canonical_schema(stored, of_table=False)) if len(stored) else current


def _check_agreement(current: TableDefinition, options: WriteOptions) -> None:
    """Refuse creation options that contradict the table."""
    keys = current.key_columns
    if options.key_columns is not None and [*map(str.lower, options.key_columns)] != [*map(str.lower, keys)]:
        what = f"the key columns {','.join(keys)}" if keys else "no key columns: it is a raw table of key and value"
        raise SchemaError(f"keyColumns is {','.join(options.key_columns)}, but the table has {what}.", todo=_DROP)
    for name, given, known in (
        ("keyFormat", options.key_format, current.key_format),
        ("valueFormat", options.value_format, current.value_format),
    ):
        if given not in (None, known):
            raise OptionError(f"{name} is {given}, but the table has {known}.", todo=_DROP)
    for name, text in options.properties.items():
        if name in SEGMENT_PROPERTIES:
            continue  # `declaring` compares them
        known_text = current.properties.get(name, current.default_of(name))
        if known_text is None or parse_property(name, known_text) != parse_property(name, text):
            todo = _DROP if name in FIXED_PROPERTIES else "Use setProperties."
            raise OptionError(f"{name} is {text}, but the table has {known_text or 'none'}.", todo=todo)


_DROP = "Omit it, or write to another path."


def grow_definition(current: TableDefinition, incoming: pa.Schema) -> TableDefinition:
    """Return a typed table's definition with columns added and types widened as incoming rows need.

    Raises
    ------
    SchemaError
        When a type cannot be widened, or a dropped column is used again.
    """
    dropped = {name.lower() for name in current.dropped_columns}
    if back := [name for name in incoming.names if name.lower() in dropped]:
        raise SchemaError(
            f"Column {back[0]} was dropped from the table and cannot be added again.",
            why="Old rows may still hold its values.",
            todo="Choose another name.",
        )
    keys, form = current.key_columns, current.value_format
    merged = canonical_schema(
        merge_schemas(current.schema, all_nullable(incoming), key_columns=keys, value_format=form)
    )
    if merged.equals(current.schema):
        return current
    grown = current.with_schema(merged)
    check_formats(grown)
    return grown


# --- races ----------------------------------------------------------------------------------------------------------


def join_growth(current: TableDefinition, planned: TableDefinition) -> TableDefinition:
    """Return the definition that a table needs for rows encoded by `planned`.

    Parameters
    ----------
    current : the newest definition, which others may have changed since the write was planned

    Raises
    ------
    ConflictError
        When another table has replaced it, it spells columns differently, or the rows would have to be encoded again.
    SchemaError
        When it has changed so that the rows no longer fit.
    """
    if not _same_times(current, planned):
        raise _replaced()
    if NO_DEFINITION in (current, planned):
        if current.is_typed or planned.is_typed:
            raise _replaced()
        return current
    if not current.same_keys(planned):
        raise _replaced()
    if current.schema is None or planned.schema is None:
        return current
    dropped = {name.lower() for name in current.dropped_columns}  # columns that others dropped stay dropped
    wanted = pa.schema([field for field in planned.schema if field.name.lower() not in dropped])
    grown = grow_definition(current, wanted)
    _check_spelling(grown.schema, wanted)
    column = find_misread(wanted, grown.schema, key_columns=grown.key_columns, value_format=grown.value_format)
    if column is not None:
        raise ConflictError(
            f"Another job has changed column {column}, so the rows must be encoded again.", todo="Write again."
        )
    return replace(grown, writer_schemas={**planned.writer_schemas, **grown.writer_schemas})


def require_key_types(current: TableDefinition, planned: TableDefinition) -> None:
    """Refuse if key columns became wider since a plan, since its key ranges may end where the earlier types do.

    `n <= 32767` has no end while `n` is a SMALLINT. Raises `ConflictError`.
    """
    now, before = (definition.codec().key_fields for definition in (current, planned))
    for field, old in zip(now, before, strict=True):
        if field.type != old.type:
            raise ConflictError(
                f"Another job has changed key column {field.name}, so the key ranges must be planned again.",
                why=f"It is {sql_type(field)} now, and was {sql_type(old)}.",
                todo="Write again.",
            )


def _same_times(one: TableDefinition, other: TableDefinition) -> bool:
    """Tell whether two definitions agree on the meaning of row times, which never changes."""
    return (one.has_own_time, one.has_history) == (other.has_own_time, other.has_history)


def _same_properties(one: TableDefinition, other: TableDefinition) -> bool:
    """Tell whether two definitions agree on all properties; one that is not set has its default."""
    names = {*one.properties, *other.properties}
    return all(_meaning(one, name) == _meaning(other, name) for name in names)


def _meaning(definition: TableDefinition, name: str) -> object:
    text = definition.properties.get(name, definition.default_of(name))
    return None if text is None else parse_property(name, text)


def _check_spelling(schema: pa.Schema, wanted: pa.Schema) -> None:
    """Refuse rows whose columns are spelled differently from the table's: values are read by their exact names."""
    known = set(_paths(schema))
    if other := [".".join(path) for path in _paths(wanted) if path not in known]:
        raise ConflictError(
            f"Another job added column {other[0]} in different upper and lower case.", todo="Write again."
        )


def _paths(fields: Iterable[pa.Field], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of columns and of their nested fields."""
    for field in fields:
        path = (*above, field.name)
        yield path
        yield from _paths(_parts(field.type), path)


def _parts(kind: pa.DataType) -> Sequence[pa.Field]:
    if kinds.is_struct(kind):
        return list(kind)
    if kinds.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if kinds.is_list(kind) else []


def _replaced() -> ConflictError:
    return ConflictError("The table was removed and created again during the write.", todo="Write again.")


def join_creation(
    current: TableDefinition, planned: TableDefinition, *, owner_alive: bool, merge_schema: bool
) -> TableDefinition:
    """Return the definition of a new table for which a creator found a definition, but no manifest yet.

    Parameters
    ----------
    current : the definition of the other creator
    planned : the definition of this creator
    owner_alive : whether the other creator may still be running
    merge_schema : whether columns may be merged

    Raises
    ------
    TableExistsError
        When the two definitions do not agree.
    """
    if not current.same_keys(planned):
        keys = f"key columns {', '.join(current.key_columns)}" if current.is_typed else "no key columns"
        why = f"It has {keys}, keyFormat {current.key_format} and valueFormat {current.value_format}."
        if owner_alive:
            raise TableExistsError("Another job is creating this table.", why=why, todo="Write again when it is done.")
        raise TableExistsError(
            "An unfinished creation of another table left its definition here.",
            why=why,
            todo="Create the same table, choose another path, or remove it with vacuum.",
        )
    if not owner_alive:  # its schema does not count, but its rows stay readable if it resumes
        return replace(planned, writer_schemas={**current.writer_schemas, **planned.writer_schemas})
    return join_created(current, planned, merge_schema=merge_schema)


def join_created(current: TableDefinition, planned: TableDefinition, *, merge_schema: bool) -> TableDefinition:
    """Return the definition of a table with two creators; the second joins the first, which is not affected.

    Raises
    ------
    TableExistsError
        When keys or properties differ, which the table has already, or when columns do and `mergeSchema` does not allow
        merging. A table that a client created has no properties.
    """
    is_own = planned.created_by != "" and current.created_by == planned.created_by
    alike = current.same_keys(planned) and _same_times(current, planned)
    alike = alike and current.segment_extractor == planned.segment_extractor
    alike = alike and (is_own or _same_properties(current, planned))
    if not alike or not (is_own or current.schema == planned.schema or (merge_schema and current.is_typed)):
        raise TableExistsError(
            "Another job created this table first, with other columns or properties.",
            todo="Write to it again, with mergeSchema=true if only columns differ.",
        )
    return join_growth(current, planned)
