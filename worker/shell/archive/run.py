"""
One run of a batch deduplication: its folder, and how it recognises the files there as its own.

    run.json        what makes it this run (`identity.py`), how it began, and the limit of memory of
                    a task: written first, and again for another limit
    done/           rows-000000.json …: a task's result and the sizes of its files, written last:
                    what it names is whole
                    rows-000000.part …: how far a task is that runs, for people
    rows/           000000.parquet …: what the log would get of the documents of each input
    judge/          answers-….npz: what became of each row; snapshot-….ndsnap: where a lost judge
                    goes on
    verdicts/ kept/ copies/ duplicates/        a file for each input that is no reference
    choice/                                    which documents are kept (`outputs.py`)
    damage.jsonl, summary.json                 at the end

Every file is written under another name and then renamed, so a file with its final name is whole.
The contents do not depend on when or by which process a file was written: even the time of the
verdicts is the time at which the run began. So a task may run twice, even at the same time, and
nothing changes. A task whose files are gone, or have another size, is done again; the judge is not.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib.metadata import version
from itertools import accumulate, product
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from schemas.fields import format_timestamp
from worker.core import planner
from worker.core.search import SearchRules
from worker.errors import DefinitionError, StopError
from worker.log.rules import LogDefinition
from worker.log.snapshot import LogIdentity, unpack
from worker.settings import DECIDING, Settings
from worker.shell.checkpoint import digest_at, map_file, newest
from worker.shell.files.choice import KEY_BITS
from worker.shell.files.digests import FileDigest
from worker.shell.files.engine import LOG
from worker.shell.files.identity import FileMark, RunIdentity, differences
from worker.shell.files.inputs import Inputs
from worker.shell.files.options import FileOptions
from worker.shell.files.outputs import is_unfinished, remove_abandoned, written
from worker.shell.files.places import (
    STDIO,
    FileStamp,
    check_places,
    check_references,
    files_here,
    find_remote,
    open_input,
    path_of,
    shown_name,
    stamp_of,
    tell_nobody,
)
from worker.shell.files.state import (
    STATE_REMEDY,
    FinishedRun,
    RunState,
    header_with,
    runs_in,
)

FORMAT = 4  # of the files in a run's folder: another one for each change of what is in them
OUTPUTS = ("verdicts", "kept", "copies", "duplicates")  # folders that users read
LIMITS = (
    "document_bytes_max",
    "text_characters_max",
    "batch_documents_max",
)
# A zip of archives. Its documents are copied as WARC, so its name would lie about the copy.
WACZ_SUFFIXES = (".wacz", ".zip")
CHOSEN = "search_size"  # the setting that an archive chooses by its number of documents
REPORT_S = 1.0  # between two reports of a task about how far it is


def find_inputs(
    patterns: Iterable[str], tell: Callable[[str], None] = tell_nobody
) -> list[FileStamp]:
    """
    Return the files that are named one by one, by folders, or by patterns. Those of each are in the
    order of their names.

    Args:
        tell: gets a sentence about files that are left out.
    """
    found: list[FileStamp] = []
    for pattern in patterns:
        if pattern == STDIO:
            raise StopError(
                "archive reads its inputs more than once, and stdin can be read only once: name "
                "files. `neardup dedup` reads stdin"
            )
        path = path_of(pattern)
        if path is None:
            # A listing may say less than the file itself: a web server's has nothing but names.
            remote = find_remote(pattern, tell)
            found += [one if one.changed else stamp_of(one.path) or one for one in remote]
            continue
        found += map(_checked_input, files_here(pattern, path, tell))
    return found


def _checked_input(path: Path) -> FileStamp:
    """Return the stamp of a file here that can be read, again and again."""
    name = path.parent.resolve() / path.name  # of a link its own: a table is known by its name
    stamp = stamp_of(str(name))
    if stamp is None:
        raise StopError(
            f"{shown_name(path)} is a pipe, a socket or a device, but archive reads its inputs "
            "more than once: name files, or remove it from the folder. `neardup dedup` reads pipes"
        )
    open_input(str(name)).close()
    return stamp


# File systems take names of 255 bytes. An output that is being written has `.<16 hex>.part`, too.
_NAME_BYTES_MAX = 255 - 22
_ENDING_CHARACTERS_MAX = 20


def shortened(name: str) -> str:
    """
    Return the name of an output, without the end of its stem if it is too long to be written.

    >>> shortened("crawl.jsonl.gz"), len(shortened(f"{'é' * 120}.jsonl.gz").encode())
    ('crawl.jsonl.gz', 233)
    """
    data = os.fsencode(name)
    if len(data) <= _NAME_BYTES_MAX:
        return name
    ending = "".join(PurePosixPath(name).suffixes[-2:])  # .jsonl.gz
    if len(ending) > _ENDING_CHARACTERS_MAX:  # a sentence with points
        ending = PurePosixPath(name).suffix[-_ENDING_CHARACTERS_MAX:]
    end = _NAME_BYTES_MAX - len(os.fsencode(ending))
    while data[end] & 0xC0 == 0x80:  # in the middle of a character
        end -= 1
    return os.fsdecode(data[:end]) + ending


class Run:
    """A run, as its folder says: for the command, and for its tasks, wherever they run."""

    def __init__(self, folder: Path, said: Mapping[str, Any]) -> None:
        self.folder = folder
        self.said = said
        self.inputs = [FileStamp(*one) for one in said["inputs"]]
        self.references: int = said["references"]  # how many of the inputs are: the first ones
        self.options = FileOptions(**said["options"])
        self.first: int = said["first"]  # number of the first document: behind those of the state
        self.started_at_ms: int = said["started_at_ms"]
        self.task_memory: int | None = said.get("task_memory")
        self._whole: set[tuple[str, int, tuple[str, ...]]] = set()  # tasks whose files were there

    @classmethod
    def load(cls, folder: Path) -> Run:
        """
        Return the run of a folder.

        Raises StopError: the folder has no run, or one that another version of neardup has begun.
        """
        try:
            said = json.loads((folder / "run.json").read_bytes())
            begun_as = said.get("format", 0)
        except (ValueError, AttributeError) as error:
            raise StopError(
                f"{folder} has a run.json that is none of `neardup archive`: name another --output"
            ) from error
        if begun_as != FORMAT:
            raise StopError(
                f"{folder} has the files of another version of neardup, whose run.json has format "
                f"{begun_as}, and this version's has {FORMAT}: "
                "go on with that version, or name another --output"
            )
        return cls(folder, said)

    @property
    def summary(self) -> Path:
        """The file that is written at the end."""
        return self.folder / "summary.json"

    def write(self) -> None:
        """Write the run's file: the facts that identify the run, and its options."""
        with written(self.folder / "run.json") as stream:
            stream.write(json.dumps(self.said).encode())  # with names of files that are not UTF-8

    @property
    def choice_key(self) -> int:
        """The secret key of the table of clusters, which all tasks have."""
        return int(self.said["choice_key"], 16)

    @cached_property
    def settings(self) -> Settings:
        """
        The run's settings, of a single thread. Raises StopError where they stand for other rules.
        """
        settings = Settings(**self.said["settings"], threads=1)
        if _rules(settings) != self.said["rules"]:
            raise StopError(
                f"the rules of {self.folder} differ from those here: are neardup's version and "
                "stopwords_file the same?"
            )
        return settings

    @cached_property
    def judging(self) -> Settings:
        """
        The run's settings with the search by which it judges: the one that was given, that of the
        state, or the one for so many documents. Known when all rows are there.
        """
        search = self.said["search"]
        if search is None:
            rules = planner.rules_for(planner.archive_originals(self.firsts[-1] - self.first))
            search = {CHOSEN: planner.size_text(rules)}
        return self.settings.model_copy(update=search)

    def check_unchanged(self, number: int) -> None:
        """Raise StopError if an input has changed since the run began."""
        begun = self.inputs[number]
        if stamp_of(begun.path) != begun:
            raise StopError(
                f"{shown_name(begun.path)} has changed since the run began: begin another one, "
                "with another --output"
            )

    def remove_parts(self) -> None:
        """Remove the files that tasks had begun when they were killed."""
        reports = (self.folder / "done").glob("*.part")
        remove_abandoned([*reports, *filter(is_unfinished, self.folder.rglob("*.part"))])

    def remove(self) -> None:
        """
        Remove all files of a run of which nothing can be judged, but for its list of damage, so
        that its folder may have another one. What identifies it goes last, and stays while anything
        else is left: until then, the same command goes on with it.
        """
        folders = [self.folder / name for name in ("done", "rows", "judge")]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        (self.folder / "rows.json").unlink(missing_ok=True)
        if not any(folder.exists() for folder in folders):
            (self.folder / "run.json").unlink(missing_ok=True)

    def remove_unless_begun(self) -> None:
        """
        Remove a run of which no task has ended, because its engine does not answer: its folder may
        have another one.
        """
        if not self.summary.exists() and not any((self.folder / "done").glob("*.json")):
            self.remove()

    def path(self, folder: str, name: str) -> Path:
        """Return the path of one of the run's files; its folder is there then."""
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        return place / name

    def kept_name(self, number: int) -> str:
        """
        Return the name of the kept documents of an input: by its number, and as it is, but for the
        end of a stem that is too long.
        """
        name = PurePosixPath(self.inputs[number].path).name
        stem, dot, suffix = name.rpartition(".")
        if f"{dot}{suffix}".lower() in WACZ_SUFFIXES:
            name = f"{stem}.warc.gz"
        return shortened(f"{number:06}-{name}")

    def finish(self, step: str, number: int, result: Mapping[str, Any]) -> None:
        """Say that a task has ended well: its files are whole."""
        sizes = [_size_of(self.folder / name) for name in self._files_of(step, number)]
        self.path("done", "")
        with written(self._done_file(step, number)) as stream:
            outcome = {**result, "sizes": sizes, "run": self.started_at_ms}
            stream.write(json.dumps(outcome).encode())  # names, as in `write`
        self._progress_file(step, number).unlink(missing_ok=True)

    def _done_file(self, step: str, number: int) -> Path:
        return self.folder / "done" / f"{step}-{number:06}.json"

    def _files_of(self, step: str, number: int) -> list[str]:
        """Return the names of the files that a task may write, but for the judge's."""
        match step:
            case "rows":
                return [f"rows/{number:06}.{kind}" for kind in ("parquet", "jsonl")]
            case "verdicts":
                name = f"verdicts/{number:06}.{self.options.format}"
                return [name, *(f"choice/{kind}-{number:06}.npy" for kind in ("members", "ids"))]
            case "choose":
                return [f"choice/chosen-{number:06}.npy"]
            case "copy":
                kept = [f"{folder}/{self.kept_name(number)}" for folder in ("kept", "duplicates")]
                return [f"copies/{number:06}.jsonl", *kept]
        return []

    def _progress_file(self, step: str, number: int) -> Path:
        return self.path("done", f"{step}-{number:06}.part")

    def reporter(self, step: str, number: int) -> Callable[[int], None]:
        """
        Return the function that a task calls to report its progress. The command reads the reports
        in `reached`.

        Only the display depends on a report, so it is no error if a report cannot be written.

        Cost: a small file once in REPORT_S.
        """
        path = self._progress_file(step, number)
        written_s = time.monotonic()

        def report(done: int) -> None:
            nonlocal written_s
            now_s = time.monotonic()
            if now_s - written_s >= REPORT_S:
                written_s = now_s
                with suppress(OSError):
                    path.write_text(str(done))

        return report

    def reached(self, step: str, sizes: Sequence[int]) -> int:
        """
        Return how much of a step is done, by tasks that have ended and, as far as they have
        reported, by the others.

        Args:
            sizes: the work of each task of the step.
        """
        ended = self.done(step)
        total = sum(sizes[number] for number in ended)
        for path in (self.folder / "done").glob(f"{step}-*.part"):
            number = path.stem.rpartition("-")[2]
            try:
                told = int(path.read_text())
            except (OSError, ValueError):  # it has just ended, or is being written
                continue
            if number.isdigit() and int(number) not in ended and int(number) < len(sizes):
                total += min(told, sizes[int(number)])
        return total

    def done(self, step: str) -> set[int]:
        """Return the numbers of the tasks that have ended well, and whose files are there."""
        numbers = (
            int(path.stem.rpartition("-")[2])
            for path in (self.folder / "done").glob(f"{step}-*.json")
        )
        return {number for number in numbers if self._is_whole(step, number)}

    def _is_whole(self, step: str, number: int, folders: tuple[str, ...] = ("",)) -> bool:
        """
        Return whether a task has ended, and its files are as large as it left them: all, or those
        in these folders. One that is whole is looked at once.
        """
        looked_at = (step, number, folders)
        if looked_at not in self._whole:
            try:
                outcome = json.loads(self._done_file(step, number).read_bytes())
            except FileNotFoundError:
                return False
            # Of another run whose folder was removed: a task may go on after its command was ended.
            if outcome.get("run", self.started_at_ms) != self.started_at_ms:
                return False
            sizes = outcome["sizes"]
            if not all(
                _size_of(self.folder / name) == size
                for name, size in zip(self._files_of(step, number), sizes, strict=True)
                if name.startswith(folders)
            ):
                return False
            self._whole.add(looked_at)
        return True

    def _has_outputs(self, *steps: str) -> bool:
        """Return whether the run has ended, and all that users read of these steps is there."""
        tasks = product(steps, range(self.references, len(self.inputs)))
        return self.summary.exists() and all(
            self._is_whole(step, number, OUTPUTS) for step, number in tasks
        )

    def has_ended(self, state: RunState | None) -> bool:
        """
        Return whether nothing is left to do: all outputs are there, and the state has the run, or
        has gone on from it so far that it has forgotten it.

        Raises StopError: the state is that of other runs, which did not go on from this one.
        """
        steps = ("verdicts", "copy") if self.options.keep else ("verdicts",)
        return (
            self._has_outputs(*steps)
            and (self.folder / "damage.jsonl").exists()
            and (state is None or self.said["again"] or self._is_known_to(state))
        )

    def _is_known_to(self, state: RunState) -> bool:
        """
        Return whether a state has this run, or may have forgotten it.

        Raises StopError: it knows all of its runs, and has not gone on from this one.
        """
        if newest(state.folder) is None:
            return False
        return state.has_forgotten or self.is_state_kept(state)

    def verdict_files(self) -> list[Path]:
        """
        Return the files of the verdicts of a run that has ended.

        Raises StopError: it has not, or one of them is gone.
        """
        if not self._has_outputs("verdicts"):
            raise StopError(
                f"{self.folder} is a run of `archive` that has not ended, or has lost verdicts: "
                "run it again, and it writes what is missing"
            )
        numbers = range(self.references, len(self.inputs))
        return [self.folder / self._files_of("verdicts", number)[0] for number in numbers]

    def results(self, step: str) -> list[dict[str, Any]]:
        """Return the results of a step's tasks, in their order."""
        numbers = sorted(self.done(step))
        return [json.loads(self._done_file(step, number).read_bytes()) for number in numbers]

    @property
    def is_judged(self) -> bool:
        """Whether the judge has ended."""
        legs = self.results("judge")
        return bool(legs) and legs[-1]["next_leg"] is None

    def is_state_kept(self, state: RunState) -> bool:
        """
        Return whether the state contains the results of this run's judge.

        Raises StopError: another run has gone on from the state since this one began.
        """
        at = format_timestamp(self.started_at_ms)
        if self.said["again"] or any(
            (earlier.command, earlier.at) == ("archive", at) for earlier in state.runs
        ):
            return True
        result = newest(self.folder / "judge") if self.is_judged else None
        return state.has_taken(result, self.said["base"], self.folder)

    def take_base(self, state: RunState | None) -> None:
        """
        Copy the snapshot from which the run continues, once, so that later changes of the state do
        not matter.

        Raises StopError: the state has changed before it was copied.
        """
        if state is None:
            return
        is_kept = self.is_state_kept(state) and not self.said["again"]
        if not is_kept and self.said["base"] is not None and newest(self.path("judge", "")) is None:
            state.give_base(self.said["base"], self.folder)

    def keep_state(self, state: RunState) -> None:
        """Put the judge's last snapshot into the state, from which later runs continue."""
        if not self.is_state_kept(state):
            result = newest(self.folder / "judge")
            if result is None:
                raise StopError(
                    f"{self.folder / 'judge'} has lost its snapshots, and the state {state.folder} "
                    "has none of them: begin another run, with another --output"
                )
            state.take(result)

    @property
    def identity(self) -> RunIdentity:
        """The facts by which a later run is recognised as the same one."""
        return _identity_of(self.folder, self.said)

    def header(self) -> dict[str, Any]:
        """Return the fields of the state's header that name this run, and those before it."""
        read = [FileDigest(*result["digest"]) for result in self.results("rows")]
        begin = self.references
        ended = FinishedRun.of(
            self.identity, read[begin:], read[:begin], self.said["base"], {}, self.started_at_ms
        )
        return header_with([*runs_in(self.said), ended])

    @cached_property
    def firsts(self) -> list[int]:
        """
        The number of each input's first document, and that of the one behind the last. Known once
        all rows are there.
        """
        return [
            *accumulate(orjson.loads((self.folder / "rows.json").read_bytes()), initial=self.first)
        ]

    @property
    def places(self) -> Inputs:
        """The places of all documents. Known once all rows are there."""
        begins = [first - self.first for first in self.firsts[:-1]]
        return Inputs(self.first, 0, self.first, begins, are_files=True)


