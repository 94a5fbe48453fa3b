"""The verifier's tables, the schemas and the generated code agree."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from slatespark.format import schemas
from slatespark.format.verifier import Kind, Slot, Table

SCHEMAS = Path(__file__).parents[3] / "flatbuffers"
WIDTHS = {"bool": 1, "byte": 1, "ubyte": 1, "ushort": 2, "uint": 4, "long": 8, "ulong": 8}
TABLES = {value.name: value for value in vars(schemas).values() if isinstance(value, Table)}


def schema_text() -> str:
    text = "\n".join(path.read_text() for path in sorted(SCHEMAS.glob("*.fbs")))
    return re.sub(r"//[^\n]*", "", text)


ENUMS = set(re.findall(r"enum (\w+) : byte", schema_text()))
UNIONS = {
    name: [word.strip() for word in body.split(",") if word.strip()]
    for name, body in re.findall(r"union (\w+) \{([^}]*)\}", schema_text())
}


def declared_slots(body: str) -> list[Slot]:
    slots = []
    offset = 4
    for name, kind, rest in re.findall(r"(\w+):(\[?\w+\]?)([^;]*);", body):
        required = "required" in rest
        if kind in UNIONS:
            offset += 2  # the type comes first
            variants = {number: TABLES[variant] for number, variant in enumerate(UNIONS[kind], 1)}
            slots.append(Slot(name, offset, Kind.UNION, required=required, variants=variants))
        elif kind == "string":
            slots.append(Slot(name, offset, Kind.STRING, required=required))
        elif kind in WIDTHS or kind in ENUMS:
            slots.append(Slot(name, offset, Kind.SCALAR, width=WIDTHS.get(kind, 1)))
        elif kind.strip("[]") in WIDTHS:
            slots.append(Slot(name, offset, Kind.SCALARS, width=WIDTHS[kind.strip("[]")], required=required))
        elif kind.startswith("["):
            slots.append(Slot(name, offset, Kind.TABLES, required=required, target=TABLES[kind.strip("[]")]))
        else:
            slots.append(Slot(name, offset, Kind.TABLE, required=required, target=TABLES[kind]))
        offset += 2
    return slots


def declared() -> dict[str, list[Slot]]:
    own = {"BlockMeta", "SsTableIndex"}  # the index kernel verifies it
    found = re.findall(r"table (\w+) \{([^}]*)\}", schema_text())
    return {name: declared_slots(body) for name, body in found if name not in own}


def test_every_table_is_known_to_the_verifier() -> None:
    assert set(declared()) == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_slots_of_its_schema(name: str) -> None:
    assert list(TABLES[name].slots) == declared()[name]


@pytest.mark.parametrize("name", TABLES)
def test_generated_code_has_the_slots_too(name: str) -> None:
    source = Path(importlib.import_module(f"slatespark.format._generated.{name}").__file__ or "").read_text()
    offsets = {int(offset) for offset in re.findall(r"self\._tab\.Offset\((\d+)\)", source)}
    wanted = {slot.offset for slot in TABLES[name].slots}
    assert offsets == wanted | {slot.offset - 2 for slot in TABLES[name].slots if slot.kind is Kind.UNION}
