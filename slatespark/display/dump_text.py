"""The content of an object as text, and as a document for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from slatespark.display.key_names import KeyNames, key_columns
from slatespark.format.manifest import NO_TICK
from slatespark.table.inspection.dump import ObjectDump
from slatespark.texts import NOTHING, align_facts, align_table, bytes_text, printable
from slatespark.units import bytes_to_text, ms_to_text, s_to_ms

MAX_LINES: Final = 20  # of a list
MAX_VALUE_CHARACTERS: Final = 60
_INDENT: Final = "  "
_TICK: Final = "last_l0_clock_tick"
_RIGHT: Final = {"bytes", "start", "end", "offset", "block", "seq", "puts", "deletes", "merges", "data", "format"}


def dump_document(dump: ObjectDump) -> dict[str, Any]:
    """Return all of an object for JSON; for typed tables `keys` gives the columns of each key in it, by its bytes."""
    document = {"url": dump.url, "kind": dump.kind, "size": dump.size, **dump.content}
    if dump.codec.is_raw:
        return document
    keys = key_columns(dump.codec, _keys(dump.content))
    return {**document, "keys": {key.hex(): columns for key, columns in keys.items()}}


def dump_text(dump: ObjectDump, *, as_text: bool = False, is_whole: bool = False) -> str:
    """Return the content of an object.

    Parameters
    ----------
    as_text : show bytes as text where they are UTF-8
    is_whole : show all entries of long lists
    """
    cells = _Cells(None if dump.codec.is_raw else KeyNames(dump.codec, _keys(dump.content)), as_text=as_text)
    head = f"{printable(dump.url)}: {dump.kind}, {bytes_to_text(dump.size)}"
    return "\n".join([head, *_section(dump.content, cells, is_whole=is_whole)])


def _keys(value: Any) -> Iterator[bytes]:
    """Yield all bytes but values of rows; bounds and prefixes are named like keys."""
    if isinstance(value, bytes):
        yield value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name != "value":
                yield from _keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _keys(item)


class _Cells:
    """Turns values into text by the names of their fields."""

    def __init__(self, names: KeyNames | None, *, as_text: bool) -> None:
        self._names, self._as_text = names, as_text

    def text(self, name: str, value: Any) -> str:
        if value is None or value in ([], {}):
            return NOTHING
        if isinstance(value, bytes):
            return self._bytes(name, value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return _number(name, value)
        if isinstance(value, Mapping):  # a bound, or another small part
            if set(value) == {"key", "included"}:
                return f"{'' if value['included'] else 'after '}{self.text('key', value['key'])}"
            return ", ".join(f"{printable(part)} {self.text(part, item)}" for part, item in value.items())
        if isinstance(value, list):
            return ", ".join(self.text(name, item) for item in value)
        return printable(str(value))

    def _bytes(self, name: str, data: bytes) -> str:
        if not data:
            return NOTHING
        if self._names is not None and name != "value":
            return self._names.of(data)
        text = bytes_text(data, as_text=self._as_text)
        return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 1]}…"


def _number(name: str, value: int) -> str:
    if name == _TICK:
        return NOTHING if value == NO_TICK else ms_to_text(value)
    if name == "expire_time_s" and value == 0:
        return "never"
    if name.endswith(("_ms", "_ts")):
        return ms_to_text(value)
    return ms_to_text(s_to_ms(value)) if name.endswith("_s") else str(value)


def _section(content: Mapping[str, Any], cells: _Cells, *, is_whole: bool) -> Iterator[str]:
    """Yield the lines of a dict: its plain fields, then its lists and its larger parts under their names."""
    larger = {name: value for name, value in content.items() if _is_larger(value)}
    facts = [(name, cells.text(name, value)) for name, value in content.items() if name not in larger]
    if facts:
        yield from align_facts(facts).split("\n")
    for name, value in larger.items():
        yield from ("", f"{name}:")
        lines = (_list if isinstance(value, list) else _section)(value, cells, is_whole=is_whole)
        yield from (f"{_INDENT}{line}".rstrip() for line in lines)


def _is_larger(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value)
    return isinstance(value, list) and any(isinstance(item, Mapping) for item in value)


def _list(entries: Sequence[Mapping[str, Any]], cells: _Cells, *, is_whole: bool) -> Iterator[str]:
    """Yield the lines of a list: a table, or where its entries have lists of their own, one after the other."""
    shown = entries if is_whole else entries[:MAX_LINES]
    if any(isinstance(value, list) and _is_larger(value) for entry in shown for value in entry.values()):
        for number, entry in enumerate(shown):
            yield from ([""] if number else [])
            yield from _section(entry, cells, is_whole=is_whole)
    else:
        names = list(dict.fromkeys(name for entry in shown for name in entry))
        rows = [[cells.text(name, entry.get(name)) for name in names] for entry in shown]
        used = [at for at, name in enumerate(names) if any(row[at] != NOTHING for row in rows)] or [0]
        header = [names[at] for at in used]
        table = align_table(header, ([row[at] for at in used] for row in rows), right=_RIGHT & set(header))
        yield from table.split("\n")
    if len(shown) < len(entries):
        yield f"... and {len(entries) - len(shown):,} more; --all shows them."
