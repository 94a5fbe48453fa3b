"""Compiled kernels as plain Python, with every access to memory checked.

A kernel is a function of numbers, some of which are addresses, and touches memory through a dozen instructions alone.
Here each array gets a range of made-up addresses, far from those of any other, and the instructions look addresses up:
one byte before or behind its array, or a store to a read-only one, is an `OverrunError`. What machine code would do to
its neighbours unnoticed is seen at once, and a fuzzer sees which lines ran.
"""

from __future__ import annotations

import struct
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slatespark import kernels
from slatespark.kernels import _compile

_ROOM_BITS: Final = 40  # of addresses for each array
_WORD: Final = 1 << 64
_NOT_RUN: Final = ("_intrinsics", "_just_in_time", "build", "reference")  # they compile, or are plain by themselves


class OverrunError(AssertionError):
    """A kernel touched memory that is none of its arrays."""


_arrays: list[memoryview] = []


def forget_arrays() -> None:
    """Give the addresses of all arrays to others; no kernel may be running, and no rows be kept."""
    _arrays.clear()


def _address_of(array: NDArray[Any]) -> int:
    octets = array.reshape(-1).view(np.uint8) if array.size else np.zeros(0, np.uint8)
    _arrays.append(octets.data)
    return len(_arrays) << _ROOM_BITS


def _part(address: int, size: int) -> tuple[memoryview, int]:
    number, start = int(address) >> _ROOM_BITS, int(address) & (1 << _ROOM_BITS) - 1
    if not 0 < number <= len(_arrays):
        raise OverrunError(f"{size} bytes at {address:x} are in no array")
    array = _arrays[number - 1]
    if start + size > len(array):
        raise OverrunError(f"bytes {start} to {start + size} of an array of {len(array)}")
    return array, start


def _load(address: int, size: int) -> int:
    array, start = _part(address, size)
    return int.from_bytes(array[start : start + size], "little")


def _store(address: int, value: int, size: int) -> None:
    array, start = _part(address, size)
    if array.readonly:
        raise OverrunError("a store to a read-only array")
    array[start : start + size] = (int(value) % (1 << 8 * size)).to_bytes(size, "little")


def _signed(word: int) -> int:
    return word - _WORD if word >= _WORD >> 1 else word


def _copy_exact(target: int, source: int, size: int) -> None:
    if size < 0:
        raise OverrunError(f"a copy of {size} bytes")
    if size:
        taken, start = _part(source, size)
        data = bytes(taken[start : start + size])
        array, start = _part(target, size)
        array[start : start + size] = data


def _float_bits(number: float, form: str) -> int:
    return int.from_bytes(struct.pack(form, number), "little")


def _carryless_product(left: np.uint64, right: np.uint64) -> tuple[np.uint64, np.uint64]:
    product = 0
    for bit in range(64):
        if int(right) >> bit & 1:
            product ^= int(left) << bit
    return np.uint64(product % _WORD), np.uint64(product >> 64)


_INSTRUCTIONS: Final = MappingProxyType(
    {
        "load8": lambda at: _load(at, 1),
        "load16": lambda at: _load(at, 2),
        "load32": lambda at: _load(at, 4),
        "load64": lambda at: _signed(_load(at, 8)),
        "load_word": lambda at: np.uint64(_load(at, 8)),
        "store8": lambda at, value: _store(at, value, 1),
        "store16": lambda at, value: _store(at, value, 2),
        "store32": lambda at, value: _store(at, value, 4),
        "store64": lambda at, value: _store(at, value, 8),
        "store_word": lambda at, value: _store(at, value, 8),
        "swap_word": lambda word: np.uint64(int.from_bytes(int(word).to_bytes(8, "little"), "big")),
        "prefetch": lambda at: None,
        "zero_bits": lambda word: (int(word) & -int(word)).bit_length() - 1,
        "leading_zeros": lambda word: 64 - int(word).bit_length(),
        "leading_zeros_of_nonzero": lambda word: 64 - int(word).bit_length(),
        "copy_exact": _copy_exact,
        "float32_bits": lambda number: _float_bits(float(np.float32(number)), "<f"),
        "float64_bits": lambda number: _float_bits(float(number), "<d"),
        "widened_bits": lambda bits: _float_bits(float(np.uint32(bits & 0xFFFF_FFFF).view(np.float32)), "<d"),
        "carryless_product": _carryless_product,
    }
)


class _Uint64(np.uint64):
    """Converts numbers below 0 as machine code does."""

    def __new__(cls, number: Any) -> Any:
        return np.uint64(int(number) % _WORD)


class _Int8(np.int8):
    """Converts an octet as machine code does."""

    def __new__(cls, number: Any) -> Any:
        return np.uint8(int(number) % (1 << 8)).view(np.int8)


class _Int16(np.int16):
    def __new__(cls, number: Any) -> Any:
        return np.uint16(int(number) % (1 << 16)).view(np.int16)


class _Int32(np.int32):
    def __new__(cls, number: Any) -> Any:
        return np.uint32(int(number) % (1 << 32)).view(np.int32)


class _Int64(np.int64):
    def __new__(cls, number: Any) -> Any:
        return np.uint64(int(number) % _WORD).view(np.int64)


class _Numpy:
    """numpy, with numbers that convert others as machine code does."""

    uint64, int8, int16, int32, int64 = _Uint64, _Int8, _Int16, _Int32, _Int64

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


class _Plain:
    """In place of object code: a kernel is the function that would be compiled."""

    @staticmethod
    def function(symbol: str, _parameters: int) -> Any:
        module, _, name = symbol.rpartition(".")
        return getattr(import_module(module), name).function


def install() -> None:
    """Let the kernels of this process run so; to be called before the first of them is."""
    np.seterr(over="ignore")  # words wrap around
    compiling: Any = _compile
    compiling.OBJECT_CODE = _Plain()
    compiling.intrinsic = _INSTRUCTIONS.__getitem__
    sources: Any = import_module("slatespark.kernels._sources")
    sources.address_of = _address_of
    for found in iter_modules(kernels.__path__):
        if found.name not in _NOT_RUN:
            module: Any = import_module(f"slatespark.kernels.{found.name}")
            if hasattr(module, "np"):
                module.np = _Numpy()
