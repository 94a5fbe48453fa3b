"""The object stores of one table: its own root, its WAL, and the databases that it was cloned from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from slatespark.errors import (
    CorruptDataError,
    SlateError,
    SnapshotExpiredError,
    TableNotFoundError,
    UnsupportedFormatError,
)
from slatespark.format.manifest import ExternalDb, Manifest
from slatespark.format.paths import MANIFEST_DIR, MANIFEST_EXTENSION, TABLE_FOLDERS, numbered, sst_path
from slatespark.format.ulid import Ulid
from slatespark.options.values import WAL_PATH, parse_location, with_own_spelling
from slatespark.storage import absolute_location as absolute_location
from slatespark.storage import client_urls, open_store
from slatespark.storage import refuse_few_slashes as refuse_few_slashes
from slatespark.storage.object_store import ObjectStore
from slatespark.table.heads import Heads

if TYPE_CHECKING:
    from slatespark.options.reading import ReadOptions
    from slatespark.options.writing import WriteOptions
    from slatespark.storage.counted_store import RequestTally

OWN_ROOT = ""  # names the table's own root where files of several databases are listed together
SCRATCH_ROOT = "scratch"  # names the local disk, for files that no version will show

_LOCAL: Final = "file://"


@dataclass(frozen=True, slots=True)
class TableStores:
    """The stores of the objects of a table.

    Attributes
    ----------
    main : manifest, SSTs, and slatespark's own objects
    wal : the folder `wal/`; the same as `main` unless the WAL is separate
    storage : backend options, for opening further roots
    wal_is_apart : whether the caller gave the location of the WAL
    tally : counts all requests; None if they are not counted
    heads : the newest versions that were seen before
    scratch : temporary files of this process; None if there are none
    """

    main: ObjectStore
    wal: ObjectStore
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    wal_is_apart: bool = False
    tally: RequestTally | None = None
    heads: Heads = field(default_factory=Heads, repr=False, compare=False)
    scratch: ObjectStore | None = field(default=None, repr=False, compare=False)

    @property
    def url(self) -> str:
        """The location of the table, for messages."""
        return self.main.url

    @property
    def wal_url(self) -> str | None:
        """The location of the WAL if the caller gave one."""
        return self.wal.url if self.wal_is_apart else None

    def at(self, root: str) -> ObjectStore:
        """Return the store of a root: `OWN_ROOT`, `SCRATCH_ROOT`, or the URL of another database."""
        if root == OWN_ROOT:
            return self.main
        if root == SCRATCH_ROOT:
            assert self.scratch is not None  # files there are known to those only who made it
            return self.scratch
        store = _other_root(root, tuple(sorted(self.storage.items())))
        return store if self.tally is None else _counted(store, self.tally)

    def counted(self, tally: RequestTally) -> TableStores:
        """Return the same stores, with all requests counted, and as new ones that have shown no version yet."""
        main = _counted(self.main, tally)
        wal = main if self.wal is self.main else _counted(self.wal, tally)
        return replace(self, main=main, wal=wal, tally=tally, heads=Heads())


def table_path(table: str | os.PathLike[str]) -> str:
    """Return the path or URL that a caller gave for a table; raises `OptionError` when it is none."""
    return parse_location(table, "table")


def table_paths(tables: Iterable[str | os.PathLike[str]] | str | os.PathLike[str]) -> list[str]:
    """Return the paths or URLs of some tables; one alone is no sequence of letters."""
    given = tables if isinstance(tables, Iterable) and not isinstance(tables, str | os.PathLike) else [tables]
    return [table_path(each) for each in given]


def split_wal_path(storage: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the location of a WAL that lies apart, and the options of the storage backend.

    A relative path is resolved now; None stands for a WAL beside the other objects.

    Raises
    ------
    OptionError
        When `walPath` is not a location, or given in two spellings.
    """
    backend = with_own_spelling(storage, [WAL_PATH])
    given = backend.pop(WAL_PATH, None)
    return None if given is None else absolute_location(parse_location(given, WAL_PATH)), backend


