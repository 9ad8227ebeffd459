"""
The state of runs over files: a folder of snapshots, whose headers say which runs have led to them.

`dedup` judges from the newest snapshot. `archive` copies that one into a folder of its own
(`give_base`), where it may be killed and gone on with as often as it takes, and puts its result
into the state at the end (`take`). In between, `has_taken` says whether the state is as it was.

A run ends in this order:

    1  each output is written next to its place, synced and renamed
    2  the folders of the outputs are synced
    3  the state is written, synced and renamed, with this run in its header

If it is killed before 3 is done, the state knows nothing of it: the same command starts from the
same state, comes to the same results, and replaces the outputs that had been renamed. If it is
killed later, the same command finds itself in the header. Without that it would judge its documents
against themselves, find copies only, and replace good outputs by empty ones.

    what a command finds in the header                     what it does
    itself; its outputs are as it wrote them               it leaves all as it is
    itself, as the last run; an output is gone, changed,   it judges again from the snapshot before,
      or cannot be looked at (a pipe, stdout, a URL)         and leaves the state as it is
    the same, but the snapshot before is gone              it stops
    another run that has read or written one of its        it stops if it would replace an output
      inputs                                                 of that run; else it goes on, saying so
    such runs for all of its inputs, as they are, and      it stops if it would replace an output
      it keeps documents                                     of any run: it would keep none
    nothing of that                                        it goes on

One process at a time has a state; a second one is refused. `identity.py` says by what a run is the
same. An input is also known if it has grown since it was read. What comes through
a pipe is known only when it has been read, so it is looked for then, before an output is renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from schemas.fields import format_timestamp
from worker.errors import StopError
from worker.log.replica import Replica
from worker.log.snapshot import header_of
from worker.shell.checkpoint import (
    Checkpoint,
    digest_at,
    locked,
    map_file,
    newest,
    remove_old,
    snapshots,
)
from worker.shell.files.digests import FileDigest, output_digest, place_name, prefix_digests
from worker.shell.files.identity import FileMark, RunIdentity, differences, listed
from worker.shell.files.options import FileOptions
from worker.shell.files.outputs import written
from worker.shell.files.places import (
    check_name,
    is_pipe,
    path_of,
    real_path,
    shown_name,
    size_of,
)

_RUNS = "runs"  # the field of a snapshot's header
# Older runs are forgotten beyond them; the last one never is.
RUNS_MAX = 1_000
RUN_FILES_MAX = 100_000
# What to do with a state of another definition.
STATE_REMEDY = "Judge with its settings, or name another folder with --state"


class FinishedRun(NamedTuple):
    """
    A run that has ended well, as the header of its state has it.

    Attributes:
        command: "dedup" or "archive".
        options: those that change its outputs.
        inputs, references, outputs: files, with what was in them at its end.
        base: the digest of the snapshot with which it began; None if there was none.
        summary: what it said of its results.
        at: when it was, ISO 8601.
    """

    command: str
    options: dict[str, Any]
    inputs: list[FileDigest]
    references: list[FileDigest]
    outputs: list[FileDigest]
    base: str | None
    summary: dict[str, Any]
    at: str

    @staticmethod
    def of(
        run: RunIdentity,
        inputs: Sequence[FileDigest],
        references: Sequence[FileDigest],
        base: str | None,
        summary: Mapping[str, Any],
        at_ms: int,
    ) -> FinishedRun:
        """Return a run as it is remembered; its outputs are in their places."""
        return FinishedRun(
            run.command,
            dict(run.options),
            list(inputs),
            list(references),
            [output_digest(name) for name in run.outputs],
            base,
            dict(summary),
            format_timestamp(at_ms),
        )

    def told(self) -> str:
        """Return a sentence for the user of the same run, which has nothing to do."""
        return (
            f"this run has ended before ({self.at}), and its outputs are as it wrote them: nothing "
            f"is done. To judge its documents from the beginning, name another --state"
        )

    @property
    def identity(self) -> RunIdentity:
        """
        The facts by which a later run is recognised as the same one; files by their contents. An
        option that the run's version had not yet has its default.
        """
        return RunIdentity(
            self.command,
            FileOptions._field_defaults | self.options,
            [output.name for output in self.outputs],
            _marks(self.references),
            _marks(self.inputs),
        )


class _FileContent(NamedTuple):
    """The marks of a file: its size, and the digest of its first bytes, by their number."""

    size: int | None
    digests: Mapping[int, str]

    @property
    def mark(self) -> tuple[object, ...]:
        """The marks that two files share if they have the same content, in the form of `_marks`."""
        return self.size, self.digests.get(self.size or 0, "")


class RunState:
    """
    A state that is open: no other process has it.

    Attributes:
        runs: those that have led to it, as far as it remembers them.
        again: the last run, if it is to be repeated: then nothing is saved.
        finished: what is saved of the run that has just ended; None: nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._newest = newest(folder)
        self.runs = runs_of(self._newest)
        self.again: FinishedRun | None = None
        self.finished: FinishedRun | None = None
        # The runs that have read or written a file, by its content; the sizes of files, by name.
        self._known_to: dict[tuple[int, str], list[FinishedRun]] = {}
        self._sizes_of: dict[str, set[int]] = {}
        for run in self.runs:
            for file in (*run.inputs, *run.references, *run.outputs):
                if file.size > 0:  # files without content are all alike
                    self._known_to.setdefault((file.size, file.digest), []).append(run)
                    self._sizes_of.setdefault(file.name, set()).add(file.size)
        self._sizes = {size for size, _ in self._known_to}

    @cached_property
    def base(self) -> str | None:
        """The digest of the snapshot from which a new run goes on; None if there is none."""
        return _digest_of(self._newest)

    @property
    def has_forgotten(self) -> bool:
        """
        Whether earlier runs led to this state that it no longer remembers: its oldest known run
        began from a snapshot.
        """
        return not self.runs or self.runs[0].base is not None

    def find(
        self, run: RunIdentity, tell: Callable[[str], None], read: Iterable[FileDigest] = ()
    ) -> FinishedRun | None:
        """
        Look for a run that is to begin, and for its inputs. `again` is set if it is the last one.

        Args:
            tell: gets a sentence if the run is to be repeated, or if its documents are known.
            read: what came through pipes, once they have been read.
        Returns:
            The run itself, if it has ended and its outputs are as it wrote them.
        Raises:
            StopError: it cannot go on: it would replace an output of an earlier run by less, or it
                is an earlier run whose outputs cannot be made again.
        Cost: reading the files that are as large as one of an earlier run, or that have grown.
        """
        found = {digest.name: digest for digest in read}
        references, inputs = (
            [(file.name, self._content(file.name, found)) for file in files]
            for files in (run.references, run.inputs)
        )
        here = RunIdentity(
            run.command,
            run.options,
            [place_name(output) for output in run.outputs],
            [FileMark(place_name(name), content.mark) for name, content in references],
            [FileMark(place_name(name), content.mark) for name, content in inputs],
        )
        for earlier in self.runs[::-1]:
            if not differences(earlier.identity, here):
                if all(map(_is_intact, earlier.outputs)):
                    return earlier
                self._check_again(earlier, run)
                self.again = earlier
                tell(
                    f"this run has ended before ({earlier.at}): its outputs are written again, "
                    f"and the state stays as it is"
                )
                return None
        known: list[str] = []
        readers: dict[int, tuple[str, FinishedRun]] = {}  # earlier runs, and what they know of ours
        for name, content in inputs:
            runs = [
                earlier
                for part in content.digests.items()
                for earlier in self._known_to.get(part, ())
            ]
            for earlier in runs:
                readers.setdefault(id(earlier), (shown_name(name), earlier))
            if runs:
                known.append(name)
        if known:
            is_known = [
                content.size == 0 or content.mark in self._known_to for _, content in inputs
            ]
            if here.options.get("keep") and all(is_known):  # nothing would be kept
                for earlier in self.runs:
                    readers.setdefault(id(earlier), (listed(known), earlier))
            there = [output_digest(name) for name in run.outputs]
            for name, earlier in readers.values():
                _check_outputs(here, there, name, earlier)
            self._tell_known([one for one in inputs if one[0] in known], tell)
        return None

    def _tell_known(
        self, inputs: Sequence[tuple[str, _FileContent]], tell: Callable[[str], None]
    ) -> None:
        """Tell which inputs the state knows as a whole, and which have grown since."""
        remedy = "To judge them from the beginning, name another --state"
        whole = [name for name, content in inputs if content.mark in self._known_to]
        if whole:
            tell(
                f"earlier runs with this --state have read or written {listed(whole)}: the "
                f"documents in it are known, so none of them is new. {remedy}"
            )
        grown = [
            f"{name} up to byte {max(content.digests.items() & self._known_to.keys())[0]:,}"
            for name, content in inputs
            if content.mark not in self._known_to
        ]
        if grown:
            tell(
                f"earlier runs with this --state have read or written {listed(grown)}: the "
                f"documents up to there are known, and those behind it are judged. {remedy}"
            )

    def _content(self, name: str, read: Mapping[str, FileDigest]) -> _FileContent:
        if is_pipe(name):
            digest = read.get(place_name(name))
            if digest is None:
                return _FileContent(None, {})
            return _FileContent(digest.size, {digest.size: digest.digest})
        place = place_name(name)
        size = size_of(name) or 0
        sizes = {before for before in self._sizes_of.get(place, ()) if before < size}
        if size in self._sizes:
            sizes.add(size)
        return _FileContent(size, prefix_digests(name, sizes) if sizes else {})

    def _check_again(self, earlier: FinishedRun, run: RunIdentity) -> None:
        """Raise StopError if the outputs of an earlier run cannot be made again."""
        gone = [output.name for output in earlier.outputs if not _is_intact(output)]
        reason = ""
        if earlier is not self.runs[-1]:
            reason = "other runs have gone on from there"
        elif earlier.base is not None and _digest_of(self._before()) != earlier.base:
            reason = "the snapshot before it is gone"
        elif any(is_pipe(file.name) for file in (*run.inputs, *run.references)):
            reason = "its documents came through a pipe, which has been read"
        if reason:
            raise StopError(
                f"this run has ended before ({earlier.at}), and {listed(gone)} cannot be written "
                f"again: {reason}. The state {self.folder} has its documents, so all of them would "
                "count as copies. To judge them from the beginning, name another --state"
            )

    def _before(self) -> Path | None:
        return next(iter(snapshots(self.folder)[1:]), None)

    @property
    def skipped(self) -> int:
        """How many of the newest snapshots are left out: those behind a run to be repeated."""
        if self.again is None:
            return 0
        return len(snapshots(self.folder)) if self.again.base is None else 1

    @property
    def start(self) -> Path | None:
        """The snapshot from which the run starts; None: from nothing."""
        return next(iter(snapshots(self.folder)[self.skipped :]), None)

    def has_taken(self, result: Path | None, base: str | None, folder: Path) -> bool:
        """
        Return whether the state already contains the results of a run that has a folder of its own.

        Args:
            result: the run's last snapshot; None: it has none yet.
            base: the digest of the snapshot with which it began; None: there was none.
            folder: that of the run.
        Raises:
            StopError: another run has gone on from the state since this one began.
        """
        if result is not None and digest_at(result) in map(digest_at, snapshots(self.folder)):
            return True
        if _digest_of(newest(self.folder)) in (base, None):  # None: it is gone
            return False
        raise self._changed_since(folder)

    def _changed_since(self, folder: Path) -> StopError:
        there = newest(self.folder)
        found = "is empty" if there is None else f"ends with {there.name}"
        return StopError(
            f"{self.folder} has changed since the run in {folder} began: it {found}, which is not "
            f"what the run began with. Begin another one, with another --output"
        )

    def take(self, result: Path) -> None:
        """Put the last snapshot of a run in a folder of its own into the state."""
        copy_snapshot(result, self.folder / result.name)
        remove_old(self.folder)

    def give_base(self, base: str, folder: Path) -> None:
        """
        Copy the snapshot with which a run in a folder of its own began, into `judge` there.

        Args:
            base: the digest of the snapshot.
        Raises:
            StopError: it is gone, because other runs have gone on from it.
        """
        found = [path for path in snapshots(self.folder) if digest_at(path) == base]
        if not found:
            raise self._changed_since(folder)
        copy_snapshot(found[0], folder / "judge" / found[0].name)

    def save(self, checkpoint: Checkpoint, replica: Replica) -> None:
        """
        Write the state that a run has led to, and the run; nothing if it has only been repeated.

        Raises:
            StopError: it cannot be written. The state is as before, and the run can be repeated.
        """
        if self.again is not None:
            return
        runs = self.runs
        if self.finished is not None:
            _sync_folders(self.finished.outputs)
            runs = [*runs, self.finished]
        checkpoint.extra_header = header_with(runs)
        checkpoint.save_or_stop(replica, f"the state cannot be written to {self.folder}")


