from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa

from slatespark import SlateStore
from slatespark.display.layer_picture import picture_layers
from slatespark.display.notebook import MAX_COLUMNS, failure_html, layers_svg, summary_html
from slatespark.table.inspection.describe import ColumnFacts
from tests.unit.display.summaries import CODEC, DEFINITION, FACTS, layer, summary, typed_summary

ALLOWED_TAGS = frozenset("div table tr td b details summary svg title rect line text".split())  # noqa: SIM905
EVIL = "<script>alert('x')</script>\"&\x00\x1b"


class Tags(HTMLParser):
    """The tags and the text of a page; fails on a tag that is closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") for name, _ in attrs)
        self.names.append(tag)
        if tag != "br":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def tags_of(page: str) -> Tags:
    tags = Tags()
    tags.feed(page)
    tags.close()
    return tags


def test_facts_columns_and_layers() -> None:
    page = summary_html(typed_summary("a", "b"))
    text = tags_of(page).text
    for part in ("file:///t", "tenant, id (tuple)", "DECIMAL(10,2)", "key 1", "key 2", "not null", "defaultTtl", "7d"):
        assert part in text
    assert "tenant=a, id=1 to tenant=a, id=9" in text
    assert text.count("run 3: ") == 2


def test_text_of_others_is_escaped() -> None:
    columns = (ColumnFacts(EVIL, "STRING", True, 0), ColumnFacts("x", EVIL, True, None))
    definition = replace(DEFINITION, key_columns=(EVIL,), columns=columns, properties={EVIL: EVIL})
    facts = replace(FACTS, url=f"file:///{EVIL}", kind="typed", definition=definition)
    evil_keys = layer(0, EVIL, [(EVIL.encode(), EVIL.encode() + b"\0", 5)])
    page = summary_html(summary([evil_keys], facts=facts))
    tags = tags_of(page)
    assert set(tags.names) <= ALLOWED_TAGS
    assert "alert('x')" in tags.text
    assert "\x00" not in page
    assert "\x1b" not in page
    assert "<script>" not in failure_html(EVIL, ValueError(EVIL))


def test_typed_keys_are_escaped_too() -> None:
    keys = [CODEC.encode_key([EVIL, 1])]
    page = layers_svg(picture_layers(summary([layer(0, "run 0", [(keys[0], keys[0] + b"\0", 5)])], codec=CODEC)))
    assert "tenant=&lt;script&gt;" in page
    assert "<script" not in page


def test_the_picture_is_well_formed_and_takes_its_text_colour_from_the_page() -> None:
    page = layers_svg(picture_layers(typed_summary(*"abcdef")))
    root = ET.fromstring(page)
    assert len(root.findall(".//{http://www.w3.org/2000/svg}rect")) == 6
    assert set(re.findall(r"<text[^>]* fill='([^']*)'", page)) == {"currentColor"}
    assert "<text" in page
    assert "black" not in page
    assert "white" not in page


def test_long_schemas_are_folded_and_cut() -> None:
    columns = tuple(ColumnFacts(f"c{at}", "INT", True, None) for at in range(MAX_COLUMNS + 7))
    definition = replace(DEFINITION, columns=columns)
    page = summary_html(summary([], facts=replace(FACTS, definition=definition)))
    assert "<details>" in page
    assert "and 7 more columns" in page
    assert "The table has no files." in page


def test_a_store_shows_itself(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "<b>"))
    assert "The table has no files." in store._repr_html_()
    store.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    assert "<rect" in store._repr_html_()
    assert "&lt;b&gt;" in store._repr_html_()
    assert str(store).splitlines()[-1].strip() == "keys a to a"
    assert repr(store) == f"SlateStore('file://{tmp_path}/<b>')"


def test_a_table_that_cannot_be_read_shows_why(tmp_path: Path) -> None:
    store = SlateStore.create(str(tmp_path / "t"))
    max((tmp_path / "t" / "manifest").iterdir()).write_bytes(b"\0\x02damage")
    assert "CorruptDataError" in store._repr_html_()
    assert str(store).startswith(repr(store) + "\nCorruptDataError: ")
