"""Pictures of layers as text: `tests/data/display/layers.txt`; and what holds for any picture."""

from __future__ import annotations

from dataclasses import replace

from slatespark.display.layer_picture import MIN_WIDTH, picture_layers
from slatespark.display.summary_text import layers_text
from slatespark.table.inspection.describe import WalFacts
from slatespark.table.inspection.files import LayerFacts
from tests.support.golden import DATA, Case, run_golden
from tests.unit.display.summaries import FACTS, layer, summary, typed_summary


def print_layers(case: Case) -> str:
    layers = [parse_layer(number, line) for number, line in enumerate(case.lines)]
    if many := int(case.arguments.get("many", 0)):
        keys = [b"%05d" % at for at in range(many)]
        layers = [layer(0, "run 0", [(key, key + b"\0", 10) for key in keys])]
    files = int(case.arguments.get("wal", 0))
    facts = replace(FACTS, wal=WalFacts(1, 1 + files, 5)) if files else FACTS
    return layers_text(picture_layers(summary(layers, facts=facts)))


def parse_layer(number: int, line: str) -> LayerFacts:
    name, _, files = line.partition(": ")
    parts = [text.split() for text in files.split(", ")]
    ends = [None if last == "-" else last.encode() + b"\0" for _, last, _ in parts]
    return layer(
        number, name, [(first.encode(), end, int(size)) for (first, _, size), end in zip(parts, ends, strict=True)]
    )


def test_layers_as_text(rewrite: bool) -> None:
    run_golden(DATA / "display" / "layers.txt", {"layers": print_layers}, rewrite=rewrite)


def test_a_large_table_stays_a_small_picture() -> None:
    keys = [b"%06d" % at for at in range(20_000)]
    large = layer(0, "run 0", [(key, key + b"\0", 10) for key in keys])
    [lane] = picture_layers(summary([large])).lanes
    assert len(lane.boxes) <= 2 / MIN_WIDTH
    assert lane.boxes[3].title.startswith(f"run 0: {lane.boxes[3].files} files")


def test_keys_of_typed_tables_are_decoded() -> None:
    picture = picture_layers(typed_summary("a", "b"))
    assert picture.lanes[0].boxes[0].title.splitlines()[1] == "tenant=a, id=1 to tenant=a, id=9"
    assert [picture.ticks[0].name, picture.ticks[-1].name] == ["tenant=a, id=1", "tenant=b, id=9"]


def test_a_key_that_reads_like_a_bound_keeps_its_name() -> None:
    keys = [b"below 10", b"below 20"]
    picture = picture_layers(summary([layer(0, "run 0", [(keys[0], keys[1] + b"\0", 10)])]))
    assert [tick.name for tick in picture.ticks] == ["below 10", "below 20"]
    bounded = picture_layers(summary([layer(0, "run 0", [(keys[0], keys[1], 10)])]))
    assert [tick.name for tick in bounded.ticks] == ["below 10", "below 20"]
