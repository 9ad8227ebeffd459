"""
The tasks of a run that write what users read, once all rows are judged.

    rows/000000.parquet + judge/answers-… ──► verdicts/000000.jsonl.zst
                                          ──► choice/members-000000.npy
                                          ──► choice/ids-000000.npy
            choice/ids-*.npy, a range of hashes ──► how many documents have another one's doc_id
            choice/members-*.npy, a range of keys ──► choice/chosen-000000.npy
    the input + choice/chosen-*.npy ──► kept/000000-NAME, duplicates/000000-NAME
                                    ──► copies/000000.jsonl

Which document of a cluster is kept, and how large the cluster is, can be known only when all of its
documents are. Their rows of the table of clusters (`choice.py`) are sorted by keys, so a task of
the third step reads its own range of each file, and no task reads all answers again. A range has
some `MEMBERS` rows. It is the same with doc_ids, of which two inputs may have some in common.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from worker.shell.archive.run import Run
from worker.shell.archive.tasks import answers_in, judged_of
from worker.shell.files.choice import (
    MEMBER,
    Choice,
    ChoiceNotes,
    best_of,
    copies_of_others,
    sorted_members,
)
from worker.shell.files.frames import verdict_writer
from worker.shell.files.keeping import copy_documents, format_kept
from worker.shell.files.outputs import written
from worker.shell.files.repeats import NAMED, RepeatedIds, repeats_of, sorted_names
from worker.shell.messages.json_columns import insides

MEMBERS = 1 << 22  # rows of the table of clusters in memory at once, about
_CHOSEN = np.dtype([("place", "<i8"), ("size", "<i8")])  # of a kept document, and of its cluster


def write_verdicts(run: Run, number: int) -> dict[str, Any]:
    """
    Write the verdicts on the documents of an input, the hashes of their doc_ids and, if documents
    are kept, its rows of the table of clusters.

    Returns how many verdicts of each kind there are, how many documents have come again, and how
    many have something to choose by.

    Memory: the rows of two groups, a file of answers with its originals, some 60 bytes for each
    document, and some 130 more for each original and duplicate if documents are kept.
    """
    options = run.options
    outcomes: Counter[str] = Counter()
    repeated = RepeatedIds()
    notes = ChoiceNotes(
        options.preference, has_table=True, key=run.choice_key, first=run.firsts[number]
    )
    report = run.reporter("verdicts", number)
    name = f"{number:06}.{options.format}"
    with verdict_writer(run.path("verdicts", name)) as write:
        for part in judged_of(run, number):
            repeated.take(part.rows, part.held)
            if options.keep:
                notes.take(part.rows, part.held, part.scores)
            for record, answered in answers_in(run, number, part):
                outcomes[answered.outcome] += 1
                write(record, answered)
            report(outcomes.total())
    for path, rows in (
        (_members(run, number), notes.members()),
        (_ids(run, number), repeated.named()),
    ):
        if len(rows):  # a map of no rows cannot be made
            with written(path) as stream:
                np.save(stream, rows)
    return {
        "outcomes": outcomes,
        "redelivered": repeated.redelivered,
        "scored": notes.scored,
        "unscored": notes.unscored,
    }


def _members(run: Run, number: int) -> Path:
    return run.path("choice", f"members-{number:06}.npy")


def _ids(run: Run, number: int) -> Path:
    return run.path("choice", f"ids-{number:06}.npy")


def _chosen(run: Run, part: int) -> Path:
    return run.path("choice", f"chosen-{part:06}.npy")


def choosers(run: Run) -> int:
    """Return how many tasks choose, and how many count doc_ids."""
    return 1 + (run.firsts[-1] - run.firsts[run.references]) // MEMBERS


def _part_of(run: Run, rows: NDArray[np.void], keys: NDArray[np.uint64], part: int) -> Any:
    """Return a copy of those of sorted rows whose keys are in one of so many equal ranges."""
    begin, stop = (bisect_left(keys, -(-(at << 64) // choosers(run))) for at in (part, part + 1))
    return np.array(rows[begin:stop])


def count_ids(run: Run, part: int) -> dict[str, Any]:
    """
    Return how many documents have the doc_id of another one, of doc_ids with hashes in one of so
    many equal ranges.

    Memory: some 60 bytes for each of these documents.
    """
    found = [np.empty(0, NAMED)]
    for number in range(run.references, len(run.inputs)):
        if _ids(run, number).exists():
            named = np.load(_ids(run, number), mmap_mode="r")
            own = _part_of(run, named, named["doc_id"], part)
            own["input"] = number
            found.append(own)
    return {"repeats": [*repeats_of(sorted_names(np.concatenate(found)))]}


def choose(run: Run, part: int) -> dict[str, Any]:
    """
    Write which documents of some clusters are kept: those with keys in one of so many equal ranges.

    Returns how many documents are copies of what an earlier run or a reference has kept.

    Memory: some 150 bytes for each document of the clusters.
    """
    found = [np.empty(0, MEMBER)]
    for number in range(run.references, len(run.inputs)):
        if _members(run, number).exists():
            members = np.load(_members(run, number), mmap_mode="r")
            found.append(_part_of(run, members, members["key"][:, 0], part))
    members = sorted_members(found)
    best, sizes = best_of(members, run.options.per_cluster)
    chosen = np.empty(len(best), _CHOSEN)
    chosen["place"] = members["place"][best]
    chosen["size"] = sizes
    if len(chosen):
        with written(_chosen(run, part)) as stream:
            np.save(stream, np.sort(chosen, order="place"))
    return {"kept_before": copies_of_others(members)}


def copy_kept(run: Run, number: int) -> dict[str, Any]:
    """
    Copy the kept documents of an input, and the others if they are wanted; write the size of each
    kept document's cluster.

    Returns how many are kept.

    Memory: a byte per document, and 16 for each that is kept.
    """
    options = run.options
    source = run.inputs[number].path
    run.check_unchanged(number)
    chosen = _chosen_of(run, number)
    is_kept = np.zeros(run.firsts[number + 1] - run.firsts[number], np.bool_)
    is_kept[chosen["place"] - run.firsts[number]] = True
    notes = ChoiceNotes(revisits=options.has_revisits)
    with written(run.path("copies", f"{number:06}.jsonl")) as stream:
        stream.writelines(_size_lines(run, number, is_kept, chosen["size"], notes))
    name = run.kept_name(number)
    kind = format_kept([source], [name], options)
    folders = ["kept", "duplicates"] if options.duplicates else ["kept"]
    choice = Choice(is_kept, notes.originals)
    outputs = [run.path(folder, name) for folder in folders]
    report = run.reporter("copy", number)
    stamps = [run.inputs[number]]  # it may also change while it is copied
    return {"kept": copy_documents([source], kind, choice, outputs, options, report, stamps=stamps)}


def _chosen_of(run: Run, number: int) -> NDArray[np.void]:
    """Return the kept documents of an input, in its order."""
    found = [np.empty(0, _CHOSEN)]
    for part in range(choosers(run)):
        if _chosen(run, part).exists():
            chosen = np.load(_chosen(run, part), mmap_mode="r")
            begin, stop = (
                bisect_left(chosen["place"], first)
                for first in (run.firsts[number], run.firsts[number + 1])
            )
            found.append(np.array(chosen[begin:stop]))
    return np.sort(np.concatenate(found), order="place")


def _size_lines(
    run: Run,
    number: int,
    is_kept: NDArray[np.bool_],
    sizes: NDArray[np.int64],
    notes: ChoiceNotes,
) -> Iterator[bytes]:
    """Yield a line for each kept document of an input. `notes` gets the judged rows."""
    at = 0
    size_of = iter(sizes.tolist())
    for part in judged_of(run, number):
        notes.take(part.rows, part.held)
        rows = part.rows.answered
        kept = np.flatnonzero(is_kept[at : at + len(rows)])
        at += len(rows)
        for doc_id in insides(rows.doc_ids.take(kept)).tolist():
            yield b'{"doc_id":"%b","copies":%d}\n' % (doc_id, next(size_of))
