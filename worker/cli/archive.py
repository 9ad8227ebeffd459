"""
`neardup archive`: a corpus at rest, on Spark: the verdicts of `neardup dedup`, by as many machines
as there are.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from worker.cli.options import DOCUMENTS, ENGINE, with_settings
from worker.cli.shared import FetchedAtOption, QuietOption, counted, option, printable
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.shell.archive.run import Run
    from worker.shell.archive.steps import Engine

END_S = 1.5  # from the first signal on
_ENDINGS = (signal.SIGINT, signal.SIGTERM)
FORMATS = Literal["jsonl.zst", "jsonl.gz", "jsonl", "csv", "parquet"]


@with_settings(*ENGINE, *DOCUMENTS, "record_bytes_max")
def archive(  # noqa: PLR0913, PLR0917  # each is an option
    settings: Settings,
    inputs: Annotated[
        list[str],
        typer.Option("--input", metavar="PATH", help="A file, a folder, a URL; with * many."),
    ],
    output: Annotated[Path, option("A folder that all tasks see.", "DIR")],
    spark: Annotated[
        str | None, option("Spark 4; by default one of our own.", "sc://HOST:PORT")
    ] = None,
    state: Annotated[Path | None, option("Go on where the last run with it ended.", "DIR")] = None,
    format_: Annotated[
        FORMATS,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Of verdicts: jsonl, jsonl.gz, jsonl.zst, csv, parquet.",
        ),
    ] = "jsonl.zst",
    keep: Annotated[
        Literal["new", "revisits"] | None,
        option("Copy the documents that stay, too.", "new|revisits"),
    ] = None,
    duplicates: Annotated[
        bool, typer.Option("--duplicates", help="With --keep: all others, too.")
    ] = False,
    prefer: Annotated[
        Literal["first", "longest", "newest"],
        option("With --keep: of each cluster.", "first|longest|newest"),
    ] = "first",
    fetched_at: FetchedAtOption = None,
    id_column: Annotated[
        str | None, option("Of Parquet, JSON Lines, CSV: the doc_id.", "NAME")
    ] = None,
    text_column: Annotated[
        str | None, option("Of Parquet, JSON Lines, CSV: the text.", "NAME")
    ] = None,
    quiet: QuietOption = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="The summary as JSON, on stdout.")
    ] = False,
) -> None:
    """
    Judge a corpus at rest on Spark, with the verdicts of `dedup` in order.

    A task a file makes rows, one task judges them, a task a file writes verdicts. Run again, it
    goes on where it ended.
    """
    from worker.shell.archive.run import Options, begin, find_inputs  # noqa: PLC0415
    from worker.shell.archive.steps import engine  # noqa: PLC0415
    from worker.shell.checkpoint import locked  # noqa: PLC0415

    if keep is None and (duplicates or prefer != "first"):
        raise typer.BadParameter("--duplicates and --prefer want --keep new")
    if keep == "revisits" and prefer != "first":
        raise typer.BadParameter(
            "--keep revisits names originals, the first of their clusters: leave --prefer out"
        )
    options = Options(format_, keep, prefer, duplicates, fetched_at, id_column, text_column)
    started = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(ended_by_signals())
        stack.enter_context(locked(output))
        if state is not None:
            stack.enter_context(locked(state))
        run = begin(output.resolve(), find_inputs(inputs), options, settings, state)
        if not (run.folder / "summary.json").exists():
            stack.callback(run.remove_parts)  # when the engine is gone
            tasks = stack.enter_context(engine(spark, settings.threads))
            tasks.check(run)
            _run_steps(run, tasks, settings.threads, quiet)
        summary = json.loads((run.folder / "summary.json").read_bytes())
    summary["seconds"] = round(time.monotonic() - started, 3)
    if as_json:
        typer.echo(json.dumps(summary))
    elif not quiet:
        typer.echo(printable(f"{output}: {_said(summary)}; {summary['seconds']:.1f} s"), err=True)


def _run_steps(run: Run, tasks: Engine, threads: int, quiet: bool) -> None:
    """Make the rows, and judge them with so many threads."""
    from worker.shell.archive.steps import judge_all, make_all_rows  # noqa: PLC0415

    with counted("bytes", quiet=quiet) as tell:
        make_all_rows(run, tasks, tell)
    if not quiet:
        _say_search(run)
    with counted("documents", quiet=quiet) as tell:
        judge_all(run, tasks, tell, threads)


def _say_search(run: Run) -> None:
    """Say by which search the rows will be judged, if it is not the default, and if it is small."""
    from worker.core.planner import Growth, archive_originals, flags_of  # noqa: PLC0415

    rules = run.judging.search
    if run.said["search"] is None and rules != run.settings.search:
        typer.echo(f"the search for so many documents: {flags_of(rules)}", err=True)
    growth = Growth(rules, "in another folder with")
    notice = growth.notice(archive_originals(run.firsts[-1]))
    if notice:
        typer.echo(f"if half of the documents are copies, {notice}", err=True)


def _said(summary: dict[str, Any]) -> str:
    left_out = (
        ", ".join(f"{count:,} {reason}" for reason, count in sorted(summary["left_out"].items()))
        or "none"
    )
    outcomes = ", ".join(f"{count:,} {name}" for name, count in sorted(summary["outcomes"].items()))
    kept = "" if summary["kept"] is None else f"; {summary['kept']:,} kept"
    damaged = f"{summary['damaged']:,} damaged records (damage.jsonl)"
    return f"{summary['documents']:,} documents, {damaged}, left out: {left_out}; {outcomes}{kept}"


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """
    Have Ctrl-C or SIGTERM end the process in END_S, with 130 or 143, and a second one at once.

    The first raises KeyboardInterrupt, so that the terminal and the folder are left in order.
    Nothing else is waited for: the client of Spark has threads that talk to a server which may be
    gone, and Python would wait for them at its end. A library can also swallow the exception, or be
    deep in a call that does not return, so a thread of our own hears of signals, too, and ends the
    process when the time is over.
    """
    told: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        told.append(number)
        raise KeyboardInterrupt

    heard, hears = os.pipe()
    os.set_blocking(hears, False)
    # A shell has its background processes ignore Ctrl-C.
    numbers = [number for number in _ENDINGS if signal.getsignal(number) != signal.SIG_IGN]
    former = {number: signal.signal(number, interrupt) for number in numbers}
    former_wakeup = signal.set_wakeup_fd(hears, warn_on_full_buffer=False)
    threading.Thread(target=_end_in_time, args=(heard,), daemon=True).start()
    try:
        yield
    finally:
        if told:
            _end(told[0])
        signal.set_wakeup_fd(former_wakeup)
        for number, handler in former.items():
            signal.signal(number, handler)
        os.close(hears)


def _end_in_time(heard: int) -> None:
    """
    End the process END_S after the first signal, and at the second; return when nobody writes any
    more.
    """
    with os.fdopen(heard, "rb", buffering=0) as signals:
        while number := signals.read(1):
            if number[0] in _ENDINGS:
                select.select([signals], [], [], END_S)
                _end(number[0])


def _end(number: int) -> None:
    from worker.shell.runtime import logging  # noqa: PLC0415

    logging.end("interrupted" if number == signal.SIGINT else "terminated")
    sys.stderr.flush()
    os._exit(128 + number)
