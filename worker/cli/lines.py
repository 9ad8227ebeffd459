"""What commands read and write: crawl files, lines of fingerprints; lines of JSON arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import numpy as np
import orjson
import typer

from worker.errors import StopError
from worker.shell.files.outputs import check_format, check_places, packed, written

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STDIN = Path("-")
FilesArgument = Annotated[list[str], typer.Argument(help="WARC, ARC, WET, JSON Lines, CSV, Parquet; URLs; - is stdin.")]
FetchedAtOption = Annotated[str | None, typer.Option(help="Time of documents without one (ISO 8601).")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")]
NO_TIME = "1970-01-01T00:00:00Z"  # of documents that bring none, where their fetch time changes nothing
NUMBERS = 2**64
PART_BYTES = 1 << 24  # read at once: 16 MB of text are some 800,000 numbers


def read_fingerprints(source: Path) -> NDArray[np.uint64]:
    """Return the decimal fingerprints of a file, one a line."""
    with opened(source) as stream:
        return _decimal(stream, str(source))


def _decimal(stream: BinaryIO, name: str) -> NDArray[np.uint64]:
    """Part by part: as Python objects ten million numbers would take more memory than finding their pairs."""
    parts = [np.empty(0, np.uint64)]
    while text := stream.read(PART_BYTES):
        parts.append(_numbers((text + stream.readline()).split(), sum(map(len, parts)), name))
    return np.concatenate(parts)


def _numbers(lines: list[bytes], before: int, name: str) -> NDArray[np.uint64]:
    if not all(map(bytes.isdigit, lines)) or any(int(line) >= NUMBERS for line in lines):
        bad = next(i for i, line in enumerate(lines) if not line.isdigit() or int(line) >= NUMBERS)
        raise StopError(
            f"{name}: number {before + bad + 1} must be a decimal from 0 to 2^64 - 1, got {lines[bad][:100]!r}"
        )
    return np.array(list(map(int, lines)), np.uint64)


def write_arrays(stream: BinaryIO, arrays: Iterable[Any]) -> None:
    """One JSON array a line."""
    for array in arrays:
        stream.write(orjson.dumps(array, option=orjson.OPT_APPEND_NEWLINE))


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Read a file, or stdin."""
    if path == STDIN:
        yield sys.stdin.buffer
        return
    try:
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise StopError(f"cannot read {path}: {error.strerror or error}") from error


@contextmanager
def opened_output(path: str | Path, inputs: Iterable[str | Path]) -> Iterator[BinaryIO]:
    """Write a file, which comes whole or not at all and may be none of the inputs; or stdout."""
    if str(path) != str(STDIN):
        with written(path, inputs) as stream:
            yield stream
        return
    check_places(inputs, [path])
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextmanager
def opened_lines(path: str | Path, inputs: Iterable[str | Path]) -> Iterator[BinaryIO]:
    """Write lines of JSON: as `opened_output`, compressed as the name says."""
    check_format(path, "JSON Lines")
    with opened_output(path, inputs) as stream, packed(stream, path) as lines:
        yield lines
