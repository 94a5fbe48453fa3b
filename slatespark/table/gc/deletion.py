"""Deleting many objects, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from slatespark.storage import ObjectMeta, ObjectStore, run_concurrently

TOGETHER: Final = 64  # requests


def delete_together(
    store: ObjectStore, metas: Sequence[ObjectMeta], delete: Callable[[ObjectStore, ObjectMeta], None] | None = None
) -> Iterator[int]:
    """Delete objects, and yield after each group how many it had.

    Parameters
    ----------
    delete : deletes one of them; by default whatever is there now
    """
    for at in range(0, len(metas), TOGETHER):
        some = metas[at : at + TOGETHER]
        run_concurrently([partial(delete or _delete, store, meta) for meta in some], is_remote=store.is_remote)
        yield len(some)


def _delete(store: ObjectStore, meta: ObjectMeta) -> None:
    store.delete(meta.path)
