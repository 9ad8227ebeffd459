"""
The legs of a run whose judge has too many originals for the memory of a task.

`worker/log/outside.py` says what a leg is, and why it changes no verdict. Its files:

    the judge of the leg before ──► judge/leg-000001/outside.npz       which originals are outside
                                    judge/leg-000001/slice-000000.rows … as indexes take them
    a slice, rows of the leg    ──► judge/leg-000001/found-000000-000000.ranks
    these, in order             ──► the judge

Each leg is planned by the judge of the leg before, whose result has the plan (`Leg`). The originals
of a state are there before the first row, so the first leg of a run that goes on from one has no
rows: it only divides these originals.

A leg ends with the first record that reaches its share of the rows. So records are the same as in a
run of one leg, and with them all that happens between two of them. Rows are asked for a little
beyond, since nobody knows before where the record will end.

No verdict depends on where legs end. So the limit of memory may change whenever a run goes on: it
counts from the next leg that is planned.

Memory: `planner.leg_sizes` decides how many rows a leg has, and how many originals a slice, so that
each task stays within its limit; it says where the bytes are. What was found is neither read nor
written as a whole: a search writes row group after row group, the judge maps the files.
"""

from __future__ import annotations

import shutil
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet

from worker.core import planner
from worker.core.tables.parallel import Candidates
from worker.errors import StopError
from worker.log.originals import OriginalStore
from worker.log.outside import SLICE_ROW, Outside, Slice
from worker.log.texts import Texts
from worker.shell.archive.rows import read_rows, texts_of
from worker.shell.archive.run import Run
from worker.shell.files.apart import name_apart
from worker.shell.files.outputs import written

PIECE_ROWS = 1 << 20  # of whose candidates a file has
_NOBODY = np.empty(0, SLICE_ROW)
_ALL = 1 << 62  # a row behind all originals


class Leg(NamedTuple):
    """
    A leg, as it was planned.

    Attributes:
        begin: its first document.
        stop: it ends with the record that reaches this document.
        asked_stop: tasks ask for the documents before this one.
        task_rows: how many documents each of them asks for.
        slices: in how many files its originals outside are; each is asked on its own.
    """

    begin: int
    stop: int
    asked_stop: int = 0
    task_rows: int = 1
    slices: int = 0

    @property
    def shares(self) -> list[int]:
        """How many documents each task of a slice asks for."""
        begins = range(self.begin, self.asked_stop, self.task_rows)
        return [min(self.task_rows, self.asked_stop - begin) for begin in begins]


def leg_of(run: Run, number: int) -> Leg:
    """Return a leg; all legs before it have been judged."""
    if number:
        return Leg(**run.results("judge")[number - 1]["next_leg"])
    if run.task_memory is not None and run.said["base"] is not None:
        return Leg(run.first, run.first)
    if run.task_memory is None:
        return Leg(run.first, run.firsts[-1])
    sizes = planner.leg_sizes(run.judging.search, run.task_memory, 0)
    return Leg(run.first, min(run.first + sizes.rows, run.firsts[-1]))


def _folder(run: Run, leg: int) -> Path:
    return run.folder / "judge" / f"leg-{leg:06}"


def _inputs(run: Run, begin: int, stop: int) -> range:
    """Return the numbers of the inputs that have the documents from `begin` to `stop` - 1."""
    return range(bisect_right(run.firsts, begin) - 1, bisect_left(run.firsts, stop))


# ---- written by the judge of the leg before


