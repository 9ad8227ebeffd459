"""
Documents of files are named before they are read, and the log's records are cut by rows alone.

What must never happen:

- two documents without a name have one doc_id, in a run or in two runs with one state
- a name depends on what the other files hold
- a name, or a record of the log, depends on sizes of batches or of messages, on who reads the files
  (`dedup`, the library, `archive`), or on where a run was killed
- a document that brings a doc_id takes the name of another one
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from neardup import CrawlFiles, Deduplicator, Deletion

from tests.cli.program import lines, run
from tests.shell.local_engine import local_engine
from tests.shell.test_archive import archive, told, verdicts
from tests.shell.test_checkpoint import LOG
from worker.errors import StopError
from worker.log.coverage import Coverage
from worker.log.record import FORMAT_VERSION, Row, RowKind, Rows, Source
from worker.log.replica import Replica
from worker.log.snapshot import capture
from worker.shell.archive import steps, tasks
from worker.shell.files.inputs import Inputs, RowPlace
from worker.shell.files.records import records_of

TEXTS = [
    "The old bridge over the river is open again to all who walk.",
    "Rain is expected in the north from the early evening on.",
    "The choir has sung in the market hall for the ninth time.",
]


# ---- records


# A row: what its doc_id is, and whether it is compared.
ROWS = st.tuples(st.integers(0, 40), st.sampled_from([RowKind.FULL, RowKind.SKIPPED]))


def rows_at(first: int, rows: Sequence[tuple[int, RowKind]]) -> Rows:
    """Rows of which only offsets, kinds and doc_ids matter."""
    return Rows.of(
        [Row(first + at, kind, f"d{name}", "", 0) for at, (name, kind) in enumerate(rows)]
    )


def plain_records(inputs: list[list[tuple[int, RowKind]]], rows_max: int) -> list[int]:
    """
    Return how many rows each record has by the definition: of one input, or of whole inputs that
    have no more rows together, and no doc_id that two of them compare.
    """
    counts: list[int] = []
    shared = 0  # rows of the last record, if another input may share it
    names: set[int] = set()
    for rows in inputs:
        own = {name for name, kind in rows if kind is RowKind.FULL}
        if rows and shared and shared + len(rows) <= rows_max and not own & names:
            shared += len(rows)
            counts[-1] = shared
            names |= own
        elif rows:
            counts += [min(rows_max, len(rows) - at) for at in range(0, len(rows), rows_max)]
            shared = len(rows) if len(rows) < rows_max else 0
            names = own
    return counts


@example(
    inputs=[
        [(0, RowKind.FULL)],
        [(1, RowKind.FULL), (2, RowKind.SKIPPED)],
        [],
        [(2, RowKind.FULL)],
        [(1, RowKind.FULL)],
        [(n, RowKind.FULL) for n in range(10, 17)],
        [(9, RowKind.FULL)],
    ],
    cuts=[2],
    rows_max=5,
    first=3,
    killed_after=1,
)
@given(
    inputs=st.lists(st.lists(ROWS, max_size=9), min_size=1, max_size=8),
    cuts=st.lists(st.integers(0, 40), max_size=6),
    rows_max=st.integers(1, 7),
    first=st.integers(0, 3),
    killed_after=st.integers(0, 30),
)
def test_records_are_cut_by_rows_alone(
    inputs: list[list[tuple[int, RowKind]]],
    cuts: list[int],
    rows_max: int,
    first: int,
    killed_after: int,
) -> None:
    """
    However the rows arrive, and wherever a reading goes on; the inputs need not be known before.
    """
    rows = [row for one in inputs for row in one]
    total = len(rows)
    begins = [sum(map(len, inputs[:number])) for number in range(len(inputs))]
    edges = sorted({0, total, *(cut for cut in cuts if cut < total)})
    known: list[int] = []

    def arriving(begin: int) -> Iterator[Rows]:
        for start, stop in pairwise(edges):
            known[:] = [edge for edge in begins if edge < stop]
            if begin < stop:
                at = max(start, begin)
                yield rows_at(first + at, rows[at:stop])

    def cut(begin: int) -> list[tuple[int, int]]:
        parts = list(records_of(Inputs(0, 0, first, known), arriving(begin), rows_max))
        return [(int(part.offsets[0]), int(part.offsets[-1]) + 1) for part in parts]

    stops = [first, *accumulate(plain_records(inputs, rows_max), initial=first)][1:]
    wanted = [*pairwise(stops)]
    assert cut(0) == wanted
    judged = wanted[:killed_after]
    resumed = judged[-1][1] - first if judged else 0
    assert cut(resumed) == wanted[killed_after:]


class Looked(Sequence[int]):
    """Numbers that count how many of them are looked at."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers
        self.entries = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, key: Any) -> Any:
        self.entries += 1
        return self._numbers[key]


