from __future__ import annotations

import pytest

from slatespark import OptionError
from slatespark.storage.requests import Requests
from slatespark.table.explain.cost import PriceList, RequestRange

REQUESTS = Requests(get=2000, put=500, list=10, delete=7, read_bytes=3 * 10**9, written_bytes=10**8)


def test_a_price_is_that_of_a_thousand_requests_or_a_gigabyte() -> None:
    prices = PriceList.parse({"get": 0.5, "put": "4", "read": 0.25, "WRITE": 1})
    assert prices is not None
    assert prices.cost(REQUESTS) == pytest.approx(2 * 0.5 + 0.5 * 4 + 3 * 0.25 + 0.1)
    assert PriceList.parse(" get=0.5, put = 4,read=0.25,write=1 ,") == prices
    assert PriceList().cost(REQUESTS) == 0
    assert PriceList.parse(None) is None


@pytest.mark.parametrize(
    "given",
    [
        5,
        [("get", 1)],
        {"gets": 1},
        {"get": -1},
        {"get": "x"},
        {"get": float("nan")},
        {"get": float("inf")},
        {"get": 10**400},
        {"get": True},
        {"get": None},
        "get",
        "get=1,put",
        "head=1",
    ],
)
def test_what_is_no_price_list(given: dict[str, object] | str) -> None:
    with pytest.raises(OptionError):
        PriceList.parse(given)


def test_ranges_add_up() -> None:
    some = RequestRange(Requests(get=1), Requests(get=3, read_bytes=10))
    both = some + RequestRange.of(Requests(get=1, list=1))
    assert both == RequestRange(Requests(get=2, list=1), Requests(get=4, list=1, read_bytes=10))
    assert (both.is_exact, RequestRange.of(REQUESTS).is_exact) == (False, True)
    assert Requests(get=3, list=1, read_bytes=10) in both
    assert Requests(get=3, list=2) not in both
    assert Requests(get=5, list=1) not in both
