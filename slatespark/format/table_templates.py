"""Values of one form are filled into a template: a manifest has tables for each file that differ in numbers and keys.

The builder of flatbuffers takes about 0.1 ms for the tables of one file. So it builds one value of each form, and the
bytes of all others are packed at once. They are those that the builder gives. A table refers to its layout (vtable),
which a builder writes once and shares, so those references depend on the buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, Generic, TypeAlias, TypeVar

import flatbuffers

from slatespark.format.verifier import Kind, Table
from slatespark.format.wire_table import WireTable

MAX_TEMPLATES: Final = 1 << 13  # about 2 kB each; keys of another length are another form
MAX_BYTES: Final = 1 << 12  # of a value with a template

_ALIGNMENT: Final = 8  # the largest of any field
_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of numbers by width
_REFERENCE: Final = "i"

T = TypeVar("T")
Parts: TypeAlias = tuple[tuple[int, ...], tuple[bytes | None, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Form(Generic[T]):
    """A kind of values.

    Attributes
    ----------
    table : what they are stored as
    build : function that adds a value to a builder, and returns its offset
    parts : the numbers of a value, and its byte strings, both in the order of the slots, depth first; a number that is
        the default is 0, a byte string that is absent None, and absent tables have no parts
    """

    table: Table
    build: Callable[[Any, T], int]
    parts: Callable[[T], Parts]


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    """The bytes of a value but for its parts, and for the references of its tables to their layouts.

    Attributes
    ----------
    root : position of its table. Positions count from the end, as the builder fills its buffer backwards
    tables : position and layout of each table
    pack : function that returns the bytes of all fields
    order : function that picks the fields from numbers, byte strings, references and constants
    constants : all other fields
    """

    root: int
    tables: tuple[tuple[int, tuple[int, ...]], ...]
    pack: Callable[..., bytes]
    order: Callable[[tuple[object, ...]], tuple[object, ...]]
    constants: tuple[bytes, ...]


_templates: dict[tuple[object, ...], _Template] = {}


class TemplateBuilder(flatbuffers.Builder):  # type: ignore[misc]  # it has no types
    """A builder that fills in templates, and makes them of what it builds."""

    minalign: int

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._bases: dict[_Template, tuple[int, ...]] = {}

    def put(self, form: Form[T], value: T) -> int:
        """Add a value; returns its offset."""
        start = int(self.Offset())
        numbers, octets = form.parts(value)
        lengths = tuple([None if part is None else len(part) for part in octets])
        key = form, start % _ALIGNMENT, tuple(map(bool, numbers)), lengths
        template = _templates.get(key)
        bases = None if template is None else self._bases.get(template) or self._find_bases(template)
        if template is None or bases is None:
            root = form.build(self, value)
            if template is None and (made := self._made_template(form.table, start, root, numbers, octets)):
                if len(_templates) >= MAX_TEMPLATES:
                    _templates.clear()
                _templates[key] = made
            return root
        references = [base - start for base in bases]
        self._append(template.pack(*template.order((*numbers, *octets, *references, *template.constants))))
        return start + template.root

    def _find_bases(self, template: _Template) -> tuple[int, ...] | None:
        """Return what the references to layouts are in a value at offset 0; None if this buffer lacks a layout."""
        if any(layout not in self.vtables for _, layout in template.tables):
            return None
        bases = tuple(self.vtables[layout] - position for position, layout in template.tables)
        self._bases[template] = bases
        return bases

    def _append(self, data: bytes) -> None:
        self.Prep(1, len(data))  # makes room
        self.head -= len(data)
        self.Bytes[self.head : self.head + len(data)] = data
        self.minalign = max(self.minalign, _ALIGNMENT)

    def _made_template(
        self, table: Table, start: int, root: int, numbers: tuple[int, ...], octets: tuple[bytes | None, ...]
    ) -> _Template | None:
        """Return the template of what was built from `start` on; None if it cannot have one."""
        end, first = len(self.Bytes), int(self.head)
        data = bytes(self.Bytes[first : end - start])
        if len(data) > MAX_BYTES:
            return None
        walk = _Walk(self.Bytes)
        walk.visit(table, end - root)
        by_offset = {int(offset): layout for layout, offset in self.vtables.items() if offset <= start}
        layouts = [by_offset.get(end - at) for at in walk.layouts]
        tables = [
            (end - start - at, layout) for at, layout in zip(walk.tables, layouts, strict=True) if layout is not None
        ]
        if len(tables) < len(layouts) or not walk.has(numbers, octets):  # a layout is among the data, or differs
            return None
        return _template(data, root - start, tuple(tables), walk.fields(first))


def _template(
    data: bytes, root: int, tables: tuple[tuple[int, tuple[int, ...]], ...], fields: Sequence[tuple[int, str] | None]
) -> _Template:
    """Return a template.

    Parameters
    ----------
    fields : position in the data and form of the numbers, byte strings and references; None for those that are absent
    """
    constants: list[bytes] = []
    codes, order, reached = ["<"], [], 0

    def add_constant(end: int) -> None:
        if end > reached:
            codes.append(f"{end - reached}s")
            order.append(len(fields) + len(constants))
            constants.append(data[reached:end])

    present = sorted((*field, number) for number, field in enumerate(fields) if field is not None)
    for at, code, number in present:
        add_constant(at)
        codes.append(code)
        order.append(number)
        reached = at + struct.calcsize(f"<{code}")
    add_constant(len(data))
    packed = struct.Struct("".join(codes))
    return _Template(root, tables, packed.pack, itemgetter(*order), tuple(constants))


class _Walk:
    """Where the parts of a value are in a buffer, as `Form.parts` lists them.

    Attributes
    ----------
    numbers : position and width; None for one that is absent
    octets : position and length of each byte string, likewise
    tables, layouts : position of each table, and of its layout
    is_irregular : whether it has something that a template cannot have
    """

    def __init__(self, buffer: bytearray) -> None:
        self.buffer = buffer
        self.numbers: list[tuple[int, int] | None] = []
        self.octets: list[tuple[int, int] | None] = []
        self.tables: list[int] = []
        self.layouts: list[int] = []
        self.is_irregular = False

    def has(self, numbers: tuple[int, ...], octets: tuple[bytes | None, ...]) -> bool:
        """Tell whether these are the parts that are there."""
        lengths = [None if part is None else len(part) for part in octets]
        return (
            not self.is_irregular
            and [bool(number) for number in numbers] == [position is not None for position in self.numbers]
            and lengths == [None if span is None else span[1] for span in self.octets]
        )

    def fields(self, first: int) -> list[tuple[int, str] | None]:
        """Return form and position, from `first` on, of all numbers, byte strings and references to layouts."""
        return [
            *(None if found is None else (found[0] - first, _CODES[found[1]]) for found in self.numbers),
            *(None if found is None else (found[0] - first, f"{found[1]}s") for found in self.octets),
            *((at - first, _REFERENCE) for at in self.tables),
        ]

    def visit(self, table: Table, at: int) -> None:
        """Add the parts of the table at a position."""
        fields = WireTable(self.buffer, at)
        self.tables.append(at)
        self.layouts.append(fields.layout)
        for slot in table.slots:
            number = slot.offset // 2
            position = fields.position(number)
            if slot.kind is Kind.SCALAR:
                self.numbers.append(None if position is None else (position, slot.width))
            elif slot.kind is Kind.STRING or (slot.kind is Kind.SCALARS and slot.width == 1):
                self.octets.append(fields.octets_span(number))
            elif slot.kind is Kind.TABLE and slot.target is not None and position is not None:
                self.visit(slot.target, fields.target(number) or 0)
            elif position is not None:
                self.is_irregular = True
