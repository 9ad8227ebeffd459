"""
The commands of a group of workers: `neardup worker`, `topics`, `feed`, `rebuild`, `verify`; and
`warm-up`, for its image.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.console import Console

from worker.cli import group_of_commands, shared
from worker.cli.options import with_cluster, with_settings
from worker.cli.progress import counted
from worker.cli.reading import Reading
from worker.errors import StopError
from worker.settings import SETTINGS, TOPICS, Settings

if TYPE_CHECKING:
    from worker.shell.admin.audit import Report
    from worker.shell.admin.rebuild import RebuildPlan
    from worker.shell.files.archives import Record
    from worker.shell.kafka.topics import Problem
    from worker.shell.ports import Outgoing

topics = group_of_commands("topics")


@with_settings(*(name for name in SETTINGS if name not in ("partitions", "replication_factor")))
def worker(
    settings: Settings,
    until_stdin_ends: Annotated[
        bool,
        typer.Option(
            "--until-stdin-ends",
            help=(
                "End when stdin is closed, "
                "so that the worker does not outlive the process that started it."
            ),
        ),
    ] = False,
) -> None:
    """
    Judge documents as a member of the group: one verdict per document.

    The worker commits a verdict and its source offset in one transaction. SIGTERM and Ctrl-C end it
    cleanly. Run one worker per machine; each needs its own --worker-id.
    """
    from worker.shell.pipeline.service import run  # noqa: PLC0415

    if until_stdin_ends:
        threading.Thread(target=_end_with_stdin, name="stdin", daemon=True).start()
    stop = threading.Event()
    listen = partial(_stop_on_signals, stop)
    run(settings, stop, on_serving=listen, on_refused=listen)


def _stop_on_signals(stop: threading.Event) -> None:
    """Have SIGTERM and Ctrl-C set `stop` from now on: the worker has something to end cleanly."""
    from structlog import get_logger  # noqa: PLC0415

    received: list[int] = []

    def handle(number: int, _frame: object) -> None:
        received.append(number)
        stop.set()

    # Not in the handler: the line that it interrupts may hold the lock of the log's stream.
    def tell() -> None:
        stop.wait()
        if received:  # `rebuild` also sets `stop` itself, once everything is answered
            get_logger(__name__).info("stopping", signal=signal.Signals(received[0]).name)

    threading.Thread(target=tell, name="stopping", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def _end_with_stdin() -> None:
    while os.read(0, 4096):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@topics.command()
@with_cluster(*TOPICS, "partitions", "replication_factor", "document_bytes_max")
def create(settings: Settings) -> None:
    """Create the topics that are missing, with the right settings; then check all."""
    from worker.shell.kafka.admin import Admin  # noqa: PLC0415
    from worker.shell.kafka.topics import create_topics, other_partitions  # noqa: PLC0415

    admin = Admin(settings)
    for name, was_missing in create_topics(admin, settings).items():
        typer.echo(f"{name}: {'created' if was_missing else 'exists'}")
    is_asked = "partitions" in settings.model_fields_set
    _check(settings, other_partitions(admin, settings) if is_asked else [])


@topics.command()
@with_cluster(*TOPICS, "document_bytes_max")
def check(settings: Settings) -> None:
    """Say what is wrong with the topics and how to fix it; exit code 1 if it stops a worker."""
    _check(settings)


@topics.command()
@with_cluster()
def alter(
    settings: Settings,
    topic: Annotated[str, typer.Argument(help="Name of the topic.")],
    pairs: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE…", help="Settings, as Kafka names them.")
    ],
) -> None:
    """
    Change some of a topic's settings, as `topics check` advises; the others stay the same.

    partitions=NUMBER adds partitions.
    """
    from worker.shell.kafka.admin import Admin  # noqa: PLC0415
    from worker.shell.kafka.topics import PARTITIONS  # noqa: PLC0415

    for pair in pairs:
        if not all(pair.partition("=")):
            raise typer.BadParameter(f"must be NAME=VALUE, got {pair!r}", param_hint="NAME=VALUE")
    config = dict(pair.split("=", 1) for pair in pairs)
    partitions = config.pop(PARTITIONS, None)
    if partitions is not None and not (partitions.isdecimal() and 0 < int(partitions) < 1 << 31):
        raise typer.BadParameter(
            f"must be a number from 1 on, got {partitions!r}", param_hint=PARTITIONS
        )
    if partitions is not None and topic == settings.topic_fingerprints:
        raise typer.BadParameter(
            "the log has one: it gives all fingerprints one order", param_hint=PARTITIONS
        )
    admin = Admin(settings)
    if config:
        admin.alter(topic, config)
        typer.echo(f"{topic}: {', '.join(f'{name}={value}' for name, value in config.items())}")
    if partitions is not None:
        admin.add_partitions(topic, int(partitions))
        typer.echo(f"{topic}: {PARTITIONS}={partitions}")


def _check(settings: Settings, known: Sequence[Problem] = ()) -> None:
    """Print what is wrong with the topics, and what is known already."""
    from worker.shell.kafka.admin import Admin  # noqa: PLC0415
    from worker.shell.kafka.topics import check_topics  # noqa: PLC0415

    problems = [*known, *check_topics(Admin(settings), settings)]
    for problem in problems:
        typer.echo(f"{'error' if problem.fatal else 'warning'}: {problem}")
    if not problems:
        typer.echo("all topics are as they should be")
    if any(problem.fatal for problem in problems):
        raise typer.Exit(1)


@with_cluster("topic_documents")
def feed(
    settings: Settings,
    files: shared.FilesArgument,
    *,
    reading: Reading,
    as_json: shared.SummaryOption = False,
    quiet: shared.QuietOption = False,
    rate: Annotated[
        float,
        typer.Option(
            help="Most documents to send per second; 0 is no limit.",
            min=0,
            show_default="no limit",
        ),
    ] = 0,
) -> None:
    """
    Send crawler output to the topic of documents.

    Damaged records are named and counted, and all others are sent. Exit code 1 if a document could
    not be delivered, or if there was none.
    """
    from worker.shell.files.inputs import Inputs  # noqa: PLC0415
    from worker.shell.kafka.feeding import FED_BODY_BYTES_MAX, feed_documents  # noqa: PLC0415

    crawl = reading.open(reading.files(files), body_max=FED_BODY_BYTES_MAX)
    # No other run has fed documents with its names.
    crawl.begin(Inputs(secrets.randbits(62), number=0, offset=0))
    started = time.monotonic()
    records = with_bodies_told(shared.tracked(crawl, "feeding", quiet=quiet))
    outcome = feed_documents(settings, records, rate)
    seconds = max(time.monotonic() - started, 1e-9)
    if as_json:
        told = crawl.tally.counts() | {"delivered": outcome.delivered, "failed": outcome.failures}
        typer.echo(json.dumps(told | {"seconds": round(seconds, 3)}))
    elif not quiet:
        typer.echo(
            f"{crawl.tally.told()}; {outcome.delivered:,} delivered in {seconds:.1f} s", err=True
        )
    for reason in outcome.failed:
        shared.notice(f"not delivered: {reason}")
    if outcome.failures:
        raise typer.Exit(1)
    if not outcome.delivered:
        raise StopError(
            "nothing was fed: these files have no document that can be read. Name others, or check "
            "their format"
        )


def with_bodies_told(records: Iterable[Record]) -> Iterator[Record]:
    """
    Yield records, and say at the end how many have no body: no worker can judge one.

    A value that never says a body's name has none. Pages of archives are not looked at.
    """
    from worker.shell.files.archives.column_names import names_a_body  # noqa: PLC0415

    without = 0
    first = ""
    for record in records:
        if isinstance(record.content, bytes) and not names_a_body(record.content):
            without += 1
            first = first or record.place
        yield record
    if without:
        shared.notice(
            f"warning: without text, html or body_base64, so that they become dead letters: "
            f"{without:,}, first {first}. --text-column names the field that has the text"
        )


@with_cluster(*SETTINGS)
def rebuild(settings: Settings, quiet: shared.QuietOption = False) -> None:
    """
    Judge all documents again, with other parameters and into a new log.

    Give the deployment's present topics and the new parameters. The names of the new group, log and
    topics end in the hash of the parameters, so the same command continues where it was ended. It
    ends when it has judged all documents that were there at its start, and prints the settings for
    the new workers and subscribers.
    """
    from worker.shell.admin import rebuild as shell  # noqa: PLC0415
    from worker.shell.kafka.admin import Admin  # noqa: PLC0415

    plan = shell.plan(settings, Admin(settings))
    _say_what(plan, settings)
    stop = threading.Event()
    # Lines among those of the worker's log, which would tear a bar.
    console = Console(stderr=True, force_terminal=False)
    with counted("offsets", quiet=quiet, console=console) as tell:
        is_whole = shell.rebuild(
            plan, stop, partial(tell, "answering"), on_serving=partial(_stop_on_signals, stop)
        )
    if not is_whole:
        typer.echo(
            "ended before all documents were answered: the same command goes on from here", err=True
        )
        raise typer.Exit(1)
    typer.echo(_SWITCH, err=True)
    for line in plan.switch():
        typer.echo(line)


_SWITCH = """\
# all documents of the start are answered; now, in this order:
# 1. start workers with these settings; they answer what has come since
# 2. let subscribers go on in the new topic of verdicts, each source offset where they stopped
# 3. end the old workers; keep their log and answers as long as you may want to go back"""