def open_stores(path: str, *, storage: Mapping[str, str], wal_path: str | None = None) -> TableStores:
    """Return the stores of the table at `path`, without reading anything."""
    if root := storage.get("root"):  # resolved now, as `path` is: the working directory may change
        storage = {**storage, "root": absolute_location(parse_location(root, "storage.root"))}
    main = open_store(path, storage)
    wal = main if wal_path is None else open_store(wal_path, storage)
    return TableStores(main=main, wal=wal, storage=dict(storage), wal_is_apart=wal_path is not None)


def stores_of(options: ReadOptions | WriteOptions) -> TableStores:
    """Return the stores of the table that options locate, without reading anything."""
    return open_stores(options.path, storage=options.storage, wal_path=options.wal_path)


def _counted(store: ObjectStore, tally: RequestTally) -> ObjectStore:
    from slatespark.storage.counted_store import CountedStore  # only explanations count

    return CountedStore(store, tally)


@lru_cache(maxsize=64)
def _other_root(url: str, storage: tuple[tuple[str, str], ...]) -> ObjectStore:
    return open_store(url, dict(storage))


def resolve_external(stores: TableStores, database: ExternalDb) -> str:
    """Return the URL of a database that a clone refers to.

    The manifest names it relative to the root of the client's object store, which no manifest records. So it is
    searched under `storage.root`, or else under the ancestors of the table, nearest first. A database that holds a file
    of the clone is preferred to others of that name.

    Raises
    ------
    TableNotFoundError
        When it does not exist there.
    """
    root = stores.storage.get("root")
    bases = [root] if root else _ancestors(stores.url)
    urls = [url for base in bases if (url := f"{base.rstrip('/')}/{database.path}") != stores.url]
    holders = (url for url in urls if database.sst_ids and _exists(stores.at(url), sst_path(database.sst_ids[0])))
    databases = (url for url in urls if stores.at(url).list(MANIFEST_DIR))
    for url in chain(holders, databases):
        return url
    raise TableNotFoundError(
        f"{stores.url}: this table is a clone and needs files of {database.path!r}, which was not found.",
        why=f"Looked below {', '.join(bases)}.",
        todo="Give the root of external paths in the option storage.root.",
    )


def find_client_place(stores: TableStores) -> str | None:
    """Return the URL of a database that a client keeps elsewhere, as it encodes the name of this table; None if none.

    No request is sent for a name that the client leaves as it is.
    """
    for url in client_urls(stores.url):
        with suppress(SlateError):  # it may be nobody's business here: nothing to rely on
            if stores.at(url).list(MANIFEST_DIR):
                return url
    return None


def find_outer_table(stores: TableStores) -> str | None:
    """Return the URL of a database in whose own folders this table would be, such as `manifest/`; None if none.

    No request is sent for a path without such a name.
    """
    names = real_url(stores.url).split("/")
    for depth in range(1, len(names)):
        if f"{names[depth]}/" in TABLE_FOLDERS and names[depth - 1]:
            url = "/".join(names[:depth])
            with suppress(SlateError):  # it may be nobody's business here: nothing to rely on
                if any(numbered(meta.path, MANIFEST_EXTENSION) for meta in stores.at(url).list(MANIFEST_DIR)):
                    return url
    return None


def real_url(url: str) -> str:
    """Return the URL of a local place without links and `..`; others have none."""
    path = url.removeprefix(_LOCAL)
    return url if path == url else f"{_LOCAL}{os.path.realpath(path)}"


def _exists(store: ObjectStore, path: str) -> bool:
    try:
        store.head(path)
    except FileNotFoundError:
        return False
    return True


def external_roots(stores: TableStores, manifest: Manifest) -> dict[Ulid, str]:
    """Return the owner's URL of each SST that a clone reads from another database."""
    return {
        sst_id: root
        for database in manifest.external_dbs
        if database.sst_ids
        for root in [resolve_external(stores, database)]
        for sst_id in database.sst_ids
    }


def _ancestors(url: str) -> list[str]:
    scheme, separator, path = url.rpartition("://")
    parts = path.rstrip("/").split("/")
    return [f"{scheme}{separator}{'/'.join(parts[:depth]) or '/'}" for depth in range(len(parts) - 1, 0, -1)]


@contextmanager
def object_context(store: ObjectStore, path: str, base_offset: int = 0) -> Iterator[None]:
    """Add the object to errors raised while it is fetched and decoded."""
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
            why="A garbage collector deleted it, or it was lost.",
            todo="Load the table again; if that fails too, run `slatespark verify`.",
        ) from exc
