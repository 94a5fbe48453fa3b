"""Pages that use Spark share the session of the tests below `tests/spark/`; all of them share one command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slatespark.storage import memory_store
from tests.spark.conftest import spark
from tests.support.warm_command import warm_command

__all__ = ["commands", "spark"]


@pytest.fixture(autouse=True)
def own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables in memory are those of one page: others may name theirs alike."""
    monkeypatch.setattr(memory_store, "_BUCKETS", {})


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the command `slatespark`."""
    folder = tmp_path_factory.mktemp("commands")
    with warm_command(folder):
        yield folder
