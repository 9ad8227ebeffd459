"""`neardup explain`: why a document got its verdict."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.table import Table
from rich.text import Text

from worker.cli.answers import read_answers, texts_of_files
from worker.cli.options import CLUSTER, await_cluster, with_settings
from worker.cli.reading import Reading
from worker.cli.shared import (
    ObjectOption,
    QuietOption,
    console_of_terminal,
    echo_json,
    notice,
    printable,
)
from worker.cli.side_by_side import (
    SHINGLES_DEFAULT,
    Compared,
    ShinglesOption,
    comparison_fields,
    show_bits,
    show_side_by_side,
)
from worker.core.definition import Kind
from worker.core.document import Verdict
from worker.core.search import (
    RIVAL,
    SURE_SIMILARITY,
    ApartBy,
    SearchedDocument,
    SearchedOriginal,
    SearchRules,
    apart_rule,
    similarities,
)
from worker.settings import Settings
from worker.shell.files.archives.rows import brought_url
from worker.shell.files.places import is_pipe

if TYPE_CHECKING:
    from worker.report.answers import Answer, Explanation, ReadText
    from worker.shell.admin.watch import Missing
    from worker.shell.messages import DeadLetter

FINGERPRINT_BITS = 64  # of a verdict

# A file in the place of a doc_id: most likely the verdicts, with the document forgotten.
TAKEN_FOR_A_NAME = (
    "is a file, but is taken for a doc_id, and the verdicts for those of a group. For verdicts in "
    "a file: neardup explain DOC_ID-OR-URL VERDICTS"
)


@with_settings("definition", *CLUSTER, "topic_verdicts", "topic_dead_letter", "document_bytes_max")
def explain_command(
    settings: Settings,
    doc_id: Annotated[str, typer.Argument(help="Its doc_id, the beginning of it, or its URL.")],
    verdicts: Annotated[
        Path | None,
        typer.Argument(
            help=(
                "Verdicts: output of `neardup dedup` or "
                "`neardup verdicts --json`. Without it, the topics are read."
            )
        ),
    ] = None,
    documents: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="The documents that were judged (a file, a folder, or a name with *), to show "
            "shingles and a diff. For topics, the documents' topic is read.",
        ),
    ] = None,
    *,
    reading: Reading,
    as_json: ObjectOption = False,
    shingles: ShinglesOption = SHINGLES_DEFAULT,
    quiet: QuietOption = False,
) -> None:
    """
    Explain why a document got its verdict: bits, search, shingles, diff.

    A new document is compared with the nearest earlier original. Use the worker's settings, because
    limits and blocks depend on them. `compare` shows the same page of any two files.
    """
    from worker.report.answers import explain  # noqa: PLC0415

    if verdicts is not None and is_pipe(str(verdicts)):
        raise typer.BadParameter(
            "the verdicts are read twice, which stdin or a pipe does not allow: name a file"
        )
    files = reading.files(documents or [])
    if verdicts is None:
        if os.path.isfile(doc_id):  # noqa: PTH113  # a long URL is no path: False, not an error
            notice(f"{doc_id} {TAKEN_FOR_A_NAME}")
        await_cluster(settings)
    tell = cache(notice)  # the verdicts are read twice; say it once
    explanation = explain(
        lambda: (one.answer for one in read_answers(verdicts, settings, tell, quiet=quiet)),
        doc_id,
        settings.search.max_distance,
    )
    compared = _compared(
        explanation, files, settings, reading, from_topics=verdicts is None, quiet=quiet
    )
    if as_json:
        fields = {
            "why": _why(explanation, settings.search),
            "answers": [_message(one) for one in explanation.answers],
            "other": None if explanation.other is None else _message(explanation.other),
            "originals": explanation.originals,
            "rules": settings.search.text,
            "comparison": None if compared is None else comparison_fields(compared),
            "near_similarities": [one / 1_000 for one in compared.similarities] if compared else [],
        }
        echo_json(orjson.dumps(fields))
    else:
        _show_explanation(explanation, compared, settings.search, shingles)


def _compared(
    explanation: Explanation,
    documents: list[str],
    settings: Settings,
    reading: Reading,
    *,
    from_topics: bool,
    quiet: bool,
) -> Compared | None:
    """
    Compare document A with the explained document B.

    Their texts come from the files, or from the messages that the verdicts name.
    """
    from worker.core.compare import compare  # noqa: PLC0415

    last = explanation.last
    other = explanation.other
    wanted = [
        (one.doc_id, one)
        for one in (last, other, *explanation.near)
        if one is not None and one.doc_id is not None
    ]
    found: dict[str, ReadText] = {}
    if documents:
        doc_ids = {doc_id for doc_id, _ in wanted}
        found = texts_of_files(
            documents, doc_ids, settings, reading, quiet, from_topics=from_topics
        ).texts
    elif from_topics and other is not None:
        found = _texts_in_topics(wanted, settings)
    if last.doc_id not in found or other is None or other.doc_id not in found:
        return None
    first, second = found[other.doc_id], found[last.doc_id]
    languages = (first.language, second.language)
    texts = compare(first.text, second.text, settings.parameters, languages)
    original, own = texts.fingerprints
    url_rules = settings.pages_of_urls
    return Compared(
        texts,
        (first.account, second.account),
        (first.mark(original.features, url_rules), second.mark(own.features, url_rules)),
        _near_similarities(
            second, [found[one.doc_id] for one in explanation.near if one.doc_id in found], settings
        ),
    )


def _text_in_topic(answer: Answer, settings: Settings) -> ReadText | Missing | None:
    """
    Return the text of the message that an answer names, or why the message is missing; None if it
    cannot be read.

    In a topic that was deleted and created again, that place has another document.
    """
    from worker.report.answers import text_of  # noqa: PLC0415
    from worker.shell.admin.watch import Missing, message_at  # noqa: PLC0415

    message = message_at(
        settings, answer.source_topic, answer.source_partition, answer.source_offset
    )
    if isinstance(message, Missing):
        return message
    try:
        document, text = text_of(message.key, message.value, settings, message.timestamp_ms)
    except Exception:  # any failure costs only this text
        return None
    return text if document.doc_id == answer.doc_id else None


def _texts_in_topics(
    answers: Iterable[tuple[str, Answer]], settings: Settings
) -> dict[str, ReadText]:
    """Return the texts of pairs' answers by doc_id; say which messages are missing, and why."""
    from worker.shell.admin.watch import Missing  # noqa: PLC0415

    found: dict[str, ReadText] = {}
    for doc_id, answer in answers:
        if doc_id in found:
            continue
        text = _text_in_topic(answer, settings)
        if isinstance(text, Missing):
            remedy = "" if text is Missing.LATE else ". --documents reads its text from files"
            notice(f"the message {_source(answer)} is {text.value}{remedy}")
        elif text is not None:
            found[doc_id] = text
    return found


