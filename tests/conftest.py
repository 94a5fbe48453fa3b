"""Options and fixtures of every test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, settings

from slatespark.table.read.copies import choice
from tests.support.client import Client, ClientOptions, Location
from tests.support.effort import THOROUGH, examples

# One example may cost a database on disk, and the machine may be busy: time limits would only make tests flaky. What a
# usual run tries depends on the code alone, so that an old commit stays green. A thorough run looks further each time.
settings.register_profile(
    "fixed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    print_blob=True,
    max_examples=examples(50),
)
settings.register_profile("thorough", parent=settings.get_profile("fixed"), derandomize=False)
settings.load_profile("thorough" if THOROUGH else "fixed")

ClientFactory: TypeAlias = Callable[..., Client]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what the code prints into the golden files")


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten instead of compared."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture(scope="session", autouse=True)
def copies_under_newer_rows() -> Iterator[None]:
    """Take copies of small local tables, too, where newer rows lie above: what a test compares is seldom large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "MERGE_FACTOR", 1)
        yield


@pytest.fixture
def database(tmp_path: Path) -> Location:
    """A place for a database: a folder that does not exist yet."""
    return Location.local(tmp_path / "database")


@pytest.fixture
def client_factory(database: Location) -> Iterator[ClientFactory]:
    """Open real clients, on `database` unless another location is given; those left open are closed at the end."""
    with ExitStack() as opened:

        def open_client(options: ClientOptions | None = None, *, location: Location = database) -> Client:
            return opened.enter_context(Client.open(location, options))

        yield open_client
