"""
The verdicts on an input's documents, as `neardup dedup` writes them, and its documents that stay.

    rows/000000.parquet + judge/answers-… ──► verdicts/000000.jsonl.zst      kept/ duplicates/  000000-NAME

With `--prefer longest` or `newest` one task chooses before: which of a cluster stays depends on all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Any, cast

import numpy as np

from worker.errors import DocumentError
from worker.shell.archive.judge import Answers, answer_files
from worker.shell.archive.rows import read_rows
from worker.shell.archive.run import Run
from worker.shell.files.archives import Record
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.engine import TOPIC, Answer, line_of
from worker.shell.files.frames import verdict_writer
from worker.shell.files.keeping import Choice, Prefer, copy_documents, format_kept
from worker.shell.files.places import written
from worker.shell.messages import encode_answers

_ANY = Record("", 0, None, b"")  # of what has a verdict nobody asks for its place
_ANY_ERROR = DocumentError("", "")  # lines of JSON are written as they are


def answers_of(run: Run, number: int) -> Iterator[tuple[Record, Answer]]:
    """Yield the answer to each document of an input, in order; of what cannot be judged with its place."""
    definition = run.settings.definition
    files = [entry for entry in answer_files(run) if entry[2] > run.firsts[number]]
    opened = lru_cache(1)(Answers)
    for group in read_rows(run, number):
        for file, first, stop in files:
            begin, end = np.searchsorted(group.rows.offsets, [first, stop]).tolist()
            if begin == end:
                continue
            answers, at = opened(file, definition.search), int(group.rows.offsets[begin]) - first
            for rows in answers.judged(group.rows.between(begin, end), at, run.started_at_ms):
                given = encode_answers(rows, answers.held, definition, 0, TOPIC)
                for place, (one, at) in enumerate(zip(given, rows.offsets(), strict=True), start=begin + rows.first):
                    record = group.record(place, run.inputs[number].path) if isinstance(one, DocumentError) else _ANY
                    yield record, Answer(at, one)


def write_verdicts(run: Run, number: int) -> dict[str, Any]:
    """
    Write the verdicts on an input, and its documents that stay if they are asked for; return how many of each.

    Memory: the rows of two groups, a file of answers with its originals, and a byte a document for what stays.
    """
    options = run.options
    needs_objects = options.keep is not None or not options.format.startswith("jsonl")
    outcomes: Counter[str] = Counter()
    choice, dead = Choice(originals=options.keep == "revisits"), ""
    name = f"{number:06}.{options.format}"
    with written(run.path("verdicts", name)) as stream, verdict_writer(stream, name) as write:
        for record, answered in answers_of(run, number):
            outcome, line = line_of(record, answered)
            outcomes[outcome] += 1
            write(line, answered.answer if needs_objects else _ANY_ERROR)
            if options.keep:
                choice.take(answered.answer)
            if isinstance(answered.written, DocumentError):
                dead = dead or f"{record.place}: {answered.written.code}: {answered.written.text}"
    kept = _copy(run, number, choice) if options.keep else None
    return {"outcomes": outcomes, "kept": kept, "dead": dead}


def _copy(run: Run, number: int, choice: Choice) -> int:
    """Copy the documents that stay, and the others if they are asked for; return how many stay."""
    options, source = run.options, run.inputs[number].path
    run.check_unchanged(number)
    if options.prefer != "first":
        choice.kept = bytearray((run.folder / "choice" / f"{number:06}.bin").read_bytes())
    reading = partial(CrawlFiles, fetched_at_default=options.fetched_at, columns=options.columns)
    name = run.kept_name(number)
    kind = format_kept([source], [name], revisits=options.keep == "revisits")
    folders = ["kept", "duplicates"] if options.duplicates else ["kept"]
    with ExitStack() as stack:
        streams = [(stack.enter_context(written(run.path(folder, name))), name) for folder in folders]
        return copy_documents([source], kind, choice, streams, reading)


def choose(run: Run, _: int) -> dict[str, Any]:
    """Write which documents of each input stay. Memory: a byte a document, 100 a cluster. Cost: 15 µs per document."""
    choice = Choice(cast("Prefer", run.options.prefer))
    for number in range(len(run.inputs)):
        for _record, answered in answers_of(run, number):
            choice.take(answered.answer)
    for number, (first, stop) in enumerate(zip(run.firsts, run.firsts[1:], strict=False)):
        with written(run.path("choice", f"{number:06}.bin")) as stream:
            stream.write(choice.kept[first - run.first : stop - run.first])
    return {}
