"""
Opens outputs, for every command and every task: by name, complete or not at all.

    name                       written                                  if it is broken off
    a file, here               next to its place, synced and renamed    the former file stays
    a URL                      into a file here, then copied            the former file stays
    a pipe, a device           at once                                  what has been written stays
    -, /dev/stdout, /dev/fd/N  at once, behind what is there            what has been written stays

A process that is killed leaves its unfinished file, `NAME.<16 hex digits>.part`. It had a lock on
it, so what can be locked is nobody's any more: the next one that writes the same output removes it.
Where a folder is read, it is no input (`is_aside`).

The name also says how an output is compressed (`packed`). `check_places` and `check_outside` of
`places.py` refuse an output that is an input, another output, or in a folder that is read; a
command calls them before it opens anything.
"""

from __future__ import annotations

import fcntl
import glob
import gzip
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, cast

import zstandard

from worker.errors import StopError
from worker.shell.files.places import (
    STDOUT,
    UNFINISHED,
    asked,
    descriptor_of,
    path_of,
    real_path,
)
from worker.shell.files.terminal import TerminalOutput

PACK_LEVEL = 6
_BEGUN_MAX = 10  # of a file, before it is given up


@contextmanager
def written(name: str | Path) -> Iterator[BinaryIO]:
    """
    Write an output that takes its place when the block has ended well. Otherwise the former one
    stays. "-" is stdout, as `descriptor_of` says; a terminal shows nothing that it would obey.

    Raises:
        StopError: it cannot be written.
    Cost: that of writing, and one wait for the disk at the end.
    """
    path = path_of(name)
    descriptor = descriptor_of(name)
    if descriptor == STDOUT:
        with _at_once(sys.stdout.buffer) as stream:
            yield stream
    elif path is None:
        with TemporaryDirectory(prefix="neardup-") as folder:
            local = Path(folder) / "output"
            with local.open("wb") as stream:
                yield stream
            with asked(str(name), "write") as (system, target):
                system.put_file(str(local), target)
    else:
        try:
            with _in_place(path) if descriptor is None else _duplicate(descriptor) as stream:
                yield stream
        except OSError as error:
            check_writable(name)
            raise StopError(f"cannot write {name}: {error.strerror or error}") from error


def check_writable(name: str | Path) -> None:
    """
    Raise StopError if an output cannot be written here, as far as that is told beforehand.

    `written` says the same when it is too late; who computes for long before that may ask first.
    """
    path = path_of(name)
    if path is None or descriptor_of(name) is not None:
        return
    try:
        is_folder = path.is_dir()
        is_other = path.exists() and not path.is_file()
        folder = real_path(path).parent
    except OSError:  # a name that is too long, say: who writes says it
        return
    if is_folder:
        raise StopError(f"cannot write {name}: it is a folder, name a file in it")
    if is_other:
        return  # a device or a pipe is written to as it is
    if not folder.is_dir():
        raise StopError(f"cannot write {name}: there is no folder {folder}, make it first")
    if not os.access(folder, os.W_OK):
        raise StopError(f"cannot write {name}: {folder} may not be written to, name another folder")


@contextmanager
def _at_once(stream: BinaryIO) -> Iterator[BinaryIO]:
    """Write to a stream that is open and stays so."""
    if stream.isatty():
        shown = TerminalOutput(stream)
        yield cast("BinaryIO", shown)
        shown.finish()
    else:
        yield stream
    stream.flush()


@contextmanager
def _duplicate(descriptor: int) -> Iterator[BinaryIO]:
    """Write to what this process has open under a number, at the place where that is."""
    with os.fdopen(os.dup(descriptor), "wb") as stream, _at_once(stream) as shown:
        yield shown


@contextmanager
def _in_place(path: Path) -> Iterator[BinaryIO]:
    """Write a file here: next to its place, or at once if the place is no regular file."""
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    place = real_path(path)  # a link goes on pointing to what is written
    remove_abandoned(
        left
        for left in place.parent.glob(f"{glob.escape(place.name)}.*.part")
        if UNFINISHED.fullmatch(left.name.removeprefix(place.name))
    )
    with ExitStack() as stack:
        temporary, unfinished = _begun(place, stack)
        yield unfinished
        unfinished.flush()
        os.fsync(unfinished.fileno())
        if place.exists():
            shutil.copymode(place, temporary)
        temporary.replace(place)


def _begun(place: Path, stack: ExitStack) -> tuple[Path, BinaryIO]:
    """
    Open a new file next to a place, and return its path, too. The stack removes it unless it was
    renamed.

    StopError: other processes remove each that is begun.
    """
    for _ in range(_BEGUN_MAX):
        # No other process has this name, on any machine. So the file may be removed before we
        # know that it is there: a signal can arrive right after the call that creates it.
        temporary = place.with_name(f"{place.name}.{token_hex(8)}.part")
        stack.callback(temporary.unlink, missing_ok=True)
        stream = stack.enter_context(temporary.open("xb"))
        if _is_kept(stream):
            return temporary, stream
    raise StopError(
        f"{place} cannot be written: {_BEGUN_MAX} unfinished files next to it were removed in the "
        "moment in which they were begun. End the other processes that write there"
    )


def _is_kept(stream: BinaryIO) -> bool:
    """
    Lock an unfinished file. Return False if another process has taken it for abandoned, which it
    may do in the moment before the lock.
    """
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: what is abandoned stays there
        return True
    return os.fstat(stream.fileno()).st_nlink > 0


def is_unfinished(file: Path) -> bool:
    """
    Return whether a file has the name of an unfinished output. An output may end in .part, too.

    >>> is_unfinished(Path("a.0123456789abcdef.part")), is_unfinished(Path("a.part"))
    (True, False)
    """
    return UNFINISHED.search(file.name) is not None


def remove_abandoned(files: Iterable[Path]) -> None:
    """Remove unfinished files that processes which were killed have left; not those in use."""
    for left in files:
        with suppress(OSError), left.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


@contextmanager
def packed(stream: BinaryIO, name: str | Path) -> Iterator[Any]:
    """Return the compressor that the name asks for."""
    name = str(name).lower()
    if name.endswith(".gz"):
        with gzip.GzipFile("", "wb", PACK_LEVEL, stream, mtime=0) as lines:
            yield lines
    elif name.endswith(".zst"):
        with zstandard.ZstdCompressor().stream_writer(stream, closefd=False) as lines:
            yield lines
    else:
        yield stream