def copy_snapshot(source: Path, target: Path) -> None:
    """Copy a snapshot, whole or not at all."""
    with source.open("rb") as data, written(target) as stream:
        shutil.copyfileobj(data, stream, 1 << 24)


@contextmanager
def opened_state(folder: Path) -> Iterator[RunState]:
    """
    Open a state until the block ends.

    Raises:
        StopError: another process has it, or the folder cannot be made, listed or written to.
    """
    with locked(folder):
        yield RunState(folder)


def runs_of(snapshot: Path | None) -> list[FinishedRun]:
    """
    Return the runs that have led to a snapshot, oldest first.

    Those before version 1 are not in it. One that is damaged has none: who restores it says so.

    Raises:
        StopError: another version has written its runs. Without them, a run that has ended would
            judge its documents against themselves, and replace its outputs by empty ones.
    """
    if snapshot is None:
        return []
    try:
        header = header_of(map_file(snapshot))
    except Exception:  # whatever is wrong with it, restoring it says what
        return []
    try:
        return runs_in(header)
    except Exception as error:
        raise StopError(
            f"the runs that {snapshot} names cannot be read ({error}): go on with the version of "
            "neardup that wrote it, or name another folder"
        ) from error


def check_no_state(file: Path) -> None:
    """
    Raise StopError if a file lies, or is written through a link, in a state of runs, or none can
    have its name. A later run would not read a snapshot of another name there, or by one that names
    no runs, forget them all.
    """
    check_name(file)
    folder = real_path(file).parent
    if runs_of(newest(folder)):
        raise StopError(
            f"{folder} is the state of `neardup dedup` or `neardup archive`, which would pass over "
            "this snapshot, or forget their earlier runs: name a file in another folder"
        )


