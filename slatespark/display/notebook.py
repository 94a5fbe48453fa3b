"""A table as HTML for notebooks: facts, columns, and a picture of its layers as SVG.

Names, keys and properties come from the table and cannot be trusted, so all text is escaped. Colours are mid-tones and
text takes the colour of the page, so the output is readable in light and dark themes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slatespark.display.describe_text import column_mark
from slatespark.display.layer_picture import Box, Lane, LayerPicture, picture_layers
from slatespark.display.summary_text import summary_facts
from slatespark.shown import CELL, html_text
from slatespark.table.inspection.describe import ColumnFacts, DefinitionFacts, TableSummary
from slatespark.texts import cut_middle, plural

MAX_COLUMNS: Final = 200  # listed
OPEN_COLUMNS: Final = 20  # a longer list starts folded

COLOURS: Final = {"wal": "#8c8c8c", "l0": "#e08b2c", "run": "#4f86c6"}

_WIDTH: Final = 760
_LEFT: Final = 90
_RIGHT: Final = 150
_LANE: Final = 22
_BOX: Final = 14
_AXIS: Final = 24
_TICK_CHARACTERS: Final = 36


def summary_html(summary: TableSummary) -> str:
    """Return a table as HTML: facts, columns, layers."""
    facts = _rows_html((f"<b>{html_text(name)}</b>", html_text(value)) for name, value in summary_facts(summary.facts))
    parts = [f"<table style='border:none'>{facts}</table>"]
    if summary.facts.definition is not None and summary.facts.definition.columns:
        parts.append(_columns_html(summary.facts.definition))
    parts.append(layers_svg(picture_layers(summary)))
    return block_html(parts)


def block_html(parts: Iterable[str]) -> str:
    """Return parts, which are HTML, below each other."""
    return f"<div class='slatespark' style='max-width:{_WIDTH}px'>{''.join(parts)}</div>"


def failure_html(name: str, error: Exception) -> str:
    """Return the HTML shown in place of a table that cannot be read."""
    return f"<div class='slatespark'><b>{html_text(name)}</b><br>{html_text(f'{type(error).__name__}: {error}')}</div>"


def _rows_html(rows: Iterable[tuple[str, ...]]) -> str:
    """Return table rows; the cells are already HTML."""
    return "".join(f"<tr>{''.join(f'<td style={CELL!r}>{cell}</td>' for cell in row)}</tr>" for row in rows)


def _columns_html(definition: DefinitionFacts) -> str:
    shown = definition.columns[:MAX_COLUMNS]
    rows = _rows_html((html_text(item.name), html_text(item.type), _mark(item)) for item in shown)
    more = len(definition.columns) - len(shown)
    rest = f"<tr><td style={CELL!r} colspan='3'>and {plural(more, 'more column')}</td></tr>" if more else ""
    is_open = " open" if len(definition.columns) <= OPEN_COLUMNS else ""
    return (
        f"<details{is_open}><summary>{plural(len(definition.columns), 'column')}</summary>"
        f"<table style='border:none'>{rows}{rest}</table></details>"
    )


def _mark(column: ColumnFacts) -> str:
    mark = html_text(column_mark(column))
    return mark if column.key is None else f"<b>{mark}</b>"


# --- the picture ----------------------------------------------------------------------------------------------------


def layers_svg(picture: LayerPicture) -> str:
    """Return a picture of layers as SVG, newest layer on top; the tooltip of each box names its file and keys."""
    if not picture.lanes:
        return "<p>The table has no files.</p>"
    height = len(picture.lanes) * _LANE + _AXIS + (_LANE if picture.omitted else 0)
    body = "".join(_lane_svg(number, lane) for number, lane in enumerate(picture.lanes))
    below = len(picture.lanes) * _LANE
    if picture.omitted:
        body += _label(0, below + _BOX, f"and {plural(picture.omitted, 'older layer')}")
        below += _LANE
    return (
        f"<svg viewBox='0 0 {_WIDTH} {height}' width='100%' role='img' xmlns='http://www.w3.org/2000/svg' "
        "font-family='sans-serif' font-size='11'><title>Layers over the keys, newest on top; widths are stored bytes"
        f"</title>{body}{_axis_svg(picture, below)}</svg>"
    )


def _lane_svg(number: int, lane: Lane) -> str:
    top = number * _LANE
    boxes = "".join(_box_svg(box, top, COLOURS[lane.kind]) for box in lane.boxes)
    name, text = _label(0, top + _BOX - 2, lane.name), _label(_WIDTH - _RIGHT + 8, top + _BOX - 2, lane.text)
    return f"{name}{boxes}{text}"


def _box_svg(box: Box, top: int, colour: str) -> str:
    left, right = _x(box.left), _x(box.right)
    return (
        f"<rect x='{left:.1f}' y='{top}' width='{max(right - left, 1):.1f}' height='{_BOX}' rx='2' fill='{colour}' "
        f"fill-opacity='0.6' stroke='{colour}'><title>{_lines(box.title)}</title></rect>"
    )


def _axis_svg(picture: LayerPicture, top: int) -> str:
    line = (
        f"<line x1='{_LEFT}' y1='{top + 2}' x2='{_WIDTH - _RIGHT}' y2='{top + 2}' stroke='currentColor' "
        "stroke-opacity='0.5'/>"
    )
    if not picture.ticks:
        return line
    shown = [picture.ticks[0]] if len(picture.ticks) == 1 else [picture.ticks[0], picture.ticks[-1]]
    names = [_label(_x(0), top + _BOX + 2, cut_middle(shown[0].name, _TICK_CHARACTERS), title=shown[0].name)]
    if len(shown) > 1:
        names.append(
            _label(
                _x(1),
                top + _BOX + 2,
                cut_middle(shown[1].name, _TICK_CHARACTERS),
                anchor="end",
                title=shown[1].name,
            )
        )
    marks = "".join(
        f"<line x1='{_x(tick.at):.1f}' y1='{top + 2}' x2='{_x(tick.at):.1f}' y2='{top + 6}' "
        f"stroke='currentColor' stroke-opacity='0.5'><title>{_lines(tick.name)}</title></line>"
        for tick in picture.ticks
    )
    return line + marks + "".join(names)


def _x(at: float) -> float:
    return _LEFT + at * (_WIDTH - _LEFT - _RIGHT)


def _label(x: float, y: float, text: str, *, anchor: str = "start", title: str = "") -> str:
    hint = f"<title>{html_text(title)}</title>" if title and title != text else ""
    return (
        f"<text x='{x:.0f}' y='{y:.0f}' fill='currentColor' stroke='none' text-anchor='{anchor}'>"
        f"{hint}{html_text(text)}</text>"
    )


def _lines(text: str) -> str:
    return "\n".join(html_text(line) for line in text.split("\n"))