def _size_of(path: Path) -> int | None:
    """Return the size of a file; None if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _identity_of(folder: Path, said: Mapping[str, Any]) -> RunIdentity:
    """Return what makes a run the same as one that says so."""
    files = [FileMark(one[0], tuple(one)) for one in said["inputs"]]
    return RunIdentity(
        "archive",
        FileOptions(**said["options"]).identity(said["settings"]["document_bytes_max"]),
        [str(folder)],
        files[: said["references"]],
        files[said["references"] :],
        said["state"],
        said["rules"],
        said["settings"],
        said["version"],
    )


def begin(  # what the command was given
    folder: Path,
    inputs: Sequence[FileStamp],
    options: FileOptions,
    settings: Settings,
    state: RunState | None,
    tell: Callable[[str], None] = tell_nobody,
    references: Sequence[FileStamp] = (),
    task_memory: int | None = None,
) -> Run:
    """
    Return the run of a folder: a new one, or the same one if it was begun there.

    Args:
        state: the run goes on where its newest snapshot ends.
        tell: is called with what the state knows of the run, if it knows something.
        references: files that are only matched against. They are read before the inputs.
        task_memory: bytes that a task may take; the judge takes what it needs, if left out. It may
            be another limit than at the beginning.
    Raises:
        StopError: a file is an input and a reference; the folder has files of another run, or of
            something else; the state cannot be gone on from; a limit of memory means nothing.
    """
    _check_rules(settings, task_memory)
    check_references([one.path for one in inputs], [one.path for one in references])
    inputs = [*references, *inputs]
    folders = {"--output": folder, "--state": None if state is None else state.folder}
    check_places([one.path for one in inputs], [], folders)
    wanted: dict[str, Any] = {
        "format": FORMAT,
        "version": version("neardup"),
        "rules": _rules(settings),
        "settings": settings.model_dump(mode="json", include={*DECIDING, *LIMITS}),
        "options": options._asdict(),
        "state": None if state is None else str(state.folder.resolve()),
        "inputs": [list(one) for one in inputs],
        "references": len(references),
    }
    limits = {"task_memory": task_memory}
    manifest = folder / "run.json"
    if manifest.exists():
        run = Run.load(folder)
        _check_same(run, wanted)
        run.remove_parts()
        if run.task_memory != task_memory:
            run = Run(folder, {**run.said, **limits})
            check_limit(run)
            run.write()
    else:
        # A run of which nothing could be judged has left its list of damage.
        if folder.exists() and any(
            not path.name.endswith(".part") and path.name not in (".lock", "damage.jsonl")
            for path in folder.iterdir()
        ):
            raise StopError(
                f"{folder} is not empty, and no run of `neardup archive`: name another --output"
            )
        started = {
            "started_at_ms": time.time_ns() // 1_000_000,
            "choice_key": f"{secrets.randbits(KEY_BITS):x}",
        }
        start = _start(_identity_of(folder, wanted), settings, state, tell)
        run = Run(folder, wanted | start | started | limits)
        check_limit(run)
        folder.mkdir(parents=True, exist_ok=True)
        run.write()
    if not run.summary.exists():
        run.take_base(state)
    return run


def check_limit(run: Run) -> None:
    """
    Raise StopError if a task's memory is limited, and so little is not enough for the first leg.

    Later legs need more, by the number of originals that nobody knows yet (`legs.plan`).

    As long as the number of documents has to choose the search, nothing needs less memory than the
    default one.
    """
    if run.task_memory is None:
        return
    is_chosen = run.said["search"] is not None or (run.folder / "rows.json").exists()
    try:
        search = (run.judging if is_chosen else run.settings).search
        planner.leg_sizes(search, run.task_memory, 0)
    except ValueError as error:
        raise StopError(str(error)) from error


def _start(
    identity: RunIdentity,
    settings: Settings,
    state: RunState | None,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Return from where a new run goes on, as `Run.said` has it."""
    base, first, search = _base_of(None if state is None else state.start, settings)
    if state is not None:
        state.find(identity, tell)
        if state.again is not None:
            base, first, search = _base_of(state.start, settings)
    return {
        "base": None if base is None else digest_at(base),
        "first": first,
        "search": search,  # the settings that were chosen besides those given; null until then
        "again": state is not None and state.again is not None,  # the state has its results
        **({} if state is None else header_with(state.runs)),
    }


