"""A plot that a command writes: matplotlib where it is installed, and a file that comes whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from worker.errors import StopError
from worker.shell.files.outputs import written


@contextmanager
def drawn(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """
    Draw on the figure, of this size in inches; it is written at the end, in the format of the path's ending.

    Raises:
        StopError: matplotlib is not installed, or the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # without a window, whatever the machine has
    except ImportError as error:
        raise StopError("--plot needs matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=size)
    yield figure
    figure.tight_layout()
    try:
        with written(path) as stream:
            figure.savefig(stream, dpi=120, format=path.suffix.removeprefix(".") or None)
    except ValueError as error:  # an ending that matplotlib does not know
        raise StopError(f"cannot write {path}: {error}") from error
