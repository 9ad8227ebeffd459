"""
Memory that lies in a folder: columns on it take disk, and of memory only what the system keeps of them.

    regions    a file of REGION_BYTES each, without a name, sparse and mapped; it goes with the last chunk on it
    chunks     reserved before use, so that a full disk is an error here and never a signal; forgotten, a hole

What is in it ends with the process: the log has everything.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.errors import StopError

REGION_BYTES = 1 << 30  # a map of a file holds a descriptor
COLD_PAGES = 16  # one by one they take a millisecond, what looking twice for a record's candidates does
_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


class DiskMemory:
    """Memory for columns (`worker.log.originals`), in the files of a folder. Cost: a chunk some 20 µs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._end = REGION_BYTES  # of what is taken of the last region; there is none yet
        self._blocks = 0

    def __call__(self, size: int) -> NDArray[np.uint8]:
        size_paged = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            if self._end + size_paged > REGION_BYTES:
                self._begin_region()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), self._end, size_paged)
        except OSError as error:
            raise StopError(
                f"the state directory {self._folder} has no room for {size_paged} bytes more of originals ({error}): "
                f"free some space and start again, nothing is lost"
            ) from error
        chunk = np.frombuffer(self._region, np.uint8, size, self._end)
        weakref.finalize(chunk, _punch, self._region, self._end, size_paged).atexit = False
        self._end += size_paged
        return chunk

    def is_cold(self) -> bool:
        """Whether this thread has read `COLD_PAGES` from disks since it last asked."""
        before, self._blocks = self._blocks, resource.getrusage(_THREAD).ru_inblock
        return (self._blocks - before) * 512 > COLD_PAGES * mmap.PAGESIZE

    def _begin_region(self) -> None:
        self._file: Any = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # the maps keep it
        self._file.truncate(REGION_BYTES)
        self._region = mmap.mmap(self._file.fileno(), REGION_BYTES)
        self._end = 0
        if hasattr(mmap, "MADV_RANDOM"):
            self._region.madvise(mmap.MADV_RANDOM)


def _punch(region: mmap.mmap, begin: int, size: int) -> None:
    """Give the disk back what a chunk took that nobody can read any more."""
    if hasattr(mmap, "MADV_REMOVE"):
        with contextlib.suppress(OSError):  # a file system without holes: the space is free with the region
            region.madvise(mmap.MADV_REMOVE, begin, size)
