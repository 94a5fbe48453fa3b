"""What slatespark does to the Python worker of Spark that runs its tasks."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import TaskContext

from slatespark.spark import worker
from slatespark.spark.frames.as_of import _Join
from slatespark.spark.frames.lookup import _LookUp
from slatespark.spark.frames.planned_read import _Scan
from slatespark.spark.frames.upload import _Upload
from slatespark.spark.jobs.task_runner import _RunPacked
from slatespark.spark.pyspark_api import _Named
from slatespark.spark.source.change_reader import ChangeReader
from slatespark.spark.source.reader import PushdownReader, SlateReader
from slatespark.spark.source.streaming.sink import SlateStreamWriter
from slatespark.spark.source.streaming.source import SlateStreamReader
from slatespark.spark.source.writer import SlateWriter
from slatespark.spark.worker import SentToTasks, acknowledge_input

needs_linux = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux acknowledges on demand")


class Stateless(SentToTasks):
    """Sent without a state."""


@dataclass(frozen=True)
class Frozen(SentToTasks):
    """Sent with a state."""

    number: int


@pytest.fixture
def connection() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        with one, other:
            yield one, other


def sends_at_once(end: socket.socket) -> bool:
    """Tell whether a connection sends small messages without waiting for an acknowledgement of earlier ones."""
    return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@needs_linux
def test_the_peer_may_go_on(connection: tuple[socket.socket, socket.socket]) -> None:
    one, other = connection
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
    acknowledge_input()
    assert all(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) for end in (one, other))
    assert all(map(sends_at_once, (one, other)))


@needs_linux
def test_other_files_stay_as_they_are(connection: tuple[socket.socket, socket.socket]) -> None:
    one, other = connection
    pipe, pair, datagrams = os.pipe(), socket.socketpair(), socket.socket(type=socket.SOCK_DGRAM)
    socket.setdefaulttimeout(1.0)
    try:
        acknowledge_input()
    finally:
        socket.setdefaulttimeout(None)
    files = [*pipe, *(end.fileno() for end in (*pair, datagrams, one, other))]
    assert all(map(os.get_blocking, files))
    pair[0].sendall(b"message")
    assert pair[1].recv(10) == b"message"
    for end in (*pair, datagrams):
        end.close()
    for file in pipe:
        os.close(file)


@needs_linux
@pytest.mark.parametrize("sent", [Stateless(), Frozen(7)])
def test_what_arrives_in_a_task_lets_the_input_follow(
    connection: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, sent: SentToTasks
) -> None:
    packed = pickle.dumps(sent)
    arrived = pickle.loads(packed)
    assert not any(map(sends_at_once, connection)), "only a task waits for input"
    monkeypatch.setattr(TaskContext, "get", lambda: object())
    arrived = pickle.loads(packed)
    assert all(map(sends_at_once, connection))
    assert type(arrived) is type(sent)
    assert vars(arrived) == vars(sent)


@pytest.mark.parametrize(
    "kind",
    [
        *(ChangeReader, PushdownReader, SlateReader, SlateStreamReader, SlateStreamWriter, SlateWriter),
        *(_Scan, _LookUp, _Upload, _Join, _RunPacked, _Named),
    ],
)
def test_everything_sent_does_so(kind: type[object]) -> None:
    assert issubclass(kind, SentToTasks)
    assert kind.__setstate__ is SentToTasks.__setstate__


def test_without_the_option_or_a_list_of_files_nothing_happens(
    connection: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(worker, "_QUICKACK", None)
        acknowledge_input()
    monkeypatch.setattr(worker, "_OPEN_FILES", tmp_path / "absent")
    acknowledge_input()
    assert not any(map(sends_at_once, connection))
