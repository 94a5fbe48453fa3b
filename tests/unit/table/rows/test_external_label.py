"""What an external SST says of its rows comes back as it was, or is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.rows.external_label import ExternalLabel


def test_a_label_says_of_what_table_the_rows_are() -> None:
    label = ExternalLabel(TableDefinition(), 5, has_instants=True)
    assert ExternalLabel.from_json(label.to_json()) == label
    given_times = ExternalLabel(TableDefinition(), None, has_instants=False)
    assert ExternalLabel.from_json(given_times.to_json()) == given_times
    full = replace(given_times, ttl_from_write=True, made_ms=7, time_column="at", has_remainders=True)
    assert ExternalLabel.from_json(full.to_json()) == full


def test_a_label_of_an_older_release_says_less() -> None:
    full = ExternalLabel(TableDefinition(), None, has_instants=False, made_ms=7, time_column="at", has_remainders=True)
    older = {name: value for name, value in full.to_json().items() if name in ("version", "definition", "instants")}
    assert ExternalLabel.from_json(older) == ExternalLabel(TableDefinition(), None, has_instants=False)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 2}, UnsupportedFormatError),
        ({"version": None}, UnsupportedFormatError),
        ({"stampMs": "5"}, CorruptDataError),
        ({"stampMs": True}, CorruptDataError),
        ({"stampMs": -1}, CorruptDataError),
        ({"stampMs": 2**48}, CorruptDataError),
        ({"madeMs": "5"}, CorruptDataError),
        ({"timestampColumn": 5}, CorruptDataError),
        ({"instants": 1}, CorruptDataError),
        ({"instants": None}, CorruptDataError),
        ({"definition": None}, CorruptDataError),
        ({"definition": {"formatVersion": 1}}, CorruptDataError),
        ({"definition": {"formatVersion": 9}}, UnsupportedFormatError),
    ],
    ids=str,
)
def test_labels_that_are_none(change: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        ExternalLabel.from_json({**ExternalLabel(TableDefinition(), 5, has_instants=True).to_json(), **change})
