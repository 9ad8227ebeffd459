"""
Snapshots in a folder: written while the worker goes on, two kept, and read back at the next start.

    write  .<owner>.<hex>.tmp ──► fsync ──► rename to snapshot-<offset>.ndsnap ──► fsync the folder
    read   newest ──► damaged? the one before ──► damaged? the log from its first record

A restored replica refers to the mapped file for what finding an original does not need; the file
keeps its space when it is dropped from the folder. That of later originals lies beside it
(`DiskMemory`), and ends with the process:

    regions  a file of REGION_BYTES each, nameless, sparse, mapped; it goes with its last chunk
    chunks   reserved before use: a full disk is an error here and never a signal; forgotten, a hole

Behind the log's first record is its base, where it has one: the snapshot that it begins with, which
somebody else made.

A snapshot that cannot be used, whatever the error, is passed over, loudly: the log has everything.
One of another log, definition or newer format stops the worker: going on without a word would hide
a mistake. A disk that is full costs the new snapshot, never the old ones.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import mmap
import os
import resource
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.errors import DefinitionError, RestoreError, StopError, is_of_a_full_disk
from worker.log.columns import Memory, anonymous
from worker.log.outside import Outside
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.log.snapshot import (
    LogIdentity,
    Snapshot,
    adopt,
    capture,
    definition_of,
    digest_of,
    header_of,
    restore,
    with_base,
)
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import FaultHook, Point, never
from worker.shell.runtime.logging import get_logger

KEPT = 2
# A snapshot is whole, so a large one costs much disk for little log: 2.3 GB per 300 s with 10 M
# originals. It waits until a start without it would take longer by what these rows take (4 s with
# 10 M originals, 20 s with 100 M), or for so many intervals.
SMALL_BYTES = 64 << 20
ROWS_MIN = 500_000
INTERVALS_MAX = 12
SUFFIX = ".ndsnap"
LOST_SUFFIX = ".lost"  # of a snapshot with records that the log has lost
REGION_BYTES = 1 << 30  # a map of a file holds a descriptor
_JOIN_S = 20.0  # at a clean end; supervisors kill after 30 s
_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

_log = get_logger(__name__)


class Checkpoint:
    """
    The snapshots of one log in one folder.

    Workers may share a folder: snapshots of one log are interchangeable, and each writes through a
    file of its own.

    Args:
        owner: names the temporary file; if two write under one name, only the second one's snapshot
            gets into place.
        interval_s: between two snapshots at least. None is written when nothing has been applied
            since; one of more than SMALL_BYTES waits for ROWS_MIN rows, at most INTERVALS_MAX times
            as long.
        scratch: where columns of originals lie, if not in the folder, which may be on another
            machine.
        base: what the log begins with: needed as long as no snapshot here has it.

    Attributes:
        extra_header: fields for the header of what `save` writes, as `capture` takes them.
    """

    def __init__(
        self,
        folder: Path,
        definition: Definition,
        log: LogIdentity,
        owner: str,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
        reach: FaultHook = never,
        scratch: Path | None = None,
        *,
        base: Path | None = None,
    ) -> None:
        self.folder = folder
        self.extra_header: Mapping[str, Any] = {}
        self._definition = definition
        self._base = base
        self._log = log
        # Of this process alone. One that is killed leaves it to the next with its owner.
        self._temporary = folder / f".{owner}.{token_hex(8)}.tmp"
        # Of former versions, too, which had no hex digits.
        self._abandoned = [f".{glob.escape(owner)}{end}.tmp" for end in (f".{'[0-9a-f]' * 16}", "")]
        self._interval_s = interval_s
        self._clock = clock
        self._due_s = clock() + interval_s
        self._late_s = clock() + interval_s * INTERVALS_MAX
        self._saved_offset = -1
        self._saved_bytes = 0
        self._saved_rows = self._captured_rows = 0
        self._writer: threading.Thread | None = None
        self._failure: Exception | None = None  # of the last snapshot that was not written
        self._damaged: list[Path] = []
        self._reach = reach
        _make(folder)
        self._memory = DiskMemory(scratch or folder)
        self._tell_free()

    def restore(
        self,
        *,
        has_log: bool = True,
        skip: int = 0,
        outside: Outside | None = None,
        record_digest_at: Callable[[int], str | None] = lambda _: None,
    ) -> Replica:
        """
        Return the replica of the newest snapshot that is whole, or if there is none, the one that
        the log begins with.

        Args:
            has_log: False: nothing else has what a damaged snapshot had, so it is not passed over.
            skip: how many of the newest snapshots are left out.
            outside: the originals that other indexes have; see `snapshot.restore`.
            record_digest_at: returns the digest of the log's record at an offset, None if it is not
                known. A snapshot whose last record is another one is passed over.

        Raises:
            StopError: a snapshot is of another log, of another definition or of a newer format, or
                damaged without a log behind it.
        """
        definition = self.definition()
        for path in self._sources(skip):
            started = time.monotonic()
            try:
                written_s = path.stat().st_mtime
                data = map_file(path)
                replica = restore(data, definition, self._log, self._memory, outside)
                _release(data)
            except DefinitionError as error:
                raise DefinitionError(
                    f"the snapshot {path}", error.differences, error.remedy
                ) from error
            except StopError as error:
                raise StopError(f"{path}: {error}") from error
            except (
                Exception
            ) as error:  # whatever a snapshot makes the code do, the log has everything
                if not has_log:
                    raise StopError(
                        f"{path}: {_cause(error)}. Move this file to another folder to go on "
                        "from the one before it, or from nothing if it is the only one; the "
                        "documents since then are judged as if they had not been seen. If an older "
                        "version wrote it, run that one, or name another folder"
                    ) from error
                if isinstance(error, FileNotFoundError):
                    _log.info("another worker has replaced the snapshot", path=str(path))
                    continue
                is_unforeseen = not isinstance(error, RestoreError | OSError)
                text = "snapshot cannot be used, trying an older source"
                _log.error(text, path=str(path), cause=repr(error), exc_info=is_unforeseen)
                metrics.SNAPSHOTS_REFUSED.inc()
                self._damaged.append(path)
                continue
            there = record_digest_at(replica.next_offset - 1) if replica.last_digest else None
            if there not in (None, replica.last_digest):
                _put_aside(path)
                del replica  # as large as the next one
                continue
            if self._base is not None and replica.definition.base is None:
                raise StopError(
                    f"{path} began without a base, and there is no {self._base}: "
                    "leave base_snapshot out"
                )
            self._saved(replica.next_offset, len(data), written_s)
            _tell_of(replica, path, time.monotonic() - started)
            return replica
        return first_replica(self._definition, self._base, self._memory)

    def definition(self) -> Definition:
        """
        Return the log's definition with its base.

        The base is the one in the settings, or if that file is gone, the newest snapshot's.
        """
        if self._base is not None and self._base.exists():
            path = snapshot_at(self._base)
            if path.resolve() in {own.resolve() for own in snapshots(self.folder)}:
                raise StopError(
                    f"no log can begin with {path}, which stands in state_dir among the log's own "
                    "snapshots: move it to a folder of its own, and name that as base_snapshot"
                )
            return first_definition(self._definition, self._base)
        for path in self._sources():
            try:
                return self._definition.with_base_of(definition_of(map_file(path)))
            except FileNotFoundError:  # another worker has replaced it
                continue
            except (RestoreError, DefinitionError, OSError):  # `restore` says so
                break
        return self._definition

    def _sources(self, skip: int = 0) -> Iterator[Path]:
        """
        Yield the snapshots to be tried, the newest first, each once.

        Workers that share the folder write and remove snapshots meanwhile, so the folder is listed
        again for each.
        """
        tried = set[Path]()
        while left := [path for path in snapshots(self.folder)[skip:] if path not in tried]:
            tried.add(left[0])
            yield left[0]

    def tick(self, replica: Replica) -> None:
        """
        Begin a snapshot if one is due, which takes some milliseconds.

        A thread writes it while the replica goes on.
        """
        now_s = self._clock()
        if now_s < self._due_s or self.is_writing:
            return
        rows = replica.rows_applied - self._saved_rows
        self._tell_free()
        self._due_s = now_s + self._interval_s
        if self._saved_bytes > SMALL_BYTES and rows < ROWS_MIN and now_s < self._late_s:
            return
        if replica.next_offset > self._saved_offset:
            self._captured_rows = replica.rows_applied
            snapshot = capture(replica, self._log)
            self._writer = threading.Thread(
                target=self.write, args=(snapshot,), name="snapshot", daemon=True
            )
            self._writer.start()

    def _tell_free(self) -> None:
        with contextlib.suppress(OSError):  # a folder that is gone: the snapshot says so
            metrics.STATE_FREE_BYTES.set(shutil.disk_usage(self.folder).free)

    @property
    def is_writing(self) -> bool:
        """Whether a thread is writing a snapshot."""
        return self._writer is not None and self._writer.is_alive()

    def join(self, timeout_s: float = _JOIN_S) -> bool:
        """Wait for the snapshot that is being written. False: it is still being written."""
        if self._writer is not None:
            self._writer.join(timeout_s)
        return not self.is_writing

    def save(self, replica: Replica) -> bool:
        """
        Write a snapshot now, unless there is nothing new in it. False: it could not be written.
        """
        if not self.join():
            _log.warning("stopping while a snapshot is being written: the ones before it stay")
            self._failure = TimeoutError("another one is still being written")
            return False
        if replica.next_offset <= self._saved_offset:
            return True
        self._captured_rows = replica.rows_applied
        return self.write(capture(replica, self._log, self.extra_header))

    def save_or_stop(self, replica: Replica, what: str) -> None:
        """
        Write a snapshot now, without which a command has no result.

        Args:
            what: what cannot be written then, and where.
        Raises:
            StopError: that, the cause, and its remedy. Whatever was there before is still there.
        """
        if self.save(replica):
            return
        assert self._failure is not None
        remedy = "mend what it names, and run this again"
        if is_of_a_full_disk(self._failure):
            remedy = "free some space and run this again"
        raise StopError(f"{what}: {_cause(self._failure)}: {remedy}") from self._failure

    def write(self, snapshot: Snapshot) -> bool:
        """
        Write a snapshot into the folder, whole or not at all.

        Returns False if that failed, mostly because the disk is full; it is logged and counted. The
        log has everything, so a worker goes on, whatever the error.
        """
        started = time.monotonic()
        path = self.folder / f"snapshot-{snapshot.next_offset:020}{SUFFIX}"
        try:
            self._write(snapshot, path)
        except Exception as error:
            with contextlib.suppress(OSError):
                self._temporary.unlink(missing_ok=True)
            self._failure = error
            _log.warning(
                "snapshot not written, the ones before it stay",
                path=str(path),
                cause=_cause(error),
                exc_info=not isinstance(error, OSError),
            )
            metrics.SNAPSHOT_FAILURES.inc()
            return False
        self._saved(snapshot.next_offset, snapshot.nbytes, time.time())
        seconds = time.monotonic() - started
        _log.info(
            "snapshot written", path=str(path), bytes=snapshot.nbytes, seconds=round(seconds, 2)
        )
        metrics.SNAPSHOT_S.observe(seconds)
        metrics.SNAPSHOT_WRITTEN_BYTES.inc(snapshot.nbytes)
        return True

    def _saved(self, offset: int, size: int, at_s: float) -> None:
        self._saved_offset = offset
        self._saved_bytes = size
        self._saved_rows = self._captured_rows
        self._late_s = self._clock() + self._interval_s * INTERVALS_MAX
        metrics.SNAPSHOT_OFFSET.set(offset)
        metrics.SNAPSHOT_BYTES.set(size)
        metrics.SNAPSHOT_TIME.set(at_s)

    def _write(self, snapshot: Snapshot, path: Path) -> None:
        # A predecessor that still writes finds its file gone: it puts nothing in place.
        for pattern in self._abandoned:
            for left in self.folder.glob(pattern):
                left.unlink(missing_ok=True)
        with self._temporary.open("xb") as file:
            for part in snapshot.parts():
                self._reach(Point.SNAPSHOT)
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        self._temporary.rename(path)
        number = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
        for old in set(self._damaged) - {path}:  # now there is a better one
            old.unlink(missing_ok=True)
        self._damaged.clear()
        remove_old(self.folder)


def _cause(error: Exception) -> str:
    """Return what an error says; one that nobody foresaw, with its kind."""
    return str(error) if isinstance(error, OSError | RestoreError) else repr(error)


def first_definition(definition: Definition, base: Path | None) -> Definition:
    """
    Return the definition of a log that begins with this snapshot, if there is one; see `with_base`.
    """
    if base is None:
        return definition
    with _opened(base) as data:
        return with_base(definition, data)


def first_replica(definition: Definition, base: Path | None, memory: Memory = anonymous) -> Replica:
    """
    Return the replica at the beginning of a log: empty, or with the originals of its base.

    `base` is a snapshot, or a folder of which the newest counts; the file must stay as it is.
    StopError: it is not there, damaged, or of other rules.
    """
    if base is None:
        return Replica(definition, memory=memory)
    with _opened(base) as data:
        replica = adopt(data, definition, memory)
    _release(data)
    _log.info("the log begins with a snapshot", path=str(base), documents=replica.documents)
    return replica


@contextlib.contextmanager
def _opened(base: Path) -> Iterator[bytes | memoryview]:
    """Map a base. An error names its file."""
    path = snapshot_at(base)
    try:
        yield map_file(path)
    except DefinitionError as error:
        remedy = error.remedy or (
            "Make the snapshot with the group's settings, or start the group with the snapshot's"
        )
        raise DefinitionError(f"the snapshot {path}", error.differences, remedy) from error
    except StopError as error:  # such as a full disk
        raise StopError(f"{path}: {error}") from error
    except Exception as error:
        raise StopError(
            f"no log can begin with {path}: {error}. Name a whole snapshot as base_snapshot"
        ) from error


def snapshot_at(base: Path) -> Path:
    """Return the file that is meant: of a folder the newest, by a pattern where there is none."""
    return newest(base) or base / f"*{SUFFIX}" if base.is_dir() else base


def _tell_of(replica: Replica, path: Path, seconds: float) -> None:
    _log.info(
        "snapshot restored",
        path=str(path),
        next_offset=replica.next_offset,
        documents=replica.documents,
        seconds=round(seconds, 2),
    )


def _put_aside(path: Path) -> None:
    """Rename a snapshot with records that the log has lost: nothing else has their documents."""
    aside = path.with_suffix(LOST_SUFFIX)
    with contextlib.suppress(OSError):
        path.rename(aside)
    _log.error(
        "the log has lost its end since this snapshot, and has grown again: trying an older source",
        path=str(aside),
    )


def snapshots(folder: Path) -> list[Path]:
    """
    Return the snapshots of a folder, newest first. A copy under a name like snapshot-monday is
    not taken for a snapshot: by its name it would be the newest for ever, or the oldest, which is
    removed.
    """
    return sorted(folder.glob(f"snapshot-{'[0-9]' * 20}{SUFFIX}"), reverse=True)


def newest(folder: Path) -> Path | None:
    """Return the newest snapshot of a folder."""
    return next(iter(snapshots(folder)), None)


def newest_named_anyhow(folder: Path) -> Path:
    """
    Return the newest snapshot of a folder, or a pattern where there is none.

    The names of a worker's snapshots say how far they reach, and those of `save` say nothing.

    Raises:
        StopError: several were written last, at the same time.
    """
    found = sorted(folder.glob(f"*{SUFFIX}"))
    of_worker = newest(folder)
    if of_worker is not None and len(found) == len(snapshots(folder)):
        return of_worker
    written_ns = {path: path.stat().st_mtime_ns for path in found}
    last = [path for path in found if written_ns[path] == max(written_ns.values())]
    if len(last) > 1:
        names = " and ".join(path.name for path in last)
        raise StopError(f"{names} were written at the same time: name the one that is meant")
    return last[0] if last else folder / f"*{SUFFIX}"


def digest_at(path: Path) -> str:
    """
    Return the digest by which a snapshot is recognised; its name says only at which offset it ends.

    Raises StopError: it cannot be read, or is none.
    """
    try:
        return digest_of(map_file(path))
    except (OSError, RestoreError) as error:
        raise StopError(f"{path}: {error}") from error


def header_at(path: Path) -> dict[str, Any]:
    """
    Return the header of a snapshot. Its other parts may be damaged.

    Raises StopError: it cannot be read, or is none.
    """
    try:
        return header_of(map_file(path))
    except (OSError, RestoreError) as error:
        raise StopError(f"{path}: {error}") from error


def remove_old(folder: Path) -> None:
    """Leave the newest snapshots of a folder, KEPT of them."""
    for old in snapshots(folder)[KEPT:]:
        old.unlink(missing_ok=True)


def map_file(path: Path) -> bytes | memoryview:
    """
    Map a file, so that parts of it that are not read stay on disk.

    The file may be unlinked meanwhile, but must not be written to.
    """
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return b""
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _release(data: bytes | memoryview) -> None:
    """
    Take a mapped file's pages out of the process: they come back one by one, as they are asked for.
    """
    if (
        isinstance(data, memoryview)
        and isinstance(data.obj, mmap.mmap)
        and hasattr(mmap, "MADV_RANDOM")
    ):
        data.obj.madvise(mmap.MADV_RANDOM)
        data.obj.madvise(mmap.MADV_DONTNEED)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StopError(
            f"state directory {folder} cannot be made ({error.strerror}): name another one"
        ) from error
    try:
        os.scandir(folder).close()
    except OSError as error:  # what is in it would be overlooked, and no snapshot could be synced
        raise StopError(
            f"{folder} cannot be listed ({error.strerror}): allow it, or name another folder"
        ) from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """
    Hold the lock of a folder until the block or the process ends.

    Raises:
        StopError: another process holds it, or the folder cannot be made, listed or written to.
    """
    _make(folder)
    try:
        opened = (folder / ".lock").open("wb")
    except OSError as error:
        raise StopError(
            f"{folder} cannot be written to ({error.strerror}): allow it, or name another folder"
        ) from error
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StopError(f"{folder} is in use by another process: wait for its end") from error
        yield


class DiskMemory(Memory):
    """Memory for columns in the files of a folder. Cost: a chunk some 20 µs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._end = REGION_BYTES  # of what is taken of the last region; there is none yet
        self._descriptor = -1
        self._close_file: Callable[[], object] = lambda: None

    def __call__(self, size: int, /) -> NDArray[np.uint8]:
        size_paged = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            if self._end + size_paged > REGION_BYTES:
                self._begin_region()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._descriptor, self._end, size_paged)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise StopError(
                    f"the state directory {self._folder} takes no files of originals ({error}): "
                    "make it writable, or name another one, and start again, nothing is lost"
                ) from error
            raise StopError(
                f"the state directory {self._folder} has no room for {size_paged} bytes more of "
                f"originals ({error}): free some space and start again, nothing is lost"
            ) from error
        chunk = np.frombuffer(self._region, np.uint8, size, self._end)
        weakref.finalize(chunk, _punch, self._region, self._end, size_paged).atexit = False
        self._end += size_paged
        return chunk

    def pages_read(self) -> int:
        return resource.getrusage(_THREAD).ru_inblock * 512 // mmap.PAGESIZE

    def _begin_region(self) -> None:
        file: Any = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115
        file.truncate(REGION_BYTES)
        self._region = mmap.mmap(file.fileno(), REGION_BYTES)
        self._end = 0
        # A map keeps its file by a descriptor of its own; ours only takes room in the last region.
        self._close_file()
        self._descriptor = file.fileno()
        self._close_file = weakref.finalize(self, file.close)
        if hasattr(mmap, "MADV_RANDOM"):
            self._region.madvise(mmap.MADV_RANDOM)


def _punch(region: mmap.mmap, begin: int, size: int) -> None:
    """Give the disk back what a chunk took that nobody can read any more."""
    if hasattr(mmap, "MADV_REMOVE"):
        with contextlib.suppress(
            OSError
        ):  # a file system without holes: the space is free with the region
            region.madvise(mmap.MADV_REMOVE, begin, size)