def _say_what(plan: RebuildPlan, settings: Settings) -> None:
    new = plan.settings
    typer.echo(f"from {settings.topic_documents}: {sum(plan.stops.values()):,} offsets", err=True)
    if plan.missing:
        gone = f"{plan.missing:,} documents have been deleted by retention"
        typer.echo(f"warning: {gone}; originals among them stay unknown", err=True)
    if plan.held_up:
        typer.echo(f"warning: {shared.held_up_line(plan.held_up)}", err=True)
    names = (new.topic_fingerprints, new.topic_verdicts, new.topic_dead_letter, new.topic_new)
    how = "created" if plan.created else "taken up again"
    told = f"into {', '.join(filter(None, names))} as group {new.group} ({how})"
    typer.echo(f"{told}; the old ones are not touched", err=True)


@with_cluster(*TOPICS, "group", "definition", "base_snapshot")
def verify(
    settings: Settings,
    as_json: shared.ObjectOption = False,
    documents: Annotated[
        bool, typer.Option(help="Also read the documents; otherwise take their list from the log.")
    ] = True,
    mend: Annotated[
        bool,
        typer.Option(
            "--mend", help="Publish lost verdicts that the log has; stop all workers first."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --mend: show the lost verdicts, write nothing.")
    ] = False,
    quiet: shared.QuietOption = False,
) -> None:
    """
    Replay the log and report any verdict that is lost, repeated or wrong.

    The workers may run meanwhile. Documents that no worker has committed yet are shown as
    unanswered, which is no defect. Two documents are mutual if each is called a duplicate of the
    other. Exit code 1 if there is a defect that --mend has not repaired, or if the group has
    offsets that no worker has committed.
    """
    from worker.shell.admin import verify as shell  # noqa: PLC0415

    if dry_run and not mend:
        raise typer.BadParameter("goes with --mend", param_hint="--dry-run")
    if mend:
        _mend(settings, as_json=as_json, documents=documents, dry_run=dry_run, quiet=quiet)
        return
    with counted("messages", quiet=quiet) as tell:
        report = shell.verify(settings, read_documents=documents, on_progress=tell)
    if as_json:
        shared.echo_json(orjson.dumps(report.to_dict()))
    else:
        _print(report)
    if not report.clean:
        raise typer.Exit(1)


_SHOWN_BYTES_MAX = 500  # shown bytes of an answer; a dead letter carries a whole document


def _mend(
    settings: Settings,
    *,
    as_json: bool,
    documents: bool,
    dry_run: bool,
    quiet: bool,
) -> None:
    """Do `verify --mend`: show what was found and what is missing, then publish that."""
    from worker.shell.admin.mend import mend  # noqa: PLC0415

    def show(report: Report, outgoing: Sequence[Outgoing]) -> None:
        if not as_json:
            _print(report)
            for message in outgoing:
                value = (message.value or b"")[:_SHOWN_BYTES_MAX].decode("utf-8", "replace")
                typer.echo(shared.printable(f"to publish: {message.topic}: {value}"))

    with counted("messages", quiet=quiet) as tell:
        done = mend(
            settings, dry_run=dry_run, read_documents=documents, on_found=show, on_progress=tell
        )
    if as_json:
        outcome = {"missing": len(done.missing), "is_published": done.is_published}
        shared.echo_json(orjson.dumps(done.report.to_dict() | {"mend": outcome}))
    elif done.is_published:
        typer.echo(f"{len(done.missing):,} answers published in one transaction")
    elif not done.missing:
        typer.echo("no answer is missing that the log has: nothing to publish")
    else:
        typer.echo(f"{len(done.missing):,} answers would be published: run it without --dry-run")
    if not done.is_clean:
        raise typer.Exit(1)


def _print(report: Report) -> None:
    rows = {
        "documents": report.documents,
        "answered": report.answered,
        **{f"  {name}": count for name, count in report.outcomes.items()},
        "unanswered, not committed yet": report.unanswered,
        "answers deleted by retention": report.expired,
        **({"answers of the log before, not compared": report.carried} if report.carried else {}),
        **(
            {}
            if report.new_documents is None
            else {"topic of new documents: messages": report.new_documents}
        ),
        "log: records": report.log_records,
        "log: rows": report.log_rows,
        "log: rows repeated, ignored": report.log_rows_repeated,
        **report.defects,
    }
    width = max(map(len, rows))
    for name, count in rows.items():
        typer.echo(f"{name:<{width}}  {count:>12,}")
    for finding in report.findings:
        where = f"[{finding.partition}] offset {finding.offset}: " if finding.partition >= 0 else ""
        typer.echo(shared.printable(f"{finding.defect.value}: {where}{finding.text}"))
    if report.held_up:
        typer.echo(shared.held_up_line(report.held_up))
    if report.foreign_offsets:
        typer.echo(shared.foreign_offsets_line(report.foreign_offsets))
    typer.echo(conclusion(report))


def conclusion(report: Report) -> str:
    """Return the meaning of the counts in one line."""
    if report.foreign_offsets:
        return "NOT CLEAN: offsets that no worker has committed do not say what is answered"
    if not report.clean:
        return "NOT CLEAN"
    if report.unanswered:
        return (
            "every answer is there once, as the log says; "
            f"{report.unanswered:,} documents wait for a worker"
        )
    return "every document is answered once, as the log says"


@with_settings("definition")
def warm_up(settings: Settings) -> None:
    """
    Compile every kernel now, and say where the machine code is stored.

    Kernels whose machine code came with the installation are loaded.
    It is stored in NUMBA_CACHE_DIR, otherwise next to the code, otherwise in your cache directory.
    If none of these can be written, each process compiles the kernels for itself.
    """
    begun = time.perf_counter()
    from worker.shell.runtime import kernels  # noqa: PLC0415

    kernels.ready(settings, everything=True)
    kept = kernels.kept_in()
    where = f"kept in {kept}" if kept is not None else _IN_MEMORY
    typer.echo(f"kernels ready in {time.perf_counter() - begun:.1f} s, {where}")


_IN_MEMORY = (
    "in memory only: nothing can be written to NUMBA_CACHE_DIR, beside the code, or to your cache "
    "directory, so each process compiles for itself. Set NUMBA_CACHE_DIR."
)