def _near_similarities(
    document: ReadText, originals: list[ReadText], settings: Settings
) -> tuple[int, ...]:
    """Return the similarities of the originals that a search compares with a document."""
    from worker.core.fingerprint import Fingerprinter  # noqa: PLC0415

    read = [document, *originals]
    batch = Fingerprinter(settings.parameters).batch(
        [one.text for one in read], [one.language for one in read]
    )
    own, *others = batch.rows()
    searched = SearchedDocument(own.value, own.doubts, own.sketch)
    near = [
        SearchedOriginal(row, one.value, one.doubts, one.sketch)
        for row, one in enumerate(others)
        if one.kind is Kind.FULL and own.kind is Kind.FULL
    ]
    return tuple(similarities(settings.search, searched, near))


def _standing(near: tuple[int, ...], search: SearchRules, *, is_copy: bool) -> str | None:
    """
    Say how far the most similar original stands out, None where it need not.

    `is_copy`: the document is a duplicate.
    """
    if not near or not search.margin_thousandths or near[0] >= SURE_SIMILARITY:
        return None
    if len(near) <= RIVAL:
        return "It has to stand out from nothing: fewer than four originals are near."
    by = near[0] - near[RIVAL]
    told = (
        f"The most similar of {len(near)} near originals has {near[0] / 1_000:.3f}, "
        f"the fourth {near[RIVAL] / 1_000:.3f}: "
        f"it stands out by {by / 1_000:.3f}, {search.similarity_margin:.3f} required."
    )
    if is_copy and by < search.margin_thousandths:
        told += " Fewer were near when this text was judged first, and its copies follow it."
    return told


def _message(answer: Answer) -> dict[str, Any]:
    """Return the fields of an answer as its message has them."""
    from worker.shell.messages import message_fields  # noqa: PLC0415

    if isinstance(answer, Verdict):
        return message_fields(answer)
    return answer.fields()


def _show_explanation(
    explanation: Explanation, compared: Compared | None, search: SearchRules, shingles: int
) -> None:
    console = console_of_terminal()
    last = explanation.last
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(explanation):
        table.add_row(name, Text(printable(value)))
    console.print(table)
    console.print(Text(f"\n{printable(_why(explanation, search))}"))
    other = explanation.other
    if (
        not isinstance(last, Verdict)
        or last.fingerprint is None
        or other is None
        or other.fingerprint is None
    ):
        console.print()
        return
    original, own = brought_url(other.url) or other.doc_id, brought_url(last.url) or last.doc_id
    values = other.fingerprint, last.fingerprint
    if compared is not None and compared.fingerprints == values:
        standing = _standing(compared.similarities, search, is_copy=last.duplicate_of is not None)
        console.print(Text("" if standing is None else f"{standing}\n"))
        show_side_by_side(console, compared, (original, own), search, shingles)
        return
    console.print(Text(f"\nA  {printable(original)}\nB  {printable(own)}\n"))
    show_bits(console, values, FINGERPRINT_BITS)
    console.print(Text(_NOT_FOUND if compared is None else _OTHER_TEXTS))
    if compared is not None:
        console.print()
        show_side_by_side(console, compared, (original, own), search, shingles)


