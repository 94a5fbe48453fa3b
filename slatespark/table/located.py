"""Errors that name their object: the pure layers know bytes alone, so whoever fetched the bytes says where they lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slatespark.errors import CorruptDataError, SnapshotExpiredError, UnsupportedFormatError
from slatespark.storage.object_store import ObjectStore


@contextmanager
def reading(store: ObjectStore, path: str, base_offset: int = 0) -> Iterator[None]:
    """Add the object to what goes wrong while a part of it is fetched and decoded."""
    where = f"{store.url}/{path}"
    try:
        yield
    except CorruptDataError as exc:
        raise exc.located(where, base_offset) from exc
    except UnsupportedFormatError as exc:
        raise UnsupportedFormatError(f"{where}: {exc.args[0]}", why=exc.why, todo=exc.todo) from exc
    except FileNotFoundError as exc:
        raise SnapshotExpiredError(
            f"{where} does not exist, but the snapshot needs it.",
            why="The table's garbage collector removed it, or it was lost.",
            todo="Load the table again; if that fails too, run `slatespark verify` on it.",
        ) from exc
