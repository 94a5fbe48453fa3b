"""What an attempt of a commit reads besides the newest manifest; on a remote store all at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from slatespark.format.compactions import Compactions
from slatespark.format.manifest import Manifest
from slatespark.storage import run_ahead
from slatespark.table.definition.table_definition import TableDefinition
from slatespark.table.definition.versions import DefinitionFetch
from slatespark.table.log.compactions import fetch_compactions
from slatespark.table.log.manifests import is_at_rest, seen_manifest
from slatespark.table.log.versioned_object import Version
from slatespark.table.stores import TableStores

FetchJobs: TypeAlias = Callable[[], Version[Compactions]]


class CommitPrefetch:
    """The reads of one attempt, started when it is made.

    Attributes
    ----------
    jobs : returns the newest list of compactions. It is fetched ahead unless no client can be alive, when it is read
        after the claim
    """

    def __init__(self, stores: TableStores) -> None:
        seen = seen_manifest(stores)
        is_ahead = stores.main.is_remote and not (seen is not None and is_at_rest(stores, seen))
        self._definition = DefinitionFetch(stores)
        self.jobs: FetchJobs = run_ahead(partial(fetch_compactions, stores), is_remote=is_ahead)

    def definition(self, version: Version[Manifest]) -> Version[TableDefinition]:
        """Return the newest definition, for the newest version."""
        return self._definition.resolve(version)
