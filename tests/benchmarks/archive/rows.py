"""
Rows of the log as a crawl brings them, made without texts: any range of them by itself.

Every row is a function of its number alone, so the rows of a run of 100 M are made in parts, and the
first million of any run are the same. Of the rows

    0.40  are copies of an earlier one, of which half have another sign
    0.03  are copies of a popular page: of one for each 16,384 rows, or of one for each 512
    0.17  are pages of a template with other facts, no copies; each 3,000 rows have another one
    0.10  have the doc_id of an earlier one
    0.01  come again within 90 rows
    0.05  are short, 0.02 have nothing to compare, 0.02 are deletions, 0.01 cannot be judged

Families and templates are as large, and as near in their signs, as those of the sample crawl
(`test_made_rows_have_the_families_of_the_sample_crawl`). Of 20,000 pages of that crawl, 910 were
copies of an original with ten copies or more, the largest families had 268, 110 and 80 copies, and
two originals had the same value in a block of 16 bits 13 to 17 times as often as by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet

from worker.core.marks import LONG, TITLE_SHIFT, URL_SHIFT
from worker.core.sketch import WORDS
from worker.errors import DocumentError
from worker.log.record import RowKind
from worker.log.replica import Replica
from worker.settings import Settings
from worker.shell.archive import tasks
from worker.shell.archive.rows import SCHEMA, read_rows
from worker.shell.archive.run import Run, begin, find_inputs
from worker.shell.files.engine import FileEngine
from worker.shell.files.options import FileOptions
from worker.shell.messages import VerdictBytes, encode_answers
from worker.shell.pipeline.prepare import Preparer

Column = NDArray[np.uint64]
SHORT_TEXTS = 300_000  # that differ, among the rows of a benchmark
# How many rows have a popular page in common, and the share of rows that are its copies.
POPULAR = ((16_384, 0.012), (512, 0.016))
TEMPLATE_SHARE = 0.17
TEMPLATE_ROWS = 3_000  # after so many rows the next template begins
_KINDS = (
    (RowKind.SHORT, 0.05),
    (RowKind.SKIPPED, 0.02),
    (RowKind.DEAD, 0.01),
    (RowKind.DELETED, 0.02),
)


def _drawn(numbers: Column, salt: int) -> Column:
    """64 bits for each number, as if drawn: the finaliser of SplitMix64 (Steele, OOPSLA 2014)."""
    mixed = numbers + np.uint64((salt + 1) * 0x9E37_79B9_7F4A_7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return mixed ^ (mixed >> np.uint64(31))


def _share(numbers: Column, salt: int) -> NDArray[np.float64]:
    """A number of [0, 1) for each."""
    shares: NDArray[np.float64] = (_drawn(numbers, salt) >> np.uint64(11)) * np.float64(2.0**-53)
    return shares


def _earlier(numbers: Column, salt: int) -> Column:
    """For each number one that is not greater."""
    return (_share(numbers, salt) * numbers).astype(np.uint64)


def parents_of(numbers: Column) -> Column:
    """Return the original that each row is a copy of, or itself."""
    return _parents(_parents(numbers))


def _parents(numbers: Column) -> Column:
    """The row that each is a copy of, which may be a copy, or itself."""
    parents = np.where(_share(numbers, 0) < 0.4, _earlier(numbers, 1), numbers)
    drawn = _share(numbers, 2)
    for rows, share in POPULAR:
        is_popular = (drawn >= 0) & (drawn < share)
        parents[is_popular] = numbers[is_popular] // np.uint64(rows) * np.uint64(rows)
        drawn -= share
    return parents


def signs_of(parents: Column) -> Column:
    """
    The fingerprints of originals. Those of a template have one in common, in which a bit in eleven
    is flipped: two pages differ in some eleven bits, as those of the sample crawl do.
    """
    signs = _drawn(parents, 5)
    of_template = _share(parents, 6) < TEMPLATE_SHARE
    pages = parents[of_template]
    flipped = (_drawn(pages, 20) | _drawn(pages, 21)) & _drawn(pages, 22)
    flipped &= _drawn(pages, 23) & _drawn(pages, 24)
    signs[of_template] = _drawn(pages // np.uint64(TEMPLATE_ROWS), 19) ^ flipped
    return signs


def batch_of(first: int, stop: int, short_texts: int) -> pa.RecordBatch:
    """Rows [first, stop), as the tasks of a run write them; so many short texts differ."""
    places = np.arange(first, stop, dtype=np.uint64)
    back = np.uint64(1) + _drawn(places, 3) % np.uint64(90)
    is_again = (_share(places, 4) < 0.01) & (places >= np.uint64(90))
    numbers = np.where(is_again, places - back * is_again, places)
    parents = parents_of(numbers)
    signs = signs_of(parents)
    flipped = np.uint64(1) << _drawn(numbers, 7) % np.uint64(64)
    signs ^= flipped * (_share(numbers, 8) < 0.5)
    doubts = _drawn(parents, 9) & _drawn(parents, 10)
    sketches = np.stack([_drawn(parents, 32 + word) for word in range(WORDS)], axis=1)
    sketches[:, 0] ^= (_drawn(numbers, 11) & np.uint64(1)) * np.uint64(0x11)
    kinds = np.full(len(places), RowKind.FULL, np.uint8)
    drawn = _share(numbers, 12)
    for kind, share in _KINDS:
        kinds[(drawn >= 0) & (drawn < share)] = kind
        drawn -= share
    digests = _drawn(numbers, 13) >> np.uint64(1)
    digests[kinds == RowKind.SHORT] %= np.uint64(short_texts)
    for column in (signs, doubts, digests):
        column[(kinds != RowKind.FULL) & (kinds != RowKind.SHORT)] = 0
    ids = np.where(_share(numbers, 14) < 0.1, _earlier(numbers, 15), numbers).astype(np.int64)
    is_dead = kinds == RowKind.DEAD
    features = (signs & np.uint64(63)).astype(np.uint32)
    # Half of them are pages of a few hosts, with titles.
    marks = (_drawn(numbers, 16) % np.uint64(7) + np.uint64(1)).astype(np.uint64)
    marks |= (ids // 3 % 65_535 + 1).astype(np.uint64) << np.uint64(URL_SHIFT)
    marks |= (_drawn(numbers, 17) % np.uint64(5) + np.uint64(1)) << np.uint64(TITLE_SHIFT)
    marks |= np.where(features < 25, 0, LONG).astype(np.uint64)
    marks[_share(numbers, 18) < 0.5] = 0
    columns = {
        "kinds": pa.array(kinds),
        "fetched_at_ms": pa.array(places.astype(np.int64)),
        "fingerprints": pa.array(signs),
        "doubts": pa.array(doubts),
        "digests": pa.array(digests),
        "features": pa.array(features),
        "marks": pa.array(marks),
        "sketches": pa.Array.from_buffers(
            SCHEMA.field("sketches").type, len(places), [None, pa.py_buffer(sketches)]
        ),
        "doc_ids": _texts("doc-", ids),
        "urls": _texts("https://example.org/", ids // 3),
        "notes": pa.array(np.where(is_dead, "unreadable: why", "")).cast(pa.large_binary()),
        "line": pa.array(places.astype(np.int64)),
        "offset": pa.array(places.astype(np.int64)),
        "key": pa.nulls(len(places), pa.binary()),
        "score": pa.nulls(len(places), pa.float64()),
    }
    return pa.RecordBatch.from_pydict(columns, schema=SCHEMA)


def _texts(before: str, numbers: NDArray[np.int64]) -> pa.Array:
    digits = compute.cast(pa.array(numbers), pa.large_string())
    parts = [pa.scalar(before, pa.large_string()), digits, pa.scalar("", pa.large_string())]
    joined = compute.binary_join_element_wise(*parts)
    return joined.cast(pa.large_binary())


def begin_rows(
    folder: Path, count: int, inputs: int, settings: Settings, short_texts: int = SHORT_TEXTS
) -> Run:
    """Begin a run whose inputs have so many rows, and write them as its tasks would."""
    (folder / "in").mkdir(parents=True)
    for number in range(inputs):
        (folder / "in" / f"{number:03}.jsonl").write_text("")
    run = begin(
        folder / "out",
        find_inputs([str(folder / "in")]),
        FileOptions(format="jsonl.zst"),
        settings,
        None,
    )
    edges = [count * number // inputs for number in range(inputs + 1)]
    for number in range(inputs):
        path = run.path("rows", f"{number:06}.parquet")
        with parquet.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
            for at in range(edges[number], edges[number + 1], tasks.GROUP_ROWS):
                stop = min(at + tasks.GROUP_ROWS, edges[number + 1])
                writer.write_batch(batch_of(at, stop, short_texts))
    (run.folder / "rows.json").write_bytes(orjson.dumps(np.diff(edges).tolist()))
    return run


def judged_in_order(run: Run, count: int) -> Iterator[VerdictBytes | DocumentError]:
    """Yield what one replica, without snapshots or files, answers to the first rows of a run."""
    settings = run.judging
    groups = (group for number in range(len(run.inputs)) for group in read_rows(run, number))
    with Preparer(settings) as preparer:
        engine = FileEngine(Replica(settings.rules), preparer, settings, lambda: run.started_at_ms)
        engine.resume(run.places)
        for batch in engine.records(group.rows for group in groups):
            yield from engine.judge_rows(batch, encode_answers)
            if engine.next_offset >= count:
                return


def check_first(run: Run, count: int) -> Counter[str]:
    """Compare a run's first answers with those of one replica; return how many say what."""
    seen: Counter[str] = Counter()
    answers = (
        answered
        for number in range(len(run.inputs))
        for part in tasks.judged_of(run, number)
        for _, answered in tasks.answers_in(run, number, part)
    )
    pairs = zip(judged_in_order(run, count), answers, strict=False)
    for expected, answered in islice(pairs, count):
        assert answered.written == expected, (answered.written, expected)
        answer = answered.answer
        if isinstance(answer, DocumentError):
            seen[answer.code] += 1
        else:
            seen[answer.reason or answer.outcome.value] += 1
    assert seen.total() == count, (seen, count)
    assert set(seen) == {
        "new", "duplicate", "redelivered", "removed", "not-an-original", "skipped", "unreadable",
    }  # fmt: skip
    return seen
