"""Compiling a kernel when it is first called, and where compiled kernels are kept.

A kernel takes and gives int64 numbers, addresses among them (`_native`), so there is one specialisation of each, and
arrays may be read-only. The module must not be imported before the first kernel call, since it loads numba.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import tempfile
from collections.abc import Callable
from functools import cache, update_wrapper
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache, _CacheLocator

_OPTIONS: Any = {"nogil": True, "error_model": "numpy"}

_Step = TypeVar("_Step", bound=Callable[..., object])


def inlined(step: _Step) -> _Step:
    """Make a step of a kernel that is always inlined."""
    compiled: Any = numba.njit(forceinline=True, **_OPTIONS)(step)
    return compiled  # type: ignore[no-any-return]


def called(step: _Step) -> _Step:
    """Make a step of a kernel that is called, since it is rare or long."""
    compiled: Any = numba.njit(**_OPTIONS)(step)
    return compiled  # type: ignore[no-any-return]


class Kernel:
    """A compiled function of int64 numbers."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._function = function
        self._compiled: Callable[..., int] | None = None
        update_wrapper(self, function)

    def __call__(self, *arguments: int) -> int:
        compiled = self._compiled
        if compiled is None:
            compiled = self._compiled = _compile(self._function)
        return compiled(*arguments)


def _compile(function: Callable[..., int]) -> Callable[..., int]:
    """Return the function compiled, or loaded from the cache."""
    dispatcher: Any = numba.njit(**_OPTIONS)(function)
    signature = types.int64(*[types.int64] * len(inspect.signature(function).parameters))
    if cache_directory() is not None:
        dispatcher._cache = _kernel_cache(function)
    try:
        dispatcher.compile(signature)
    except (OSError, EOFError, pickle.UnpicklingError):  # a full disk, a damaged cache: go on without it
        dispatcher._cache = NullCache()
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    compiled: Callable[..., int] = dispatcher
    return compiled


@cache
def cache_directory() -> Path | None:
    """Return the folder of the compiled kernels, or None where there is no safe and writable place for one.

    It is named after the sources, since numba itself notices changes in a kernel's own file only. Cache files are
    executable code: in the shared temporary folder nobody else may be able to put them there.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    user = os.getuid() if hasattr(os, "getuid") else 0
    base = Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"slatespark-{user}"
    directory = base / f"slatespark-{_package_version()}-{_source_digest()}"
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = base.lstat()
        if not chosen and hasattr(os, "getuid") and (status.st_uid != user or status.st_mode & 0o22):
            return None
        directory.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError:
        return None


def _package_version() -> str:
    try:
        return version("slatespark")
    except PackageNotFoundError:  # run from a source tree
        return "source"


def _source_digest() -> str:
    """Return a digest of all that decides on the compiled code, except for the processor, which numba looks after."""
    digest = hashlib.sha256(numba.__version__.encode())
    for item in sorted(files("slatespark.kernels").iterdir(), key=lambda item: item.name):
        if item.name.endswith(".py"):
            digest.update(item.read_bytes())
    return digest.hexdigest()[:16]


class _Locator(_CacheLocator):
    """Sends the cache of every kernel to `cache_directory`."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return ""  # the folder's name says it

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., int], _file: str) -> _Locator:
        return cls(function)


class _KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes: Any = (_Locator,)


class _KernelCache(FunctionCache):
    _impl_class: Any = _KernelCacheImpl


def _kernel_cache(function: Callable[..., int]) -> Any:
    return _KernelCache(function)  # type: ignore[no-untyped-call]