_NOT_FOUND = "--documents shows doubts, shingles and the diff: the texts of both were not found."
_OTHER_TEXTS = (
    "The texts at hand have other fingerprints: other parameters, or another version. They are:"
)


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    last = explanation.last
    if not isinstance(last, Verdict):
        return [
            ("doc_id", last.doc_id or ""),
            ("dead letter", last.code),
            ("source", _source(last)),
        ]
    fields = _message(last)
    facts = [("doc_id", last.doc_id)]
    url = brought_url(last.url)
    facts += [("url", url)] if url is not None else []
    facts += [("captured", fields["fetched_at"])] if last.fetched_at_ms else []
    told = f"{last.outcome.value}, {last.reason}" if last.reason else last.outcome.value
    facts.append(("verdict", f"{told}, decided at {fields['decided_at']}"))
    if last.duplicate_of is not None:
        original = last.duplicate_of.original
        captured = f", captured {fields['duplicate_of']['fetched_at']}"
        facts.append(("original", f"{original.doc_id}{captured * bool(original.fetched_at_ms)}"))
        if (url := brought_url(original.url)) is not None:
            facts.append(("its url", f"{url}{' (the same)' if last.duplicate_of.same_url else ''}"))
    if last.former_version is not None:
        former = last.former_version
        facts.append(
            ("former version", f"{former.original.doc_id}, changed: {former.changed.value}")
        )
    originals = "1 original" if last.index_documents == 1 else f"{last.index_documents:,} originals"
    record = f"record {last.log_offset:,}, with {originals} in the index"
    if explanation.other is not None:
        other = "the original" if last.duplicate_of else "the nearest"
        if last.kept_apart is not None:
            other = "the most similar one"
        record += f"; {other} is in {explanation.other.log_offset:,}"
    elif last.duplicate_of is not None or last.kept_apart is not None:
        record += "; the original has no verdict here, so the two are not compared"
    facts += [("log", record), ("source", _source(last))]
    if len(explanation.answers) > 1:
        facts.append(("answers", f"{len(explanation.answers):,}; the last is explained"))
    return facts


def _source(answer: Verdict | DeadLetter) -> str:
    return f"{answer.source_topic}[{answer.source_partition}] at {answer.source_offset:,}"


def _why(explanation: Explanation, search: SearchRules) -> str:
    """Say in a sentence or two why the verdict is what it is."""
    last = explanation.last
    if not isinstance(last, Verdict):
        return f"It could not be judged: {last.text}"
    if (match := last.duplicate_of) is not None:
        bits = f"{match.distance} of 64 bits differ"
        similarity = f"Similarity {match.similarity:.3f}, {search.similarity_min:.3f} required."
        return {
            "text": "Both have so few tokens that only equal texts match, and these are equal.",
            "exact": f"Both have the same tokens in the same order; {bits}. {similarity}",
            "near": f"{bits} (at most {search.max_distance}). {similarity}",
        }["text" if match.found_by.value == "text" else match.kind.value]
    if last.fingerprint is None:
        return {
            "skipped": f"There is nothing in it to compare: {last.reason}.",
            "deleted": f"A null value came for its doc_id: {last.reason}.",
        }[last.outcome.value]
    if last.reason == "redelivered":
        return "The same document came again: it is the original that it was."
    return _why_new(explanation, last, search)


def _why_new(explanation: Explanation, last: Verdict, search: SearchRules) -> str:
    """Say why a document is a duplicate of no original."""
    if last.kept_apart is not None:
        rule = apart_rule(search, ApartBy[last.kept_apart.reason.name])
        return (
            f"The most similar original before it, {last.kept_apart.doc_id}, "
            f"has similarity {last.kept_apart.similarity:.3f}, "
            f"{search.similarity_min:.3f} required, and is kept apart: {rule}."
        )
    other = explanation.other
    if other is None or other.fingerprint is None:
        held = (
            f"None of the {last.index_documents:,} originals "
            "before it is near enough; the nearest has no verdict."
        )
        return held if last.index_documents else "No original was before it."
    assert last.fingerprint is not None, "a new document has one"
    distance = (last.fingerprint ^ other.fingerprint).bit_count()
    return (
        f"No original before it fits the rules ({search.text}). The nearest of "
        f"{explanation.originals:,} originals differs in {distance} of 64 bits."
    )
