"""
Originals on disk: what a verdict says of them lies in files from the beginning, and a full disk is
a clear end.
"""

from __future__ import annotations

import errno
import gc
import itertools
import json
import mmap
import os
import resource
import warnings
from pathlib import Path
from tempfile import gettempdir
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.bench_replay import DEFINITION as BENCH
from tests.benchmarks.bench_replay import read_log, write_log
from tests.conftest import one_in
from tests.log import test_replica as logs
from tests.log.test_replica import DEFINITION, TOPIC, one_row
from tests.log.test_retention import on_disk
from tests.log.test_snapshot import LOG, record_of, to_bytes
from tests.oracle import read_answer, read_answers
from tests.shell.memory_log import MemoryLog, MemoryReader
from worker.core.document import Verdict
from worker.core.search import SearchRules
from worker.errors import RetryError, StopError
from worker.log.columns import ChunkedColumn, Memory, TextPairs, anonymous
from worker.log.originals import ROW, OriginalStore
from worker.log.record import FORMAT_VERSION, Row, RowKind, Source, decode
from worker.log.replica import Replica
from worker.log.rules import Retention
from worker.settings import Settings
from worker.shell import checkpoint
from worker.shell.checkpoint import Checkpoint, DiskMemory
from worker.shell.files.engine import file_engine
from worker.shell.files.state import opened_state
from worker.shell.pipeline.replicated_log import ReplicatedLog

ROWS = 150_000
STEP = 10_000
PAGES = 16 * 4_096


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    """A log of 150,000 short documents, each unlike the others, with long URLs."""
    fields = [
        Row(
            n,
            RowKind.SHORT,
            f"doc-{n}",
            f"https://example.org/{n:060}",
            n,
            0,
            n * 0x9E37_79B9 % 2**64,
            1,
        )
        for n in range(ROWS)
    ]
    return [record_of(fields[first : first + STEP], first) for first in range(0, ROWS, STEP)]


def applied(records: list[bytes], replica: Replica) -> Replica:
    for offset, data in enumerate(records):
        replica.apply(decode(data), offset, 0)
    return replica


def started(folder: Path) -> Checkpoint:
    """What a worker with this state directory starts with."""
    return Checkpoint(folder, DEFINITION, LOG, "one", 60)


def blocks(memory: DiskMemory) -> int:
    """
    Chunks of PAGES that the last file takes of its disk; the file system adds a block of its own.
    """
    return os.fstat(memory._descriptor).st_blocks * 512 // PAGES


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
def test_no_file_stays_open_behind_a_memory_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each region closes its file itself: one left to the collector would warn, and much later."""
    monkeypatch.setattr(checkpoint, "REGION_BYTES", PAGES)
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        memory = DiskMemory(tmp_path)
        chunks = [memory(PAGES) for _ in range(3)]
        for n, chunk in enumerate(chunks):
            chunk[:] = n
        assert (
            len(list(Path("/proc/self/fd").iterdir())) == before + 3 + 1
        )  # the maps', and the last file's
        del memory
        gc.collect()
        assert [np.unique(chunk).tolist() for chunk in chunks] == [[0], [1], [2]]
        del chunk, chunks
        gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert not [each for each in said if each.category is ResourceWarning]


def test_what_finding_does_not_need_takes_no_memory_and_reads_the_same(
    tmp_path: Path, records: list[bytes]
) -> None:
    """
    Five bytes a row stay; all else is as in memory, also for who goes on from a snapshot that is
    dropped meanwhile.
    """
    replica, whole = (
        applied(records, started(tmp_path).restore()),
        applied(records, Replica(DEFINITION)),
    )
    held = replica.judge.held
    assert replica.documents == ROWS  # also where the table of digests finds another's row
    columns = held.columns() | {"texts": held.texts.data}
    in_memory = [name for name, column in columns.items() if column.memory is anonymous]
    assert in_memory == ["live", "copies"]
    # Its files have no names: nothing stays behind, however it ends.
    assert not list(tmp_path.iterdir())
    assert started(tmp_path).save(whole)
    restored = started(tmp_path).restore()
    for path in tmp_path.glob("snapshot-*"):
        path.unlink()
    for each in (replica, restored, whole):
        for offset in range(len(records), len(records) + 5):
            each.apply(
                decode(one_row(ROWS + offset, doc_id=f"doc-{offset}", fingerprint=1 << offset)),
                offset,
                0,
            )
        each.check()
    assert to_bytes(replica) == to_bytes(restored) == to_bytes(whole)


def test_forgotten_chunks_give_the_disk_back_and_files_do_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A chunk that a snapshot or a reader still has stays as it is; one that nobody has is a hole, a
    region is gone.
    """
    monkeypatch.setattr(checkpoint, "REGION_BYTES", 8 * PAGES)
    memory = DiskMemory(tmp_path)
    column: ChunkedColumn[np.int64] = ChunkedColumn(np.int64, 13, memory)
    chunk = np.arange(column.size)
    for _ in range(6):
        column.append(chunk)
    assert (column.size * 8, blocks(memory)) == (PAGES, 6)
    given = column.pieces()
    reader = column.slice(5, 9)
    column.forget(4 * column.size)
    assert blocks(memory) == 6
    del given
    assert (blocks(memory), reader.tolist()) == (3, [5, 6, 7, 8])
    descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(200):
        column.append(chunk)
        column.forget(len(column) - 2 * column.size)
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= descriptors + 1
    assert blocks(memory) <= 3
    assert reader.tolist() == [5, 6, 7, 8]


