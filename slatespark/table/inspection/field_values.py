"""Values of the format as dicts, lists, numbers, text and bytes, under the names of their fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from slatespark.format.ulid import Ulid


def field_values(value: Any) -> Any:
    """Return a value, with dataclasses as dicts, ids as text, and members of enums by their names."""
    if isinstance(value, Ulid | UUID):
        return str(value)
    if isinstance(value, Enum):
        return value.name.lower()
    if is_dataclass(value):
        return {item.name: field_values(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [field_values(item) for item in value]
    return value