def _rules(settings: Settings) -> dict[str, Any]:
    return {
        **orjson.loads(orjson.dumps(settings.rules.rules)),
        "hash": f"{settings.rules.hash:016x}",
    }


def _check_same(run: Run, wanted: Mapping[str, Any]) -> None:
    """Raise StopError if a run is another one than what is wanted."""
    differing = differences(run.identity, _identity_of(run.folder, wanted))
    if differing:
        raise StopError(
            f"{run.folder} has the files of another run: {'; '.join(differing)}. Name another "
            f"--output, or move that folder away"
        )


def _check_rules(settings: Settings, task_memory: int | None) -> None:
    """
    Raise StopError for rules by which verdicts decide who leaves, or the time of the reading does;
    and for a limit of memory where only one task can search.
    """
    if task_memory is not None and settings.search.mode == "exact":
        raise StopError(
            "with an exact search one task judges, whatever its memory: leave --task-memory out"
        )
    for name, why in (
        (
            "recrawls",
            "which versions leave depends on verdicts, and several judges could not know them",
        ),
        ("expire_after_s", "files have no clock: what is read today would all have come today"),
        ("documents_max", "who leaves depends on verdicts, and several judges could not know them"),
    ):
        value = getattr(settings, name)
        default = Settings.model_fields[name].default
        if value != default:
            raise StopError(
                f"archive cannot judge with {name} = {value}: {why}. Leave it out, "
                "or use `neardup dedup`"
            )


def _base_of(
    base: Path | None, settings: Settings
) -> tuple[Path | None, int, dict[str, str] | None]:
    """
    Return the snapshot to go on from, the number of the next document, and `Run.said["search"]`.

    Cost: the snapshot's checksum.
    """
    is_given = settings.search_mode != "directed" or CHOSEN in settings.model_fields_set
    if base is None:
        return None, 0, {} if is_given else None
    try:
        header, arrays = unpack(map_file(base))
        if LogIdentity.of(header) != LOG:
            raise StopError("it is a worker's state, which only its group continues")  # noqa: TRY301
        declared = LogDefinition(*header["definition"])
        search: dict[str, str] = {}
        if not is_given and declared.rules.get("search_mode") == settings.search_mode:
            search = {CHOSEN: planner.size_text(SearchRules.of_settings(declared.rules))}
        definition = settings.model_copy(update=search).rules
        definition.with_base_of(declared).check(declared, f"the snapshot {base}")
    except DefinitionError as error:
        raise error.with_remedy(STATE_REMEDY) from error
    except Exception as error:
        raise StopError(f"cannot go on from {base}: {error}") from error
    return base, int(max(arrays["coverage.stops"], default=0)), search
