"""Options of the change feed: they go together, and with nothing that reads one version."""

from __future__ import annotations

from typing import Any

import pytest

from slatespark import OptionError
from slatespark.options import ReadOptions


def parsed(**options: Any) -> ReadOptions:
    return ReadOptions.parse({"path": "t", "readChangeFeed": "true", **options})


def test_defaults_are_those_of_delta() -> None:
    options = parsed(startingVersion="3")
    assert (options.starting_version, options.ending_version) == (3, None)
    assert options.includes_start
    assert options.includes_end
    assert options.with_pre_images
    assert not options.ignores_expired


def test_flags_are_read() -> None:
    options = parsed(startingVersion=3, startingBoundInclusive="false", endingBoundInclusive=False, preImages="false")
    assert [options.includes_start, options.includes_end, options.with_pre_images] == [False] * 3
    assert parsed(startingVersion=3, expired="ignore").ignores_expired


@pytest.mark.parametrize(
    "options",
    [
        {"startingVersion": 0},
        {"startingVersion": 4, "endingVersion": 3},
        {"startingTimestamp": "2026-02-01", "endingTimestamp": "2026-01-01"},
        {"startingVersion": 3, "startingTimestamp": "2026-02-01"},
        {"startingVersion": 3, "endingVersion": 4, "endingTimestamp": "2026-02-01"},
        {"startingVersion": 3, "changes": "all"},
        {"startingVersion": 3, "changes": "log", "preImages": "true"},
        {"startingVersion": 3, "changes": "log", "expired": "ignore"},
        {"startingVersion": 3, "changes": "log", "includeExpired": "true"},
        {"startingVersion": 3, "changes": "log", "mergeOperator": "sum"},
        {"startingVersion": 3, "expired": "keep"},
        {"startingVersion": 3, "expired": "delete", "includeExpired": "true"},
        {"startingVersion": 3, "versionAsOf": 4},
        {"startingVersion": 3, "timestampAsOf": 4},
        {"startingVersion": 3, "seqAsOf": 4},
        {"startingVersion": 3, "checkpoint": "a"},
        {"startingVersion": 3, "now": 4},
        {"startingVersion": 3, "readVersions": "all"},
        {"startingVersion": 3, "includeDeleted": "true"},
        {"startingVersion": 3, "ignoreUndecodable": "true"},
        {"startingVersion": 3, "pushdown": "true"},
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        parsed(**options)


@pytest.mark.parametrize(
    "option",
    [
        {"startingVersion": 3},
        {"startingTimestamp": 3},
        {"endingVersion": 3},
        {"endingTimestamp": 3},
        {"startingBoundInclusive": "true"},
        {"endingBoundInclusive": "true"},
        {"changes": "net"},
        {"preImages": "true"},
        {"expired": "delete"},
    ],
)
def test_a_read_of_rows_takes_none_of_them(option: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="readChangeFeed"):
        ReadOptions.parse({"path": "t", **option})


def test_a_read_of_one_of_the_versions_has_no_option_of_the_feed() -> None:
    options = parsed(startingVersion=3, preImages=False, columns="a").of_version(7)
    assert options == ReadOptions.parse({"path": "t", "versionAsOf": 7, "columns": "a"})


def test_a_stream_without_a_start_has_no_bound() -> None:
    parsed(startingVersion=3, startingBoundInclusive=False).refuse_for_stream()
    for given in (False, True):
        with pytest.raises(OptionError, match="startingBoundInclusive"):
            parsed(startingBoundInclusive=given).refuse_for_stream()


def test_a_batch_without_an_end_has_no_bound_there() -> None:
    for end in ({"endingVersion": 5}, {"endingTimestamp": 0}, {}):
        parsed(startingVersion=3, endingBoundInclusive=True, **end).refuse_for_batch()
    parsed(startingVersion=3, endingBoundInclusive=False, endingTimestamp=0).refuse_for_batch()
    with pytest.raises(OptionError, match="endingBoundInclusive"):
        parsed(startingVersion=3, endingBoundInclusive=False).refuse_for_batch()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"endingVersion": 3},
        {"startingVersion": 3, "endingBoundInclusive": False},
        *({"startingVersion": 3, **one} for one in ({"maxRowsPerTrigger": 1}, {"failOnDataLoss": True})),
    ],
)
def test_a_batch_has_a_start_and_nothing_of_streams(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        parsed(**options).refuse_for_batch()


@pytest.mark.parametrize(
    "options",
    [
        {"startingVersion": 3, "endingVersion": 4},
        {"startingVersion": 3, "endingTimestamp": 4},
        {"startingVersion": 3, "endingBoundInclusive": True},
        {"startingBoundInclusive": True},
        {"changes": "log", "maxFilesPerTrigger": 1},
        {"pin": "1h"},
    ],
)
def test_a_stream_has_no_end_and_nothing_of_batches(options: dict[str, Any]) -> None:
    parsed(startingVersion=3, startingBoundInclusive=False, maxFilesPerTrigger=1).refuse_for_stream()
    with pytest.raises(OptionError):
        parsed(**options).refuse_for_stream()


def test_a_log_cannot_fill_its_gaps() -> None:
    assert parsed(changes="log", failOnDataLoss=True).fail_on_data_loss
    with pytest.raises(OptionError):
        parsed(changes="log", failOnDataLoss=False)
