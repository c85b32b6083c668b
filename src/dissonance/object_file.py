"""An object file of functions that Python calls, with all that they call: translated by Numba, optimised once.

As Numba goes about it, a function is optimised and made into machine code when it is compiled, and again, as a part of
every function that calls it, when those are: three quarters of the minute that the solver took. Here functions are only
translated, and LLVM optimises them all together. For that, inner workings of Numba are replaced, so it is done in a
process that does nothing else; should Numba no longer have them, that process fails, and Numba compiles as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Any

from dissonance.collector import uncollected
from dissonance.machine_code import ARRAYS, NUMBERS, machine, takes

NEEDLESS = {
    "DeadBranchPrune",
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "LiteralPropagationSubPipelinePass",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NoPythonSupportedFeatureValidation",
    "NopythonRewrites",
    "RewriteDynamicRaises",
    "RewriteSemanticConstants",
    "WithLifting",
}
"""Passes of Numba that find nothing to do in loops over numbers."""


@cache
def from_the_start() -> dict[str, Any]:
    """Options for `njit` by which an index is taken as it is: none counts from the end, as -1 does, but a literal.

    An index that might be negative, as far as the compiler knows, costs a comparison each time and turns loops over
    neighbouring numbers into ones that gather and scatter them: the solver takes half as long again. Numba has no
    option for that, so what makes an index of one is replaced while functions with these options are compiled, which
    happens under Numba's lock. Nothing changes if Numba no longer has it.
    """
    try:
        import numba.np.arrayobj as arrays
        from llvmlite.ir import Constant
        from numba.core import types
        from numba.core.compiler import CompilerBase, DefaultPassBuilder
        from numba.core.compiler_machinery import register_pass
        from numba.core.typed_passes import NativeLowering

        usual: Any = arrays.fix_integer_index
    except (ImportError, AttributeError):
        return {}

    def as_it_is(context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
        if isinstance(index, Constant):
            return usual(context, builder, kind, index, size)
        return context.cast(builder, index, kind, types.intp)

    class Lowering(NativeLowering):
        _name = "lowering of indices from the start"

        def run_pass(self, state: Any) -> Any:
            arrays.fix_integer_index = as_it_is
            try:
                return super().run_pass(state)
            finally:
                arrays.fix_integer_index = usual

    lowering = register_pass(mutates_CFG=True, analysis_only=False)(Lowering)

    class Compiler(CompilerBase):
        def define_pipelines(self) -> list[Any]:
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
            needed = [(x, why) for x, why in passes.passes if x.__name__ not in NEEDLESS]
            passes.passes = [(lowering if x is NativeLowering else x, why) for x, why in needed]
            passes.finalize()
            return [passes]

    return {"pipeline_class": Compiler}


def make_object(functions: Mapping[str, Any]) -> bytes:
    """Functions by name, as Numba's `njit` has them: a digest, against damage, the names, and the object file.

    Numba is good for nothing else afterwards.
    """
    import llvmlite.binding as llvm
    from numba.core import types
    from numba.core.registry import cpu_target

    target: Any = cpu_target
    code = target.target_context.codegen()
    _only_translate()
    found: list[Any] = []
    for function in functions.values():
        kinds = tuple(_numba_type(types, kind) for kind in takes(function.py_func))
        with uncollected():
            function.compile(kinds)
        found.append(function.overloads[kinds])
    whole = llvm.parse_assembly("")
    whole.triple, whole.data_layout = llvm.get_process_triple(), str(code.target_data)
    for library in _with_linked([x.library for x in found]):
        whole.link_in(library._final_module, preserve=True)
    names = {x.fndesc.llvm_func_name: name for x, name in zip(found, functions, strict=True)}
    for function in whole.functions:
        if not function.is_declaration:
            function.linkage = "external" if function.name in names else "internal"
            function.name = names.get(function.name, function.name)
    _optimise(code, whole)
    data = " ".join(functions).encode() + b"\n" + machine(llvm).emit_object(whole)
    return sha256(data).digest() + data


def _only_translate() -> None:
    """From here on Numba makes LLVM's language of functions, and no machine code."""
    from numba.core import codegen, cpu, types

    library: Any = codegen.JITCodeLibrary
    context: Any = cpu.CPUContext
    library.finalize = lambda self: setattr(self, "_finalized", True)
    library._optimize_functions = lambda self, module: None
    context.get_executable = lambda self, *_: [].append  # unlike any other: Numba knows functions by it

    operation: Any = types.BaseFunction
    function: Any = types.Dispatcher
    operated, called = operation.get_call_type, function.get_call_type
    known: dict[Any, Any] = {}

    def remembered(self: Any, context: Any, args: Any, keywords: Any) -> Any:
        """The type of a + b would be sought anew for every plus."""
        if keywords:
            return operated(self, context, args, keywords)
        if (self, args) not in known:
            known[self, args] = operated(self, context, args, keywords)
        return known[self, args]

    def without_literals(self: Any, context: Any, args: Any, keywords: Any) -> Any:
        """A function that is called with 0 would be compiled once more for that."""
        ours = self.dispatcher.py_func.__module__.startswith("dissonance")
        return called(self, context, tuple(map(types.unliteral, args)) if ours else args, keywords)

    operation.get_call_type, function.get_call_type = remembered, without_literals


def _with_linked(libraries: list[Any]) -> list[Any]:
    """These, and all those that are linked to them, each once."""
    found = dict.fromkeys(libraries)
    for library in libraries:
        for other in library._linking_libraries:
            if other not in found:
                found[other] = None
                libraries.append(other)
    return list(found)


def _optimise(code: Any, whole: Any) -> None:
    """As Numba does: each function by itself, without which the solver takes a tenth longer; cheaply, so that what
    counts references comes together and cancels; in full."""
    for function in whole.functions:
        passes, builder = code._function_pass_manager()
        passes.run(function, builder)
    cheap = {"loop_vectorize": False, "slp_vectorize": False, "opt": 0, "cost": "cheap"}
    for options in (cheap, {}):
        passes, builder = code._module_pass_manager(**options)
        passes.run(whole, builder)


def _numba_type(types: Any, kind: str) -> Any:
    if kind in NUMBERS:
        return {"int": types.int64, "float": types.float64, "bool": types.boolean}[kind]
    dtype, dimensions = ARRAYS[kind]
    return types.Array(getattr(types, dtype.name), dimensions, "C")
