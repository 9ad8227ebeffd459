"""
How long a start takes: the replica from its log, and from a snapshot; what it holds, in memory and with a state
directory; what a snapshot costs the worker.

    python -m tests.benchmarks.bench_replay [--quick] [--rows N] [--folder DIR] [--parts log,replay,disk,restore]

Each part runs in a process of its own, so that its memory is its own. With --folder the log and the snapshot stay there
for other parts.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from tests.benchmarks.common import RESULTS, Figures, ask, keep, machine, options, reached, table
from tests.benchmarks.replay.log import DEFINITION, RECORD_ROWS, read_log, write_log
from worker.log.record import decode
from worker.log.replica import Replica
from worker.log.snapshot import LogIdentity, capture
from worker.shell.checkpoint import Checkpoint
from worker.shell.messages import encode_answers

ROWS, QUICK_ROWS = 10_000_000, 500_000
REPLAY_BAR_S, RESTORE_BAR_S = 60.0, 10.0  # at 10 M rows
LOG = LogIdentity("bench", b"bench-replay-log")
PARTS = ("log", "replay", "disk", "restore")
_MIB = 1 << 20
_PAGEOUT = 21  # of madvise, on Linux
COLD_RECORDS = 20


def main() -> None:
    parser = options(__doc__, "half a million rows")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--child", choices=PARTS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    rows = chosen.rows or (QUICK_ROWS if chosen.quick else ROWS)
    if chosen.child:
        print(json.dumps(_RUN[chosen.child](chosen.folder, rows)))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = chosen.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        where = machine() | {"rows": rows, "rows_a_record": RECORD_ROWS}
        figures: Figures = {}
        kept = RESULTS / "replay.json"
        if chosen.parts != ",".join(PARTS) and kept.is_file():
            figures = json.loads(kept.read_text())["figures"]  # of the other parts
        for part in chosen.parts.split(","):
            found = ask("bench_replay", "--child", part, "--folder", folder, "--rows", rows)
            print(f"{part}: {found}")
            figures |= found
    text = "\n".join(_table(figures, rows))
    print(text)
    if not (chosen.quick or chosen.no_save):
        keep("replay", {"machine": where, "figures": figures}, text)


def _log(folder: Path, rows: int) -> Figures:
    started = time.perf_counter()
    size = write_log(folder / "log", rows)
    return {"log_bytes_a_row": size / rows, "log_written_s": time.perf_counter() - started}


def _replay(folder: Path, rows: int) -> Figures:
    """From the log, in memory."""
    replica = Replica(DEFINITION)
    replica.warm_up()
    base = _memory("RssAnon")
    started = time.perf_counter()
    times_s = _apply(replica, enumerate(read_log(folder / "log")))
    seconds = time.perf_counter() - started
    held = replica.judge.held
    return {
        "documents": replica.documents,
        "replay_s": seconds,
        "replay_record_p99_ms": sorted(times_s)[len(times_s) * 99 // 100] * 1_000,
        "replay_worst_record_ms": max(times_s) * 1_000,
        "replay_worst_record_at": times_s.index(max(times_s)) / len(times_s),
        "replay_peak_mb": _memory("VmHWM") / _MIB,
        "replica_bytes_an_original": (_memory("RssAnon") - base) / replica.documents,
        "index_bytes_an_original": (held.index.nbytes + held.short.nbytes) / replica.documents,
        "doc_id_table_bytes_an_original": held.names.nbytes / replica.documents,
    }


def _disk(folder: Path, rows: int) -> Figures:
    """
    With a state directory; a snapshot is taken and written while the last tenth of the log comes in.

    The last records are judged and answered with what lies on disk in memory, and the very last with none of it.
    """
    now_s = 0.0
    checkpoint = Checkpoint(folder / "state", DEFINITION, LOG, "bench", 1.0, clock=lambda: now_s)
    replica = checkpoint.restore()
    assert replica.next_offset == 0, f"remove {folder / 'state'}: it has a snapshot of another run"
    replica.warm_up()
    base = _memory("RssAnon")
    records = enumerate(read_log(folder / "log"))
    started = time.perf_counter()
    _apply(replica, islice(records, rows // RECORD_ROWS * 9 // 10))
    now_s = 2.0
    paused_s = time.perf_counter()
    checkpoint.tick(replica)  # in a thread, as a worker does
    paused_s = time.perf_counter() - paused_s
    writing_s = time.perf_counter()
    last = rows // RECORD_ROWS - replica.next_offset - 2 * COLD_RECORDS
    beside_s = _apply(replica, islice(records, last), lambda: checkpoint.is_writing)
    seconds = time.perf_counter() - started
    assert checkpoint.join(600)
    writing_s = time.perf_counter() - writing_s
    anonymous = _memory("RssAnon") - base
    warm_us = _answer(replica, islice(records, COLD_RECORDS))
    _evict(folder / "state")
    cold_us = _answer(replica, records)
    snapshot = capture(replica, LOG)
    written_s = time.perf_counter()
    assert checkpoint.write(snapshot)
    return {
        "answered_warm_us_a_row": warm_us,
        "answered_cold_us_a_row": cold_us,
        "replay_on_disk_s": seconds,
        "replica_on_disk_bytes_an_original": anonymous / replica.documents,
        "files_bytes_an_original": _unnamed(folder / "state") / replica.documents,
        "capture_ms": paused_s * 1_000,
        "worst_record_beside_snapshot_ms": max(beside_s, default=0.0) * 1_000,
        "snapshot_beside_replay_s": writing_s,
        "snapshot_s": time.perf_counter() - written_s,
        "snapshot_mb": snapshot.nbytes / _MIB,
    }


def _answer(replica: Replica, records: Iterable[tuple[int, bytes]]) -> float:
    """Judge records and write their verdicts; return the microseconds that a row took."""
    rows, started = 0, time.perf_counter()
    for offset, data in records:
        record = decode(data)
        replica.apply(record, offset, offset, keep=True)
        for section in record.sections:
            offsets = range(section.first, section.stop)
            rows += len(replica.answers(section.source, offsets, "documents", encode_answers))
    return (time.perf_counter() - started) / rows * 1e6


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
        if (name := str(file.readlink())).startswith(str(folder.resolve())) and name.endswith("(deleted)")
    )


def _apply(
    replica: Replica, records: Iterable[tuple[int, bytes]], is_counted: Callable[[], bool] = lambda: True
) -> list[float]:
    """Apply records; give the time that each took, of those while `is_counted`."""
    times_s = []
    for offset, data in records:
        begun = time.perf_counter()
        replica.apply(decode(data), offset, offset)
        if is_counted():
            times_s.append(time.perf_counter() - begun)
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
        assert replica.next_offset == rows // RECORD_ROWS
        del replica
    return figures


def _memory(name: str = "VmRSS") -> int:
    """Bytes of this process, by the name that /proc gives them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith(name))


