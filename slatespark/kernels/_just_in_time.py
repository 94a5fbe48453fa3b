"""Compilation of kernels by numba on their first call, and the cache of compiled kernels.

This module loads numba: it is imported only where there is no object code that was made ahead of time.
"""

from __future__ import annotations

import inspect
import os
import pickle
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache, _CacheLocator

from slatespark.kernels._object_code import source_digest
from slatespark.private_folder import private_folder

_OPTIONS: Any = {"nogil": True, "error_model": "numpy"}

_Step = TypeVar("_Step", bound=Callable[..., object])


def compile_step(step: _Step, *, inlined: bool) -> _Step:
    """Return a function that kernels call."""
    options = {**_OPTIONS, "forceinline": True} if inlined else _OPTIONS
    compiled: Any = numba.njit(**options)(step)
    return compiled  # type: ignore[no-any-return]


def compile_kernel(function: Callable[..., int], *, cached: bool = True) -> Any:
    """Return the function compiled, or loaded from the cache: numba's dispatcher with its one specialization."""
    dispatcher: Any = numba.njit(**_OPTIONS)(function)
    signature = types.int64(*[types.int64] * len(inspect.signature(function).parameters))
    if cached and cache_directory() is not None:
        dispatcher._cache = _kernel_cache(function)
    try:
        dispatcher.compile(signature)
    except (OSError, EOFError, pickle.UnpicklingError):  # disk full or cache damaged: continue without a cache
        dispatcher._cache = NullCache()
        dispatcher.compile(signature)
    dispatcher.disable_compile()
    return dispatcher


@cache
def cache_directory() -> Path | None:
    """Return the folder of the compiled kernels, or None if there is no safe and writable place.

    Its name contains a digest of all sources, since numba detects changes only in a kernel's own file. Cache files are
    executable code: no other user may be able to write them, even in the shared temporary folder.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    base = Path(chosen) if chosen else private_folder()
    if base is None:
        return None
    # numba itself distinguishes types of processor.
    directory = base / f"slatespark-{_package_version()}-{numba.__version__}-{source_digest()[:16]}"
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
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
