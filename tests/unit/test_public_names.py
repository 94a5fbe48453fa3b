from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyspark_slate
import slatespark
from slatespark import errors


def test_every_name_can_be_loaded() -> None:
    for name in slatespark.__all__:
        assert getattr(slatespark, name) is not None
    assert set(slatespark.__all__) <= set(dir(slatespark))


def test_every_error_is_public() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert classes <= set(slatespark.__all__)


def test_every_error_is_raised_itself_or_by_a_subclass() -> None:
    source = "".join(path.read_text() for path in sorted(Path(slatespark.__file__).parent.rglob("*.py")))
    public = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, errors.SlateError)]
    raised = [item for item in public if re.search(rf"(?<!class )\b{item.__name__}\(", source)]
    assert [item for item in public if not any(issubclass(other, item) for other in raised)] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="SlateTabel"):
        _ = slatespark.SlateTabel


@pytest.mark.parametrize("module", ["slatespark", "slatespark.spark", "slatespark.spark.java", "pyspark_slate"])
def test_imports_are_cheap(module: str) -> None:
    heavy = ["pyspark", "pyarrow", "numba", "s3fs", "fsspec", "typer", "matplotlib"]
    script = f"import sys, {module}\nprint([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_reader_imports_no_writer() -> None:
    script = (
        "import sys, slatespark.slate_store\nprint([name for name in sys.modules if name.startswith('slatespark')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    packages = {".".join(name.strip("[]', \n").split(".")[:3]) for name in done.stdout.split(",")}
    assert "slatespark.table.read" in packages
    parts = ("commit", "compaction", "gc", "transaction", "upkeep", "verify", "write")
    assert not packages & {f"slatespark.table.{part}" for part in parts}


def test_spark_gets_the_data_source() -> None:
    assert pyspark_slate.DefaultSource.name() == "slate"


def test_spark_finds_the_data_source_without_what_it_works_with() -> None:
    code = "import sys, pyspark_slate; pyspark_slate.DefaultSource; print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.strip("[]', \n") for name in done.stdout.split(",")}
    assert "slatespark.spark.source.datasource" in loaded
    assert not {name for name in loaded if name.startswith(("pyarrow", "slatespark.table", "slatespark.storage"))}


def test_a_data_source_that_cannot_be_loaded_is_absent_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "slatespark.spark.source.datasource", None)
    with pytest.warns(RuntimeWarning, match="slate"):
        assert not hasattr(pyspark_slate, "DefaultSource")
    assert not hasattr(pyspark_slate, "SomethingElse")
