from __future__ import annotations

import pytest

from slatespark.errors import CorruptDataError
from slatespark.format.ulid import Ulid, make_ulid


def test_a_ulid_of_the_client() -> None:
    ulid = Ulid.parse("01M7YRCVEB9T5DR5R9WRNDXZHY")
    assert ulid.timestamp_ms == 1795254808011
    assert repr(ulid) == "Ulid(01M7YRCVEB9T5DR5R9WRNDXZHY)"


@pytest.mark.parametrize(
    "text", ["", "0" * 25, "0" * 27, "8" + "0" * 25, "I" + "0" * 25, "é" * 26, "01M7YRCVEB9T5DR5R9WRNDXZH-"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(CorruptDataError):
        Ulid.parse(text)


def test_numbers_out_of_range_are_refused() -> None:
    for timestamp_ms, random_bits in ((-1, 0), (1 << 48, 0), (0, -1), (0, 1 << 80)):
        with pytest.raises(ValueError, match="ULID"):
            make_ulid(timestamp_ms, random_bits)
    with pytest.raises(ValueError, match="128"):
        Ulid(1 << 128)
