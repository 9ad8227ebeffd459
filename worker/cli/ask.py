"""
`neardup ask`: the verdicts that documents would get now, from a worker, which stores nothing.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import orjson
import typer

from worker.cli import shared
from worker.cli.options import with_settings
from worker.cli.reading import Reading
from worker.cli.shared import (
    LinesOption,
    QuietOption,
    TableColumn,
    TableColumns,
    option,
)
from worker.cli.verdicts import cells
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.admin.seen_client import WAIT_S, SeenAnswer, SeenClient
from worker.shell.files.archives import Capture, Message, Record, Unreadable
from worker.shell.files.crawl import CrawlFiles, with_answers
from worker.shell.files.formats import INPUTS
from worker.shell.files.inputs import Inputs
from worker.shell.files.places import shown_name
from worker.shell.messages import verdict_of

_NOT_JUDGED = "not judged"


@with_settings("ask_token")
def ask(
    settings: Settings,
    worker: Annotated[
        str, option("A worker's metrics_port, or the URL of a proxy before it.", "HOST:PORT")
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(help=f"{INPUTS}; folders, names with *, URLs; - is stdin.", metavar="FILES"),
    ] = None,
    urls: Annotated[
        list[str] | None,
        typer.Option("--url", metavar="URL", help="The latest original of this URL. Repeatable."),
    ] = None,
    *,
    reading: Reading,
    as_json: LinesOption = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for a worker that is busy or replaying.", min=0)
    ] = WAIT_S,
    quiet: QuietOption = False,
) -> None:
    """
    Ask a worker which verdicts documents would get now. It stores nothing.

    The token is read from NEARDUP_ASK_TOKEN or --config, because other users can see flags. For a
    document that cannot be judged, a line gives the reason. Exit code 1 if none could be judged.
    """
    if bool(files) == bool(urls):
        raise typer.BadParameter("name one of the two", param_hint="FILES or --url")
    secret = settings.ask_token
    token = "" if secret is None else secret.get_secret_value()
    with SeenClient(worker, token, wait_s=wait) as client:
        if urls:
            _ask_urls(client, urls, as_json=as_json)
            return
        crawl = reading.open(reading.files(files or []))
        # As `feed`: the worker knows no document by its names.
        crawl.begin(Inputs(secrets.randbits(62), number=0, offset=0))
        _ask_files(client, crawl, as_json=as_json, quiet=quiet)


def _ask_urls(client: SeenClient, urls: list[str], *, as_json: bool) -> None:
    print_answer = _printer(
        TableColumns(TableColumn("fetched at", 24), TableColumn("doc_id"), TableColumn("url")),
        as_json=as_json,
    )
    for url in urls:
        answer = client.ask_url(url)
        original = answer.fields.get("original")
        if original is None:
            print_answer(answer.line, ["not seen", "", url])
        else:
            print_answer(answer.line, [original["fetched_at"], original["doc_id"], original["url"]])


def _ask_files(client: SeenClient, crawl: CrawlFiles, *, as_json: bool, quiet: bool) -> None:
    columns = TableColumns(
        TableColumn("verdict", 10),
        TableColumn("bits", 4, is_right=True),
        TableColumn("url"),
        TableColumn("duplicate of"),
    )
    print_answer = _printer(columns, as_json=as_json)
    outcomes: Counter[str] = Counter()
    first_problem = ""
    latest: Mapping[str, Any] = {}
    records = shared.tracked(crawl, "asking", quiet=quiet)

    def answers(messages: Iterator[Message]) -> Iterator[SeenAnswer]:
        return client.ask_documents(_value(content) for _, content in messages)

    for record, answer in with_answers(records, answers):
        if answer.is_problem:
            outcome = _NOT_JUDGED
            detail = answer.fields.get("detail", "")
            first_problem = first_problem or f"; {record.place}: {detail}"
            print_answer(_with_place(answer, record), [outcome, "", record.place, detail])
        else:
            outcome = answer.fields["verdict"]
            latest = answer.fields["as_of"]
            print_answer(answer.line, cells(verdict_of(answer.fields)))
        outcomes[outcome] += 1
    if outcomes.total() == outcomes[_NOT_JUDGED]:
        raise StopError(f"nothing could be judged: {crawl.tally.told()}{first_problem}")
    if not quiet:
        counts = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
        shared.notice(f"{crawl.tally.told()}; {counts}; {_as_of(latest)}")


def _printer(columns: TableColumns, *, as_json: bool) -> Callable[[bytes, list[str]], None]:
    """
    Return a function that prints an answer: its line of JSON, or its cells, the first one's below
    the head. Where nothing answers there is no table.
    """
    if as_json:
        return lambda line, _: shared.echo_json(line)
    is_first = True

    def show(_: bytes, row: list[str]) -> None:
        nonlocal is_first
        if is_first:
            typer.echo(columns.head())
        is_first = False
        typer.echo(columns.line(row))

    return show


def _value(content: bytes | Capture | Unreadable | None) -> bytes:
    """Return the message of a document of a file; a file has no deletions."""
    assert content is not None
    return content if isinstance(content, bytes) else content.message()


def _with_place(answer: SeenAnswer, record: Record) -> bytes:
    """Return a problem's line with the place of its document, as `neardup dedup` names it."""
    place = {"file": shown_name(record.file), "line": record.line, "offset": record.offset}
    return orjson.dumps({**answer.fields, "input": place})


def _as_of(latest: Mapping[str, Any]) -> str:
    """Say how much of the log the last answer knew."""
    offset = f"as of offset {latest['log_offset']:,} of the log"
    behind = latest.get("behind")
    if behind:
        return f"{offset}, {behind:,} records behind: what these hold is not yet known there"
    return offset
