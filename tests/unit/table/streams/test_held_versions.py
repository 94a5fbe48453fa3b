"""The versions that a stream of changes holds, and for how long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slatespark import (
    HistoryTrimmedError,
    OptionError,
    SnapshotExpiredError,
)
from tests.unit.table.streams.stream_place import Place, rows


def test_versions_are_held_until_they_are_not_needed() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(streamId="s")
    consumer.step()
    for n in range(1, 5):
        place.store.write(rows(range(3), n))
        assert consumer.step()
    assert {name for name, _ in place.holds()} == {"slatespark/stream/s"}
    ends = [json.loads(text)["version"] for text in consumer.offsets]
    assert [version for _, version in place.holds()] == ends[-2:]
    consumer.restart()
    place.store.write(rows(range(3), 5))
    consumer.step()
    assert len(place.holds()) == 2, "those of the run before are released too"


@pytest.mark.parametrize("options", [{}, {"startingVersion": 3}], ids=["all rows", "a start"])
def test_a_log_holds_nothing_after_its_first_batch(options: dict[str, Any]) -> None:
    place = Place(versionRetention="7d")
    place.store.write(rows(range(3)))
    consumer = place.consumer(changes="log", **options)
    assert consumer.step()
    consumer.replay()
    assert len(place.holds()) == 1
    consumer.restart()  # before the second batch was asked for
    place.store.write(rows(range(3), 1))
    assert consumer.step()
    assert not place.holds()
    version = place.store.resolve().version
    for _ in range(2):
        consumer.restart()
        assert not consumer.step()
        consumer.replay()
    assert place.store.resolve().version == version


def test_a_checkpoint_that_somebody_deletes() -> None:
    place = Place()
    place.store.write(rows(range(9)))
    place.store.createCheckpoint("a version without a commit record")
    consumer = place.consumer(maxRowsPerTrigger=3)
    consumer.step()
    for point in place.store.checkpoints():
        place.store.deleteCheckpoint(point.id)
    place.store.write(rows(range(9), 1))
    place.vacuum(after_ms=60_000)
    with pytest.raises(SnapshotExpiredError):
        consumer.step()
    consumer.restart(failOnDataLoss=False)
    consumer.catch_up()
    assert consumer.last


def test_runs_for_which_nothing_is_new_write_nothing() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer()
    consumer.step()
    version = place.store.resolve().version
    for _ in range(20):
        consumer.restart()
        consumer.stream.stop_at_newest()
        assert not consumer.step()
    assert place.store.resolve().version == version
    place.store.write(rows(range(3), 1))
    consumer.restart()
    assert consumer.step()
    assert len(place.holds()) == 2


def test_holds_are_renewed_while_nothing_is_new() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(streamRetention="10s")
    consumer.step()
    place.store.write(rows(range(3), 1))
    consumer.step()
    for _ in range(30):
        assert not consumer.step()
        place.vacuum()
    place.store.write(rows(range(3), 2))
    place.vacuum()
    assert consumer.step()
    assert consumer.state == place.now()


def test_a_stream_that_was_away_for_too_long(caplog: pytest.LogCaptureFixture) -> None:
    place = Place()
    place.store.write(rows(range(3)))
    consumer = place.consumer(streamRetention="1h")
    consumer.step()
    place.store.write(rows(range(3, 6)))
    place.vacuum(50 * 60_000)
    consumer.restart()
    assert consumer.step()
    assert "streamRetention" in caplog.text
    place.store.write(rows(range(6, 9)))
    place.vacuum(2 * 3_600_000)
    place.store.write(rows(range(9, 12)))
    place.vacuum()
    consumer.restart()
    with pytest.raises(HistoryTrimmedError, match="failOnDataLoss"):
        consumer.step()
    consumer.restart(failOnDataLoss=False)
    consumer.catch_up()
    place.store.write(rows(range(12, 15)))
    consumer.catch_up()
    assert {key for (key,) in consumer.state} >= {*range(6), *range(12, 15)}


def test_holds_that_would_outlast_the_calendar() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    with pytest.raises(OptionError):
        place.consumer(streamRetention="200000d").step()


def test_a_hold_of_another_version_does_not_count() -> None:
    place = Place()
    place.store.write(rows(range(3)))
    place.consumer(streamId="s").step()
    [(name, earlier)] = place.holds()
    later = place.store.write(rows(range(3), 1))
    place.consumer(streamId="s", startingVersion=later, startingBoundInclusive=False).stream.initial()
    assert place.holds() == [(name, earlier), (name, later)]
