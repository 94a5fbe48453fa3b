"""Worker processes: they run tasks that the harness names and answer with samples, one JSON line each way."""

from __future__ import annotations

import compileall
import contextlib
import cProfile
import gc
import importlib
import io
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

from benchmarks.process_tree import cpu_seconds

Sample: TypeAlias = dict[str, Any]  # `seconds`, `rows`, and other measures of one run

REPOSITORY: Final = Path(__file__).parents[1]
STOP_TIMEOUT_S: Final = 60
PROFILE_LINES: Final = 35
LOG_TAIL_CHARACTERS: Final = 4000


class Stopwatch:
    """Time of a `with` block: of the wall clock, and of the processor for all threads.

    Parameters
    ----------
    children : count the processor time of the processes that this one started too (Spark's)
    """

    def __init__(self, *, children: bool = False) -> None:
        self._children = children
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> Self:
        gc.collect()
        self._cpu, self._start = self._cpu_now(), time.perf_counter()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop."""
        self.seconds, self.cpu_seconds = time.perf_counter() - self._start, self._cpu_now() - self._cpu

    def sample(self, **measures: Any) -> Sample:
        """Return what was measured, with further measures."""
        return {"seconds": self.seconds, "cpu_seconds": self.cpu_seconds, **measures}

    def _cpu_now(self) -> float:
        return cpu_seconds(os.getpid()) if self._children else time.process_time()


@dataclass(frozen=True, slots=True)
class Task:
    """A call that a worker process makes: `module:function` and arguments that JSON can hold."""

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Callable[..., object], /, **arguments: Any) -> Task:
        """Return the call of a function that has a name in its module; paths become text."""
        given = {name: str(value) if isinstance(value, Path) else value for name, value in arguments.items()}
        return cls(f"{function.__module__}:{function.__name__}", given)


class WorkerProcess:
    """A process that runs tasks one after the other; use it in a `with` statement.

    Parameters
    ----------
    name : for its log
    scratch : folder of the log, and working directory of the process
    python : its interpreter
    """

    def __init__(self, name: str, scratch: Path, python: str = sys.executable) -> None:
        safe = "".join(letter if letter.isalnum() else "-" for letter in name)
        self._name, self._log = name, scratch / f"{safe}.log"
        _compile_sources()
        environment = {**os.environ, "PYSPARK_PYTHON": python}
        environment["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *filter(None, [environment.get("PYTHONPATH")])])
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [python, "-m", "benchmarks.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                cwd=scratch,
            )

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    def run(self, task: Task) -> Sample:
        """Return what a task returns there."""
        return dict(self._ask(task) or {})

    def profile(self, task: Task) -> str:
        """Return where a task spends its time: the costliest functions without what they call."""
        return str(self._ask(task, profile=True))

    def _ask(self, task: Task, *, profile: bool = False) -> Any:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # both are pipes
        assert stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the process ended; the empty answer says so
            stdin.write(json.dumps([task.function, task.arguments, profile]) + "\n")
            stdin.flush()
        line = stdout.readline()
        if not line:
            self._process.wait(STOP_TIMEOUT_S)
            log = self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
            raise SystemExit(f"{self._name}: {task.function} failed.\n{log}")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End the process: it stops when its input ends, with the Spark it started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@cache
def _compile_sources() -> None:
    """Write the byte code that an installed slatespark has, or each process of Spark would compile what it imports."""
    compileall.compile_dir(REPOSITORY / "slatespark", quiet=1)


def _serve() -> None:
    """Answer requests until the input ends. What tasks print goes to the log, so that it is no answer."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        function, arguments, profile = json.loads(line)
        module, _, name = function.partition(":")
        task = getattr(importlib.import_module(module), name)
        answer = _profile(task, arguments) if profile else task(**arguments)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _profile(task: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    profiler = cProfile.Profile()
    profiler.enable()
    task(**arguments)
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
    return text.getvalue()


if __name__ == "__main__":
    _serve()