def plan(run: Run, number: int, held: OriginalStore, begin: int) -> Leg | None:
    """
    Return a leg. Write which originals are outside in it, and these as slices.

    Args:
        held: the originals before it.
        begin: its first document.
    Returns:
        None: all documents have been judged.
    Raises:
        StopError: there are so many originals that a task of the run's memory cannot hold them.
    """
    if begin >= run.firsts[-1]:
        return None
    if run.task_memory is None:  # there was a limit before
        return Leg(begin, run.firsts[-1])
    search = run.judging.search
    try:
        sizes = planner.leg_sizes(search, run.task_memory, len(held))
        rows = sizes.rows
        while True:
            leg_stop = min(begin + rows, run.firsts[-1])
            stop = min(leg_stop + run.judging.batch_documents_max, run.firsts[-1])
            inside = held.may_leave(_doc_ids(run, begin, stop))
            taken = planner.judge_bytes(search, len(held), rows, len(inside))
            if taken <= run.task_memory:
                break
            if rows <= planner.LEG_ROWS_MIN:  # says what it takes
                planner.leg_sizes(search, run.task_memory, len(held), len(inside))
                break
            rows = max(rows // 2, planner.LEG_ROWS_MIN)  # fewer rows have fewer inside
    except ValueError as error:
        said = _least_for_all(run, len(held), begin) or error
        raise StopError(f"{said}, and run this again: it goes on where it was") from error
    folder = _folder(run, number)
    folder.mkdir(exist_ok=True)
    outside = Outside(len(held), inside, _find_none)
    slices = _write_slices(folder, held, outside, sizes.slice_rows)
    with written(folder / "outside.npz") as stream:
        np.savez(stream, stop=outside.stop, inside=inside)
    # As many as the index has, which takes time to make.
    rows = min(sizes.slice_rows, run.firsts[-1])
    return Leg(begin, leg_stop, stop, -(-rows // PIECE_ROWS) * PIECE_ROWS, slices)


def _least_for_all(run: Run, held: int, begin: int) -> ValueError | None:
    """
    Return the error that names the least memory for all rows that are left, if as many of them
    become originals as of those before; None if that is within the run's limit.
    """
    share = min(1.0, held / max(1, begin - run.first))
    at_end = held + round(share * (run.firsts[-1] - begin))
    try:
        planner.leg_sizes(run.judging.search, run.task_memory or 0, at_end)
    except ValueError as error:
        return error
    return None


def _find_none(_: NDArray[np.int64]) -> list[Candidates]:
    return []


def _write_slices(folder: Path, held: OriginalStore, outside: Outside, rows_max: int) -> int:
    """Write the originals outside into files of at most `rows_max`; return how many files."""
    every = (held.slice_rows(rows) for rows in held.rows_outside(outside))
    parts = filter(len, every)  # all of a part may be inside: that is not the end
    left = next(parts, _NOBODY)
    slices = 0
    while len(left):
        with written(folder / f"slice-{slices:06}.rows") as stream:
            count = 0
            while count < rows_max and len(left):
                part = left[: rows_max - count]
                stream.write(part.tobytes())
                count += len(part)
                left = left[len(part) :]
                if not len(left):
                    left = next(parts, _NOBODY)
        slices += 1
    return slices


def _doc_ids(run: Run, begin: int, stop: int) -> Iterator[Texts]:
    """
    Yield the doc_ids that some documents, and others nearby, have in their files, and those that
    they get if they are named apart.

    Cost: some 1 µs per document.
    """
    for number in _inputs(run, begin, stop):
        at = run.firsts[number]
        with parquet.ParquetFile(run.folder / "rows" / f"{number:06}.parquet") as file:
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if at + count > begin and at < stop:
                    table = file.read_row_group(group, columns=["doc_ids", "digests"])
                    for batch in table.combine_chunks().to_batches():
                        doc_ids = texts_of(batch["doc_ids"])
                        digests = batch["digests"].to_numpy().tolist()
                        yield doc_ids
                        yield Texts.of([*map(name_apart, doc_ids.tolist(), digests)])
                at += count


# ---- asked by tasks


def ask_sizes(run: Run, number: int) -> list[int]:
    """Return how many rows each task of a leg asks for: a slice and some of the rows each."""
    leg = leg_of(run, number)
    return leg.shares * leg.slices


def ask_rows(run: Run, task: int, leg_number: int) -> dict[str, Any]:
    """
    Find the candidates of some rows of a leg in one of its slices.

    Memory: `planner.slice_bytes`. Of what was found, only that of a row group is held.
    """
    leg = leg_of(run, leg_number)
    folder = _folder(run, leg_number)
    slice_number, share = divmod(task, len(leg.shares))
    originals = np.memmap(folder / f"slice-{slice_number:06}.rows", SLICE_ROW, "r")
    asked = Slice(run.judging.search, originals)
    report = run.reporter(f"ask-{leg_number:06}", task)
    first = leg.begin + share * leg.task_rows
    for at in range(first, first + leg.shares[share], PIECE_ROWS):
        stop = min(at + PIECE_ROWS, leg.asked_stop)
        with written(_found_file(folder, slice_number, (at - leg.begin) // PIECE_ROWS)) as stream:
            _write_found(stream, _found(run, asked, at, stop))
        report(at - first)
    return {}


def _found(run: Run, asked: Slice, begin: int, stop: int) -> Iterator[Candidates]:
    """Yield the candidates of the documents from `begin` to `stop` - 1, by row group."""
    for number in _inputs(run, begin, stop):
        for group in read_rows(run, number, begin):
            rows = group.rows
            if len(rows) and rows.offsets[0] >= stop:
                break
            if len(rows):
                yield asked.find(rows.between(0, min(len(rows), stop - int(rows.offsets[0]))))


# A file of what was found has the ranks of all candidates and then, for each row, where its
# candidates end.


def _found_file(folder: Path, slice_number: int, piece: int) -> Path:
    return folder / f"found-{slice_number:06}-{piece:06}.ranks"


def _write_found(stream: BinaryIO, parts: Iterable[Candidates]) -> None:
    ends = []
    count = 0
    for part in parts:
        stream.write(part.ranks.tobytes())
        ends.append(part.ends + count)
        count += len(part.ranks)
    for part_ends in ends:
        stream.write(part_ends.tobytes())


class _FoundPiece(NamedTuple):
    """What a slice has for the rows of a piece, as a mapped file says."""

    ranks: NDArray[np.uint64]
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, path: Path, rows: int) -> _FoundPiece:
        # Kernels take arrays that may be written to; these would be copied then.
        words = np.asarray(np.memmap(path, np.uint64, "c"))
        return cls(words[:-rows], words[-rows:].view(np.int64))

    def candidates(self, places: NDArray[np.int64]) -> Candidates:
        """Return the candidates of some rows, whose places ascend. Copies none of the ranks."""
        ends = self.ends[places]
        begins = np.where(places > 0, self.ends[places - 1], 0)
        first = begins[0]
        return Candidates(begins - first, ends - first, self.ranks[first : ends[-1]])


def _joined(parts: list[Candidates]) -> Candidates:
    """Return the candidates of all fingerprints of some parts."""
    shifts = np.cumsum([0, *(len(part.ranks) for part in parts)]).tolist()
    edges = [
        np.concatenate([getattr(part, name) + at for part, at in zip(parts, shifts, strict=False)])
        for name in ("begins", "ends")
    ]
    return Candidates(edges[0], edges[1], np.concatenate([part.ranks for part in parts]))


# ---- read by the judge


def outside_of(run: Run, number: int) -> Outside | None:
    """
    Return what is outside in a leg, and what its tasks have found; None in a run without a limit.

    A judge that goes on from a snapshot with something outside, or with nothing, gives no original
    another number. The next leg's files name originals by their numbers in the last snapshot, which
    a judge that was lost at its very end does not write again.
    """
    leg = leg_of(run, number)
    folder = _folder(run, number)
    if leg.begin == leg.stop:
        return Outside(_ALL, np.empty(0, np.int64), _find_none)
    if not leg.asked_stop:
        return None if run.task_memory is None else Outside(0, np.empty(0, np.int64), _find_none)

    @lru_cache(2)
    def piece_of(piece: int) -> list[_FoundPiece]:
        rows = min(PIECE_ROWS, leg.asked_stop - leg.begin - piece * PIECE_ROWS)
        return [
            _FoundPiece.of(_found_file(folder, each, piece), rows) for each in range(leg.slices)
        ]

    def find(offsets: NDArray[np.int64]) -> list[Candidates]:
        pieces, places = np.divmod(offsets - leg.begin, PIECE_ROWS)
        parts = []
        for piece in range(pieces[0], pieces[-1] + 1):
            own = places[pieces == piece]
            if len(own):
                parts.append([found.candidates(own) for found in piece_of(piece)])
        if len(parts) == 1:
            return parts[0]
        return [_joined(list(of_slice)) for of_slice in zip(*parts, strict=True)]

    with np.load(folder / "outside.npz") as file:
        return Outside(int(file["stop"]), file["inside"], find)


def remove_judged(run: Run) -> None:
    """Remove the files of legs that have been judged."""
    for number in run.done("judge"):
        shutil.rmtree(_folder(run, number), ignore_errors=True)