def evict(memory: DiskMemory) -> None:
    """Have nothing of it in memory."""
    os.fsync(memory._descriptor)
    memory._region.madvise(mmap.MADV_DONTNEED)
    os.posix_fadvise(memory._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def test_what_candidates_and_verdicts_need_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Told beforehand a cold disk has been read before a record needs it, and the answers are equal.
    """
    write_log(tmp_path / "log", 40_000)
    *first, last = [decode(data) for data in read_log(tmp_path / "log")]
    answers, faults = [], []
    for pages in (0, 1_000):
        memory = DiskMemory(tmp_path)
        replica = Replica(BENCH, memory=memory)
        for offset, record in enumerate(first):
            replica.apply(record, offset, 0)
        evict(memory)
        pages_before = memory.pages_read()
        assert pages_before == memory.pages_read()
        told = itertools.count(0, pages)
        monkeypatch.setattr(DiskMemory, "pages_read", lambda _, told=told: next(told))
        replica.judge.pages._before = next(told)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        replica.apply(last, len(first), 0)
        span = last.sections[0]
        answers.append(
            replica.answers(span.source, range(span.first, span.stop), "t", read_answers)
        )
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before)
        monkeypatch.undo()
        pages_read = memory.pages_read() - pages_before
    assert answers[0] == answers[1]
    if faults[0] < 100:
        pytest.skip("a file system in memory has nothing to read")
    assert pages_read > 100
    # The system may drop some pages before they are used: 93 of 731 faults were left once.
    assert faults[1] < faults[0] / 2


def test_a_record_that_finds_the_disk_cold_asks_for_its_answers_and_so_does_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a record of 1,000 rows has read tells; one that reads up to 40 pages asks for none."""
    pages = itertools.accumulate([0, 40, 0, 41, 0, 0, 0])
    asked: list[str] = []

    class Told(Memory):
        def pages_read(self) -> int:
            return next(pages)

    replica = Replica(BENCH, memory=Told())
    monkeypatch.setattr("worker.log.columns._SAMPLED", range(0))  # only the judge looks
    monkeypatch.setattr(OriginalStore, "will_need", lambda *_: asked.append("before"))
    monkeypatch.setattr(TextPairs, "will_need", lambda *_: asked.append("answers"))
    write_log(tmp_path / "log", 4_000)
    for offset, record in enumerate(map(decode, read_log(tmp_path / "log"))):
        asked.append(str(offset))
        replica.apply(record, offset, 0)
    assert asked == ["0", "1", "answers", "2", "before", "answers", "3"]
    assert not replica.judge.held.asks


@settings(max_examples=one_in(2))
@given(
    logs.rows(),
    logs.rows(),
    logs.steps,
    st.just(Retention()) | logs.retentions,
    logs.searches | st.just(logs.CONFIRMED),
    logs.recrawled,
)
def test_in_memory_on_a_warm_disk_and_on_a_cold_one_replicas_are_equal(
    one: list[Row],
    two: list[Row],
    taken: list[logs.Step],
    retention: Retention,
    search: SearchRules,
    recrawls: Literal["compare", "replace"],
) -> None:
    """After each record, to the byte: what they hold, and what they have judged."""
    of = logs.definition(retention, search, recrawls)
    with logs.small_chunks():
        warm = DiskMemory(Path(gettempdir()))
        replicas = [logs.declared(of, memory) for memory in (anonymous, warm, on_disk())]
        for offset, (data, now_ms) in enumerate(logs.log_of(of, {0: one, 1: two}, taken)):
            for replica in replicas:
                replica.read(data, offset, now_ms)
            in_memory, on_warm, on_cold = replicas
            assert on_cold.judge.held.asks
            assert to_bytes(in_memory) == to_bytes(on_warm) == to_bytes(on_cold)
        on_cold.check()


def test_a_row_is_as_it_is_drawn() -> None:
    """No byte is lost between its fields: an original takes as much of the disk as its columns."""
    assert ROW.fields is not None
    drawn = {"sketches": 0, "marks": 64, "fingerprints": 72, "doubts": 80, "digests": 88}
    drawn |= {"times": 96, "texts": 104}
    assert {name: field[1] for name, field in ROW.fields.items()} == drawn
    assert ROW.itemsize == 120


class FullAfter:
    """A disk that takes so many chunks, then says that it is full."""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks

    def __call__(self, *_: int) -> None:
        self.chunks -= 1
        if self.chunks < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_ends_a_replica_and_the_log_restores_it(
    tmp_path: Path, records: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    In the midst of a record: of that one nothing can be asked, and the next start with room has all
    of them.
    """
    log = MemoryLog(lambda: 7)
    log.append([DEFINITION.declaration("w", FORMAT_VERSION), *records])

    def reading(replica: Replica) -> ReplicatedLog:
        return ReplicatedLog(replica, MemoryReader(log), log, DEFINITION.author("w"))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", FullAfter(20))
        broken = started(tmp_path).restore()
        with pytest.raises(StopError, match="No space left"):
            reading(broken).restore()
    failed = broken.next_offset
    assert 1 < failed < len(records)
    with pytest.raises(RetryError, match="no longer kept"):
        read_answer(broken, Source(TOPIC, 0), (failed - 1) * STEP)
    restored, whole = started(tmp_path).restore(), Replica(DEFINITION)
    assert reading(restored).restore() == reading(whole).restore() == len(records) + 1
    assert to_bytes(restored) == to_bytes(whole)


def test_a_state_directory_that_takes_no_files_is_not_said_to_be_full(tmp_path: Path) -> None:
    """It is gone, read-only or another user's: no space that somebody frees would help."""
    with pytest.raises(
        StopError,
        match=r"state directory .*gone takes no files .*No such file.*writable, or name another",
    ) as caught:
        DiskMemory(tmp_path / "gone")(1)
    assert "free some space" not in str(caught.value)


def test_a_full_disk_stops_a_run_that_says_so_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    It is an error of the chunk, not a signal at some write; the folder is as it was, and nothing
    was answered.
    """
    settings = Settings()
    fields = {"url": "https://example.org/", "fetched_at": "2026-01-01T00:00:00Z"}
    texts = [f"The river rose for the {n}. time." for n in range(9)]
    documents = [
        (b"%d" % n, json.dumps({"doc_id": f"{n}", "text": text, **fields}).encode())
        for n, text in enumerate(texts)
    ]
    with opened_state(tmp_path) as state, file_engine(settings, state) as engine:
        first = [answered.answer for answered in engine.answers(documents[:3])]
    before = {path: path.read_bytes() for path in tmp_path.glob("snapshot-*")}
    with monkeypatch.context() as patch:
        answers = []
        patch.setattr(os, "posix_fallocate", FullAfter(0))
        with (
            pytest.raises(
                StopError,
                match=r"state directory .* no room for \d+ bytes .*No space left.*free some space",
            ),
            opened_state(tmp_path) as state,
            file_engine(settings, state) as engine,
        ):
            answers = list(engine.answers(documents[3:]))
    assert answers == [] and all(isinstance(answer, Verdict) for answer in first)
    assert {path: path.read_bytes() for path in tmp_path.glob("snapshot-*")} == before
    with opened_state(tmp_path) as state, file_engine(settings, state) as engine:
        assert len(list(engine.answers(documents[3:]))) == 6
        assert engine.replica.documents == 9
