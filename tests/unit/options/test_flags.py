"""Flags of calls: `force="false"` must not force."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pyarrow as pa
import pytest

from slatespark import CompactionWorker, OptionError, Reaper, SlateStore, Upkeep
from slatespark.errors import InvalidRequestError

_names = itertools.count()


@pytest.fixture
def store() -> SlateStore:
    made = SlateStore.create(f"memory://flags-{next(_names)}/t", autoCompact=False)
    made.write(pa.table({"key": [b"a"], "value": [b"1"]}))
    return made


CALLS: dict[str, Callable[[SlateStore, object], object]] = {
    "drop": lambda store, flag: SlateStore.drop(store.url, force=flag),  # type: ignore[arg-type]
    "vacuum": lambda store, flag: store.vacuum(minAge="0h", force=flag),  # type: ignore[arg-type]
    "dry run": lambda store, flag: store.vacuum(dryRun=flag),  # type: ignore[arg-type]
    "compact": lambda store, flag: store.compact(full=flag),  # type: ignore[arg-type]
    "compact, by place": lambda store, flag: store.compact(flag),  # type: ignore[arg-type]
    "verify": lambda store, flag: store.verify(allVersions=flag),  # type: ignore[arg-type]
    "clone": lambda store, flag: store.clone(f"{store.url}-clone", history=flag),  # type: ignore[arg-type]
    "upkeep": lambda store, flag: Upkeep([store.url], fences=flag),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("flag", ["no", 1, None, "", float("nan")])
def test_what_is_no_flag(store: SlateStore, call: Callable[[SlateStore, object], object], flag: object) -> None:
    with pytest.raises(OptionError):
        call(store, flag)
    assert store.scan().read_all().num_rows == 1


def test_text(store: SlateStore) -> None:
    store.createCheckpoint("keep")
    with pytest.raises(InvalidRequestError):
        SlateStore.drop(store.url, force="false")  # type: ignore[arg-type]
    with pytest.raises(OptionError):
        store.vacuum(minAge="0h", force="false")  # type: ignore[arg-type]
    assert store.vacuum(dryRun="true").dry_run is True  # type: ignore[arg-type]
    assert store.compact("TRUE").dry_run is False  # type: ignore[arg-type]
    SlateStore.drop(store.url, force="true")  # type: ignore[arg-type]


def test_one_table_is_no_sequence_of_letters(store: SlateStore) -> None:
    assert [*Upkeep(store.url).deadlines] == [*Reaper(store.url).deadlines] == [store.url]
    assert [status.url for status in CompactionWorker(store.url).status()] == [store.url]


def test_filters_of_a_worker_are_filters(store: SlateStore) -> None:
    with pytest.raises(OptionError):
        CompactionWorker([store.url], filters=[5])


def test_a_misspelt_flag_of_an_upkeep_is_no_option_of_storage(store: SlateStore) -> None:
    with pytest.raises(OptionError, match="fences"):
        Upkeep(store.url, fence=True)


def test_an_unknown_argument_is_told_with_its_call(store: SlateStore) -> None:
    with pytest.raises(TypeError, match="vacuum"):
        store.vacuum(age="1h")  # type: ignore[call-arg]
