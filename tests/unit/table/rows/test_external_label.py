"""What an external SST says of its rows comes back as it was, or is refused."""

from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError, UnsupportedFormatError
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.rows.external_label import ExternalLabel


def test_a_label_says_of_what_table_the_rows_are() -> None:
    label = ExternalLabel(TableDefinition(), 5, has_instants=True)
    assert ExternalLabel.from_json(label.to_json()) == label
    given_times = ExternalLabel(TableDefinition(), None, has_instants=False)
    assert ExternalLabel.from_json(given_times.to_json()) == given_times


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"version": 2}, UnsupportedFormatError),
        ({"version": None}, UnsupportedFormatError),
        ({"stampMs": "5"}, CorruptDataError),
        ({"stampMs": True}, CorruptDataError),
        ({"stampMs": -1}, CorruptDataError),
        ({"stampMs": 2**48}, CorruptDataError),
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
