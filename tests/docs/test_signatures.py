"""The pages of SlateStore and SlateTable show each public method with the signature that it has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

import slatespark
from slatespark import CompactionWorker, SlateStore, SlateTable, SlateTransaction
from slatespark.table.compaction.worker import Worker
from tests.docs.pages import REPOSITORY

# What a page writes before the methods of a class.
OWNERS: Final[dict[str, dict[str, Any]]] = {
    "slate-store": {
        "": slatespark,
        "SlateStore": SlateStore,
        "store": SlateStore,
        "txn": slatespark.Transaction,
        "writer": slatespark.SstWriter,
        "reaper": slatespark.Reaper,
        "upkeep": slatespark.Upkeep,
        "worker": CompactionWorker,
    },
    "slate-table": {"SlateTable": SlateTable, "table": SlateTable, "txn": SlateTransaction},
}
COMPLETE: Final = (SlateStore, SlateTable, SlateTransaction)

_FENCE: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_FIRST: Final = re.compile(r"(?:(?<=\n\n)|^\| )(`[^`]+`(?:, `[^`]+`)*)", re.MULTILINE)  # in a paragraph, or a row
_CALL: Final = re.compile(r"(?:(?P<owner>\w+)\.)?(?P<name>\w+)(?:\((?P<arguments>.*)\))?(?: -> .+)?", re.DOTALL)


def shown(page: str) -> Iterator[tuple[Any, str, str | None]]:
    """The owner and name of each call or attribute with which a paragraph or row begins, and the arguments."""
    text = _FENCE.sub("", (REPOSITORY / "docs" / "reference" / f"{page}.md").read_text()).replace("\\|", "|")
    for spans in _FIRST.findall(text):
        for span in re.findall(r"`([^`]+)`", spans):
            call = _CALL.fullmatch(span)
            owner = None if call is None else OWNERS[page].get(call["owner"] or "")
            if call is not None and owner is not None and (call["owner"] or call["arguments"] is not None):
                yield owner, call["name"], call["arguments"]


def parameters_of(item: Any) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each parameter but `self`, and but `progress`, of which a page speaks once."""
    if item is CompactionWorker:  # passes all but its own on
        item, own = Worker, inspect.signature(item).parameters["spark"]
        tables, *others = parameters_of(item)
        return [tables, (own.name, own.kind, own.default), *(each for each in others if each[0] != "runner")]
    found = inspect.signature(item).parameters.values()
    return [
        (each.name, each.kind, each.default)
        for each in found
        if each.name != "self" and (each.name, each.default) != ("progress", "auto")
    ]


@pytest.mark.parametrize("page", OWNERS)
def test_signatures_are_those_of_the_code(page: str) -> None:
    differing = []
    for owner, name, arguments in shown(page):
        item = getattr(owner, name)
        if arguments is not None:
            there = parameters_of(eval(f"lambda {' '.join(arguments.split())}: None"))
            if there != parameters_of(item):
                differing.append(f"{name}({arguments}) is {inspect.signature(item)}")
    assert not differing


@pytest.mark.parametrize("item", COMPLETE)
def test_everything_public_is_there(item: type) -> None:
    there = {name for page in OWNERS for owner, name, _ in shown(page) if owner is item}
    assert not {name for name in dir(item) if not name.startswith("_")} - there
