"""
How kernels are compiled: two decorators and the signed integer, so that they read, and type-check, as plain functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from worker.core import compiled

__all__ = ["inner", "kernel", "signed"]

Function = TypeVar("Function", bound=Callable[..., Any])

if TYPE_CHECKING:
    signed = int
else:
    signed = np.int64  # every signed number in a kernel: mixed with a plain constant numba would compile it once more


def kernel(function: Function) -> Function:
    """A function that Python calls: compiled on first use, kept on disk together with all that it calls."""
    return cast(Function, compiled.kernel(function, counted=False))


def inner(function: Function) -> Function:
    """A function that only kernels call. Neither counts references: they own no memory."""
    return cast(Function, compiled.inner(function))
