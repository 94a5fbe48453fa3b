"""The proof that a server honors conditional writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

import pytest

from slatespark.storage.conditional_writes import prove_once


def refuse(_: str) -> None:
    raise FileExistsError


def do_nothing(_: str) -> None:
    pass


@contextmanager
def silent_server(threads: ThreadPoolExecutor, name: str) -> Iterator[Future[None]]:
    """Prove the creation of objects, on a server that answers at the end of the block."""
    is_asked, answers = threading.Event(), threading.Event()

    def create(_: str) -> None:
        is_asked.set()
        assert answers.wait(60)

    proof = threads.submit(
        prove_once, name, "create", "s3://b", create=create, break_condition=refuse, delete=do_nothing
    )
    try:
        assert is_asked.wait(60)
        yield proof
    finally:
        answers.set()
    proof.result(60)


@pytest.mark.parametrize(("server", "waits"), [("other", False), ("silent", True)])
def test_only_proofs_of_one_server_take_turns(server: str, *, waits: bool) -> None:
    """On one server they would meet in one folder."""
    with ThreadPoolExecutor(2) as threads:
        with silent_server(threads, f"silent {waits}"):
            later = threads.submit(
                prove_once,
                f"{server} {waits}",
                "replace",
                "s3://b",
                create=do_nothing,
                break_condition=refuse,
                delete=do_nothing,
            )
            assert bool(wait([later], 0.2 if waits else 60).not_done) == waits
        later.result(60)