def test_a_batch_looks_at_its_own_inputs_among_many() -> None:
    """A hundred thousand files cost what they cost one by one, and the small ones share a record."""
    begins = Looked(range(0, 300_000, 3))
    rows = rows_at(150_000, [(number, RowKind.FULL) for number in range(6)])
    [record] = records_of(Inputs(0, 0, 0, begins), [rows], 1_000)
    assert record.offsets.tolist() == [*range(150_000, 150_006)]
    assert begins.entries < 100


def test_small_files_share_a_record_of_the_log(tmp_path: Path) -> None:
    """Each record costs as much as a hundred rows, so files of one document do not pay it each."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}.jsonl").write_text(lines({"text": f"The bridge number {number}."}))
    verdicts = [json.loads(line) for line in run("dedup", folder, "--quiet").stdout.splitlines()]
    assert [verdict["index"]["log_offset"] for verdict in verdicts] == [1] * 30


# ---- names

# A document: its text, and the place that the doc_id names which it brings; None brings none.
PLACES = st.none() | st.tuples(st.integers(0, 3), st.integers(0, 4))
FILES = st.lists(
    st.lists(st.tuples(st.sampled_from(TEXTS), PLACES), max_size=5), min_size=1, max_size=4
)


def written_files(folder: Path, inputs: list[list[tuple[str, Any]]]) -> list[Path]:
    """Write inputs as files, each with a damaged line first, which is no row."""
    (folder / "in").mkdir()
    files = []
    for number, documents in enumerate(inputs):
        files.append(folder / "in" / f"{number}.jsonl")
        rows: list[Any] = ["[]"]
        for text, place in documents:
            brought = {} if place is None else {"doc_id": RowPlace(0, *place).doc_id(text)}
            rows.append({"text": text, **brought})
        files[-1].write_text(lines(*rows))
    return files


def named(inputs: list[list[tuple[str, Any]]], run: int = 0) -> list[str]:
    """
    Return the names of documents by the definition; `…` where they are named apart.

    A doc_id that a row brings is its own only if it names no other place of this run.
    """
    names = []
    for number, documents in enumerate(inputs):
        for row, (text, place) in enumerate(documents):
            doc_id = RowPlace(run if place is None else 0, *(place or (number, row))).doc_id(text)
            is_others = run == 0 and place not in (None, (number, row))
            names.append(f"{doc_id}…" if is_others else doc_id)
    return names


def shown(verdicts: list[dict[str, Any]]) -> list[str]:
    """Return doc_ids, with `…` in place of the digest of those that are named apart."""
    parts = [verdict["doc_id"].split("-") for verdict in verdicts]
    return ["-".join(part[:2]) + "…" * (len(part) - 2) for part in parts]


def archived(folder: Path, output: str, *options: object) -> list[dict[str, Any]]:
    """Return the verdicts of `archive` over the folder's files."""
    archive(folder / output, "--format", "jsonl", "--quiet", *options)
    return told(verdicts(folder / output))


