"""Arrays that end where memory ends: machine code that reads or writes one byte too many crashes its process."""

from __future__ import annotations

import ctypes
import mmap
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from slatespark import kernels

_OTHERS: Final = ("_intrinsics", "_just_in_time", "build", "reference")  # they compile, or are plain by themselves

_PAGE: Final = mmap.PAGESIZE
_NO_ACCESS: Final = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_maps: list[mmap.mmap] = []


def forget_arrays() -> None:
    """Let go of the memory of all arrays; those still in use keep theirs."""
    _maps.clear()


def guarded(size: int) -> NDArray[np.uint8]:
    """Return zeros in front of a page that nobody may touch."""
    pages = -(-size // _PAGE) or 1
    memory = mmap.mmap(-1, (pages + 1) * _PAGE)
    octets = np.frombuffer(memory, np.uint8)
    behind = octets.ctypes.data + pages * _PAGE
    if _libc.mprotect(behind, _PAGE, _NO_ACCESS):
        raise OSError(ctypes.get_errno(), "mprotect failed")
    _maps.append(memory)
    return octets[pages * _PAGE - size : pages * _PAGE]


def place(data: bytes) -> NDArray[np.uint8]:
    """Return a copy of bytes."""
    octets = guarded(len(data))
    octets[:] = np.frombuffer(data, np.uint8)
    return octets


class _Numpy:
    """numpy, with new arrays in guarded memory."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def zeros(shape: Any, dtype: DTypeLike = float) -> NDArray[Any]:
        """Return an array."""
        kind = np.dtype(dtype)
        count = int(np.prod(shape))
        return guarded(count * kind.itemsize).view(kind).reshape(shape)

    empty = zeros


def install() -> None:
    """Let the compiled kernels of this process keep their results in guarded memory."""
    for found in iter_modules(kernels.__path__):
        if found.name not in _OTHERS:
            module: Any = import_module(f"slatespark.kernels.{found.name}")
            if hasattr(module, "np"):
                module.np = _Numpy()
