"""The summary of a table as text: facts, columns, and layers as bars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from slatespark.display.describe_text import columns_text, definition_facts, history_facts
from slatespark.display.layer_picture import Lane, LayerPicture, picture_layers
from slatespark.table.inspection.describe import TableFacts, TableSummary
from slatespark.texts import align_facts, plural
from slatespark.units import bytes_to_text, ms_to_text

BAR_CHARACTERS: Final = 40

_FILLED: Final = "█"
_EMPTY: Final = "·"


def summary_facts(facts: TableFacts) -> Iterator[tuple[str, str]]:
    """Yield the most important facts as names and values, without the columns."""
    yield "table", facts.url
    yield "kind", facts.kind
    if facts.definition is not None:
        yield from definition_facts(facts.definition, with_columns=False)
    yield "version", str(facts.version)
    yield "files", f"{plural(facts.files, 'file')}, {bytes_to_text(facts.stored_bytes)}"
    yield "last seq", str(facts.last_seq)
    if facts.clock_tick_ms is not None:
        yield "last write", ms_to_text(facts.clock_tick_ms)
    yield from history_facts(facts)


def summary_text(summary: TableSummary) -> str:
    """Return a table as text: facts, columns, layers."""
    definition, pairs = summary.facts.definition, list(summary_facts(summary.facts))
    if definition is not None and definition.columns:
        pairs.append(("columns", columns_text(definition.columns)))
    pairs.append(("layers", layers_text(picture_layers(summary))))
    return align_facts(pairs)


def layers_text(picture: LayerPicture) -> str:
    """Return layers as bars over the keys, newest first; `none` if there are none."""
    if not picture.lanes:
        return "none"
    width = max(len(lane.name) for lane in picture.lanes)
    lines = [f"{lane.name:{width}}  {_bar(lane)}  {lane.text}" for lane in picture.lanes]
    if picture.omitted:
        lines.append(f"and {plural(picture.omitted, 'older layer')}")
    if picture.ticks:
        lines.append(f"keys {picture.ticks[0].name} to {picture.ticks[-1].name}")
    return "\n".join(lines)


def _bar(lane: Lane) -> str:
    cells = [_EMPTY] * BAR_CHARACTERS
    for box in lane.boxes:
        first = min(int(box.left * BAR_CHARACTERS), BAR_CHARACTERS - 1)
        last = max(first + 1, math.ceil(box.right * BAR_CHARACTERS))
        cells[first:last] = [_FILLED] * (last - first)
    return "".join(cells)
