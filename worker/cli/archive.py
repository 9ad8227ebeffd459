"""
`neardup archive`: batch deduplication on Spark, with the verdicts of `neardup dedup`, on any number
of machines.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from worker.cli.options import ROWS, with_settings
from worker.cli.progress import counted
from worker.cli.reading import Reading
from worker.cli.shared import (
    STDIN,
    KeepOption,
    PerClusterOption,
    PreferOption,
    QuietOption,
    ReferenceOption,
    StateOption,
    SummaryOption,
    notice,
    option,
    tell_of_ids,
)
from worker.errors import StopError, install_extra
from worker.settings import Settings
from worker.signals import ended_in_time

if TYPE_CHECKING:
    from worker.shell.archive.run import Run
    from worker.shell.files.state import RunState

FORMATS = Literal["jsonl.zst", "jsonl.gz", "jsonl", "csv", "parquet"]
TaskMemoryOption = Annotated[
    str | None, option("Memory of a task, like 8G. [default: what the judge needs]", "BYTES")
]


@with_settings("definition", *ROWS)
def archive(  # noqa: PLR0913, PLR0917  # each is an option
    settings: Settings,
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="PATH",
            help="A file, folder, URL, or name with *. Repeatable.",
        ),
    ],
    output: Annotated[Path, option("A folder that all tasks can see.", "DIR")],
    reference: ReferenceOption = None,
    spark: Annotated[
        str | None, option("Your Spark 4. [default: an engine on this machine]", "sc://HOST:PORT")
    ] = None,
    state: StateOption = None,
    task_memory: TaskMemoryOption = None,
    format_: Annotated[
        FORMATS,
        typer.Option("--format", metavar="FORMAT", help="Also jsonl, jsonl.gz, csv, parquet."),
    ] = "jsonl.zst",
    keep: KeepOption = None,
    duplicates: Annotated[
        bool,
        typer.Option("--duplicates", help="With --keep: also write the removed documents."),
    ] = False,
    prefer: PreferOption = "first",
    per_cluster: PerClusterOption = 1,
    *,
    reading: Reading,
    quiet: QuietOption = False,
    as_json: SummaryOption = False,
) -> None:
    """
    Deduplicate a large collection of files on Spark, with the verdicts of `dedup`.

    Tasks make rows of each file, judge them and write verdicts. To continue, run it again.
    """
    from worker.cli.plan import bytes_of  # noqa: PLC0415
    from worker.shell.archive.run import begin, find_inputs  # noqa: PLC0415
    from worker.shell.files.account import told_of  # noqa: PLC0415
    from worker.shell.files.places import check_outside, check_places, tell_nobody  # noqa: PLC0415
    from worker.shell.files.state import opened_state  # noqa: PLC0415

    _check_spark(spark)
    named = [*inputs, *(reference or [])]
    check_outside(named, [], [output] if state is None else [output, state])
    check_places([], [output], {"--state": state})
    _check_folders(output, state)
    options = reading.options(
        keep, prefer, duplicates=duplicates, format=format_, per_cluster=per_cluster
    )
    task_bytes = bytes_of(task_memory, "--task-memory")
    started = time.monotonic()
    with ExitStack() as stack:
        last = stack.enter_context(ended_in_time())
        stack.enter_context(_locked_folder(output))
        known = None if state is None else stack.enter_context(opened_state(state))
        files = find_inputs(inputs, notice)
        matched = find_inputs(reference or [], notice)
        reading.check_columns([file.path for file in files])
        reading.check_columns([file.path for file in matched])
        tell = tell_nobody if quiet else notice
        run = begin(output.resolve(), files, options, settings, known, tell, matched, task_bytes)
        summary = _finish(run, known, spark, settings.threads, last, quiet=quiet)
    summary["seconds"] = round(time.monotonic() - started, 3)
    if as_json:
        typer.echo(json.dumps(summary))
    elif not quiet:
        notice(f"{output}: {told_of(summary)}")


def _check_spark(url: str | None) -> None:
    """Refuse what Spark Connect would say does not answer, after the inputs have been read."""
    if url is not None and not url.startswith("sc://"):
        raise typer.BadParameter(f"--spark must be like sc://HOST:15002, got {url!r}")


def _check_folders(output: Path, state: Path | None) -> None:
    """Raise StopError if the output can be no folder, or if the state would be among its files."""
    from worker.shell.files.places import real_path  # noqa: PLC0415

    if output == STDIN:  # "-"
        raise StopError("the output of archive is a folder, and stdout is none: name a folder")
    places = (output, *output.parents)
    there = next(place for place in places if os.path.exists(place))  # noqa: PTH110  # never raises
    if not there.is_dir():
        raise StopError(
            f"{output} cannot be a folder, because {there} is a file: name another --output"
        )
    if state is not None and real_path(state).is_relative_to(real_path(output)):
        raise StopError(
            f"{state} lies in {output}, which --output names, and which has the files of this run "
            "alone: name another --state"
        )


@contextmanager
def _locked_folder(output: Path) -> Iterator[None]:
    """
    Hold the lock of the output's folder, which is made unless it is there.

    Raises:
        StopError: it cannot be made, or another process has it.
    """
    from worker.shell.checkpoint import locked  # noqa: PLC0415

    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StopError(
            f"{output} cannot be made ({error.strerror}): name another --output"
        ) from error
    with locked(output):
        yield


def _finish(
    run: Run,
    state: RunState | None,
    spark: str | None,
    threads: int,
    last: list[Callable[[], None]],
    *,
    quiet: bool,
) -> dict[str, Any]:
    """
    Do the rest of a run, if there is any. Returns its summary.

    Args:
        last: what a process that a signal ends in haste does before; see `ended_in_time`.
    """
    from worker.shell.archive.server import kill_servers  # noqa: PLC0415

    if not run.has_ended(state):
        if run.summary.exists():
            run.take_base(state)
            if not quiet:
                notice(
                    f"{run.folder} has ended before, and files of it or of --state are gone: they "
                    "are written again"
                )
        last += [kill_servers, run.remove_parts]
        _work(run, state, spark, threads, quiet=quiet)
    summary: dict[str, Any] = json.loads(run.summary.read_bytes())
    return summary


def _work(
    run: Run, state: RunState | None, spark: str | None, threads: int, *, quiet: bool
) -> None:
    """Do what is left of a run, with an engine that is gone afterwards, and so are half files."""
    try:
        from worker.shell.archive.steps import engine, judge_all, make_all_rows  # noqa: PLC0415
    except ImportError as error:
        raise StopError(f"archive needs {error.name}: {install_extra('archive')}") from None
    from worker.shell.files.repeats import Repeats  # noqa: PLC0415

    with ExitStack() as stack:
        stack.callback(run.remove_parts)  # when the engine is gone
        try:
            tasks = stack.enter_context(engine(spark, threads))
            tasks.check(run)
        except BaseException:
            run.remove_unless_begun()
            raise
        with counted("bytes", quiet=quiet) as tell:
            make_all_rows(run, tasks, tell)
        if not quiet:
            _say_search(run)
        with counted("documents", quiet=quiet) as tell:
            judge_all(run, tasks, tell, threads, state)
    if not quiet:
        named_apart = run.results("judge")[-1]["named_apart"]
        found = [Repeats(*result["repeats"]) for result in run.results("ids")]
        repeats = Repeats(*map(sum, zip(*found, strict=True)))
        tell_of_ids(repeats, named_apart, run.options.id_column)


def _say_search(run: Run) -> None:
    """Say by which search the rows will be judged, if it is not the default, and if it is small."""
    from worker.core.planner import Growth, archive_originals, line_of  # noqa: PLC0415

    rules = run.judging.search
    if run.said["search"] is None and rules != run.settings.search:
        typer.echo(f"the search for so many documents: {line_of(rules)}", err=True)
    growth = Growth(rules, "in another folder with")
    notice = growth.notice(archive_originals(run.firsts[-1]))
    if notice:
        typer.echo(f"if half of the documents are copies, {notice}", err=True)
