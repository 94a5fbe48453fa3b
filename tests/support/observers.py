"""Everyone who can look at a database beside a live client, against one model."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from slatespark import SlateStore
from slatespark.format.paths import COMPACTIONS_DIR
from tests.support.client import Client, ClientOptions, Location, ScanRow, read_rows
from tests.support.live_client import LiveClient
from tests.support.model import Model
from tests.support.our_reads import our_rows

POINT_READS: Final = 60
POLL_TIMEOUT_S: Final = 20.0

# Manifests before the files that they name: a later file does no harm, and the client collects none by default.
_BEING_WRITTEN: Final = shutil.ignore_patterns("*#*", "*.tmp")  # by the client, by us
_COPY_ORDER: Final = (COMPACTIONS_DIR, "manifest/", "wal/", "compacted/")


def check_observers(live: LiveClient, model: Model, now_ms: int) -> None:
    """The live client, a reader, we, and a client that replays the WAL show the model.

    Requires: the client writes nothing by itself at the moment.

    Parameters
    ----------
    now_ms : the instant at which expiry is judged; the client shows what has expired by then, or has purged it
    """
    live.flush_wal()
    live.sync(model)
    uncertain = model.keys_with_expiry_by(now_ms)
    comparable = partial(comparable_rows, model=model, left_out=uncertain)
    expected = comparable(model.visible(None, include_expired=True))
    assert expected, "nothing to compare"
    assert awaited(lambda: comparable(live.scan()), expected) == expected
    shown = {row.key: row.value for row in expected}
    for key in islice(_shuffled(set(model.versions) - uncertain), POINT_READS):
        assert live.get(key) == shown.get(key), key
    assert comparable(read_rows(live.location, options=live.options)) == expected
    ours = our_rows(SlateStore.open(str(live.location.folder)), now=now_ms)
    assert comparable_rows(ours, model) == comparable_rows(model.visible(now_ms), model)
    with reopened_copy(live.location, live.options) as client:
        assert comparable(client.scan()) == expected
    assert live.is_open()


def comparable_rows(rows: Iterable[ScanRow], model: Model, left_out: Container[bytes] = ()) -> list[ScanRow]:
    """Rows of other keys, without creation times that depend on who folded the row."""
    unclear = model.keys_under_later_deletes()
    return [replace(row, create_ts=None) if row.key in unclear else row for row in rows if row.key not in left_out]


def awaited(look: Callable[[], object], expected: object) -> object:
    """The first look that shows what is expected, or the last one: a client shows a commit at its next poll."""
    end = time.monotonic() + POLL_TIMEOUT_S
    while (found := look()) != expected and time.monotonic() < end:
        time.sleep(0.02)
    return found


@contextmanager
def reopened_copy(location: Location, options: ClientOptions) -> Iterator[Client]:
    """A client that opens a copy of a database as a crash of the live one would leave it."""
    # A folder of its own each time: what a client does in the background may outlast its end by a moment.
    copy = Path(tempfile.mkdtemp(prefix=f"{location.folder.name}-copy-", dir=location.folder.parent))
    _copy_database(location.folder, copy)
    try:
        with Client.open(Location.local(copy), options) as client:
            yield client
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _copy_database(source: Path, target: Path) -> None:
    for folder in _COPY_ORDER:
        if (source / folder).exists():
            shutil.copytree(source / folder, target / folder, ignore=_BEING_WRITTEN)


def _shuffled(keys: set[bytes]) -> list[bytes]:
    """The keys in an order that is always the same, and spreads over all of them."""
    return sorted(keys, key=lambda key: key[::-1])
