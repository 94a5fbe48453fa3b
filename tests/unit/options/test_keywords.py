"""The types of keyword arguments, which editors show and type checkers demand."""

from __future__ import annotations

from datetime import timedelta
from typing import get_type_hints

import pytest

from slatespark.options.keywords import WriteKeywords
from slatespark.options.properties import property_text

TYPES = get_type_hints(WriteKeywords)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("autoCompact", False),
        ("columnar", True),
        ("history", True),
        ("holdHistory", False),
        ("historyRetention", timedelta(days=30)),
        ("retentionFrom", "write"),
        ("segmentDelimiter", b"\0"),
        ("segmentPrefixLength", 3),
    ],
)
def test_a_table_property_has_the_type_of_its_values(name: str, value: object) -> None:
    assert property_text(value, name)
    assert isinstance(value, TYPES[name])


@pytest.mark.parametrize("name", ["autoCompact", "retentionFrom", "segmentDelimiter", "segmentPrefixLength"])
def test_only_durations_are_durations(name: str) -> None:
    assert not isinstance(timedelta(days=1), TYPES[name])
