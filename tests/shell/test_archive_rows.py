"""
Rows that `neardup archive` judges in parts: each answer is that of one replica that judges all of
them in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pytest
from pyarrow import parquet

from tests.shell.test_archive import here  # noqa: F401  # a fixture
from worker.core.sketch import WORDS
from worker.errors import DocumentError
from worker.log.record import RowKind, Rows
from worker.log.replica import Replica
from worker.log.texts import Texts
from worker.settings import Settings
from worker.shell.archive import tasks
from worker.shell.archive.run import Options, Run, begin, find_inputs
from worker.shell.files.engine import FileEngine
from worker.shell.messages import VerdictBytes, encode_answers
from worker.shell.pipeline.prepare import Preparer


def made_rows(count: int, seed: int = 3) -> Rows:
    """
    Rows as a crawl brings them; a twentieth is one family, a tenth has one prefix, more than a
    search looks at.
    """
    rng = np.random.default_rng(seed)
    signs, doubts = (rng.integers(0, 2**64, count, dtype=np.uint64) for _ in range(2))
    doubts &= rng.integers(0, 2**64, count, dtype=np.uint64)
    sketches = rng.integers(0, 2**64, (count, WORDS), dtype=np.uint64)
    hot = rng.random(count) < 0.1
    signs[hot] = signs[hot] & ~np.uint64(0xFFFF) | np.uint64(0x1234)
    parents = np.where(
        rng.random(count) < 0.4,
        (rng.random(count) * np.arange(count)).astype(np.int64),
        np.arange(count),
    )
    parents[rng.random(count) < 0.05] = 5
    parents = parents[parents]  # of the first of a family
    flips = np.uint64(1) << rng.integers(0, 64, count, dtype=np.uint64)
    signs, doubts, sketches = (
        signs[parents] ^ flips * (rng.random(count) < 0.5),
        doubts[parents],
        sketches[parents],
    )
    sketches[:, 0] ^= rng.integers(0, 2, count, dtype=np.uint64) * np.uint64(0x11)
    kinds = np.full(count, RowKind.FULL, np.uint8)
    for kind, share in (
        (RowKind.SHORT, 0.05),
        (RowKind.SKIPPED, 0.02),
        (RowKind.DEAD, 0.01),
        (RowKind.DELETED, 0.02),
    ):
        kinds[rng.random(count) < share] = kind
    short = kinds == RowKind.SHORT
    digests = rng.integers(0, 2**63, count, dtype=np.uint64)
    digests[short] %= np.uint64(count // 100 + 1)
    ids = np.where(
        rng.random(count) < 0.1,
        (rng.random(count) * np.arange(count)).astype(np.int64),
        np.arange(count),
    )
    again = np.flatnonzero(rng.random(count) < 0.05)
    of = np.maximum(again - 1 - rng.integers(0, 90, len(again)), 0)
    for column in (signs, doubts, sketches, kinds, digests, ids):
        column[again] = column[of]
    for column in (signs, doubts, digests):
        column[(kinds != RowKind.FULL) & (kinds != RowKind.SHORT)] = 0
    urls = ids // 3
    notes = [b"unreadable: why" if kind == RowKind.DEAD else b"" for kind in kinds.tolist()]
    return Rows(
        np.arange(count), kinds, Texts.of([b"doc-%d" % one for one in ids.tolist()]),
        Texts.of([b"https://example.org/%d" % one for one in urls.tolist()]), np.arange(count),
        signs, digests, (signs & np.uint64(63)).astype(np.uint32), Texts.of(notes), doubts,
        sketches,
    )  # fmt: skip


def judged_in_order(found: Rows, run_: Run) -> Iterator[VerdictBytes | DocumentError]:
    """Yield the answers of one replica."""
    settings = run_.settings
    with Preparer(settings) as preparer:
        engine = FileEngine(
            Replica(settings.definition), preparer, settings, lambda: run_.started_at_ms
        )
        for batch in tasks.cut_rows(
            [(found, np.ones(len(found), np.int64))], settings.batch_documents_max, 1 << 20
        ):
            yield from engine.judge_rows(batch, encode_answers)


def begin_rows(folder: Path, found: Rows, inputs: int, settings: Settings) -> Run:
    """Begin a run whose inputs have these rows, and write them as its tasks would."""
    (folder / "in").mkdir(parents=True)
    for number in range(inputs):
        (folder / "in" / f"{number}.jsonl").write_text("")
    run_ = begin(folder / "out", find_inputs([str(folder / "in")]), Options(), settings, None)
    edges = np.linspace(0, len(found), inputs + 1).astype(int).tolist()
    for number, (first, stop) in enumerate(pairwise(edges)):
        part = found.between(first, stop)
        sources = [tasks._Source(1, at, at, None, 0, None) for at in range(stop - first)]
        with parquet.ParquetWriter(
            run_.path("rows", f"{number:06}.parquet"), tasks.SCHEMA
        ) as writer:
            for at in range(0, stop - first, tasks.GROUP_ROWS):
                piece = part.between(at, min(at + tasks.GROUP_ROWS, stop - first))
                writer.write_batch(tasks._batch(piece, sources[at : at + len(piece)]))
    (run_.folder / "rows.json").write_bytes(orjson.dumps(np.diff(edges).tolist()))
    return run_


def check_answers(run_: Run, found: Rows) -> None:
    """Hold the run's answers against those of one replica that judges the rows in order."""
    expected = judged_in_order(found, run_)
    seen: Counter[str] = Counter()
    for number in range(len(run_.inputs)):
        for _, answered in tasks.answers_of(run_, number):
            assert answered.written == next(expected)
            answer = answered.answer
            seen[
                answer.code
                if isinstance(answer, DocumentError)
                else answer.reason or answer.outcome
            ] += 1
    assert next(expected, None) is None
    assert {"new", "duplicate", "redelivered", "removed", "not-an-original", "unreadable"} <= set(
        seen
    )


@pytest.mark.usefixtures("here")
def test_rows_in_parts_are_judged_as_rows_in_order(tmp_path: Path) -> None:
    """
    With families, a hot prefix, re-crawls, redeliveries, deletions; files, groups and batches cut
    each other.
    """
    check_rows(tmp_path, 3_000, 4)


@pytest.mark.slow
def test_two_hundred_thousand_rows_are_judged_as_in_order(tmp_path: Path) -> None:
    """Families of ten thousand and more, and a prefix of twenty thousand, at the sizes of use."""
    check_rows(tmp_path, 200_000, 7)


def check_rows(folder: Path, count: int, inputs: int) -> None:
    found = made_rows(count)
    run_ = begin_rows(folder, found, inputs, Settings(batch_documents_max=977, threads=1))
    tasks.judge_rows(run_, 0)
    check_answers(run_, found)
