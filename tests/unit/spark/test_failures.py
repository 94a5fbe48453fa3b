"""Our errors, through Spark's texts and back."""

from __future__ import annotations

import errno
import subprocess
import sys

import pyarrow as pa
import pytest

from slatespark import CorruptDataError, InvalidRequestError, MemoryLimitError, SchemaError, SlateError
from slatespark.spark.failures import find_own_error, own_errors, spark_errors


def as_spark_says(error: Exception, *, state: bool = True) -> str:
    """Return the text of Spark's error about an error in one of its Python processes."""
    with pytest.raises(RuntimeError) as info, spark_errors():
        raise error
    frames = 'Traceback (most recent call last):\n  File "writer.py", line 56, in write\n    raise RuntimeError(text)'
    return f"[PYTHON_DATA_SOURCE_ERROR] It failed: {frames}\nRuntimeError: {info.value}\n" + " SQLSTATE: 38000" * state


@pytest.mark.parametrize("state", [True, False])
def test_class_and_text_come_back(state: bool) -> None:
    error = CorruptDataError("checksum is 1,\nexpected 2.", why="It is damaged.", path="a/b.sst", offset=7)
    with pytest.raises(CorruptDataError) as info, own_errors():
        raise RuntimeError(as_spark_says(error, state=state))
    assert str(info.value) == "a/b.sst at byte 7: checksum is 1, expected 2. It is damaged."


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 9 failed")])
def test_memory_that_a_task_cannot_have_is_an_error_of_ours(error: Exception) -> None:
    with pytest.raises(MemoryLimitError), own_errors():
        raise RuntimeError(as_spark_says(error))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "Make room there"),
        (ModuleNotFoundError("No module named 'jobs'"), "executors"),
        (pa.ArrowInvalid("a batch is odd"), "ArrowInvalid: a batch is odd"),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), "surrogates not allowed"),
    ],
)
def test_what_the_machine_lacks_is_an_error_of_ours(error: Exception, said: str) -> None:
    with pytest.raises(SlateError, match=said) as info, own_errors():
        raise RuntimeError(as_spark_says(error))
    assert type(error).__name__ in str(info.value)


@pytest.mark.parametrize("error", [ConnectionResetError("by Spark"), ValueError("of a user"), KeyError("x")])
def test_errors_of_spark_and_of_programs_stay(error: Exception) -> None:
    with pytest.raises(type(error)) as info, spark_errors():
        raise error
    assert info.value is error


def test_errors_cost_no_import_of_arrow() -> None:
    """Every Python process of Spark imports what turns them into text."""
    code = (
        "import sys; from slatespark.spark.failures import spark_errors\n"
        "try:\n    with spark_errors(): raise OSError(28, 'full')\n"
        "except RuntimeError as exc: print(exc)\nprint('pyarrow' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split("\n")
    assert said[0].startswith("SlateError: OSError: [Errno 28] full. Make room")
    assert said[1] == "False"


def test_what_a_query_raises_comes_back() -> None:
    text = '[USER_RAISED_EXCEPTION] InvalidRequestError: Two rows: {"a":1}. Make it one. SQLSTATE: P0001'
    error = find_own_error(text)
    assert type(error) is InvalidRequestError
    assert str(error) == 'Two rows: {"a":1}. Make it one.'


def test_a_data_source_that_spark_does_not_find_can_be_registered() -> None:
    text = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: {}. Make sure ... SQLSTATE: 42K02"
    with pytest.raises(InvalidRequestError, match="register"), own_errors():
        raise RuntimeError(text.format("slate"))
    assert find_own_error(text.format("slated")) is None


def test_other_errors_pass_as_they_are() -> None:
    other = ValueError("no SchemaError: at all")
    for error in (other, SchemaError("ours already")):
        with pytest.raises(type(error)) as info, own_errors():
            raise error
        assert info.value is error
    assert find_own_error("RuntimeError: SomeError: what") is None
