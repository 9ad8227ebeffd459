"""
How long a start takes: the replica from its log, and from a snapshot; what it holds, in memory and
with a state directory; what a snapshot costs the worker.

The log is replayed by as many threads as a worker does it with, one for each core.

    python -m tests.benchmarks.bench_replay [--quick] [--rows N] [--folder DIR] [--parts
    log,replay,disk,restore]

Each part runs in a process of its own, so that its memory is its own. With --folder the log and the
snapshot stay there for other parts.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.common import Figures, ask, names, options, reached, table
from tests.benchmarks.kept import finish, kept_results, machine
from worker.core.kernels.texts import ask_for
from worker.core.search import SearchRules
from worker.log.record import FORMAT_VERSION, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.log.snapshot import LogIdentity, capture
from worker.log.texts import Texts
from worker.shell.checkpoint import Checkpoint
from worker.shell.messages import encode_answers

ROWS, QUICK_ROWS = 10_000_000, 500_000
REPLAY_BAR_S, RESTORE_BAR_S = 60.0, 10.0  # at 10 M rows
# Times as long as warm. With fewer than 10 M rows a search is cheaper, and a page is not.
COLD_BAR = 3.0
LOG = LogIdentity("bench", b"bench-replay-log")
PARTS = ("log", "replay", "disk", "restore")
_MIB = 1 << 20
_PAGEOUT = 21  # of madvise, on Linux
COLD_RECORDS = 20
READY = 100
CORES = len(os.sched_getaffinity(0))


def main() -> None:
    parser = options(__doc__, "half a million rows")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--parts", type=names, default=PARTS)
    chosen = parser.parse_args()
    rows = chosen.rows or (QUICK_ROWS if chosen.quick else ROWS)
    with tempfile.TemporaryDirectory() as made:
        folder = chosen.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        where = machine() | {"rows": rows, "rows_a_record": RECORD_ROWS}
        figures: Figures = {}
        if set(chosen.parts) != set(PARTS):
            figures = kept_results("replay").get("figures", {})  # of the other parts
        for part in chosen.parts:
            found = ask("bench_replay", "measured", part, folder, rows)
            print(f"{part}: {found}")
            figures |= found
    finish(chosen, "replay", {"machine": where, "figures": figures}, _table(figures, rows))


def measured(part: str, folder: str, rows: int) -> Figures:
    """Measure a part, in a process that does nothing else."""
    return _RUN[part](Path(folder), rows)


def _log(folder: Path, rows: int) -> Figures:
    started = time.perf_counter()
    size = write_log(folder / "log", rows)
    return {"log_bytes_a_row": size / rows, "log_written_s": time.perf_counter() - started}


def _replay(folder: Path, rows: int) -> Figures:
    """From the log, in memory."""
    replica = Replica(DEFINITION)
    replica.use_threads(CORES)
    replica.warm_up()
    base = _memory("RssAnon")
    started = time.perf_counter()
    times_s = _apply(replica, log_of(folder))
    seconds = time.perf_counter() - started
    held = replica.judge.held
    return {
        "documents": replica.documents,
        "replay_s": seconds,
        "replay_call_p99_ms": sorted(times_s)[len(times_s) * 99 // 100] * 1_000,
        "replay_longest_call_ms": max(times_s) * 1_000,
        "replay_longest_call_at": times_s.index(max(times_s)) / len(times_s),
        "replay_peak_mb": _memory("VmHWM") / _MIB,
        "replica_bytes_an_original": (_taken(replica) - base) / replica.documents,
        "index_bytes_an_original": (held.index.nbytes + held.short.nbytes) / replica.documents,
        "doc_id_table_bytes_an_original": held.names.nbytes / replica.documents,
    }


def _disk(folder: Path, rows: int) -> Figures:
    """
    With a state directory; a snapshot is taken and written while the last tenth of the log comes
    in.

    The last records are judged and answered with what lies on disk in memory, and the very last
    with none of it.
    """
    now_s = 0.0
    checkpoint = Checkpoint(folder / "state", DEFINITION, LOG, "bench", 1.0, clock=lambda: now_s)
    replica = checkpoint.restore()
    assert replica.next_offset == 0, f"remove {folder / 'state'}: it has a snapshot of another run"
    replica.use_threads(CORES)
    replica.warm_up(encode_answers)
    base = _memory("RssAnon")
    records = log_of(folder)
    started = time.perf_counter()
    _apply(replica, islice(records, 1 + rows // RECORD_ROWS * 9 // 10))
    now_s = 2.0
    paused_s = time.perf_counter()
    checkpoint.tick(replica)  # in a thread, as a worker does
    paused_s = time.perf_counter() - paused_s
    writing_s = time.perf_counter()
    last = rows // RECORD_ROWS + 1 - replica.next_offset - 2 * COLD_RECORDS - 1
    beside_s = _apply(replica, islice(records, last), lambda: checkpoint.is_writing)
    seconds = time.perf_counter() - started
    assert checkpoint.join(600)
    writing_s = time.perf_counter() - writing_s
    anonymous = _taken(replica) - base
    replica.use_threads(1)  # as while it prepares documents
    _load(replica)
    _answer(replica, islice(records, 1))  # the reading itself looks like a cold disk
    warm_us = _answer(replica, islice(records, COLD_RECORDS))
    _evict(folder / "state")
    cold_us = _answer(replica, records)
    snapshot = capture(replica, LOG)
    written_s = time.perf_counter()
    assert checkpoint.write(snapshot)
    return {
        "answered_warm_us_a_row": warm_us,
        "answered_cold_us_a_row": cold_us,
        "answered_cold_by_warm": cold_us / warm_us,
        "replay_on_disk_s": seconds,
        "replica_on_disk_bytes_an_original": anonymous / replica.documents,
        "files_bytes_an_original": _unnamed(folder / "state") / replica.documents,
        "capture_ms": paused_s * 1_000,
        "longest_call_beside_snapshot_ms": max(beside_s, default=0.0) * 1_000,
        "snapshot_beside_replay_s": writing_s,
        "snapshot_s": time.perf_counter() - written_s,
        "snapshot_mb": snapshot.nbytes / _MIB,
    }


def _answer(replica: Replica, records: Iterable[tuple[int, bytes]]) -> float:
    """Judge records and write their verdicts; return the microseconds that a row took."""
    rows, started = 0, time.perf_counter()
    for offset, data in records:
        record = decode(data)
        replica.apply(record, offset, offset)
        for section in record.sections:
            offsets = range(section.first, section.stop)
            rows += len(replica.answers(section.source, offsets, "documents", encode_answers))
    return (time.perf_counter() - started) / rows * 1e6


def _load(replica: Replica) -> None:
    """Have all of the originals in memory: the system may have taken out what was not used."""
    held = replica.judge.held
    for column in (*held.columns().values(), held.texts.data):
        for part in column.parts(column.first, len(column)):
            ask_for(part.ctypes.data, part.nbytes)
            part.view(np.uint8).reshape(-1)[:: mmap.PAGESIZE].sum()


def _evict(folder: Path) -> None:
    """Take what is mapped of a folder's files out of memory."""
    os.sync()
    libc = ctypes.CDLL(None, use_errno=True)
    for line in Path("/proc/self/maps").read_text().splitlines():
        if str(folder.resolve()) in line:
            first, stop = (int(edge, 16) for edge in line.split()[0].split("-"))
            assert not libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(stop - first), _PAGEOUT)