def runs_in(header: Mapping[str, Any]) -> list[FinishedRun]:
    """Return the runs that `header_with` has put into a header, or none."""
    return [_run_of(fields) for fields in header.get(_RUNS, ())]


def header_with(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """Return the fields of a snapshot's header that name the runs which have led to it."""
    return {_RUNS: [run._asdict() for run in _remembered(runs)]}


def _run_of(fields: Mapping[str, Any]) -> FinishedRun:
    files = {
        name: [FileDigest(*file) for file in fields[name]]
        for name in ("inputs", "references", "outputs")
    }
    return FinishedRun(**{**fields, **files})


def _remembered(runs: Sequence[FinishedRun]) -> list[FinishedRun]:
    """Return the last run and those before it, up to the bounds."""
    kept: list[FinishedRun] = []
    files = 0
    for run in reversed(runs[-RUNS_MAX:]):
        files += len(run.inputs) + len(run.references)
        if kept and files > RUN_FILES_MAX:
            break
        kept.append(run)
    return kept[::-1]


def _digest_of(snapshot: Path | None) -> str | None:
    return None if snapshot is None else digest_at(snapshot)


def _marks(files: Iterable[FileDigest]) -> list[FileMark]:
    """Return files by their contents; those without content are all alike."""
    return [FileMark(file.name, (file.size, file.digest if file.size else "")) for file in files]


def _is_intact(output: FileDigest) -> bool:
    return output.size >= 0 and output_digest(output.name) == output


def _check_outputs(
    run: RunIdentity, there: Sequence[FileDigest], name: str, earlier: FinishedRun
) -> None:
    """
    Raise StopError if a run would replace an output of an earlier one, wherever it has been moved.
    The state has the documents of the run's input `name`.

    Args:
        there: what is in the places of its outputs.
    """
    # Outputs without a document are all alike, though some have bytes: `[]`, the names of columns.
    is_empty = len(earlier.outputs) == 1 and earlier.summary.get("kept") == 0
    for output, (place, size, digest) in product(earlier.outputs, there):
        is_same_place = place == output.name and output.size >= 0
        path = path_of(place)
        is_same = size > 0 and not is_empty and (size, digest) == (output.size, output.digest)
        if is_same or (is_same_place and path is not None and path.exists()):
            differing = "; ".join(differences(earlier.identity, run))
            raise StopError(
                f"{shown_name(place)} has what an earlier run ({earlier.at}) wrote: "
                f"{differing}. The state has the documents of {name}, so they would count as "
                "copies, and the file would be replaced by one without them: name another "
                "--output, or another --state to judge from the beginning"
            )


def _sync_folders(outputs: Iterable[FileDigest]) -> None:
    """Wait until the disk has the names of outputs: the state must not be there without them."""
    folders = {os.path.dirname(output.name) for output in outputs if output.size >= 0}  # noqa: PTH120
    for folder in folders:
        try:
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:  # it may be written to and entered, but not listed
            os.sync()
            continue
        try:
            os.fsync(number)
        finally:
            os.close(number)
