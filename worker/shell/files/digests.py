"""Digests of files, by which a run recognises the files that earlier runs read or wrote."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

import xxhash

from worker.errors import StopError
from worker.shell.files.places import STDIO, STDOUT, descriptor_of, open_input, path_of, shown_name

_READ_BYTES = 1 << 20


class FileDigest(NamedTuple):
    """
    A file and what was in it.

    Attributes:
        name: its path without links, its URL, or "-".
        size: bytes; -1 of an output that cannot be read back (a pipe, a URL).
        digest: XXH3 of all bytes, in hex; "" where the size is -1.
    """

    name: str
    size: int
    digest: str


def place_name(name: str) -> str:
    """
    Return a name that stays the same from wherever a command is run. It is the path, which need not
    be UTF-8: the standard library's JSON can have it, and messages show it by `shown_name`.
    """
    number = descriptor_of(name)
    if number is not None:  # the path of a pipe is another one each time
        return STDIO if number == STDOUT else f"/dev/fd/{number}"
    path = path_of(name)
    if path is None:
        return name
    return os.path.realpath(path)


class DigestedInput:
    """A stream that is read from its beginning, and digested on the way."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self._hash = xxhash.xxh3_128()
        self.size = 0  # bytes read so far
        self._is_at_end = False
        self.name = name  # of errors: that of the stream may be a number

    def read(self, size: int = -1) -> bytes:
        """Read some bytes, as the stream does."""
        data = self._stream.read(size)
        self._hash.update(data)
        self.size += len(data)
        self._is_at_end = not data and size != 0
        return data

    def digest(self) -> str:
        """Return the digest of the bytes that have been read so far."""
        return self._hash.hexdigest()

    def finish(self) -> FileDigest:
        """
        Return the digest of the whole stream. What a reader has left of it is read, too; but not
        what was written behind the end after the reader had come to it: nobody has judged that.

        Raises:
            StopError: it cannot be read to its end.
        """
        try:
            while not self._is_at_end:
                self.read(_READ_BYTES)
        except StopError:
            raise
        except Exception as error:  # of a disk, or of a network in its own words
            raise StopError(f"cannot read {shown_name(self.name)} to its end: {error}") from error
        return FileDigest(place_name(self.name), self.size, self.digest())


def prefix_digests(name: str, sizes: Iterable[int]) -> dict[int, str]:
    """
    Return the digest of the first bytes of a file, by their number; none where it has fewer.

    Cost: reading the file up to the largest number.
    """
    digests: dict[int, str] = {}
    with open_input(name) as stream:
        source = DigestedInput(stream, name)
        for size in sorted(set(sizes)):
            while source.size < size and source.read(min(_READ_BYTES, size - source.size)):
                pass
            if source.size == size:
                digests[size] = source.digest()
    return digests


def output_digest(name: str) -> FileDigest:
    """
    Return the digest of an output as it is now. Nothing is known of a pipe, a URL, no file, or one
    that may not be read.
    """
    path = path_of(name)
    is_file = descriptor_of(name) is None and path is not None and path.is_file()
    if path is None or not is_file or not os.access(path, os.R_OK):
        return FileDigest(place_name(name), -1, "")
    with path.open("rb") as stream:
        return DigestedInput(stream, name).finish()