def _unnamed(folder: Path) -> int:
    """Return what the files without a name that this process has in a folder take of its disk."""
    files = {file.stat().st_ino: file for file in Path("/proc/self/fd").iterdir() if file.exists()}
    return sum(
        file.stat().st_blocks * 512
        for file in files.values()
        if (name := str(file.readlink())).startswith(str(folder.resolve()))
        and name.endswith("(deleted)")
    )


def _apply(
    replica: Replica,
    records: Iterable[tuple[int, bytes]],
    is_counted: Callable[[], bool] = lambda: True,
) -> list[float]:
    """Apply records; give the time that each call took, of those while `is_counted`."""
    times_s = []
    # A consumer hands out up to ten times as many, whose bytes would count as the replica's here.
    # How many of them are judged in one call is the replica's.
    entries = ((offset, offset, data) for offset, data in records)
    while ready := list(islice(entries, READY)):
        while ready:
            begun = time.perf_counter()
            done = len(replica.read_together(ready))
            if is_counted():
                times_s.append(time.perf_counter() - begun)
            del ready[:done]
    return times_s


def _restore(folder: Path, rows: int) -> Figures:
    """From the newest snapshot, cold (the file is not in memory) and warm."""
    Replica(DEFINITION).warm_up()
    figures: Figures = {}
    path = max((folder / "state").glob("snapshot-*"))
    for name in ("cold", "warm"):
        if name == "cold":
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started = time.perf_counter()
        replica = Checkpoint(folder / "state", DEFINITION, LOG, "bench", 1e9).restore()
        figures[f"restore_{name}_s"] = time.perf_counter() - started
        if name == "cold":
            figures |= {
                "restore_peak_mb": _memory("VmHWM") / _MIB,
                "restored_anonymous_mb": _memory("RssAnon") / _MIB,
                "restored_on_disk_mb": _memory("RssFile") / _MIB,
            }
        assert replica.next_offset == rows // RECORD_ROWS + 1
        del replica
    return figures


