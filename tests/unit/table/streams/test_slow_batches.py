"""Streams whose batches take long: what they need is held until they have read it, however often vacuums run."""

from __future__ import annotations

import pytest

from slatespark import HistoryTrimmedError
from tests.unit.table.streams.stream_place import Place, numbers, rows

MINUTE_MS = 60_000


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends at the newest version"])
def test_a_unit_that_takes_longer_than_the_retention_of_the_stream(ends: bool) -> None:
    place = Place()
    place.store.write(rows(range(20)))
    consumer = place.consumer(maxRowsPerTrigger=2, streamRetention="1h")
    consumer.step()
    if ends:
        place.store.write(rows(range(20, 24), 1))
        consumer.restart()
        consumer.stream.stop_at_newest()
    wanted = place.now()
    for n in range(11):
        consumer.step()
        place.store.write(rows(range(100, 101), n))
        place.vacuum(25 * MINUTE_MS)
    assert numbers(consumer.state).items() >= numbers(wanted).items()


def test_what_was_released_meanwhile_is_held_again() -> None:
    """The process slept for longer than the holds last; somebody else keeps the version."""
    place = Place()
    place.store.write(rows(range(20)))
    consumer = place.consumer(maxRowsPerTrigger=2, streamRetention="1h")
    consumer.step()
    (held,) = place.holds()
    place.store.createCheckpoint("kept", version=held[1])
    place.vacuum(70 * MINUTE_MS)
    assert not place.holds()
    consumer.step()
    assert place.holds() == [held]
    place.store.deleteCheckpoint("kept")
    for _ in range(9):
        place.store.write(rows(range(100, 101)))
        place.vacuum(10 * MINUTE_MS)
        consumer.step()
    assert numbers(consumer.state).keys() >= {(key,) for key in range(20)}


def test_where_a_run_ends_is_held_again_too() -> None:
    place = Place()
    place.store.write(rows(range(20)))
    consumer = place.consumer(maxRowsPerTrigger=2, streamRetention="1h")
    consumer.step()
    place.store.write(rows(range(20, 24)))
    consumer.restart()
    consumer.stream.stop_at_newest()
    consumer.step()
    held = place.holds()
    assert len(held) == 2
    for _, version in held:
        place.store.createCheckpoint(f"kept {version}", version=version)
    place.vacuum(70 * MINUTE_MS)
    assert not place.holds()
    consumer.step()
    assert sorted(place.holds()) == sorted(held)


def test_what_was_collected_meanwhile_is_missed() -> None:
    """The process slept for longer than the holds last, and a vacuum came."""
    place = Place()
    place.store.write(rows(range(5)))
    strict = place.consumer(streamRetention="1h")
    lenient = place.consumer(streamRetention="1h", failOnDataLoss=False)
    strict.step()
    lenient.step()
    place.store.write(rows(range(5, 8)), mode="overwrite")
    place.vacuum(70 * MINUTE_MS)
    with pytest.raises(HistoryTrimmedError, match="streamRetention"):
        strict.step()
    lenient.catch_up()
    place.store.write(rows(range(8, 10)))
    lenient.catch_up()
    assert numbers(lenient.state).keys() >= {(8,), (9,)}