@example(
    inputs=[
        [(TEXTS[0], (0, 1)), (TEXTS[0], None), (TEXTS[0], (0, 1))],  # around the one that it names
        [],
        [(TEXTS[0], (0, 1)), (TEXTS[0], (3, 0))],
        [(TEXTS[0], None), (TEXTS[0], (3, 1))],
    ],
    batch=2,
)
@settings(max_examples=12)
@given(inputs=FILES, batch=st.integers(1, 6))
def test_each_document_has_a_name_of_its_own_place(
    tmp_path_factory: pytest.TempPathFactory, inputs: list[list[tuple[str, Any]]], batch: int
) -> None:
    """
    `dedup`, `archive` and the library say the same, and each place has one name; a doc_id that
    names another place of the run is another document's, wherever it is brought.
    """
    if not any(inputs):
        inputs = [[(TEXTS[0], None)]]
    folder = tmp_path_factory.mktemp("named")
    files = written_files(folder, inputs)
    options = ("--batch-documents-max", batch)
    said = run("dedup", *files, *options, "--threads", "1", "--quiet").stdout
    whole = [json.loads(line) for line in said.splitlines()]
    assert shown(whole) == named(inputs)
    nameless = [
        verdict["doc_id"]
        for verdict, (_, place) in zip(whole, (one for each in inputs for one in each), strict=True)
        if place is None
    ]
    assert len({*nameless}) == len(nameless)
    assert not any(verdict.get("reason") == "redelivered" for verdict in whole if
                   verdict["doc_id"] in nameless)  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "engine", local_engine)
        patch.setattr(tasks, "GROUP_ROWS", 3)
        patch.setattr(tasks, "ANSWERS", 2)
        patch.setattr(tasks, "SNAPSHOT_ROWS_MIN", 2)
        assert archived(folder, "out", *options) == told(said.encode().splitlines())
    library = Deduplicator(threads=1)
    judged = library.add_many(CrawlFiles([*map(str, files)]))
    assert [verdict.doc_id for verdict in judged] == [verdict["doc_id"] for verdict in whole]


@settings(max_examples=5)
@given(inputs=FILES, batch=st.integers(1, 6))
def test_no_run_with_a_state_names_a_document_as_an_earlier_one(
    tmp_path_factory: pytest.TempPathFactory, inputs: list[list[tuple[str, Any]]], batch: int
) -> None:
    """
    A run is called by the number of documents before it; the same command again has the same names.
    """
    inputs = [[(text, None) for text, _ in documents] for documents in inputs]
    inputs[0].append((TEXTS[0], None))
    folder = tmp_path_factory.mktemp("runs")
    files = written_files(folder, inputs)
    state = ("--state", folder / "state", "--threads", "1", "--batch-documents-max", batch)

    def judged(name: str) -> list[str]:
        run("dedup", *files, *state, "--output", folder / name, "--quiet")
        return shown([*map(json.loads, (folder / name).read_text().splitlines())])

    total = sum(map(len, inputs))
    assert judged("a") == named(inputs)
    assert judged("b") == named(inputs, total)
    (folder / "b").unlink()
    assert judged("b") == named(inputs, total)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "engine", local_engine)
        found = archived(folder, "out", *state[:2], *state[4:])
    assert shown(found) == named(inputs, 2 * total)


def test_a_pipe_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    """Its second reading would find nothing, or a closed stdin; a file may be read twice."""
    pipe, link, file = (tmp_path / name for name in ("pipe", "link", "file.jsonl"))
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    file.write_text(lines({"text": TEXTS[0]}))
    for names in (["-", "-"], [pipe, file, link]):
        with pytest.raises(StopError, match="is named twice: it can be read only once"):
            CrawlFiles(names)
    assert len([*CrawlFiles([file, file])]) == 2
    CrawlFiles([os.devnull, os.devnull])  # a device gives the same each time


def test_names_come_through_a_pipe_and_behind_references(tmp_path: Path) -> None:
    """A pipe is an input like a file, and references are the first inputs; a file may come twice."""
    reference, file = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    reference.write_text(lines({"text": TEXTS[0]}))
    file.write_text(lines({"text": TEXTS[1]}, {"text": TEXTS[0]}))
    pipe, feed = os.pipe()
    os.write(feed, file.read_bytes())
    os.close(feed)
    said = run(
        "dedup", f"/dev/fd/{pipe}", file, file, "--reference", reference, "--quiet"
    ).stdout.splitlines()
    os.close(pipe)
    found = [json.loads(line) for line in said]
    assert [verdict["doc_id"].partition("-")[0] for verdict in found] == [
        "0.1.0", "0.1.1", "0.2.0", "0.2.1", "0.3.0", "0.3.1"
    ]  # fmt: skip
    matches = [verdict.get("duplicate_of", {}).get("doc_id", "")[:5] for verdict in found]
    assert matches == ["", "0.0.0", "0.1.0", "0.0.0", "0.1.0", "0.0.0"]


