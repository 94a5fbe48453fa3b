"""The docstrings of everything public, which `docs/reference/api/` shows: parameters, errors, and examples that run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import io
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

import slatespark
from slatespark import SlateError
from tests.docs.pages import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# what most users call first; each has an example of its own
ENTRY_POINTS = {
    "SlateStore": (
        *("create", "open", "write", "scan", "get", "lookup", "changes", "asOf", "snapshot"),
        *("update", "delete", "deleteRange", "begin", "compact", "vacuum", "erase", "explain"),
        *("createCheckpoint", "restoreToVersion", "clone", "copyTo", "ingest", "history", "setProperties"),
    ),
    "SlateTable": ("create", "toDF", "write", "changes", "update", "delete", "merge", "compact"),
}


@dataclass(frozen=True)
class Public:
    """A class, function, method or property that is public; `name` is as a user writes it."""

    name: str
    item: Any

    @property
    def text(self) -> str:
        return inspect.getdoc(self.item) or ""

    def section(self, *titles: str) -> str:
        """The text of the sections of these titles."""
        parts = re.split(r"^(\w[\w ]*)\n-{3,}$", self.text, flags=re.MULTILINE)
        return "".join(text for title, text in zip(parts[1::2], parts[2::2], strict=True) if title in titles)

    def described(self) -> set[str]:
        """The parameters that a section describes."""
        section = self.section("Parameters", "Other Parameters", "Attributes")
        return {
            name.strip() for names in re.findall(r"^(\S[^:\n]*?) :", section, re.MULTILINE) for name in names.split(",")
        }

    def errors(self) -> set[str]:
        """The errors that the section `Raises` names."""
        lines = re.findall(r"^[A-Z]\S.*$", self.section("Raises"), re.MULTILINE)
        return {name.strip() for line in lines for name in line.split(",")}

    def raised(self) -> set[str]:
        """The errors that its own lines raise."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.item)))
        calls = (node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise))
        found = {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
        return found & set(slatespark.__all__)


def documented() -> Iterator[Any]:
    """What the pages of the API name."""
    for page in sorted((REPOSITORY / "docs" / "reference" / "api").glob("*.md")):
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
            module, _, last = name.rpartition(".")
            try:
                yield getattr(importlib.import_module(module), last)
            except AttributeError:
                yield importlib.import_module(name)


@cache
def top() -> list[Public]:
    """The public classes and functions; not when this module is imported, which would import everything."""
    found: list[Public] = []
    for item in documented():
        if isinstance(item, ModuleType):
            own = (value for value in vars(item).values() if getattr(value, "__module__", None) == item.__name__)
            named = {value.__name__: value for value in own if inspect.isclass(value) or inspect.isfunction(value)}
            found += [Public(name, value) for name, value in named.items() if name[0] != "_"]
        else:
            found.append(Public(item.__name__, item))
    return found


def classes() -> list[Public]:
    return [found for found in top() if inspect.isclass(found.item)]


@cache
def methods() -> list[Public]:
    """The methods and properties of the public classes, inherited ones too."""
    found = []
    for owner in classes():
        for name in dir(owner.item):
            method = inspect.getattr_static(owner.item, name)
            method = getattr(method, "__func__", method)
            is_ours = isinstance(method, property) or (
                inspect.isfunction(method)
                and method.__module__.startswith("slatespark")
                and method.__name__[0] != "_"  # another name of a private one
            )
            if name[0] != "_" and is_ours:
                found.append(Public(f"{owner.name}.{name}", method))
    return found


def calls() -> list[Public]:
    return [found for found in (*top(), *methods()) if inspect.isfunction(found.item)]


def test_the_pages_have_all_that_can_be_imported() -> None:
    values = {name: getattr(slatespark, name) for name in slatespark.__all__ if not name.startswith("__")}
    errors = {name for name, value in values.items() if inspect.isclass(value) and issubclass(value, SlateError)}
    assert values.keys() - errors <= {found.name for found in top()}
    assert len(methods()) > 150


def test_everything_says_what_it_is() -> None:
    assert not [found.name for found in (*top(), *methods()) if not found.text]


def test_every_parameter_is_described_and_no_other() -> None:
    wrong = {}
    for found in calls():
        wanted = set(inspect.signature(found.item).parameters) - {"self", "cls"}
        if found.described() != wanted:
            wrong[found.name] = found.described() ^ wanted
    assert wrong == {}


def test_a_class_describes_its_parameters_or_says_who_makes_it() -> None:
    wrong = {}
    for found in classes():
        if "Made by `" not in found.text and not getattr(found.item, "_is_protocol", False):
            wanted = set(inspect.signature(found.item).parameters) - {"arguments"}  # of which each has a name there
            if not wanted <= found.described():
                wrong[found.name] = wanted - found.described()
    assert wrong == {}


def test_the_errors_that_a_call_raises_itself_are_named_and_public() -> None:
    unnamed = {found.name: found.raised() - found.errors() for found in calls()}
    assert {name: errors for name, errors in unnamed.items() if errors} == {}
    unknown = {found.name: found.errors() - set(slatespark.__all__) for found in calls()}
    assert {name: errors for name, errors in unknown.items() if errors} == {}


def test_a_table_names_errors_where_a_store_does() -> None:
    silent = {
        found.name.partition(".")[2]
        for found in methods()
        if not found.errors() and found.name.startswith("SlateTable.")
    }
    of_store = {
        found.name.partition(".")[2] for found in methods() if found.errors() and found.name.startswith("SlateStore.")
    }
    assert len(of_store) > 30
    assert silent & of_store <= {"detail", "files", "runs"}  # those of a table take no options


def test_classes_and_entry_points_have_examples() -> None:
    wanted = {f"{owner}.{name}" for owner, entries in ENTRY_POINTS.items() for name in entries}
    wanted |= {found.name for found in classes()}
    assert not wanted - {found.name for found in (*top(), *methods()) if found.section("Examples")}


def examples(*, of_spark: bool) -> list[doctest.DocTest]:
    """The examples of all docstrings, those with a session or the others, as they stand in their files."""
    root, finder = Path(slatespark.__file__).parent, doctest.DocTestFinder(exclude_empty=True)
    files = [file for file in sorted(root.rglob("*.py"), key=place) if ">>> " in file.read_text()]
    modules = [".".join(file.relative_to(root.parent).with_suffix("").parts) for file in files]
    found = [test for name in modules for test in sorted(finder.find(importlib.import_module(name)), key=line)]
    return [test for test in found if test.examples and uses_spark(test) == of_spark]


def place(file: Path) -> tuple[Path, bool, str]:
    """Files by folder; one whose examples create what others use comes before these."""
    return file.parent, ">>> table = SlateTable.create(" not in file.read_text(), file.name


def line(test: doctest.DocTest) -> int:
    return test.lineno or 0


def uses_spark(test: doctest.DocTest) -> bool:
    return any(re.search(r"\bspark\b", example.source) for example in test.examples)


def run_examples(tests: list[doctest.DocTest], **names: Any) -> None:
    """Run each docstring with names of its own, in the order of the files."""
    told = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False)
    for test in tests:
        test.globs = {"__name__": "example", **names}
        runner.run(test, out=told.write)
    assert told.getvalue() == ""


def test_examples_run() -> None:
    found = examples(of_spark=False)
    assert len(found) > 35
    run_examples(found)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_examples_with_spark_run(spark: SparkSession, tmp_path: Path) -> None:
    found = examples(of_spark=True)
    assert len(found) > 10
    run_examples(found, spark=spark, path=str(tmp_path), SlateTable=slatespark.SlateTable)
