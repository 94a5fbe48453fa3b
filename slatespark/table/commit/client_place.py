"""Places that mean one thing to us, and another one to a SlateDB client."""

from __future__ import annotations

import logging

from slatespark.errors import InvalidRequestError
from slatespark.storage import client_urls
from slatespark.table.log.manifests import PLAIN_NAME
from slatespark.table.stores import TableStores, find_client_place, find_outer_table

_log = logging.getLogger(__name__)


def refuse_place(stores: TableStores) -> None:
    """Refuse to create a table where a client would not find it, or lose one; warn where it would look elsewhere.

    Requires: there is no table.

    Raises
    ------
    InvalidRequestError
        When the place is in a folder of another table, or a client has a database there under the same name.
    """
    _refuse_inner(stores)
    _refuse_twin(stores)


def _refuse_inner(stores: TableStores) -> None:
    """Refuse a table in a folder of another one.

    A client lists `manifest/` with all that is below it. It cannot open the outer table any more once the highest
    number there is that of the inner one.
    """
    if (outer := find_outer_table(stores)) is not None:
        raise InvalidRequestError(
            f"{stores.url} is in a folder that the table {outer} has for its own objects.",
            why="SlateDB clients list such a folder with all that is below it, and may not open the outer table then.",
            todo="Choose a path outside of that table.",
        )


def _refuse_twin(stores: TableStores) -> None:
    """Refuse a table beside a client's database of the same name: it would be another, which the client never sees."""
    places = client_urls(stores.url)
    if not places:
        return
    if (found := find_client_place(stores)) is not None:
        raise InvalidRequestError(
            f"{stores.url} is not a table, but a SlateDB client opened with this path has one in {found}.",
            why="It encodes some characters of names. A new table would be a second one, which it never sees.",
            todo=PLAIN_NAME,
        )
    # A client rooted at a folder rarely sees the others.
    if stores.main.is_remote or _name(places[0]) != _name(stores.url):
        text = "%s: a SlateDB client that is given this path looks in %s. %s"
        _log.warning(text, stores.url, " or ".join(places), PLAIN_NAME)


def _name(url: str) -> str:
    return url.rpartition("/")[2]
