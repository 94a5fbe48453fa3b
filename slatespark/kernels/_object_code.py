"""Kernels compiled ahead of time: which file serves this machine, what is in it, and how it is loaded.

`build` writes a file for each level of the processor into `objects/`. Its first line is JSON, the rest is object code:

    {"sources": digest of the sources, "bytes": size, "sha256": digest of the object code, "built_with": ...}

A file is used only if both digests are right. It holds code of one platform and processor, which its name says, and is
ignored elsewhere. Loading needs llvmlite, but neither numba nor a compiler.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_char_p, c_int64
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from struct import Struct
from typing import Any, Final

_PACKAGE: Final = "slatespark.kernels"


class ObjectCodeError(Exception):
    """There is no object code that this process can use; the message says why."""


@dataclass(frozen=True, slots=True)
class Level:
    """What a processor must be able to do.

    Attributes
    ----------
    name : name of the file
    processor, features : what LLVM compiles for
    required : features that a processor must have to run the code, as LLVM calls them
    """

    name: str
    processor: str
    features: str
    required: frozenset[str]


_V2: Final = frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})
_V3: Final = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
# The kernel of the checksums alone contains a carry-less multiplication, and asks for it before it is called.
_X86: Final = (Level("x86_64-v3", "x86-64-v3", "+pclmul", _V3), Level("x86_64-v2", "x86-64-v2", "+pclmul", _V2))
_ARM: Final = (Level("aarch64", "generic", "", frozenset()),)
_LEVELS: Final = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}


def levels() -> tuple[Level, ...]:
    """Return the levels of this machine's kind of processor, the fastest first."""
    if sys.maxsize < 2**32:  # addresses are int64
        return ()
    return _LEVELS.get(platform.machine().lower(), ())


def object_folder() -> Traversable:
    """Return the folder of the files, which need not exist."""
    return files(_PACKAGE).joinpath("objects")


def file_name(level: Level) -> str:
    """Return the name of the file that holds the code of a level."""
    return f"{sys.platform}-{level.name}.o"


@cache
def source_digest() -> str:
    """Return a digest of everything in this package that determines the compiled code."""
    digest = hashlib.sha256()
    for item in sorted(files(_PACKAGE).iterdir(), key=lambda item: item.name):
        if item.name.endswith(".py"):
            digest.update(item.read_bytes())
    return digest.hexdigest()


@cache
def processor_features() -> frozenset[str]:
    """Return what this machine's processor and operating system offer, as LLVM calls it."""
    from llvmlite import binding

    return frozenset(name for name, present in binding.get_host_cpu_features().items() if present)


def pack_file(code: bytes, built_with: str) -> bytes:
    """Return the file for object code made from the present sources."""
    header = {
        "sources": source_digest(),
        "bytes": len(code),
        "sha256": hashlib.sha256(code).hexdigest(),
        "built_with": built_with,
    }
    return json.dumps(header).encode() + b"\n" + code


def unpack_file(name: str, data: bytes, *, built_with: str | None = None) -> bytes:
    """Return the object code of a file, made with `built_with` if that is given.

    Raises
    ------
    ObjectCodeError : it is damaged, or made from other sources
    """
    line, _, code = data.partition(b"\n")
    try:
        header = json.loads(line)
        stated = header["bytes"], header["sha256"]
        sources, tools = header["sources"], header["built_with"]
    except (ValueError, KeyError, TypeError) as error:
        raise ObjectCodeError(f"{name} is damaged: it has no header") from error
    if stated != (len(code), hashlib.sha256(code).hexdigest()):
        raise ObjectCodeError(f"{name} is damaged: its digest is wrong")
    if sources != source_digest():
        raise ObjectCodeError(f"{name} was built from other sources")
    if built_with not in (None, tools):
        raise ObjectCodeError(f"{name} was built with {tools}")
    return code


class ObjectCode:
    """Object code in memory, ready to be called."""

    def __init__(self, name: str, code: bytes) -> None:
        from llvmlite import binding

        self.name = name
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine()
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def function(self, symbol: str, parameters: int) -> Callable[..., int]:
        """Return a kernel as a function of so many int64 numbers.

        The call releases the interpreter's lock. A number that is no int64 is refused.
        """
        address: int = self._engine.get_function_address(symbol)
        if not address:
            raise ObjectCodeError(f"{self.name} has no kernel {symbol}")
        call: Any = CFUNCTYPE(c_int64, c_char_p)(address)
        pack = Struct(f"={parameters}q").pack

        def kernel(*arguments: int) -> int:
            result: int = call(pack(*arguments))
            return result

        return kernel


def load_object_code(folder: Traversable) -> ObjectCode:
    """Return the fastest code in the folder that this machine can run.

    Raises
    ------
    ObjectCodeError : there is none
    """
    reason = f"there is no object code for {sys.platform} on {platform.machine()}"
    for level in levels():
        name = file_name(level)
        try:
            data = folder.joinpath(name).read_bytes()
        except OSError:
            continue
        try:
            if level.required <= processor_features():
                return ObjectCode(name, unpack_file(name, data))
        except (ObjectCodeError, ImportError, OSError, RuntimeError) as error:
            reason = str(error)
    raise ObjectCodeError(reason)
