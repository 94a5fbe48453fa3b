"""The random numbers of a seed."""

from __future__ import annotations

from random import Random as Chance  # noqa: TID251  # always seeded here

__all__ = ["Chance"]
