"""The judge itself: what it must object to, and what not."""

from __future__ import annotations

import pytest

from tests.simulation.model import Doing, ModelError, Rows, TableModel

BEFORE: Rows = {b"a": b"1"}


def append(before: Rows) -> Rows:
    return {**before, b"a": before.get(b"a", b"") + b"+"}


def begun(model: TableModel, *, key: str = "", is_shared: bool = False) -> Doing:
    doing = Doing("append", append, key=key, is_shared=is_shared)
    model.begin(doing)
    return doing


def setting(model: TableModel, value: bytes) -> Doing:
    doing = Doing(f"set to {value!r}", lambda before: {**before, b"a": value}, is_shared=True)
    model.begin(doing)
    return doing


@pytest.fixture
def model() -> TableModel:
    return TableModel([BEFORE], {1: BEFORE}, 1)


def test_an_effect_shows_once(model: TableModel) -> None:
    doing = begun(model)
    model.add(2, doing, BEFORE, BEFORE)  # its claim
    model.add(3, doing, append(BEFORE), append(BEFORE))
    model.check_done(doing)
    with pytest.raises(ModelError, match="twice"):
        model.add(4, doing, append(append(BEFORE)), {})


def test_two_attempts_of_an_idempotent_write_have_one_effect(model: TableModel) -> None:
    first, second = begun(model, key="pair"), begun(model, key="pair")
    model.add(2, first, append(BEFORE), {})
    model.check_done(second)
    with pytest.raises(ModelError, match="twice"):
        model.add(3, second, append(append(BEFORE)), {})


def test_rows_that_nobody_changed(model: TableModel) -> None:
    with pytest.raises(ModelError, match="nobody"):
        model.add(2, None, {}, {})
    with pytest.raises(ModelError, match="append"):
        model.add(3, begun(model), {}, {})


def test_an_acknowledged_operation_without_effect(model: TableModel) -> None:
    with pytest.raises(ModelError, match="no effect"):
        model.check_done(begun(model))
    nothing = Doing("nothing", dict)
    model.begin(nothing)
    model.check_done(nothing)


def test_a_refused_operation_with_effect(model: TableModel) -> None:
    doing = begun(model)
    model.add(2, doing, append(BEFORE), {})
    with pytest.raises(ModelError, match="refused"):
        model.check_refused(doing, ValueError())


def test_what_another_process_commits(model: TableModel) -> None:
    handed = begun(model, is_shared=True)
    model.end(handed)  # its process has died
    model.add(2, None, append(BEFORE), {})
    assert handed.applied is not None
    refused = begun(model, is_shared=True)
    model.check_refused(refused, ValueError())
    with pytest.raises(ModelError, match="nobody"):
        model.add(3, None, append(model.rows), {})


def test_versions_have_no_gaps(model: TableModel) -> None:
    with pytest.raises(ModelError, match="follows"):
        model.add(3, None, BEFORE, BEFORE)


def test_a_reader_sees_one_moment(model: TableModel) -> None:
    first = model.moment
    model.add(2, begun(model), append(BEFORE), {})
    model.check_read("scan", BEFORE, first)
    model.check_read("scan", append(BEFORE), first)
    with pytest.raises(ModelError, match="scan"):
        model.check_read("scan", BEFORE, model.moment)


def test_rows_that_are_handed_over_are_older_than_those_written_since(model: TableModel) -> None:
    handed = Doing("load", lambda before: {**before, b"a": b"load", b"b": b"load"}, is_shared=True)
    model.begin(handed)
    with pytest.raises(ModelError, match="nobody"):
        model.add(2, None, {**BEFORE, b"b": b"load"}, {})
    model.add(3, Doing("write", lambda before: {**before, b"a": b"2"}), {b"a": b"2"}, {})
    model.add(4, None, {b"a": b"2", b"b": b"load"}, {})
    assert handed.applied is not None


def test_of_two_loads_the_first_to_commit_may_hide_the_other(model: TableModel) -> None:
    first, second = (setting(model, value) for value in (b"x", b"y"))
    model.add(2, first, {b"a": b"x"}, {})
    model.check_done(second)
    late = setting(model, b"z")
    with pytest.raises(ModelError, match="no effect"):
        model.check_done(late)
