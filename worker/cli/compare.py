"""`neardup compare`: the page of two documents that `explain` shows, for files without verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from worker.cli.options import with_settings
from worker.cli.shared import STDIN, ObjectOption, console_of_terminal, echo_json
from worker.cli.side_by_side import (
    SHINGLES_DEFAULT,
    Compared,
    ShinglesOption,
    comparison_fields,
    show_side_by_side,
)
from worker.core.document import BodyKind, Document
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.formats import ARC, START_BYTES, WARC, format_of_start
from worker.shell.files.places import check_read_once, shown_input
from worker.shell.files.unpacked import opened_unpacked

if TYPE_CHECKING:
    from worker.report.answers import ReadText


@with_settings("definition")
def compare_command(
    settings: Settings,
    first: Annotated[str, typer.Argument(metavar="A", help="A text or an HTML page; - for stdin.")],
    second: Annotated[
        str, typer.Argument(metavar="B", help="The other text or page; - for stdin.")
    ],
    as_json: ObjectOption = False,
    shingles: ShinglesOption = SHINGLES_DEFAULT,
    language: Annotated[
        str | None, typer.Option(help='Language of both texts, for anchors = "named".')
    ] = None,
) -> None:
    """
    Compare two documents: bits, shingles, where they differ, a diff.

    It is the page that `explain` shows of a document and its original, for two files that need no
    verdict: A is taken for the original. Pages are compared by their main content. The longest
    common subsequence and the diff read at most 20,000 tokens of each text, not counting equal
    beginnings and ends.
    """
    from worker.core.compare import compare  # noqa: PLC0415

    check_read_once([first, second])
    one, other = _text(first, settings), _text(second, settings)
    found = Compared(
        compare(one.text, other.text, settings.parameters, (language, language)),
        (one.account, other.account),
    )
    if as_json:
        echo_json(orjson.dumps(comparison_fields(found)))
    else:
        console = console_of_terminal()
        show_side_by_side(console, found, (first, second), settings.search, shingles)


def _text(name: str, settings: Settings) -> ReadText:
    """Return the text of a document, as the worker would see it."""
    from worker.core.extract import Skipped, extract_with_account  # noqa: PLC0415
    from worker.report.answers import ReadText  # noqa: PLC0415

    with opened_unpacked(name) as stream:
        kind = format_of_start(str(STDIN), stream.peek(START_BYTES))  # the name says nothing here
        if kind in (ARC, WARC):
            raise StopError(
                f"{shown_input(name)} is an archive ({kind.name}); `compare` needs one document "
                "per file: extract it, or judge the archive with `dedup` and see `explain`"
            )
        body = stream.read()
    document = Document(name, name, 0, BodyKind.BYTES, body)
    found, account = extract_with_account(document, settings.text_characters_max)
    if isinstance(found, Skipped):
        raise StopError(
            f"{name} has no text to compare ({found.reason}): only texts and HTML pages have"
        )
    return ReadText(found.text, account=account)
