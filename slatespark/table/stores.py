"""The object stores that one table lives in: its own root, its WAL's, and those of the databases it was cloned from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from slatespark.errors import CorruptDataError, SnapshotExpiredError, TableNotFoundError, UnsupportedFormatError
from slatespark.format.manifest_state import Manifest
from slatespark.format.paths import MANIFEST_DIR
from slatespark.format.ulid import Ulid
from slatespark.storage import open_store
from slatespark.storage.object_store import ObjectStore

OWN_ROOT = ""  # names the table's own root where files of several databases are listed together


@dataclass(frozen=True, slots=True)
class TableStores:
    """Where the objects of a table are.

    Attributes
    ----------
    main : manifest, SSTs, and everything of ours
    wal : the folder `wal/`; the same as `main` unless the WAL is kept apart
    storage : backend options, for opening further roots
    wal_is_apart : whether the caller said where the WAL is
    """

    main: ObjectStore
    wal: ObjectStore
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    wal_is_apart: bool = False

    @property
    def url(self) -> str:
        """Where the table is, for messages."""
        return self.main.url

    def at(self, root: str) -> ObjectStore:
        """Return the store of a root: `OWN_ROOT`, or the URL of another database."""
        return self.main if root == OWN_ROOT else _other_root(root, tuple(sorted(self.storage.items())))


def open_stores(path: str, *, storage: Mapping[str, str], wal_path: str | None = None) -> TableStores:
    """Return the stores of the table at `path`; nothing is read yet."""
    main = open_store(path, storage)
    wal = main if wal_path is None else open_store(wal_path, storage)
    return TableStores(main=main, wal=wal, storage=dict(storage), wal_is_apart=wal_path is not None)


@lru_cache(maxsize=64)
def _other_root(url: str, storage: tuple[tuple[str, str], ...]) -> ObjectStore:
    return open_store(url, dict(storage))


def resolve_external(stores: TableStores, external_path: str) -> str:
    """Return the URL of a database that a clone refers to.

    The manifest names it relative to the root of the client's object store, which no manifest records: so it
    is looked for under `storage.root`, else under the nearest ancestor of the table where it exists.

    Raises
    ------
    TableNotFoundError
        When it is at none of these places.
    """
    root = stores.storage.get("root")
    candidates = [root] if root else _ancestors(stores.url)
    for base in candidates:
        url = f"{base.rstrip('/')}/{external_path}"
        if stores.at(url).list(MANIFEST_DIR):
            return url
    raise TableNotFoundError(
        f"{stores.url}: this table is a clone and reads files of {external_path!r}, which was not found.",
        why=f"Looked below {', '.join(candidates)}.",
        todo="Say where external paths start with the option storage.root.",
    )


def external_roots(stores: TableStores, manifest: Manifest) -> dict[Ulid, str]:
    """Return, for the SSTs of other databases that a clone reads, the URL of their owner."""
    return {
        sst_id: root
        for database in manifest.external_dbs
        if database.sst_ids
        for root in [resolve_external(stores, database.path)]
        for sst_id in database.sst_ids
    }


def _ancestors(url: str) -> list[str]:
    scheme, separator, path = url.rpartition("://")
    parts = path.rstrip("/").split("/")
    return [f"{scheme}{separator}{'/'.join(parts[:depth]) or '/'}" for depth in range(len(parts) - 1, 0, -1)]


@contextmanager
def object_context(store: ObjectStore, path: str, base_offset: int = 0) -> Iterator[None]:
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
