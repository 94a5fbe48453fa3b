from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from slatespark import InvalidRequestError, SlateStore
from slatespark.display.plots import plot_layers
from tests.unit.display.summaries import FACTS, layer, summary, typed_summary


def test_a_figure_of_the_layers() -> None:
    figure = plot_layers(typed_summary("a", "b$"))
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["run 3"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["tenant=a, id=1", r"tenant=b\$, id=9"]
    [bars] = axes.collections
    assert len(bars.get_paths()) == 2
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]  # of the figures made here


def test_axes_may_be_given() -> None:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert plot_layers(summary([layer(0, "L0", [(b"a", None, 1)])], facts=FACTS), axes) is axes.figure


def test_an_empty_table(tmp_path: Path) -> None:
    figure = SlateStore.create(str(tmp_path / "t")).plotLayers()
    figure.savefig(tmp_path / "layers.png")
    assert (tmp_path / "layers.png").stat().st_size > 0


def test_older_versions(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    assert not store.plotLayers(versionAsOf=1).axes[0].collections
    assert len(store.plotLayers().axes[0].collections) == 1


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InvalidRequestError, match="matplotlib"):
        plot_layers(summary([]))


def test_both_ends_of_an_axis_differ(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"), "tenant STRING, day STRING", "tenant, day")
    tenant = "t" * 100
    store.write(pa.table({"tenant": [tenant] * 2, "day": ["2026-01-01", "2026-12-31"]}))
    for figure in (store.plotLayers(), store.plotTimeline()):
        first, last = (label.get_text() for label in figure.axes[0].get_xticklabels())
        assert first.endswith("2026-01-01")
        assert last.endswith("2026-12-31")
    drawn = store._repr_html_()
    assert "2026-01-01</text>" in drawn
    assert "2026-12-31</text>" in drawn
