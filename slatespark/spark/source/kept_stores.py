"""The stores of tables that a process of Spark has opened before.

Spark plans all queries of a session in a few processes, which it ends once they are idle. Kept with the stores is what
was seen of a table, so that the next query only looks for what is newer, as an open `SlateStore` does.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeAlias

from slatespark.fork_lock import fork_lock
from slatespark.table.read.held_tail import HeldTail
from slatespark.table.stores import TableStores, stores_of

if TYPE_CHECKING:
    from slatespark.options import ReadOptions, WriteOptions

MOST_TABLES: Final = 16
MOST_TAIL_BYTES: Final = 128 << 20  # of rows of WALs, beside those of the last used table

_Place: TypeAlias = tuple[str, str | None, tuple[tuple[str, str], ...]]

_kept: Final[OrderedDict[_Place, TableStores]] = OrderedDict()  # the last used one at the end
_lock: Final = fork_lock()


def kept_stores(options: ReadOptions | WriteOptions) -> TableStores:
    """Return the stores of the table that options locate: the same for the same location and storage options.

    For planning and commits; a task that reads opens its own. The tables used before keep rows of their WALs as long as
    these take little memory together.
    """
    opened = stores_of(options)
    # Not what the options say: a relative path among them means another place in another working folder.
    place = opened.url, opened.wal_url, tuple(sorted(opened.storage.items()))
    with _lock:
        stores = _kept.setdefault(place, opened)
        stores.heads.keeps_tail = True
        _kept.move_to_end(place)
        while len(_kept) > MOST_TABLES:
            _kept.popitem(last=False)
        others = [each for each in reversed(_kept.values()) if each is not stores]
    room = MOST_TAIL_BYTES
    for other in others:
        held = other.heads.tail
        room -= held.memory_bytes if isinstance(held, HeldTail) else 0
        if room < 0:
            other.heads.tail = None
    return stores
