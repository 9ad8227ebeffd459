"""
Kernels: plain functions compiled by numba without the GIL, their machine code cached on disk.

numba's own cache looks at the file of the outermost function alone, and would keep an old kernel
after an inner one has changed. Here the stamp covers every file of `worker.core`: a change in any
of them compiles all kernels again. The machine code is stored

1. in NUMBA_CACHE_DIR when that is set,
2. else next to the source, in `__pycache__`,
3. else in the user's cache directory,
4. else nowhere: each process compiles for itself.

A folder is used if it can be written or already holds the code, as in a read-only image.

An installation may also carry machine code (`carried.py`), which is used where none is stored.

Loading code means running it. So a folder is used only if nobody but its owner may write to it, and
if the owner is this process's user or root. A file in it that others may write to is removed
without being read. A damaged file is removed too, and its code is compiled again.

If several processes start together, one compiles a kernel and the others wait for its code. Workers
that all compiled the same kernels would need minutes where one needs seconds.
"""

from __future__ import annotations

import fcntl
import gc
import inspect
import logging
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core import config, types
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
)
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager
from numba.core.registry import cpu_target
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import AnnotateTypes, InlineOverloads, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes, WithLifting

from worker.core import carried
from worker.held_signals import hear, held_back

# How kernels are compiled: each function once, which takes half as long as numba alone.
#
# numba makes a function ready to run as soon as it is called from another one: optimised,
# translated, loaded. Kernels link its intermediate code and optimise the whole again, so inner
# functions are only linked into the kernels that call them: they get no machine code of their own.
# Those that are optimised in the kernel alone are linked there alone, too. Linked into each other,
# level by level, they would be copied once per level.


class _KernelLibrary(JITCodeLibrary):
    """Machine code of one kernel."""

    def finalize(self) -> None:
        """Link what it calls, and what is called there but not linked yet."""
        self._linking_libraries = list(_with_unlinked(self._linking_libraries))
        super().finalize()  # type: ignore[no-untyped-call]

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leave that to the passes over the whole."""
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """
        Optimise once.

        Numba runs a cheap pass first, to remove reference counts. These kernels have none in loops.
        """
        passes, builder = self._codegen._module_pass_manager()  # type: ignore[no-untyped-call]
        passes.run(self._final_module, builder)


class _LinkedLibrary(_KernelLibrary):
    """Intermediate code of one function, for kernels to link."""

    @property
    def codegen(self) -> Any:
        """
        The generator, which looks for no function's environment: it is found in machine code alone.
        """
        generator: Any = copy(self._codegen)
        generator.set_env = lambda _name, _environment: None
        return generator

    def get_pointer_to_function(self, _name: str) -> int:
        """Return no address, because nothing calls the function from outside."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    def _finalize_final_module(self) -> None:
        """Keep the code out of the engine, which would translate it."""
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


class _FusedLibrary(_LinkedLibrary):
    """Intermediate code that is optimised only where it is linked, as part of its callers."""

    mark = "alwaysinline"

    def add_ir_module(self, ir_module: Any) -> None:
        """Mark the functions of a module before it is linked."""
        for function in ir_module.functions:
            if function.blocks and not {"alwaysinline", "noinline"} & set(function.attributes):
                function.attributes.add(self.mark)
        super().add_ir_module(ir_module)  # type: ignore[no-untyped-call]

    def finalize(self) -> None:
        """Leave linking and optimising to the kernel."""
        self._finalize_final_module()


class _ApartLibrary(_FusedLibrary):
    """
    The code of a kernel that stays a function of its own inside other kernels: copies of a large
    one are slow to optimise.
    """

    mark = "noinline"


def _with_unlinked(libraries: Iterable[Any]) -> dict[Any, None]:
    """Return the libraries, and those that they call without having linked them, each once."""
    found: dict[Any, None] = {}
    waiting = deque(libraries)
    while waiting:
        library = waiting.popleft()
        if library not in found:
            found[library] = None
            if isinstance(library, _FusedLibrary):
                waiting.extend(library._linking_libraries)
    return found


