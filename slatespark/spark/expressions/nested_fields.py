"""Fields of structs that an update or a merge sets by themselves, as in `SET address.city = 'Kiel'`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import DataType, StructField, StructType

from slatespark.errors import SchemaError
from slatespark.texts import listed

FieldPath: TypeAlias = tuple[str, ...]  # names of fields, from the outermost on

_NAME: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def split_path(text: str) -> list[str]:
    """Return the parts of a dotted name, which may be in backticks; the text alone if it is no such name."""
    parts, at = list[str](), 0
    while (found := _NAME.match(text, at)) is not None:
        in_backticks, plain = found.groups()
        parts.append(plain if in_backticks is None else in_backticks.replace("``", "`"))
        at = found.end()
        if at == len(text):
            return parts
        if text[at] != ".":
            break
        at += 1
    return [text]


def resolve_path(kind: DataType, parts: Sequence[str], *, where: str) -> FieldPath:
    """Return the names of nested fields as their structs spell them; raises `SchemaError` for one that is not there.

    Parameters
    ----------
    where : the beginning of the message, as in `update sets field s.x`
    """
    path: list[str] = []
    for part in parts:
        names = kind.names if isinstance(kind, StructType) else []
        found = next((name for name in names if name == part), None)
        found = found or next((name for name in names if name.lower() == part.lower()), None)
        if found is None or not isinstance(kind, StructType):
            reason = f"Its fields are {listed(names)}." if names else "Only a struct has fields."
            raise SchemaError(f"{where}, but there is no field {part}.", why=reason, todo="Set one of the fields.")
        path.append(found)
        kind = kind[found].dataType
    return tuple(path)


def with_fields(struct: Column, kind: StructType, values: Mapping[FieldPath, Column]) -> Column:
    """Return a struct with other values of some of its fields. Of a null struct the other fields are null.

    Parameters
    ----------
    values : by path; none is below another one
    """
    return F.struct(*[_new_value(struct, field, values).alias(field.name) for field in kind.fields])


def _new_value(struct: Column, field: StructField, values: Mapping[FieldPath, Column]) -> Column:
    own = {path[1:]: value for path, value in values.items() if path[0] == field.name}
    old = struct.getField(field.name)
    if not own:
        return old
    if () in own:
        return own[()]
    assert isinstance(field.dataType, StructType)  # its path goes on
    return with_fields(old, field.dataType, own)
