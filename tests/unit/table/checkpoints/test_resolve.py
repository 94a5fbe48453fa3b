"""A checkpoint by its id or its name."""

from __future__ import annotations

from uuid import UUID

import pytest

from slatespark.errors import InvalidRequestError
from slatespark.format.manifest import Checkpoint, Manifest
from slatespark.table.checkpoints.resolve import resolve_checkpoint


def point(number: int, name: str | None = None, *, version: int = 1) -> Checkpoint:
    return Checkpoint(UUID(int=number), version, 0, 0, name)


POINTS = (
    point(1),
    point(2, "nightly"),
    point(3, "twice", version=4),
    point(4, "twice", version=5),
    point(5, "same", version=6),
    point(6, "same", version=6),
)
MANIFEST = Manifest(checkpoints=POINTS)


@pytest.mark.parametrize(
    ("name", "number"),
    [(str(UUID(int=1)), 1), ("nightly", 2), (str(UUID(int=2)), 2), (str(UUID(int=4)), 4), ("same", 5)],
)
def test_by_id_and_by_name(name: str, number: int) -> None:
    assert resolve_checkpoint("u", MANIFEST, name) == POINTS[number - 1]


def test_one_name_of_several_versions() -> None:
    with pytest.raises(InvalidRequestError, match="2 checkpoints"):
        resolve_checkpoint("u", MANIFEST, "twice")


@pytest.mark.parametrize("name", ["", "None", "Nightly", str(UUID(int=7))])
def test_unknown_names(name: str) -> None:
    with pytest.raises(InvalidRequestError, match="no checkpoint") as raised:
        resolve_checkpoint("u", MANIFEST, name)
    assert f"{UUID(int=1)}, nightly, twice" in raised.value.todo


@pytest.mark.parametrize(
    ("count", "todo"),
    [
        (0, "Known checkpoints: none."),
        (10, "Known checkpoints: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10."),
        (11, "Known checkpoints: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and others."),
    ],
)
def test_the_message_names_the_last_ten(count: int, todo: str) -> None:
    manifest = Manifest(checkpoints=tuple(point(number, str(number)) for number in range(1, count + 1)))
    with pytest.raises(InvalidRequestError) as raised:
        resolve_checkpoint("u", manifest, "x")
    assert raised.value.todo == todo
