"""Clients that tables of one process share."""

from __future__ import annotations

import os

import pytest

from slatespark.storage.shared_clients import MAX_SHARED_CLIENTS, SharedClients


def test_one_client_for_a_key() -> None:
    clients = SharedClients[object]()
    first = clients.get("a", object)
    assert clients.get("a", object) is first
    assert clients.get("b", object) is not first


def test_the_clients_that_were_used_last_are_kept() -> None:
    """Temporary credentials make another key each time that they are renewed."""
    clients = SharedClients[object]()
    first, second = clients.get(0, object), clients.get(1, object)
    for token in range(2, MAX_SHARED_CLIENTS + 1):
        clients.get(0, object)
        clients.get(token, object)
    assert clients.get(0, object) is first
    assert clients.get(1, object) is not second


def test_a_child_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = SharedClients[object]()
    parent, process = clients.get("a", object), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    for number in range(2 * MAX_SHARED_CLIENTS):
        assert clients.get("a" if number == 0 else number, object) is not parent
    monkeypatch.setattr(os, "getpid", lambda: process)
    assert clients.get("a", object) is parent, "nor does it close its parent's"
