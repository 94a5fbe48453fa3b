"""What calls return, shown to people: in a shell by `repr`, in a notebook as HTML.

The rule for every report and every list of facts: `repr` is a few lines that name what there is, not text that could be
evaluated; programs read the attributes. It shows what the fields hold, and no more, so it needs no knowledge of them.
Values come from tables and cannot be trusted: control characters and markup are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any, Final, SupportsIndex, TypeVar, overload

from slatespark.texts import align_facts, align_table, plural, printable
from slatespark.units import bytes_to_text, duration_to_text, ms_to_text

MAX_ITEMS: Final = 3  # of a field, named; further ones are counted
MAX_ROWS: Final = 20  # of a list
MAX_CHARACTERS: Final = 100  # of a value
MAX_CELL: Final = 36  # characters

_LEAST_INSTANT_MS: Final = 10**11  # less is a duration, or the tick of a clock of the table's own
_DURATIONS: Final = ("elapsed_ms", "lifetime_ms", "min_age_ms", "retention_ms", "waited_ms")  # other times are instants
CELL: Final = "text-align:left;padding:1px 12px 1px 0;border:none;background:none;vertical-align:top"

Item = TypeVar("Item", covariant=True)


class Shown:
    """A dataclass that shows itself; it is made with `repr=False`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join([type(self).__name__, *(f"  {line}" for line in align_facts(shown_facts(self)).splitlines())])

    def _repr_html_(self) -> str:
        """Show the facts in a notebook."""
        return f"<div class='slatespark'><b>{escape(type(self).__name__)}</b>{html_table((), shown_facts(self))}</div>"


class Escaped:
    """A dataclass with the usual `repr`, except for what could command a terminal; it is made with `repr=False`.

    For those that are no report, and hold a schema: pyarrow shows the names of columns as they are.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        names = [item.name for item in fields(self) if item.repr]  # type: ignore[arg-type]  # a dataclass
        held = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return "\n".join(printable(line) for line in f"{type(self).__name__}({held})".split("\n"))


class Listing(tuple[Item, ...]):
    """A tuple of dataclasses that shows itself as a table."""

    __slots__ = ()

    @overload
    def __getitem__(self, place: SupportsIndex) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Item | tuple[Item, ...]:
        """Return an item, or some of them, which show themselves too."""
        return Listing(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def __repr__(self) -> str:
        if not self:
            return "()"
        header, rows = _table(self)
        return "\n".join([align_table(header, rows), *_rest(len(self))])

    def _repr_html_(self) -> str:
        """Show the table in a notebook."""
        rest = "".join(f"<div>{escape(line)}</div>" for line in _rest(len(self)))
        return f"<div class='slatespark'>{html_table(*_table(self)) if self else 'nothing'}{rest}</div>"


def shown_facts(value: Any) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the fields of a dataclass, and of its properties that are numbers or yes or no.

    Those that are None or empty are left out.
    """
    for item in fields(value):
        found = getattr(value, item.name)
        if found is not None and found != () and found != "" and found != {}:
            yield item.name, _text(item.name, found)
    for name, item in vars(type(value)).items():
        if isinstance(item, property) and isinstance(found := getattr(value, name), int):
            yield name, _text(name, found)


def html_table(header: Iterable[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return texts as a table; names in the first column and in the header are bold."""
    head = "".join(f"<th style={CELL!r}>{html_text(name)}</th>" for name in header)
    lines = (f"<td style={CELL!r}><b>{html_text(name)}</b></td>{_cells(values)}" for name, *values in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table style='border:none'>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def html_text(text: str) -> str:
    """Return text as HTML; lines stay lines."""
    return "<br>".join(escape(printable(line), quote=True) for line in text.split("\n"))


def _cells(values: Iterable[str]) -> str:
    return "".join(f"<td style={CELL!r}>{html_text(value)}</td>" for value in values)


def _table(items: tuple[Any, ...]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the names of the fields that any of the first items has, and the texts of these."""
    facts = [dict(shown_facts(item)) for item in items[:MAX_ROWS]]
    named = tuple(item.name for item in fields(items[0]) if any(item.name in known for known in facts))
    return named, [tuple(_cut(known.get(name, "").replace("\n", " "), MAX_CELL) for name in named) for known in facts]


def _rest(count: int) -> list[str]:
    return [f"and {plural(count - MAX_ROWS, 'more row')}"] if count > MAX_ROWS else []


def _text(name: str, value: Any) -> str:
    """Return a value of a field; the name tells the unit."""
    if isinstance(value, tuple | list | frozenset):
        return _items_text(tuple(value))
    if is_dataclass(value):
        return _line(value)
    if isinstance(value, Mapping):
        return _cut(", ".join(f"{key} {item}" for key, item in value.items()))
    if isinstance(value, bytes):
        return _cut(value.hex())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return _number_text(name, value)
    return _cut(f"{value:.4g}" if isinstance(value, float) else str(value))


def _number_text(name: str, value: int) -> str:
    if name.endswith("_ms"):
        is_instant = name not in _DURATIONS and abs(value) >= _LEAST_INSTANT_MS
        return ms_to_text(value) if is_instant else duration_to_text(value)
    return bytes_to_text(value) if name == "size" or "bytes" in name.split("_") else str(value)


def _items_text(items: tuple[Any, ...]) -> str:
    if not any(is_dataclass(item) for item in items):
        return _cut(", ".join(item.hex() if isinstance(item, bytes) else str(item) for item in items))
    named = [_line(item) for item in items[:MAX_ITEMS]]
    return "\n".join([*named, *([f"and {len(items) - MAX_ITEMS} more"] if len(items) > MAX_ITEMS else [])])


def _line(value: Any) -> str:
    return _cut(", ".join(f"{name} {text}" for name, text in shown_facts(value)).replace("\n", " "))


def _cut(text: str, limit: int = MAX_CHARACTERS) -> str:
    text = printable(text)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