def test_calls_of_the_library_are_inputs_of_one_run(tmp_path: Path) -> None:
    """
    A question is asked under the next name. What was saved is an earlier run. A name that was given
    can be brought to replace or delete its document; one that is not given yet is another's.
    """
    library = Deduplicator(threads=1)
    first, second = library.add_many([TEXTS[0], TEXTS[1]])
    asked = library.ask(TEXTS[0])
    third = library.add(TEXTS[0])
    names = [verdict.doc_id.partition("-")[0] for verdict in (first, second, asked, third)]
    assert names == ["0.0.0", "0.0.1", "0.1.0", "0.1.0"]
    changed = library.add({"doc_id": second.doc_id, "text": TEXTS[2]})
    assert changed.doc_id == second.doc_id and len(library) == 2
    library.add(Deletion(second.doc_id))
    assert len(library) == 1
    future = RowPlace(0, 5, 0).doc_id(TEXTS[2])
    brought = library.add({"doc_id": future, "text": TEXTS[2]})
    assert brought.doc_id.startswith(f"{future}-")
    assert library.add(TEXTS[2]).doc_id == future
    library.save(tmp_path / "saved")
    assert Deduplicator.load(tmp_path / "saved").add("x").doc_id.startswith("7.0.0-")


def test_what_a_pipe_had_is_not_read_a_second_time(tmp_path: Path) -> None:
    """It would be nothing, without a word. A file can be read again."""
    pipe, feed = os.pipe()
    os.write(feed, lines({"text": TEXTS[0]}).encode())
    os.close(feed)
    file = tmp_path / "file.jsonl"
    file.write_text(lines({"text": TEXTS[1]}))
    files = CrawlFiles([file, f"/dev/fd/{pipe}"])
    assert len([*files]) == 2
    with pytest.raises(StopError, match=r"/dev/fd/.* is read twice: it can be read only once"):
        list(files)
    os.close(pipe)
    for again in (CrawlFiles([file]), CrawlFiles([os.devnull])):
        assert len([*again]) == len([*again])


def test_what_is_added_to_a_workers_state_is_no_document_of_the_files_it_began_with(
    tmp_path: Path,
) -> None:
    """A group may have begun with a state of files, where the first run is 0."""
    replica = Replica(Deduplicator(threads=1).definition)
    replica.read(replica.definition.declaration("one", FORMAT_VERSION), 7, 0)
    path = tmp_path / "snapshot"
    path.write_bytes(b"".join(capture(replica, LOG).parts()))
    assert Deduplicator.load(path, threads=1).add(TEXTS[0]).doc_id.startswith("8.0.0-")


def test_no_two_runs_over_a_workers_state_have_one_number(tmp_path: Path) -> None:
    """
    A second run with the first one's number would name its documents as the first did: the same
    text in the same place would be called delivered again, and not a duplicate.
    """
    replica = Replica(Deduplicator(threads=1).definition)
    replica.read(replica.definition.declaration("one", FORMAT_VERSION), 1, 0)
    replica.coverage[Source(b"w" * 16, 0)] = Coverage()
    replica.coverage[Source(b"w" * 16, 0)].add(0, 2)
    path = tmp_path / "worker"
    path.write_bytes(b"".join(capture(replica, LOG).parts()))
    names = []
    for state in range(3):
        library = Deduplicator.load(path, threads=1)
        names += [verdict.doc_id for verdict in library.add_many(TEXTS[:2])]
        path = tmp_path / f"{state}"
        library.save(path)
    assert [name.partition("-")[0] for name in names] == [
        "2.0.0", "2.0.1", "3.0.0", "3.0.1", "4.0.0", "4.0.1",
    ]  # fmt: skip
