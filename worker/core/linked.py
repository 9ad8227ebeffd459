"""
How kernels are compiled: numba's compiler without what they have no use for, which is half of a first start.

numba makes a function ready to run as soon as it is called from another one: optimised, translated, loaded. Kernels
link its intermediate code and optimise the whole again, so inner functions are only linked into the kernels that call
them: they get no machine code of their own.
"""

from __future__ import annotations

from typing import Any

from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_machinery import PassManager

# All of numba's passes but those for closures, `with`, unrolled literals, array expressions: each goes over the whole
# function, and has the lifetimes of its variables computed anew.
_FIRST = (untyped_passes.TranslateByteCode, untyped_passes.FixupArgs)
_TYPES = (untyped_passes.ReconstructSSA, typed_passes.NopythonTypeInference, typed_passes.PreLowerStripPhis)
_LAST = (typed_passes.NativeLowering, typed_passes.NoPythonBackend)
_COUNTED = (
    *_FIRST,
    untyped_passes.GenericRewrites,
    *_TYPES,
    typed_passes.IRLegalization,
    typed_passes.AnnotateTypes,
    *_LAST,
)
_UNCOUNTED = (*_FIRST, *_TYPES, *_LAST)  # where no references are counted no variable's end matters
_DEFAULTS: dict[str, Any] = {name: option.default for name, option in Flags.options.items()}
_NOT_INHERITED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _Flags(Flags):
    """The same flags. numba compares them whenever it looks up what an operator does, and keeps code for each kind."""

    __slots__ = ()

    def values(self) -> dict[str, Any]:
        """Return all values, without asking for each; those that operators do not inherit are the same for all."""
        return _DEFAULTS | self._values | _NOT_INHERITED


class _KernelLibrary(JITCodeLibrary):
    """Machine code of one kernel."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave that to the passes over the whole."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Optimise once; numba does it cheaply before, for references that kernels do not count in loops."""
        passes, builder = self._codegen._module_pass_manager()  # type: ignore[no-untyped-call]
        passes.run(self._final_module, builder)


class _Generator:
    """A code generator that does not look for a function's environment: it is found in machine code alone."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing. A kernel from the cache has none for its inner functions either."""


class _LinkedLibrary(_KernelLibrary):
    """Intermediate code of one function, for kernels to link."""

    @property
    def codegen(self) -> Any:
        return _Generator(self._codegen)

    def get_pointer_to_function(self, _name: str) -> int:
        """Return no address: nobody calls it from outside."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    def _finalize_final_module(self) -> None:
        """Keep the code out of the engine, which would translate it."""
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class _FusedLibrary(_LinkedLibrary):
    """The same, optimised only where it is linked, as part of its callers."""

    mark = "alwaysinline"

    def add_ir_module(self, ir_module: Any) -> None:
        """Mark what it defines before it is linked."""
        for function in ir_module.functions:
            if function.blocks and not {"alwaysinline", "noinline"} & set(function.attributes):
                function.attributes.add(self.mark)
        super().add_ir_module(ir_module)  # type: ignore[no-untyped-call]

    def _optimize_final_module(self) -> None:
        """Leave that to the kernel."""


class _ApartLibrary(_FusedLibrary):
    """The same, kept as a function of its own in the kernel: of a large one, copies are slow to optimise."""

    mark = "noinline"


class KernelCompiler(CompilerBase):
    """numba's compiler with fewer passes, for a kernel."""

    library_class: type[JITCodeLibrary] = _KernelLibrary

    def __init__(self, typing: Any, target: Any, library: Any, arguments: Any, returned: Any, flags: Any, *rest: Any):
        if library is None:
            library = self.library_class(target.codegen(), "kernel")
            library.enable_object_caching()
        super().__init__(typing, target, library, arguments, returned, _Flags(flags), *rest)  # type: ignore[no-untyped-call]

    def define_pipelines(self) -> list[PassManager]:
        """Return one, with the passes for a function of this kind."""
        passes = PassManager("kernel")  # type: ignore[no-untyped-call]
        for each in _COUNTED if self.state.flags.nrt or self.library_class is _KernelLibrary else _UNCOUNTED:
            passes.add_pass(each, each.__name__)  # type: ignore[no-untyped-call]
        passes.finalize()  # type: ignore[no-untyped-call]
        return [passes]


class LinkedCompiler(KernelCompiler):
    """The same, for a function that is optimised and linked."""

    library_class = _LinkedLibrary


class FusedCompiler(KernelCompiler):
    """The same, for a function that is linked and left to its kernel to optimise."""

    library_class = _FusedLibrary


class ApartCompiler(KernelCompiler):
    """The same, for a large function that its kernel calls in many places."""

    library_class = _ApartLibrary
