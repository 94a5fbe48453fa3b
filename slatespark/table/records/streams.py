"""Names of streams: which query writes under a `txnAppId`.

A query that starts over, with another checkpoint location, counts its batches from 0. Under the name of the one before,
they would be taken for batches that were committed already, and be skipped.
"""

from __future__ import annotations

from typing import Final

from slatespark.errors import CorruptDataError, InvalidRequestError
from slatespark.storage import ObjectStore
from slatespark.table.records.idempotent_writes import folder_name
from slatespark.table.records.json_objects import JSON_SUFFIX, ROOT, encode_json, find_json

STREAMS_DIR: Final = f"{ROOT}streams/"


def stream_path(name: str) -> str:
    """Return the path of the record of a stream."""
    return f"{STREAMS_DIR}{folder_name(name)}{JSON_SUFFIX}"


def claim_stream_name(store: ObjectStore, name: str, query: str) -> None:
    """Record that a query writes under a name; raises `InvalidRequestError` if another one does."""
    path = stream_path(name)
    content = find_json(store, path)
    owner = _create(store, path, query, name) if content is None else content.get("query")
    if not isinstance(owner, str):
        raise CorruptDataError(f"record of a stream has query = {owner!r}.", path=path)
    if owner != query:
        raise InvalidRequestError(
            f"{store.url}: txnAppId {name!r} is that of query {owner}, not of query {query}.",
            why="A query with a new checkpointLocation counts its batches from 0, so they could be taken for those of "
            "the other one, and be skipped.",
            todo="Choose another txnAppId, or none, or go on with the checkpointLocation of the other query.",
        )


def _create(store: ObjectStore, path: str, query: str, name: str) -> str | None:
    try:
        store.create(path, encode_json({"name": name, "query": query}))
    except FileExistsError:
        return (find_json(store, path) or {}).get("query")
    return query
