"""Compiles the kernels ahead of time: `python -m slatespark.kernels.build`.

Writes the files of this machine's kind of processor that are missing or were made from other sources (`_object_code`).
numba translates each kernel once, in several processes, and LLVM compiles the whole for each level. What numba wraps
around a function, which would need Python and numba at run time, is left out: a kernel's symbol is a function of one
address, at which its arguments lie.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slatespark.kernels._object_code import (
    Level,
    ObjectCodeError,
    file_name,
    levels,
    object_folder,
    pack_file,
    unpack_file,
)

if TYPE_CHECKING:
    from slatespark.kernels._compile import Kernel

# What compiled code may call: functions of C that LLVM itself makes use of.
_C_FUNCTIONS: Final = frozenset({"memcpy", "memmove", "memset", "memcmp", "bcmp"})
_PACKAGE: Final = "slatespark.kernels"
_MOST_PROCESSES: Final = 8  # each takes some seconds to import numba


def main() -> None:
    """Build what is not current."""
    folder = Path(str(object_folder()))
    outdated = outdated_levels(folder)
    if outdated:
        names = ", ".join(level.name for level in outdated)
        print(f"Compiling the kernels for {names}: 10 to 40 s, with many cores or few.", flush=True)
        write_objects(folder, outdated)


def outdated_levels(folder: Path) -> list[Level]:
    """Return the levels of this machine's processor without a file in the folder that was made from these sources."""
    return [level for level in levels() if not _is_current(folder / file_name(level))]


def _is_current(file: Path) -> bool:
    try:
        unpack_file(file.name, file.read_bytes(), built_with=_tools())
    except (OSError, ObjectCodeError):
        return False
    return True


def _tools() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("numba", "llvmlite"))


def write_objects(folder: Path, wanted: list[Level]) -> None:
    """Compile the kernels for some levels. To be called once, in a process that has not imported numba."""
    # numba only translates; without this it would also optimize each function for the processor of this machine.
    os.environ.update(SLATESPARK_KERNELS="numba", NUMBA_OPT="0", NUMBA_CPU_NAME="generic")
    os.environ["NUMBA_CPU_FEATURES"] = wanted[0].features
    count = min(os.cpu_count() or 1, _MOST_PROCESSES)
    with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as processes:
        parts = processes.map(_translated, repeat(wanted[0]), range(count), repeat(count))
        translated = _linked(parts)
        folder.mkdir(exist_ok=True)
        for level, code in zip(wanted, processes.map(_compiled, repeat(translated), wanted), strict=True):
            file = folder / file_name(level)
            written = file.with_suffix(f".{os.getpid()}")
            written.write_bytes(pack_file(code, _tools()))
            written.replace(file)


def kernels(machine: str) -> Iterator[Kernel]:
    """Yield the kernels that can be compiled for a kind of processor."""
    from slatespark.kernels._compile import Kernel

    for module in pkgutil.iter_modules(import_module(_PACKAGE).__path__, f"{_PACKAGE}."):
        if not module.ispkg:
            for value in vars(import_module(module.name)).values():
                # Not those that the module imported.
                if (
                    isinstance(value, Kernel)
                    and value.__module__ == module.name
                    and machine.startswith(value.machine or "")
                ):
                    yield value


def _translated(level: Level, part: int, parts: int) -> bytes:
    """Return a part of the kernels as one LLVM module, not optimized: outside, their symbols alone can be seen."""
    from llvmlite import binding

    from slatespark.kernels._just_in_time import compile_kernel

    whole = binding.parse_assembly("")
    symbols = set()
    for kernel in list(kernels(level.name))[part::parts]:
        [compiled] = compile_kernel(kernel.function, cached=False).overloads.values()
        whole.link_in(binding.parse_bitcode(compiled.library._final_module.as_bitcode()))
        whole.link_in(binding.parse_assembly(_entry(kernel.symbol, compiled.fndesc)))
        symbols.add(kernel.symbol)
    for value in (*whole.functions, *whole.global_variables):
        if not value.is_declaration and value.name not in symbols:
            value.linkage = "internal"
    bitcode: bytes = whole.as_bitcode()
    return bitcode


def _linked(parts: Iterable[bytes]) -> bytes:
    """Return LLVM modules as one."""
    from llvmlite import binding

    whole = binding.parse_assembly("")
    for part in parts:
        whole.link_in(binding.parse_bitcode(part))
    bitcode: bytes = whole.as_bitcode()
    return bitcode


def _entry(symbol: str, description: Any) -> str:
    """Return an LLVM module with the function that loads a kernel's arguments and calls it."""
    from llvmlite import ir
    from numba.core.registry import cpu_target

    calls = cpu_target.target_context.call_conv
    types = description.restype, description.argtypes
    module, word = ir.Module(symbol), ir.IntType(64)
    kernel = ir.Function(module, calls.get_function_type(*types), description.llvm_func_name)
    entry = ir.Function(module, ir.FunctionType(word, [word.as_pointer()]), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    places = [builder.gep(entry.args[0], [ir.Constant(word, number)]) for number in range(len(types[1]))]
    status, result = calls.call_function(builder, kernel, *types, [builder.load(place, align=1) for place in places])
    with builder.if_then(status.is_error):  # `_check` proves that no kernel raises
        builder.call(module.declare_intrinsic("llvm.trap", [], ir.FunctionType(ir.VoidType(), [])), [])
        builder.unreachable()
    builder.ret(result)
    return str(module)


def _compiled(bitcode: bytes, level: Level) -> bytes:
    """Return the object code of a module, optimized as numba does it."""
    from llvmlite import binding

    target = binding.Target.from_triple(binding.get_process_triple())
    # References of 64 bits: in a process whose address space is crowded, code and constants may be loaded further apart
    # than 32 bits reach, and then LLVM aborts the process.
    machine = target.create_target_machine(
        cpu=level.processor, features=level.features, opt=3, reloc="static", codemodel="large"
    )
    module = binding.parse_bitcode(bitcode)
    module.triple, module.data_layout = binding.get_process_triple(), str(machine.target_data)
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, False
    passes = binding.create_pass_builder(machine, options)
    for _ in range(2):
        passes.getModulePassManager().run(module, passes)
    _check(module)
    code: bytes = machine.emit_object(module)
    return code


def _check(module: Any) -> None:
    """Refuse kernels that raise, or that need anything of Python or numba."""
    names = {function.name for function in module.functions if function.is_declaration}
    names |= {variable.name for variable in module.global_variables if variable.is_declaration}
    needed = {name for name in names if not name.startswith("llvm.")} - _C_FUNCTIONS
    if needed or "llvm.trap" in names:
        raise ObjectCodeError(f"A kernel raises, or needs {sorted(needed)}: it cannot be compiled ahead of time.")


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        sys.exit(f"The kernels were not compiled ahead of time, so each process compiles them: {error}")
