"""Clients of storage backends, shared by all tables that this process opens with the same options."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from slatespark.fork_lock import fork_lock

MAX_SHARED_CLIENTS: Final = 64

Client = TypeVar("Client")


class SharedClients(Generic[Client]):
    """The clients that were used last. Each holds connections and credentials.

    Temporary credentials that are renewed make another client each time, so a process that lives long would collect
    them. A store keeps the client that it was opened with, whether or not it is still here.
    """

    def __init__(self) -> None:
        self._by_process: dict[int, OrderedDict[Hashable, Client]] = {}
        self._lock = fork_lock()

    def get(self, key: Hashable, make: Callable[[], Client]) -> Client:
        """Return the client of this process for a key; `make` creates it, perhaps on several threads at once.

        A child must neither use nor close its parent's connections: a process that was forked begins without any.
        """
        clients = self._by_process.setdefault(os.getpid(), OrderedDict())
        with self._lock:
            if key in clients:
                clients.move_to_end(key)
                return clients[key]
        made = make()
        with self._lock:
            client = clients.setdefault(key, made)
            while len(clients) > MAX_SHARED_CLIENTS:
                clients.popitem(last=False)
        return client