def _taken(replica: Replica) -> int:
    """
    Return the bytes of this process, without what a call of many rows writes to, and what the
    allocator keeps of that: it is as much with few originals.
    """
    tables = replica.judge.held.index._directed()
    tables._scratches.clear()
    tables._notes = None
    ctypes.CDLL(None).malloc_trim(0)
    return _memory("RssAnon")


def _memory(name: str = "VmRSS") -> int:
    """Bytes of this process, by the name that /proc gives them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith(name))


_RUN = {"log": _log, "replay": _replay, "disk": _disk, "restore": _restore}
_ROWS: tuple[
    tuple[str, str, str, float | None], ...
] = (  # figure, what it is, unit, at most; seconds at 10 M rows
    ("documents", "originals among the rows", "", None),
    ("replay_s", "start from the log", "s", REPLAY_BAR_S),
    ("replay_call_p99_ms", "records that are judged in one call, 99 % take at most", "ms", None),
    ("replay_longest_call_ms", "the longest one", "ms", None),
    ("replay_peak_mb", "peak memory", "MiB", None),
    ("replica_bytes_an_original", "memory of the replica", "bytes per original", None),
    ("replay_on_disk_s", "the same with a state directory", "s", None),
    ("replica_on_disk_bytes_an_original", "memory of the replica", "bytes per original", None),
    ("answered_warm_us_a_row", "judged and answered", "µs per row", None),
    ("answered_cold_us_a_row", "the same when none of the disk is in memory", "µs per row", None),
    ("answered_cold_by_warm", "that by the one before it", "times", COLD_BAR),
    ("files_bytes_an_original", "of the disk, beside snapshots", "bytes per original", None),
    ("index_bytes_an_original", "of both the index", "bytes per original", None),
    ("doc_id_table_bytes_an_original", "of both the table of doc_ids", "bytes per original", None),
    ("restore_cold_s", "start from a snapshot that is not in memory", "s", RESTORE_BAR_S),
    ("restore_warm_s", "start from a snapshot that is", "s", RESTORE_BAR_S),
    ("restore_peak_mb", "peak memory", "MiB", None),
    ("restored_anonymous_mb", "of it not backed by the snapshot's file", "MiB", None),
    ("snapshot_mb", "snapshot", "MiB", None),
    ("snapshot_s", "writing it", "s", None),
    ("snapshot_beside_replay_s", "writing one while records are applied", "s", None),
    ("capture_ms", "pause to take it", "ms", None),
    ("longest_call_beside_snapshot_ms", "longest call while it is written", "ms", None),
)


def _table(figures: Figures, rows: int) -> list[str]:
    lines = []
    for name, text, unit, bar in _ROWS:
        if name in figures:
            value = figures[name]
            at_size = 0.0 if bar is None else bar
            if unit == "s":
                at_size *= rows / ROWS
            held = (f"{at_size:g} {unit}", reached(value <= at_size)) if at_size else ("", "")
            lines.append(
                (text, f"{value:,.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}", *held)
            )
    return table((f"{rows:,} rows", "measured", "bar", ""), lines)


# ---- a log as workers would have written it, as a file: records of 1,000 rows

DEFINITION = Definition("nd1", "0" * 16, SearchRules())
RECORD_ROWS = 1_000
PARTITIONS = 12
SHORT_SHARE = 0.02
_LENGTH = struct.Struct("<I")
_SHARE_OF_SITES = 5_000


def write_log(path: Path, rows: int, seed: int = 1) -> int:
    """
    Write a log; gives its size in bytes.

    Half of the rows are copies of an earlier original drawn from all of them, other in 1.5 doubtful
    bits on average; a quarter of all bits is doubtful, as in prose. doc_ids have 32 hex digits,
    URLs some 70 characters; each record is one partition's, whose author has committed the one
    before.
    """
    random = np.random.default_rng(seed)
    # Fingerprints, doubts and sketches.
    originals = np.empty((10, rows // 2 + 2 * RECORD_ROWS), np.uint64)
    known = 0
    with path.open("wb") as file:
        for number, first in enumerate(range(0, rows, RECORD_ROWS)):
            count = min(RECORD_ROWS, rows - first)
            prints = random.integers(0, 2**64, (10, count), np.uint64)
            prints[1] &= random.integers(0, 2**64, count, np.uint64)
            copies = np.flatnonzero(random.random(count) < 0.5) if known else np.empty(0, np.int64)
            prints[:, copies] = originals[:, random.integers(0, max(known, 1), len(copies))]
            for _ in range(6):  # a flip that is drawn twice is none, and so is one of a sure bit
                flips = np.uint64(1) << random.integers(0, 64, len(copies), np.uint64)
                prints[0, copies] ^= flips & prints[1, copies]
            new = np.delete(prints, copies, axis=1)[:, : originals.shape[1] - known]
            originals[:, known : known + new.shape[1]] = new
            known += new.shape[1]
            record = _record(random, prints, number, first)
            file.write(_LENGTH.pack(len(record)) + record)
    return path.stat().st_size


def _record(
    random: np.random.Generator, prints: NDArray[np.uint64], number: int, first: int
) -> bytes:
    count = len(prints[0])
    sites = random.integers(0, _SHARE_OF_SITES, count).tolist()
    urls = [
        b"https://www.site-%04d.example.org/news/2026/%02d/an-article-with-the-number-%08d"
        % (site, site % 12, first + at)
        for at, site in enumerate(sites)
    ]
    partition, at = number % PARTITIONS, number // PARTITIONS * RECORD_ROWS
    rows = Rows(
        offsets=at + np.arange(count),
        kinds=np.where(random.random(count) < SHORT_SHARE, RowKind.SHORT, RowKind.FULL).astype(
            np.uint8
        ),
        doc_ids=Texts.of([random.bytes(16).hex().encode() for _ in range(count)]),
        urls=Texts.of(urls),
        fetched_at_ms=1_760_000_000_000 + first + np.arange(count),
        fingerprints=prints[0],
        digests=random.integers(0, 2**64, count, np.uint64),
        features=np.full(count, 300, np.uint32),
        notes=Texts.of([b""] * count),
        doubts=prints[1],
        sketches=np.ascontiguousarray(prints[2:].T),
        marks=np.zeros(count, np.uint64),
    )
    section = Section(Source(b"bench-documents!", partition), at, at + count, at, rows)
    return next(encode(DEFINITION.author("bench"), [section], 1 << 30))


def log_of(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Return the log with its offsets: the definition, then the records that were written."""
    yield 0, DEFINITION.declaration("bench", FORMAT_VERSION)
    yield from enumerate(read_log(folder / "log"), 1)


def read_log(path: Path) -> Iterator[bytes]:
    """Return the records in order."""
    with path.open("rb", buffering=1 << 20) as file:
        while length := file.read(_LENGTH.size):
            yield file.read(_LENGTH.unpack(length)[0])


if __name__ == "__main__":
    main()
