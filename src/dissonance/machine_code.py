"""Machine code of functions that Python calls, kept in an object file: it is ready in 20 ms, where Numba takes 600.

`object_file.py` makes the file; `load_object` needs LLVM and the libraries that Numba's machine code calls (memory,
BLAS), not Numba's compiler, whose start is what takes long. Functions take arrays and numbers, and return None, a
number or several; what they take and return is read off their annotations. Numba passes an array on as seven numbers
or, if it has rows, nine: see `_Function`.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from struct import unpack
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64]

ARRAYS = {"Ints": (np.dtype(np.int64), 1), "Floats": (np.dtype(np.float64), 1), "Rows": (np.dtype(np.float64), 2)}
NUMBERS = {"int": ctypes.c_int64, "float": ctypes.c_double, "bool": ctypes.c_bool}

LIBRARIES = {"numba._helperlib": "numba_", "numba.core.runtime._nrt_python": "NRT_"}
"""Where what machine code calls is, and what the names of that begin with."""

FINE = (0, -2)
"""What compiled functions return when they were not out of memory, which is all that can happen to them."""


def probe(numbers: Ints, values: Floats, rows: Rows, count: int, factor: float) -> tuple[float, float]:
    """A function of all that entries take, which allocates memory: what it returns in a trial tells whether Numba
    passes arguments as is assumed here."""
    room = values * factor
    for i in range(count):
        room[i] += numbers[i] * rows[i, 1]
    return room.sum(), np.float64(rows.shape[0] + 10 * rows.shape[1])


def load_object(path: Path, functions: Mapping[str, Callable[..., Any]]) -> dict[str, _Function]:
    """Functions by name as they are in a file of `make_object`; ValueError: it is damaged, or has not all of them."""
    import llvmlite.binding as llvm

    data = path.read_bytes()
    names, _, code = data[32:].partition(b"\n")
    if sha256(data[32:]).digest() != data[:32] or not functions.keys() <= set(names.decode().split()):
        raise ValueError(f"{path} is damaged, or of other functions.")
    for name, start in LIBRARIES.items():
        library = _library(name)
        if hasattr(library, "memsys_use_cpython_allocator"):
            library.memsys_use_cpython_allocator()  # as Numba does
        for key, address in library.c_helpers.items():
            llvm.add_symbol(key if key.startswith("_") else start + key, address)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine(llvm))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return {name: _Function(name, engine, function) for name, function in functions.items()}


def processor() -> str:
    """The kind of processor that machine code made here is for."""
    import llvmlite.binding as llvm

    return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


class _Function:
    """A function of an object file, called without the interpreter's lock.

    Its arguments: where to put the result, where to put an error, then its own; of an array nobody that counts
    references, twice, how many items of how many bytes, where they are, the shape and the strides.
    """

    def __init__(self, name: str, engine: Any, function: Callable[..., Any]) -> None:
        self.name, self.takes = name, [ARRAYS.get(kind) for kind in takes(function)]
        self.engine, self.gives = engine, _returns(function)
        kinds: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
        for kind in takes(function):
            if kind in NUMBERS:
                kinds.append(NUMBERS[kind])
            else:
                kinds += [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2 + [ctypes.c_void_p]
                kinds += [ctypes.c_int64] * 2 * ARRAYS[kind][1]
        self.call = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(engine.get_function_address(name))
        self.room = ctypes.c_char * max(8, 8 * len(self.gives))

    def __call__(self, *args: Any) -> Any:
        """What it returns; TypeError for arrays that it does not take."""
        flat: list[Any] = []
        for array, x in zip(self.takes, args, strict=True):
            if array is None:
                flat.append(x)
                continue
            if x.dtype != array[0] or x.ndim != array[1] or not x.flags.c_contiguous:
                raise TypeError(f"{self.name} takes contiguous arrays of {array[0]} in {array[1]} dimensions.")
            flat += [None, None, x.size, 8, x.__array_interface__["data"][0], *x.shape, *x.strides]
        result, error = self.room(), ctypes.c_void_p()
        if self.call(ctypes.byref(result), ctypes.byref(error), *flat) not in FINE:
            raise MemoryError(f"{self.name}: out of memory.")
        if not self.gives:
            return None
        first, *others = unpack(self.gives, result)
        return (first, *others) if others else first


def takes(function: Callable[..., Any]) -> list[str]:
    """The kinds of its arguments, in order."""
    return [kind for name, kind in function.__annotations__.items() if name != "return"]


def _returns(function: Callable[..., Any]) -> str:
    """The numbers that it returns, as `struct` names them."""
    return "".join({"float": "d", "int": "q"}[x] for x in re.findall("float|int", function.__annotations__["return"]))


def machine(llvm: Any) -> Any:
    """The processor that is here, as LLVM has it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=3, codemodel="jitdefault", jit=True)


def _library(name: str) -> Any:
    """A library of Numba's, without Numba; if that is imported later, it finds the same one."""
    if name in sys.modules:
        return sys.modules[name]
    spec = find_spec("numba")
    assert spec is not None and spec.submodule_search_locations is not None
    *folders, last = name.split(".")[1:]
    folder = Path(spec.submodule_search_locations[0], *folders)
    found = FileFinder(str(folder), (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec(last)
    spec = spec_from_file_location(name, found.origin if found else None)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(name, None)
    return module


if __name__ == "__main__":  # whether it can be loaded and called; LLVM ends the process if it cannot
    given = np.arange(1, 4), np.arange(3.0), np.arange(8.0).reshape(4, 2), 3, 0.5
    sys.exit(load_object(Path(sys.argv[1]), {"probe": probe})["probe"](*given) != probe(*given))
