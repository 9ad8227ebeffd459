"""`neardup explain`: why a document got its verdict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from worker.cli import app
from worker.cli.answers import read_answers
from worker.cli.cluster import await_cluster
from worker.cli.compare import as_fields
from worker.cli.explain_view import show, why
from worker.cli.lines import STDIN, QuietOption
from worker.cli.options import CLUSTER, FINGERPRINTS, SEARCH, with_settings
from worker.cli.progress import tracked
from worker.core.verdict import Verdict
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.core.compare import Comparison
    from worker.report.explanation import Explanation
    from worker.report.texts import Read


@app.command("explain")
@with_settings(
    *FINGERPRINTS, *SEARCH, *CLUSTER, "topic_verdicts", "topic_dead_letter", "document_bytes_max", "text_characters_max"
)
def explain_command(
    settings: Settings,
    doc_id: Annotated[str, typer.Argument(help="doc_id or URL of the document.")],
    verdicts: Annotated[
        Path | None, typer.Argument(help="Lines of `neardup dedup` or `neardup verdicts`; left out: the topics.")
    ] = None,
    documents: Annotated[
        list[str] | None, typer.Option(help="What was judged, for shingles and diff; of topics, their documents.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    quiet: QuietOption = False,
) -> None:
    """
    Say why a document got its verdict: bits, search, shingles, diff.

    For a new document the nearest original before it takes the original's place. The settings must be those of the
    worker: bars and blocks are theirs.
    """
    from worker.report.explanation import explain  # noqa: PLC0415

    if verdicts == STDIN:
        raise typer.BadParameter("the verdicts are read twice: stdin cannot be")
    if verdicts is None:
        await_cluster(settings)
    explanation = explain(lambda: read_answers(verdicts, settings, quiet=quiet), doc_id)
    read = _read(explanation, documents, settings, from_topics=verdicts is None, quiet=quiet)
    compared = _compared(explanation, read, settings)
    if as_json:
        fields = _fields(explanation, compared, settings)
        sys.stdout.buffer.write(orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE))
    else:
        show(explanation, compared, settings.search)


def _read(
    explanation: Explanation, documents: list[str] | None, settings: Settings, *, from_topics: bool, quiet: bool
) -> Read:
    """Return the texts of both documents: from files, or from where the verdicts say that they came."""
    from worker.report.texts import Read, read_texts, text_of  # noqa: PLC0415
    from worker.shell.admin.watch import message_at  # noqa: PLC0415
    from worker.shell.files.crawl import CrawlFiles  # noqa: PLC0415

    pair = [one for one in (explanation.last, explanation.other) if one is not None]
    if documents:
        wanted = {one.doc_id for one in pair if one.doc_id is not None}
        records = tracked(CrawlFiles(documents), "reading texts", quiet=quiet)
        return read_texts(records, wanted, settings)
    found = Read()
    for one in pair if from_topics and explanation.other is not None else []:
        message = message_at(settings, one.source_topic, one.source_partition, one.source_offset)
        text, language = (None, None) if message is None else text_of(message.key, message.value, settings)
        if text is not None and one.doc_id is not None:
            found.texts[one.doc_id], found.named[one.doc_id] = text, language
    return found


def _compared(explanation: Explanation, read: Read, settings: Settings) -> Comparison | None:
    """Compare the other document, A, with the one that is explained, B, where there are texts of both."""
    from worker.core.compare import compare  # noqa: PLC0415

    if explanation.other is None:
        return None
    ids = explanation.other.doc_id, explanation.last.doc_id or ""
    texts = [read.texts.get(doc_id) for doc_id in ids]
    if texts[0] is None or texts[1] is None:
        return None
    return compare(texts[0], texts[1], settings.parameters, (read.named[ids[0]], read.named[ids[1]]))


def _fields(explanation: Explanation, compared: Comparison | None, settings: Settings) -> dict[str, Any]:
    from worker.shell.messages import encode_verdict  # noqa: PLC0415

    def line(answer: Any) -> Any:
        return orjson.loads(encode_verdict(answer)[1] if isinstance(answer, Verdict) else answer.line())

    return {
        "why": why(explanation, settings.search),
        "answers": [line(one) for one in explanation.answers],
        "other": None if explanation.other is None else line(explanation.other),
        "originals": explanation.originals,
        "rules": settings.search.text,
        "comparison": None if compared is None else as_fields(compared),
    }
