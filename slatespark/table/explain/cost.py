"""The cost model: requests and bytes, as bounds where they are not known, and their price. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from slatespark.errors import OptionError
from slatespark.options.values import normalize_name, unknown_option
from slatespark.storage.requests import Requests as Requests

_PER_REQUESTS: Final = 1000
_PER_BYTES: Final = 10**9


@dataclass(frozen=True, slots=True)
class RequestRange:
    """Requests between two bounds.

    Attributes
    ----------
    low, high : bounds: at least, and at most
    """

    low: Requests = field(default_factory=Requests)
    high: Requests = field(default_factory=Requests)

    @classmethod
    def of(cls, requests: Requests) -> RequestRange:
        """Return a range of exactly these requests."""
        return cls(requests, requests)

    def __add__(self, other: RequestRange) -> RequestRange:
        return RequestRange(self.low + other.low, self.high + other.high)

    def __or__(self, other: RequestRange) -> RequestRange:
        """Return the range of one or the other."""
        return RequestRange(self.low.least(other.low), self.high.most(other.high))

    def __contains__(self, requests: Requests) -> bool:
        return self.low <= requests <= self.high

    @property
    def is_exact(self) -> bool:
        """Whether the bounds are equal."""
        return self.low == self.high


NOTHING: Final = RequestRange()


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices, in any currency.

    Attributes
    ----------
    get, put, list, delete : the price of 1,000 requests of a kind
    read, write : the price of 10^9 bytes received or sent
    """

    get: float = 0.0
    put: float = 0.0
    list: float = 0.0
    delete: float = 0.0
    read: float = 0.0
    write: float = 0.0

    @classmethod
    def parse(cls, given: Mapping[str, object] | str | None) -> PriceList | None:
        """Return a price list of a mapping, or of text like `get=0.0004, put=0.005`; None if none is given.

        Raises
        ------
        OptionError
            When a name is unknown, or a price is not a number from 0 on.
        """
        if given is None:
            return None
        if not isinstance(given, Mapping | str):
            raise OptionError(f"prices: {given!r} is not a list of prices.", todo="Write it like get=0.0004,put=0.005.")
        pairs = given if isinstance(given, Mapping) else _pairs(given)
        names = [item.name for item in fields(cls)]
        prices: dict[str, float] = {}
        for name, value in pairs.items():
            known = normalize_name(str(name))
            if known not in names:
                raise unknown_option(str(name), names)
            prices[known] = _price(known, value)
        return cls(**prices)

    def cost(self, requests: Requests) -> float:
        """Return the price of some requests."""
        by_count = (
            self.get * requests.get
            + self.put * requests.put
            + self.list * requests.list
            + self.delete * requests.delete
        )
        by_size = self.read * requests.read_bytes + self.write * requests.written_bytes
        return by_count / _PER_REQUESTS + by_size / _PER_BYTES


def _pairs(text: str) -> dict[str, str]:
    pairs = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = entry.partition("=")
        if not equals:
            raise OptionError(f"prices: {entry!r} is not a price.", todo="Write them like get=0.0004,put=0.005.")
        pairs[name.strip()] = value
    return pairs


def _price(name: str, value: object) -> float:
    try:
        price = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        price = -1.0
    if not 0 <= price < float("inf"):
        raise OptionError(f"prices: {name} is {value!r}.", todo="Give a number from 0 on.")
    return price
