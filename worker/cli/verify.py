"""`neardup verify`: each document has one answer, and it is the log's; exit code 0 only if that holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import orjson
import typer

from worker.cli import app
from worker.cli.columns import printable
from worker.cli.lines import QuietOption
from worker.cli.options import with_cluster
from worker.cli.progress import counted
from worker.settings import DECIDING, Settings
from worker.settings.connection import TOPICS

if TYPE_CHECKING:
    from worker.shell.admin.findings import Report


@app.command()
@with_cluster(*TOPICS, "group", *DECIDING)
def verify(
    settings: Settings,
    output: Annotated[
        Literal["table", "json"], typer.Option("--format", help="A table for people, or one JSON object.")
    ] = "table",
    documents: Annotated[
        bool, typer.Option(help="Read the documents too; without, the log says which there are.")
    ] = True,
    quiet: QuietOption = False,
) -> None:
    """
    Replay the log and report what is lost, repeated or wrong in the topics.

    The workers may run or not. Documents that no worker has committed yet are unanswered, which is no defect. Exit
    code 1 if there is a defect.
    """
    from worker.shell.admin.verify import verify as run  # noqa: PLC0415

    with counted("messages", quiet=quiet) as tell:
        report = run(settings, read_documents=documents, on_progress=tell)
    if output == "json":
        typer.echo(orjson.dumps(report.to_dict()))
    else:
        _print(report)
    if not report.clean:
        raise typer.Exit(1)


def _print(report: Report) -> None:
    rows = {
        "documents": report.documents,
        "answered": report.answered,
        **{f"  {name}": count for name, count in report.outcomes.items()},
        "unanswered, not committed yet": report.unanswered,
        "answers deleted by retention": report.expired,
        **({} if report.new_documents is None else {"topic of new documents: messages": report.new_documents}),
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
        typer.echo(printable(f"{finding.defect.value}: {where}{finding.text}"))
    typer.echo(conclusion(report))


def conclusion(report: Report) -> str:
    """Return in a line what the counts mean."""
    if not report.clean:
        return "NOT CLEAN"
    if report.unanswered:
        return f"what is answered is answered once, as the log says; {report.unanswered:,} documents wait for a worker"
    return "every document is answered once, as the log says"
