"""The text of errors: sentences, whatever a driver's own text ends with."""

from __future__ import annotations

import pickle

import pytest

from slatespark import CorruptDataError, MemoryLimitError, SlateError
from slatespark.errors import as_slate_error


@pytest.mark.parametrize("why", ["No credentials", "No credentials.", " No credentials. "])
def test_each_part_of_an_error_is_a_sentence(why: str) -> None:
    assert str(SlateError("Cannot read.", why=why, todo="Give some")) == "Cannot read. No credentials. Give some"


@pytest.mark.parametrize("end", [".", "!", "?", ":"])
def test_no_second_sign_ends_a_sentence(end: str) -> None:
    assert str(SlateError(f"Really{end}", todo="Go on.")) == f"Really{end} Go on."


def test_parts_that_say_nothing_are_left_out() -> None:
    assert str(SlateError("Alone", why=" ")) == "Alone"


@pytest.mark.parametrize("where", ["", "s3://b/t"])
def test_any_error_becomes_one_of_ours(where: str) -> None:
    own = SlateError("Ours.")
    assert as_slate_error(own, where) is own
    for error, kind in ((ValueError("x"), SlateError), (MemoryError(), MemoryLimitError)):
        made = as_slate_error(error, where)
        assert (type(made), made.__cause__) == (kind, error)
        assert str(made).startswith(where)


def test_an_error_survives_the_way_from_an_executor() -> None:
    sent = pickle.loads(pickle.dumps(CorruptDataError("Bad", why="So", todo="Do.", path="x", offset=3)))
    assert str(sent) == "x at byte 3: Bad. So. Do."


@pytest.mark.parametrize("error", [SlateError("s = \ud800"), CorruptDataError("s = \ud800", path="/t/\udcff")])
def test_half_of_a_surrogate_pair_can_be_printed(error: SlateError) -> None:
    assert str(error).encode().endswith(b"s = \\ud800")
