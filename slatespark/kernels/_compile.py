"""Compilation of kernels on their first call, and the cache of compiled kernels.

A kernel takes and returns int64 numbers, some of which are addresses (`_native`). So each kernel has one
specialization, and arrays may be read-only. This module loads numba; do not import it before the first kernel call.
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
    """Compile a function that is always inlined into its kernel."""
    compiled: Any = numba.njit(forceinline=True, **_OPTIONS)(step)
    return compiled  # type: ignore[no-any-return]


def called(step: _Step) -> _Step:
    """Compile a function that is not inlined, because it is rare or long."""
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
    except (OSError, EOFError, pickle.UnpicklingError):  # disk full or cache damaged: continue without a cache
        dispatcher._cache = NullCache()
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    compiled: Callable[..., int] = dispatcher
    return compiled


@cache
def cache_directory() -> Path | None:
    """Return the folder of the compiled kernels, or None if there is no safe and writable place.

    Its name contains a digest of all sources, since numba detects changes only in a kernel's own file. Cache files are
    executable code: no other user may be able to write them, even in the shared temporary folder.
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
    """Return a digest of everything that determines the compiled code; numba handles the processor type."""
    digest = hashlib.sha256(numba.__version__.encode())
    for item in sorted(files("slatespark.kernels").iterdir(), key=lambda item: item.name):
        if item.name.endswith(".py"):
            digest.update(item.read_bytes())
    return digest.hexdigest()[:16]


class _Locator(_CacheLocator):
    """Locates the cache of every kernel in `cache_directory`."""

    def __init__(self, function: Callable[..., int]) -> None:
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return ""  # the folder's name contains the digest

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
