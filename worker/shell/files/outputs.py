"""Files that come whole or not at all: written beside their place, and renamed at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from worker.errors import StopError
from worker.shell.files.remote import is_remote, put_remote

__all__ = ["written"]


@contextmanager
def written(path: str | Path, inputs: Iterable[str | Path] = ()) -> Iterator[BinaryIO]:
    """
    Write a file that takes its place when the block has ended well; until then, and otherwise, what stood there stays.

    A place that is no regular file, such as a pipe, is written at once. A URL's file is written here, then copied.

    Args:
        inputs: what is read meanwhile; none of it may be the output.

    Raises:
        StopError: the place is one of `inputs`, or cannot be written.

    Cost: that of writing, and one wait for the disk at the end.
    """
    if is_remote(path):
        with TemporaryDirectory(prefix="neardup-") as folder:
            local = Path(folder) / "output"
            with local.open("wb") as stream:
                yield stream
            put_remote(local, str(path))
        return
    path = Path(path)
    for source in map(Path, inputs):
        if source.exists() and path.exists() and source.samefile(path):
            raise StopError(f"{path} is an input and the output: name another output")
    place = path.resolve()  # a link goes on pointing to what is written
    temporary = place.with_name(f"{place.name}.{os.getpid()}.part")
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if place.exists():
            shutil.copymode(place, temporary)
        temporary.replace(place)
    except OSError as error:
        raise StopError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