# What numba looks for in every function, and no kernel has: closures, `with`, array expressions and
# overloads that ask to be inlined. Without these passes, and without a listing of the types that is
# stored with the code, kernels compile faster, to the same machine code.
_NOT_FOR_KERNELS = {
    AnnotateTypes,
    InlineClosureLikes,
    InlineOverloads,
    NopythonRewrites,
    WithLifting,
}


@cache
def _compiler(library: type[JITCodeLibrary]) -> type[Compiler]:
    """numba's compiler, for code that goes into such a library."""

    class KernelCompiler(Compiler):
        def __init__(self, typing: Any, target: Any, given: Any, *rest: Any) -> None:
            if given is None:
                given = library(target.codegen(), "kernel")
                given.enable_object_caching()
            super().__init__(typing, target, given, *rest)  # type: ignore[no-untyped-call]

        def define_pipelines(self) -> list[PassManager]:
            passes: Any = PassManager("kernel")  # type: ignore[no-untyped-call]
            [whole] = super().define_pipelines()  # type: ignore[no-untyped-call]
            for step, description in whole.passes:
                if step not in _NOT_FOR_KERNELS:
                    passes.add_pass(step, description)
            passes.finalize()
            return [passes]

        def compile_extra(self, func: Callable[..., Any]) -> Any:
            # numba compiles one function at a time in a process: no other one meets these changes.
            with _uncollected(), _remembered():
                return super().compile_extra(func)  # type: ignore[no-untyped-call]

    return KernelCompiler


@contextmanager
def _uncollected() -> Iterator[None]:
    """
    Collect no garbage while the block runs. A compilation makes millions of objects, most of which
    live until it ends: looking for others took a tenth of the largest kernel's time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


_signatures: dict[Any, Any] = {}  # by function, types of its arguments, and flag
_search: Any = types.Function.get_call_type


@contextmanager
def _remembered() -> Iterator[None]:
    """
    Look for each signature only once while the block runs.

    numba looks for that of `a + b` at every place where it stands, twice, and tries dozens of
    overloads each time: this was a quarter of the time that kernels took to compile. Nine searches
    in ten are for a function and types that have been looked for.

    An overload is compiled with the flags of the function that calls it. Between our functions, the
    only flag that differs is whether references are counted.
    """
    outer = types.Function.get_call_type  # that of the calling function's compilation, or numba's

    def search_once(function: Any, context: Any, arguments: Any, named: Any) -> Any:
        flags: Any = ConfigStack.top_or_none()  # type: ignore[no-untyped-call]
        if named or flags is None:
            return _search(function, context, arguments, named)
        # A function is one object of numba's, which is slow to compare. The value keeps it alive.
        place = id(function), tuple(arguments), flags.nrt
        if place not in _signatures:
            signature = _search(function, context, arguments, named)  # raises if none fits
            _signatures[place] = function, signature
        return _signatures[place][1]

    types.Function.get_call_type = search_once  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        types.Function.get_call_type = outer  # type: ignore[method-assign]


_OTHERS_WRITE = 0o022
_log = logging.getLogger("neardup")
TURN_S_MAX = 60.0  # a kernel compiles in 1 to 10 s alone


_kernels: list[Any] = []  # all that this process has imported
_watches: list[Callable[[str], None]] = []  # the last one is called

_njit: Any = numba.njit  # its stubs do not know the options that begin with an underscore


def inner(
    function: Callable[..., Any],
    *,
    counted: bool = False,
    library: type[_LinkedLibrary] = _LinkedLibrary,
) -> Any:
    """
    Decorate a function that only kernels call: compiled into each of them, cached with them.

    `counted`: references to arrays are counted, as a function needs that makes one. It has no entry
    for Python.
    """
    options = {"nogil": True, "_nrt": counted, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _njit(pipeline_class=_compiler(library), **options)(function)


# Inner functions that are optimised in their kernel alone take a quarter less time to compile. The
# fingerprint is as fast with it; the index, whose kernels would be 10 % slower, keeps to `inner`.
# They are made one function: a call would hand over every array in seven parts, which made the
# scanner of pages 2.4 times as slow.
fused = partial(inner, library=_FusedLibrary)
fused_allocating = partial(fused, counted=True)  # the same, of one that makes an array
apart = partial(inner, library=_ApartLibrary)  # the same, never copied into its callers
apart_allocating = partial(apart, counted=True)


def kernel(function: Callable[..., Any], *, counted: bool = True) -> Any:
    """
    Decorate a function that Python calls: compiled at the first call, cached for the next process.
    """
    dispatcher: Any = _njit(
        nogil=True, _nrt=counted, no_cfunc_wrapper=True, pipeline_class=_compiler(_KernelLibrary)
    )(function)
    if cache_directory(function) is not None:
        dispatcher._cache = _KernelCache(function)  # what cache=True sets, with our locator
    dispatcher._compile_for_args = _uncut(dispatcher._compile_for_args)
    _kernels.append(dispatcher)
    return dispatcher


def _uncut(get_ready: Callable[..., Any]) -> Callable[..., Any]:
    """
    Delay signals while a kernel is compiled or loaded.

    numba and llvmlite lock for each call into LLVM, and their context managers run Python code
    before they unlock. What a handler raised there would leave a lock locked for ever, and with it
    every other thread that needs a kernel.
    """

    @wraps(get_ready)
    def get_ready_whole(*arguments: Any) -> Any:
        with held_back():
            return get_ready(*arguments)

    return get_ready_whole


def kernels_of(modules: Iterable[str]) -> list[Any]:
    """Return the kernels that these modules define."""
    wanted = set(modules)
    return [found for found in _kernels if found.py_func.__module__ in wanted]


def cache_directory(function: Callable[..., Any]) -> Path | None:
    """
    Return the folder of a kernel's machine code, which is made if needed. If none can be written,
    it is that of the code that came with this installation, or None if none came.
    """
    source = Path(inspect.getfile(function))
    configured = str(vars(config).get("CACHE_DIR", ""))  # the environment's NUMBA_CACHE_DIR
    if configured:
        chosen = Path(configured) / "neardup"
        if _is_place(chosen, source.stem):
            return chosen
        if chosen.is_dir() and not _owners_only(chosen):
            warnings.warn(
                f"others may write to {chosen}: no code is loaded from there. chmod go-w it",
                stacklevel=2,
            )
    else:
        places = source.parent / "__pycache__", platformdirs.user_cache_path("neardup") / "kernels"
        for place in places:
            if _is_place(place, source.stem):
                return place
    return carried.FOLDER if carried.fitting() else None


def is_kept(found: Any) -> bool:
    """
    Return whether machine code of a kernel, of these sources and for this processor, is in the
    cache or came with this installation.
    """
    return isinstance(found._cache, _KernelCache) and found._cache.has_code()


def kept_files() -> list[Path]:
    """Return the files of the cache that hold machine code of the core's kernels."""
    return [
        path
        for found in _kernels
        if found.py_func.__module__.startswith("worker.core.") and is_kept(found)
        for path in found._cache._files()
    ]