_RUN = {"log": _log, "replay": _replay, "disk": _disk, "restore": _restore}
_ROWS: tuple[tuple[str, str, str, float | None], ...] = (  # figure, what it is, unit, seconds at most at 10 M rows
    ("documents", "originals among the rows", "", None),
    ("replay_s", "start from the log", "s", REPLAY_BAR_S),
    ("replay_record_p99_ms", "record of 1,000 rows, 99 % take at most", "ms", None),
    ("replay_worst_record_ms", "the longest one", "ms", None),
    ("replay_peak_mb", "peak memory", "MiB", None),
    ("replica_bytes_an_original", "memory of the replica", "bytes per original", None),
    ("replay_on_disk_s", "the same with a state directory", "s", None),
    ("replica_on_disk_bytes_an_original", "memory of the replica", "bytes per original", None),
    ("answered_warm_us_a_row", "judged and answered", "µs per row", None),
    ("answered_cold_us_a_row", "the same when none of the disk is in memory", "µs per row", None),
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
    ("worst_record_beside_snapshot_ms", "longest record while it is written", "ms", None),
)


def _table(figures: Figures, rows: int) -> list[str]:
    lines = []
    for name, text, unit, bar in _ROWS:
        if name in figures:
            value = figures[name]
            at_size = 0.0 if bar is None else bar * rows / ROWS
            held = (f"{at_size:g} s", reached(value <= at_size)) if at_size else ("", "")
            lines.append((text, f"{value:,.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}", *held))
    return table((f"{rows:,} rows", "measured", "bar", ""), lines)


if __name__ == "__main__":
    main()
