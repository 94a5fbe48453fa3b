"""Figures drawn with matplotlib, which is imported on first use."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from slatespark.display.expiry_picture import ExpiryBar, picture_expiry
from slatespark.display.key_axis import Tick
from slatespark.display.layer_picture import LayerPicture, picture_layers
from slatespark.display.notebook import COLOURS
from slatespark.display.timeline_picture import picture_timeline
from slatespark.errors import InvalidRequestError
from slatespark.table.inspection.describe import TableSummary
from slatespark.table.inspection.timeline import KeyTimeline
from slatespark.table.retention.expiry_tally import ExpiryReport
from slatespark.texts import plural, printable
from slatespark.units import bytes_to_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT: Final = 0.7  # of a box in its lane


def plot_layers(summary: TableSummary, ax: Axes | None = None) -> Figure:
    """Return a figure of a table's layers over its keys, newest on top.

    Parameters
    ----------
    summary : the facts of the table
    ax : axes to draw on; by default a new figure, which pyplot does not keep open

    Raises
    ------
    InvalidRequestError
        When matplotlib is not installed.
    """
    picture = picture_layers(summary)
    if ax is None:
        ax = _new_axes(1.4 + 0.32 * max(len(picture.lanes), 1))
    _draw(picture, ax)
    ax.set_title(_plain(f"{summary.facts.url}, version {summary.facts.version}"), fontsize=10)
    return ax.figure  # type: ignore[return-value]  # a subfigure at most


def _new_axes(height: float) -> Axes:
    try:
        from matplotlib.figure import Figure
    except ImportError as exc:
        raise InvalidRequestError(
            "Figures need matplotlib, which is not installed.", todo="pip install matplotlib"
        ) from exc

    class ShownFigure(Figure):
        """A figure that notebooks display even if pyplot, which would register the formatter, is not imported."""

        def _repr_png_(self) -> bytes:
            data = io.BytesIO()
            self.savefig(data, format="png")
            return data.getvalue()

    return ShownFigure(figsize=(9, height), layout="constrained").subplots()


def _draw(picture: LayerPicture, ax: Axes) -> None:
    for number, lane in enumerate(picture.lanes):
        spans = [(box.left, box.right - box.left) for box in lane.boxes]
        colour = COLOURS[lane.kind]
        ax.broken_barh(
            spans, (number - _HEIGHT / 2, _HEIGHT), facecolor=colour, edgecolor=colour, alpha=0.6, linewidth=1
        )
        ax.text(1.01, number, _plain(lane.text), va="center", fontsize=8)
    _label_lanes(ax, [lane.name for lane in picture.lanes], picture.ticks)
    older = f" ({plural(picture.omitted, 'older layer')} not shown)" if picture.omitted else ""
    ax.set_xlabel(f"keys; widths are stored bytes{older}", fontsize=8)


def _label_lanes(ax: Axes, names: Sequence[str], ticks: Sequence[Tick]) -> None:
    """Label the lanes, newest on top, and the first and last key below."""
    ax.set_yticks(range(len(names)), [_plain(name) for name in names], fontsize=8)
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    ax.set_xlim(0, 1)
    ends: list[Any] = [ticks[0], ticks[-1]] if ticks else []
    ax.set_xticks([tick.at for tick in ends], [_plain(tick.name) for tick in ends], fontsize=8)
    for label in ax.get_xticklabels()[:1]:
        label.set_horizontalalignment("left")
    for label in ax.get_xticklabels()[1:]:
        label.set_horizontalalignment("right")
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def plot_expiry(report: ExpiryReport, ax: Axes | None = None) -> Figure:
    """Return a figure of the stored bytes that expire in each period, preceded by those that have expired.

    Parameters
    ----------
    report : the expiry of the table
    ax : as for `plot_layers`

    Raises
    ------
    InvalidRequestError
        When matplotlib is not installed.
    """
    if ax is None:
        ax = _new_axes(3.2)
    picture = picture_expiry(report)
    for bar in picture.bars:
        _draw_bar(bar, ax)
    ax.set_xticks([tick.at for tick in picture.ticks], [_plain(tick.name) for tick in picture.ticks], fontsize=8)
    ax.set_xlim(0, 1)
    ax.set_xlabel(_plain(picture.note), fontsize=8)
    highest = max((bar.stored_bytes for bar in picture.bars), default=0)
    sizes = _size_ticks(highest)
    ax.set_yticks(sizes, [bytes_to_text(size) for size in sizes])
    ax.set_ylim(0, highest * 1.05 or 1)
    ax.tick_params(axis="y", labelsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.set_title(_plain(f"{report.url}, version {report.version}"), fontsize=10)
    return ax.figure  # type: ignore[return-value]  # a subfigure at most


def _size_ticks(highest: int) -> range:
    """Return up to five sizes from 0 on, a power of two apart, so that binary units are exact with one decimal."""
    step = 1 << max(-(-highest // 4) - 1, 0).bit_length()
    return range(0, highest + 1, step)


def _draw_bar(bar: ExpiryBar, ax: Axes) -> None:
    """Draw the bytes in files, and those in the WAL on top."""
    filed, width = bar.stored_bytes - bar.wal_bytes, bar.right - bar.left
    colour = COLOURS["l0" if bar.is_expired else "run"]
    ax.bar(bar.left, filed, width=width, align="edge", color=colour, alpha=0.6)
    if bar.wal_bytes:
        ax.bar(bar.left, bar.wal_bytes, bottom=filed, width=width, align="edge", color=COLOURS["wal"], alpha=0.6)


def plot_timeline(timeline: KeyTimeline, ax: Axes | None = None) -> Figure:
    """Return a figure of the keys at which each version added rows: solid where visible, faint where overshadowed.

    The interval that a version replaced is outlined.

    Parameters
    ----------
    timeline : the timeline of the table's keys
    ax : as for `plot_layers`

    Raises
    ------
    InvalidRequestError
        When matplotlib is not installed.
    """
    picture = picture_timeline(timeline)
    if ax is None:
        ax = _new_axes(1.4 + 0.32 * max(len(picture.lanes), 1))
    for number, lane in enumerate(picture.lanes):
        for shown, alpha in ((True, 0.7), (False, 0.15)):
            spans = [(part.left, part.right - part.left) for part in lane.spans if part.is_visible is shown]
            ax.broken_barh(spans, (number - _HEIGHT / 2, _HEIGHT), facecolor=COLOURS["run"], alpha=alpha, linewidth=0)
        marks = [(mark.left, mark.right - mark.left) for mark in lane.marks]
        ax.broken_barh(marks, (number - _HEIGHT / 2, _HEIGHT), facecolor="none", edgecolor=COLOURS["l0"], linewidth=1.5)
        ax.text(1.01, number, _plain(lane.text), va="center", fontsize=8)
    older = f" ({plural(picture.omitted, 'older version')} not shown)" if picture.omitted else ""
    _label_lanes(ax, [lane.name for lane in picture.lanes], picture.ticks)
    ax.set_xlabel(f"keys; faint: overshadowed, outlined: replaced by the version{older}", fontsize=8)
    ax.set_title(_plain(f"{timeline.url}, version {timeline.version}"), fontsize=10)
    return ax.figure  # type: ignore[return-value]  # a subfigure at most


def _plain(text: str) -> str:
    """Return text with dollar signs escaped, which matplotlib would take for formulas."""
    return printable(text).replace("$", r"\$")
