"""Deleting many objects, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from slatespark.storage import ObjectMeta, ObjectStore, run_concurrently
from slatespark.storage.requests import MOST_DELETED

_PARALLEL_REQUESTS: Final = 64


def delete_together(store: ObjectStore, metas: Sequence[ObjectMeta]) -> Iterator[int]:
    """Delete objects, whatever they hold by now, and yield after each group how many it had."""
    for at in range(0, len(metas), MOST_DELETED):
        some = metas[at : at + MOST_DELETED]
        store.delete_many([meta.path for meta in some])
        yield len(some)


def delete_each(
    store: ObjectStore, metas: Sequence[ObjectMeta], delete: Callable[[ObjectStore, ObjectMeta], None]
) -> Iterator[int]:
    """Delete objects with a request of their own each, and yield after each group how many it had."""
    for at in range(0, len(metas), _PARALLEL_REQUESTS):
        some = metas[at : at + _PARALLEL_REQUESTS]
        run_concurrently([partial(delete, store, meta) for meta in some], is_remote=store.is_remote)
        yield len(some)
