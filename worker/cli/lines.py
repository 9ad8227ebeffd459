"""Lines of fingerprints in, lines of JSON arrays out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from worker.errors import StopError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["STDIN", "output", "read_fingerprints", "write_arrays"]

STDIN = Path("-")
NUMBERS = 2**64
PART_BYTES = 1 << 24  # read at once: 16 MB of text are some 800,000 numbers


def read_fingerprints(source: Path, documents: Path | None) -> tuple[NDArray[np.uint64], dict[int, list[str]] | None]:
    """Give the fingerprints, and the doc_ids of each when they come with documents."""
    import numpy as np  # noqa: PLC0415

    if documents is None:
        with opened(source) as stream:
            return _decimal(stream, str(source)), None
    ids: dict[int, list[str]] = {}
    with opened(documents) as stream:
        for line_number, line in enumerate(stream, start=1):
            doc_id, fingerprint = _document(line, f"{documents}, line {line_number}")
            ids.setdefault(fingerprint, []).append(doc_id)
    return np.fromiter(ids, np.uint64, len(ids)), ids


def _decimal(stream: BinaryIO, name: str) -> NDArray[np.uint64]:
    """Part by part: as Python objects ten million numbers would take more memory than finding their pairs."""
    import numpy as np  # noqa: PLC0415

    parts = [np.empty(0, np.uint64)]
    while text := stream.read(PART_BYTES):
        parts.append(_numbers((text + stream.readline()).split(), sum(map(len, parts)), name))
    return np.concatenate(parts)


def _numbers(lines: list[bytes], before: int, name: str) -> NDArray[np.uint64]:
    import numpy as np  # noqa: PLC0415

    if not all(map(bytes.isdigit, lines)) or any(int(line) >= NUMBERS for line in lines):
        bad = next(i for i, line in enumerate(lines) if not line.isdigit() or int(line) >= NUMBERS)
        raise StopError(
            f"{name}: number {before + bad + 1} must be a decimal from 0 to 2^64 - 1, got {lines[bad][:100]!r}"
        )
    return np.array(list(map(int, lines)), np.uint64)


def _document(line: bytes, where: str) -> tuple[str, int]:
    import orjson  # noqa: PLC0415

    try:
        fields = orjson.loads(line)
        doc_id, fingerprint = str(fields["doc_id"]), int(fields["fingerprint"], 16)
    except (ValueError, KeyError, TypeError) as error:
        raise StopError(
            f"{where}: must be an object with doc_id and fingerprint (16 hex digits), as `neardup fingerprint` writes "
            f"them, got {line[:100]!r}"
        ) from error
    if not 0 <= fingerprint < NUMBERS:
        raise StopError(f"{where}: a fingerprint has 16 hex digits, got {line[:100]!r}")
    return doc_id, fingerprint


def write_arrays(stream: BinaryIO, arrays: Iterable[Any]) -> None:
    """One JSON array a line."""
    import orjson  # noqa: PLC0415

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
def output(path: Path) -> Iterator[BinaryIO]:
    """Write a file, or stdout."""
    if path == STDIN:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with path.open("wb") as stream:
        yield stream
