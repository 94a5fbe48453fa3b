"""Places within the folders of another table, whose client would take what is there for its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from slatespark import InvalidRequestError, SlateStore
from tests.faults.jobs import table_of
from tests.support.moto_server import MotoServer
from tests.support.moto_server import moto_server as moto_server
from tests.unit.table.commit.test_earlier_table import CREATIONS

ROWS = table_of([(b"a", b"1")])
FOLDERS = ("manifest", "wal", "compacted", "compactions", "gc", "slatespark")


@pytest.mark.parametrize("creation", CREATIONS)
@pytest.mark.parametrize("inner", [*FOLDERS, "manifest/2026", "slatespark/commits/inner"])
def test_no_table_is_created_in_a_folder_of_another_one(creation: str, inner: str, tmp_path: Path) -> None:
    outer = SlateStore.create(tmp_path / "outer")
    outer.write(ROWS)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InvalidRequestError, match="/outer has"):
        CREATIONS[creation](str(tmp_path / "outer" / inner))
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("creation", CREATIONS)
@pytest.mark.parametrize("place", ["orders/manifest", "wal/orders", "outer/inner", "outer/archive/manifest"])
def test_a_name_of_such_a_folder_is_no_hindrance_elsewhere(creation: str, place: str, tmp_path: Path) -> None:
    SlateStore.create(tmp_path / "outer")
    creations = {**CREATIONS, "clone": SlateStore.create(tmp_path / "parent").clone}
    creations[creation](str(tmp_path / place))


@pytest.mark.parametrize("creation", CREATIONS)
def test_links_and_steps_up_are_followed(creation: str, tmp_path: Path) -> None:
    outer = SlateStore.create(tmp_path / "outer")
    outer.write(ROWS)
    (tmp_path / "link").symlink_to(tmp_path / "outer" / "wal")
    for place in ("link/inner", "outer/archive/../manifest"):
        with pytest.raises(InvalidRequestError, match="/outer has"):
            CREATIONS[creation](str(tmp_path / place))
    creations = {**CREATIONS, "clone": SlateStore.create(tmp_path / "parent").clone}
    creations[creation](str(tmp_path / "outer/wal/../inner"))


def test_a_table_that_is_there_is_written_on(tmp_path: Path) -> None:
    inner = SlateStore.create(tmp_path / "outer" / "manifest")
    SlateStore.create(tmp_path / "outer")
    inner.write(ROWS)
    assert inner.scan().read_all() == ROWS


def test_a_bucket_may_be_the_outer_table(moto_server: MotoServer) -> None:
    bucket = moto_server.create_bucket()
    SlateStore.create(bucket, **moto_server.options)
    with pytest.raises(InvalidRequestError, match=f"{bucket} has"):
        SlateStore.create(f"{bucket}/wal", **moto_server.options)
    SlateStore.create(f"{bucket}/orders", **moto_server.options)
