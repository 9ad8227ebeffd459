"""
Inner functions are only linked into the kernels that call them: they get no machine code of their own.

numba makes a function ready to run as soon as it is called from another one: optimised, translated, loaded. Kernels
link its intermediate code and optimise the whole again, so for a function that only kernels call the rest was for
nothing: with what fingerprints leave out, two fifths of what a first start waits for.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

__all__ = ["ApartCompiler", "FusedCompiler", "LinkedCompiler"]


class _Generator:
    """A code generator that does not look for a function's environment: it is found in machine code alone."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Do nothing. A kernel from the cache has none for its inner functions either."""


class _LinkedLibrary(JITCodeLibrary):
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
    """The same, optimised only where it is linked."""

    def _optimize_final_module(self) -> None:
        """Leave that to the kernel."""


class _ApartLibrary(_FusedLibrary):
    """The same, kept as a function of its own in the kernel: of a large one, copies are slow to optimise."""

    def add_ir_module(self, ir_module: Any) -> None:
        """Mark what it defines before it is linked."""
        for function in ir_module.functions:
            if function.blocks and "alwaysinline" not in function.attributes:
                function.attributes.add("noinline")
        super().add_ir_module(ir_module)  # type: ignore[no-untyped-call]


class LinkedCompiler(Compiler):
    """numba's compiler, for a function that is optimised and linked."""

    library_class: type[_LinkedLibrary] = _LinkedLibrary

    def __init__(self, typing: Any, target: Any, library: Any, arguments: Any, returned: Any, flags: Any, *rest: Any):
        if library is None:
            library = self.library_class(target.codegen(), "linked")
        super().__init__(typing, target, library, arguments, returned, flags, *rest)  # type: ignore[no-untyped-call]


class FusedCompiler(LinkedCompiler):
    """numba's compiler, for a function that is linked and left to its kernel to optimise."""

    library_class = _FusedLibrary


class ApartCompiler(LinkedCompiler):
    """numba's compiler, for a large function that its kernel calls in many places."""

    library_class = _ApartLibrary