@contextmanager
def watched(watch: Callable[[str], None]) -> Iterator[None]:
    """
    While the block runs, call `watch` with the name of each kernel that this process compiles, or
    for which it waits, before it does. The log then gets no line about it.
    """
    _watches.append(watch)
    try:
        yield
    finally:
        _watches.remove(watch)


def _is_place(directory: Path, stem: str) -> bool:
    """Return whether code can be kept there, safe from others, or already is."""
    with suppress(OSError):
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    is_used = os.access(directory, os.W_OK) or any(directory.glob(f"{stem}.*.nbi"))
    return is_used and directory.is_dir() and _owners_only(directory)


def _owners_only(path: Path) -> bool:
    """
    Return whether a file or folder can be written by its owner alone, and the owner is this
    process's user or root.
    """
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & _OTHERS_WRITE


class _Locator(InTreeCacheLocator):
    """Tells numba where the code of one kernel is kept, and when it is stale."""

    def get_source_stamp(self) -> str:
        return carried.sources_digest()

    @classmethod
    def from_function(cls, function: Callable[..., Any], path: str) -> _Locator | None:
        found = cls(function, path)
        directory = cache_directory(function)
        found._cache_path = str(directory)
        return found if directory else None


class _CacheImplementation(CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012  # numba's own way


class _KernelCache(FunctionCache):
    _impl_class = _CacheImplementation

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._directory = Path(self._cache_path)
        self._name = function.__name__
        self._turn = _Turn(self._directory / f".{function.__name__}.lock")

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Return the code, or None once it is this process' turn to compile it."""
        found = self._loaded(signature, target_context)
        if found is None:
            for watch in _watches[-1:]:
                watch(self._name)
            self._turn.take()
            found = self._loaded(signature, target_context)
        if found is not None:
            self._turn.give()
        elif not _watches:
            _tell()
        return found

    def has_code(self) -> bool:
        """Return whether code of any signature is stored, for this processor, or came along."""
        try:
            is_safe = all(map(_owners_only, self._files()))
            stored: Any = self._cache_file._load_index() if is_safe else {}  # type: ignore[no-untyped-call]
            processor = cpu_target.target_context.codegen().magic_tuple()
            if any(processor in key for key in stored):
                return True
            # What came along has all signatures of a kernel, or none.
            return carried.fitting() is not None and self._carried_file()._load_index() != {}
        except Exception:  # damaged (a pickle may raise anything), or nothing is stored
            return False

    def _loaded(self, signature: Any, target_context: Any) -> Any:
        """
        Return the code that is stored, or else the code that came along, or None. Stored files that
        are damaged, or that others may write to, are removed.
        """
        self._remove(path for path in self._files() if not _owners_only(path))
        try:
            found = super().load_overload(signature, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # damaged: a pickle may raise anything
            self._remove(self._files())
            found = None
        return self._carried(signature, target_context) if found is None else found

    def _carried(self, signature: Any, target_context: Any) -> Any:
        """Return the code that came with this installation, or None if it does not fit."""
        came = carried.fitting()
        if came is None:
            return None
        given, _, digests = self._index_key(signature, target_context.codegen())  # type: ignore[no-untyped-call]
        try:
            stored = self._carried_file().load((given, came.compiled_for, digests))
            return None if stored is None else self._impl.rebuild(target_context, stored)
        except Exception:  # damaged: compiled as if none had come
            return None

    def _carried_file(self) -> Any:
        cache_file: Any = IndexDataCacheFile
        base = self._impl.filename_base
        return cache_file(str(carried.FOLDER), base, carried.sources_digest())

    def save_overload(self, signature: Any, data: Any) -> None:
        """
        Keep the code if possible. A disk that is full or read-only costs the next process its
        compilation, and no error.
        """
        try:
            super().save_overload(signature, data)  # type: ignore[no-untyped-call]
            for path in self._files():
                path.chmod(path.stat().st_mode & ~_OTHERS_WRITE)  # a umask may allow more
        except OSError:
            return
        finally:
            self._turn.give()

    def _files(self) -> Iterator[Path]:
        return self._directory.glob(f"{self._impl.filename_base}.*nb[ic]")

    def _remove(self, paths: Iterable[Path]) -> None:
        """Remove files; where that can't be done, nothing is loaded or kept."""
        try:
            for path in paths:
                path.unlink(missing_ok=True)
        except OSError:
            self.disable()  # type: ignore[no-untyped-call]


@cache
def _tell() -> None:
    """
    Log once that kernels are being compiled. This goes to stderr, unless the program configures
    logging.
    """
    if carried.why_unused():
        _log.warning("%s", carried.why_unused())
    what = "what has not been used yet" if any(map(is_kept, _kernels)) else "on the first start"
    _log.warning("compiling %s, once; `neardup warm-up` compiles all beforehand", what)


class _Turn:
    """
    A lock between processes that only saves work, so it may fail.

    If it cannot be made, or its holder is slower than two compilations, no process waits. It ends
    with the process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def take(self) -> None:
        """
        Wait until no other process holds it, for `TURN_S_MAX` at most. Taking it twice has no
        further effect.
        """
        if self._file is not None:
            return
        with suppress(OSError):
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        deadline = time.monotonic() + TURN_S_MAX
        while self._is_another_s() and time.monotonic() < deadline:
            try:
                hear()
            except BaseException:
                self.give()
                raise
            time.sleep(0.05)

    def _is_another_s(self) -> bool:
        """Return whether another process holds it; if not, this one does, where that can be."""
        if self._file is None:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return isinstance(error, BlockingIOError)
        return False

    def give(self) -> None:
        """Let the next process have it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
