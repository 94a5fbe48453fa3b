"""How a process gets its compiled kernels: from object code made ahead of time, or from numba.

A kernel takes and returns int64 numbers, some of which are addresses (`_native`). So each kernel has one
specialization, and arrays may be read-only. The decision is made once, when this module is imported: do not import it
before the first kernel call. With object code, the functions marked here are never compiled, and numba stays out.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Final, TypeVar

from slatespark.errors import OptionError
from slatespark.kernels._dispatch import VARIABLE, choice
from slatespark.kernels._object_code import ObjectCode, ObjectCodeError, load_object_code, object_folder

_log = logging.getLogger("slatespark.kernels")

_Step = TypeVar("_Step", bound=Callable[..., object])


def _load() -> ObjectCode | None:
    if choice() == "numba":
        return None
    try:
        return load_object_code(object_folder())
    except ObjectCodeError as error:
        if choice() == "prebuilt":
            raise OptionError(f"{VARIABLE} is 'prebuilt', but {error}.") from error
        from slatespark.kernels._just_in_time import cache_directory

        place = cache_directory()
        cached = f"and cached in {place}" if place else "in every process: set NUMBA_CACHE_DIR to a writable folder"
        _log.info("Kernels are compiled at their first call, %s, since %s.", cached, error)
        return None


# None if numba compiles the kernels.
OBJECT_CODE: Final = _load()


def inlined(step: _Step) -> _Step:
    """Mark a function that is always inlined into its kernel."""
    return _step(step, inlined=True)


def called(step: _Step) -> _Step:
    """Mark a function that kernels call, because it is rare or long."""
    return _step(step, inlined=False)


def _step(step: _Step, *, inlined: bool) -> _Step:
    if OBJECT_CODE is not None:
        return step
    from slatespark.kernels._just_in_time import compile_step

    return compile_step(step, inlined=inlined)


def intrinsic(name: str) -> Any:
    """Return the machine instruction `name` of `_intrinsics`, which only the compiler can call."""
    if OBJECT_CODE is not None:
        return None
    from slatespark.kernels import _intrinsics

    return getattr(_intrinsics, name)


class Kernel:
    """A compiled function of int64 numbers.

    Attributes
    ----------
    function : what is compiled
    machine : the only kind of processor that it can be compiled for, if there is one
    symbol : its name in object code
    """

    def __init__(self, function: Callable[..., int], *, machine: str | None = None) -> None:
        self.function = function
        self.machine = machine
        self.symbol = f"{function.__module__}.{function.__name__}"
        self._compiled: Callable[..., int] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: int) -> int:
        compiled = self._compiled
        if compiled is None:
            compiled = self._compiled = self._load()
        return compiled(*arguments)

    def _load(self) -> Callable[..., int]:
        if OBJECT_CODE is not None:
            return OBJECT_CODE.function(self.symbol, self.parameters)
        from slatespark.kernels._just_in_time import compile_kernel

        compiled: Callable[..., int] = compile_kernel(self.function)
        return compiled

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        return len(inspect.signature(self.function).parameters)
