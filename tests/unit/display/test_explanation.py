from __future__ import annotations

from dataclasses import replace

from slatespark.display.explanation_html import explanation_html
from slatespark.display.explanation_text import MAX_LAYERS, MAX_REASONS, explanation_text
from slatespark.storage.requests import Requests
from slatespark.table.compaction.report import CompactionReport
from slatespark.table.explain.cost import PriceList, RequestRange
from slatespark.table.explain.explanation import ExplanationFacts, LayerUse, ReapOutlook
from slatespark.table.gc.report import VacuumReport

READ = ExplanationFacts(
    url="memory://t",
    operation="read",
    version=7,
    estimated=RequestRange(Requests(get=8, list=2, read_bytes=2048), Requests(get=12, list=2, read_bytes=4096)),
    planning=Requests(get=3, list=2, read_bytes=1024),
    layers=(LayerUse("L0", 1, 0), LayerUse("run 3", 4, 3)),
    files=5,
    skipped={"outside the keys": 2},
    splits=2,
    wal_files=1,
)


def test_an_estimate() -> None:
    assert explanation_text(READ).splitlines() == [
        "table      memory://t",
        "operation  read",
        "version    7",
        "files      3 of 5 files",
        "skipped    2 outside the keys",
        "splits     2",
        "WAL        1 file",
        "",
        "                   estimated  of it to plan",
        "GET                  8 to 12              3",
        "PUT                        0              0",
        "LIST                       2              2",
        "DELETE                     0              0",
        "received  2.0 KiB to 4.0 KiB        1.0 KiB",
        "sent                     0 B            0 B",
        "",
        "layer  files  read",
        "L0         1     0",
        "run 3      4     3",
    ]


def test_a_measurement_stands_beside_the_estimate() -> None:
    found = replace(
        READ,
        measured=Requests(get=9, list=2, read_bytes=3072),
        rows=1234,
        elapsed_ms=1500,
        prices=PriceList(get=0.0004, list=5),
    )
    lines = explanation_text(found).splitlines()
    assert "rows       1,234" in lines
    assert "time       1,500 ms" in lines
    assert [line.split() for line in lines if line.startswith(("GET", "price"))] == [
        ["GET", "8", "to", "12", "3", "9"],
        ["price", "0.01", "0.01", "0.01"],
    ]
    cheap = explanation_text(replace(found, prices=PriceList(get=0.0004)))
    assert "0.0000032 to 0.0000048" in cheap
    assert "e-0" not in cheap


def test_long_lists_are_cut() -> None:
    found = replace(
        READ,
        layers=tuple(LayerUse(f"run {number}", 2, 1) for number in range(MAX_LAYERS + 3)),
        skipped={f"reason {number}": 1 for number in range(MAX_REASONS + 2)},
        files=20,
    )
    text = explanation_text(found)
    assert text.splitlines()[-1].split() == ["and", "3", "older", "layers", "6", "3"]
    assert "2 for other reasons" in text


def test_what_upkeep_would_do() -> None:
    nothing = CompactionReport("memory://t", 7, dry_run=True)
    assert "merges     nothing" in explanation_text(replace(READ, operation="compact", plan=nothing))
    vacuum = VacuumReport("memory://t", None, 0, 0, dry_run=True, files=())
    text = explanation_text(replace(READ, operation="vacuum", version=None, plan=vacuum))
    assert "objects    3 of 5 objects" in text
    assert "deletes    0 objects, 0 B" in text
    assert "none: there is no table here" in text
    young, due = ReapOutlook(7, 100, None, None), ReapOutlook(7, 100, 50, 50, 1, 1024, 2, 2048)
    assert "no row can be past retention" in explanation_text(replace(READ, operation="reap", plan=young))
    assert "dropped         1 file, 1.0 KiB" in explanation_text(replace(READ, operation="reap", plan=due))


def test_html_is_escaped() -> None:
    found = replace(READ, url="memory://<b>", layers=(LayerUse("<i>", 1, 1),), skipped={"a<b": 1, "c": 1})
    html = explanation_html(found)
    assert "memory://&lt;b&gt;" in html
    assert "<i>" not in html
    assert "1 a&lt;b, 1 c" in html
    assert html.count("<table") == html.count("</table>") == 3
