"""Draw the pictures of the documentation: `python tools/pictures.py`, which needs matplotlib.

`docs/images/` gets two files of each, for light and for dark pages. The picture of a table is what slatespark draws of
one; the benchmark figures are those of `docs/reference/benchmarks.md`, and a figure that is not there is an error.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import pyarrow as pa
from matplotlib.figure import Figure

REPOSITORY: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # to run without an installation

from slatespark import Clock, SlateStore  # noqa: E402

IMAGES: Final = REPOSITORY / "docs" / "images"
BENCHMARKS: Final = REPOSITORY / "docs" / "reference" / "benchmarks.md"

_DAY_MS: Final = 86_400_000
_START_MS: Final = 1_767_225_600_000  # 2026-01-01
_TEXT: Final = {"light": "#24292f", "dark": "#d0d7de"}
_MUTED: Final = {"light": "#57606a", "dark": "#8b949e"}
_FASTER: Final = "#4f86c6"
_SLOWER: Final = "#e08b2c"

# What is compared, with whom; slatespark's time over that of the other; where the page says it.
_RATIOS: Final = (
    ("Scan a database, 2 M rows", "the SlateDB client in Python", 1 / 89, "89 (88 to 95)"),
    ("Load 1 M rows in random order", "the SlateDB client in Python", 1 / 35, "35 times faster"),
    ("Look up 1,000 of 10 M keys in Spark", "the full scan", 1 / 26, "26 times faster (22 to 31)"),
    ("Replace 1 % of 10 M rows", "delta-rs", 1 / 11.1, "11.1 times faster than delta-rs"),
    ("Compact a database, uncompressed", "SlateDB's compactor in Rust", 0.34, "0.34 (0.30 to 0.37)"),
    ("Scan to Arrow, 2 M rows", "pyarrow reading Parquet", 1.42, "0.85 to 1.42 (0.68 to 1.60)"),
    ("Load 10 M typed rows with Spark", "Spark writing sorted Parquet", 1.10, "1.10 times (0.99 to 1.16)"),
    ("Sum 8 columns of 10 M rows in Spark", "Spark's own Parquet", 1.26, "1.26 (1.23 to 1.29)"),
    ("Sum 2 of 8 columns in Spark", "Spark's own Parquet", 3.01, "3.01 (2.66 to 3.34)"),
)


class SteppedClock(Clock):
    """A clock that is set by hand, so that each run draws the same."""

    def __init__(self) -> None:
        self.time_ms = _START_MS

    def now_ms(self) -> int:
        """Return the time that was set."""
        return self.time_ms


FOLDER: Final = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


@functools.cache
def visits_table() -> SlateStore:
    """Return a table with several layers, a replaced interval, and rows that expire."""
    clock = SteppedClock()
    schema = pa.schema([("city", pa.string()), ("number", pa.int64()), ("note", pa.string())])
    store = SlateStore.create(FOLDER, schema, ["city", "number"], clock=clock, autoCompact=False)

    def write(cities: str, numbers: range, **options: Any) -> None:
        clock.time_ms += 3_600_000
        rows = [
            {"city": city, "number": number, "note": f"{city} {number * 2654435761 % 2**32:08x} " * 3}
            for city in cities.split()
            for number in numbers
        ]
        store.write(pa.Table.from_pylist(rows, schema), sstSize="64k", compression=None, **options)

    write("aachen bonn essen kiel mainz", range(1500), ttl="10d")
    write("bonn", range(0, 1500, 2), ttl="4d")
    write("essen kiel", range(1000, 1500), ttl="6d")
    write("kiel", range(900), mode="overwrite", replaceWhere="city = 'kiel'", ttl="8d")
    write("aachen bonn", range(700, 1200), ttl="2d")
    clock.time_ms = _START_MS + 2 * _DAY_MS + 12 * 3_600_000
    return store


def draw_table(figure: Figure, muted: str) -> None:
    """Draw the layers, the timeline and the expiry of a table, one below the other."""
    store = visits_table()
    layers, timeline, expiry = figure.subplots(3, 1, height_ratios=(5, 5, 4))
    store.plotLayers(layers)
    store.plotTimeline(timeline)
    store.plotExpiry(expiry, per="day")
    titles = {
        layers: "Layers: each commit adds one on top; reads merge them, and skip what a filter rules out",
        timeline: "Timeline: which version added which keys, and what a replacement hid",
        expiry: "Expiry: stored bytes by the day on which they expire",
    }
    for axes, title in titles.items():
        axes.set_title("")  # the place of the table
        axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
        axes.xaxis.label.set_color(muted)


def draw_benchmarks(figure: Figure, muted: str) -> None:
    """Draw how long slatespark takes for what others do, as ratios."""
    page = " ".join(BENCHMARKS.read_text().split())
    for _, _, _, source in _RATIOS:
        if source not in page:
            raise ValueError(f"{BENCHMARKS.name} no longer says {source!r}: correct the figure.")
    axes = figure.subplots()
    for row, (_, peer, ratio, _) in enumerate(_RATIOS):
        axes.barh(row, ratio - 1, left=1, color=_FASTER if ratio < 1 else _SLOWER, height=0.62)
        text = f"{ratio:.2g}" if ratio >= 0.1 else f"1/{1 / ratio:.3g}"
        axes.text(
            ratio * (0.93 if ratio < 1 else 1.07),
            row,
            text,
            ha="right" if ratio < 1 else "left",
            va="center",
            fontsize=9,
        )
        axes.text(1.12 if ratio < 1 else 0.89, row, f"against {peer}", ha="left" if ratio < 1 else "right", va="center",
                  fontsize=8, color=muted)  # fmt: skip
    axes.axvline(1, color=muted, linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(1 / 160, 16)
    axes.set_xticks([0.01, 0.1, 1, 10], ["1/100", "1/10", "as long", "10 times"], fontsize=9)
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.set_yticks(range(len(_RATIOS)), [work for work, *_ in _RATIOS], fontsize=9)
    axes.set_ylim(len(_RATIOS) - 0.5, -0.5)
    label = "time of slatespark / time of the other (logarithmic scale; left of the line slatespark is faster)"
    axes.set_xlabel(label, fontsize=9, color=muted)
    axes.set_ylabel("work", fontsize=9, color=muted)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


PICTURES: Final[dict[str, tuple[Callable[[Figure, str], None], tuple[float, float]]]] = {
    "table": (draw_table, (9, 7.4)),
    "benchmarks": (draw_benchmarks, (9, 4.2)),
}


def draw(folder: Path) -> list[Path]:
    """Return the files of all pictures."""
    files = []
    for name, (paint, size) in PICTURES.items():
        for theme, text in _TEXT.items():
            colours = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), text)
            style = {
                "svg.fonttype": "none",
                "svg.hashsalt": name,
                "axes.facecolor": "none",
                "axes.edgecolor": _MUTED[theme],
                **colours,
            }
            with mpl.rc_context(style):
                figure = Figure(figsize=size, layout="constrained")
                paint(figure, _MUTED[theme])
                files.append(folder / f"{name}-{theme}.svg")
                figure.savefig(files[-1], transparent=True, metadata={"Date": None})
    return files


if __name__ == "__main__":
    for path in draw(IMAGES):
        print(path.relative_to(REPOSITORY), path.stat().st_size)
