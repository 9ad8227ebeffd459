"""
`neardup compare`: two documents side by side. `neardup explain`: why a document got its verdict.
`neardup report`: all verdicts on one HTML page.

Both of the first draw one view of a pair: the bits as labelled blocks, measures, shingles, and a
coloured diff.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import orjson
import typer
import zstandard
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli.options import CLUSTER, FINGERPRINTS, SEARCH, await_cluster, with_settings
from worker.cli.progress import passed
from worker.cli.shared import (
    STDIN,
    EncodingOption,
    QuietOption,
    echo_json,
    opened,
    opened_output,
    printable,
    terminal_width,
    tracked,
)
from worker.core.definition import Kind
from worker.core.document import BodyKind, Document, Verdict
from worker.core.search import (
    SearchedDocument,
    SearchedOriginal,
    SearchRules,
    best,
    block_of,
    condition,
    patterns,
)
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.archives.rows import brought_url
from worker.shell.files.formats import HTML, check_format

if TYPE_CHECKING:
    from worker.core.compare import Comparison
    from worker.core.pages import PageAccount
    from worker.report.answers import Answer, Explanation, ReadText, WantedTexts
    from worker.shell.messages import DeadLetter

SHINGLES = 8  # of each kind, in an explanation
BLOCK_BITS = 16
CONTEXT_TOKENS = 6  # shown on either side of a change
STEPS_SHOWN_MAX = 400  # a longer diff is no longer read


@with_settings(*FINGERPRINTS, *SEARCH, "text_characters_max")
def compare_command(
    settings: Settings,
    first: Annotated[str, typer.Argument(metavar="A", help="A text or an HTML page; - for stdin.")],
    second: Annotated[
        str, typer.Argument(metavar="B", help="The other text or page; - for stdin.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as one JSON object.")
    ] = False,
    shingles: Annotated[
        int, typer.Option(help="How many shingles of each kind to show, the heaviest first.", min=0)
    ] = 8,
    language: Annotated[
        str | None, typer.Option(help="Language of both texts, for --anchors named.")
    ] = None,
) -> None:
    """
    Compare two documents: bits, shingles, where they differ, a diff.

    Pages are compared by their main content. The longest common subsequence and the diff read at
    most 20,000 tokens of each text, not counting equal beginnings and ends.
    """
    from worker.core.compare import compare  # noqa: PLC0415

    if first == second == str(STDIN):
        raise typer.BadParameter("stdin can be read only once: one of A and B must be a file")
    one, other = _text(first, settings), _text(second, settings)
    found = Compared(
        compare(one.text, other.text, settings.parameters, (language, language)),
        (one.account, other.account),
    )
    if as_json:
        echo_json(orjson.dumps(_comparison_fields(found)))
    else:
        _show_comparison(found, (first, second), shingles, settings.search)


class Compared(NamedTuple):
    """Two documents side by side, and what was left out of each; None for what is no page."""

    texts: Comparison
    accounts: tuple[PageAccount | None, PageAccount | None]


def _text(name: str, settings: Settings) -> ReadText:
    """Return the text of a document, as the worker would see it."""
    from worker.core.extract import Skipped, account_of, extract  # noqa: PLC0415
    from worker.report.answers import ReadText  # noqa: PLC0415

    with opened(Path(name)) as stream:
        body = stream.read()
    document = Document(name, name, 0, BodyKind.BYTES, body)
    found = extract(document, settings.text_characters_max)
    if isinstance(found, Skipped):
        raise StopError(
            f"{name} has no text to compare ({found.reason}): only texts and HTML pages have"
        )
    return ReadText(found.text, account=account_of(document))


def _account_fields(account: PageAccount | None) -> dict[str, Any] | None:
    return None if account is None else account._asdict()


def _comparison_fields(compared: Compared) -> dict[str, Any]:
    found = compared.texts
    digits = found.bits // 4
    spread = found.spread
    documents = [
        {
            "fingerprint": f"{made.value:0{digits}x}",
            "kind": made.kind.name.lower(),
            "features": made.features,
            "tokens": tokens,
            "page": _account_fields(account),
            "only": [
                {
                    name: getattr(one, name)
                    for name in ("shingle", "weight", "anchored", "occurrences")
                }
                for one in only
            ],
        }
        for made, tokens, only, account in zip(
            found.fingerprints, found.tokens, found.only, compared.accounts, strict=True
        )
    ]
    measures = (
        "distance",
        "similarity",
        "jaccard_words",
        "jaccard_shingles",
        "subsequence",
        "subsequence_tokens",
    )
    return {
        "documents": documents,
        "differing_bits": [bit for bit in range(found.bits) if found.differing >> bit & 1],
        **{name: getattr(found, name) for name in measures},
        "spread": {
            "kind": spread.kind,
            "text": spread.text,
            "shared": spread.shared,
            "passages": [place._asdict() for place in spread.passages],
            "scattered": len(spread.scattered),
        },
        "shared": [
            {"shingle": one.shingle, "weights": [one.weight, other.weight]}
            for one, other in found.shared
        ],
        "steps": [{"kind": step.kind, "tokens": step.tokens} for step in found.steps],
    }


def _console() -> Console:
    """Return the terminal; without colours into a pipe."""
    return Console(highlight=False, soft_wrap=False, width=terminal_width())


def _show_comparison(
    compared: Compared, names: tuple[str, str], shingles: int, search: SearchRules
) -> None:
    console = _console()
    found = compared.texts
    for label, name, made, count in zip("AB", names, found.fingerprints, found.tokens, strict=True):
        told = f"{count:,} tokens, {made.features:,} shingles, {made.kind.name}"
        console.print(Text(printable(f"{label}  {name}: {told}")))
    _show_accounts(console, compared)
    console.print()
    values = found.fingerprints[0].value, found.fingerprints[1].value
    for line in _drawn_bits(values, found.bits, console.width):
        console.print(line)
    console.print(
        Text(f"\n{found.distance} of {found.bits} bits differ: {_condition_of(found, search)}")
    )
    console.print(Text(f"{search.text}\n"))
    _show_texts(console, found, shingles)


def _show_accounts(console: Console, compared: Compared) -> None:
    """Write of each page how much of it is compared, and as what the rest was left out."""
    for label, account in zip("AB", compared.accounts, strict=True):
        if account is not None:
            console.print(Text(f"{label}  {account.text}"))


def _show_texts(console: Console, found: Comparison, shingles: int) -> None:
    """
    Write how two texts differ: in words, by their measures, by shingles of each kind (the heaviest
    first), and as a diff.
    """
    spread = found.spread
    if spread.kind != "equal":  # the diff says that they are equal
        console.print(Text(f"B {spread.text}\n"))
    seen = found.subsequence_tokens
    tokens = found.tokens
    table = Table("measure", "value", box=None, pad_edge=False)
    table.add_row("similarity, estimated from the sketches", f"{found.similarity:.3f}")
    table.add_row("Jaccard of words", f"{found.jaccard_words:.3f}")
    table.add_row("Jaccard of shingles", f"{found.jaccard_shingles:.3f}")
    bound = "" if seen == tokens else "at least "
    table.add_row("longest common subsequence / longer text", f"{bound}{found.subsequence:.3f}")
    console.print(table)
    if shingles:
        console.print(_shingles(found, shingles))
    console.print(Text(" ").join(_diff(found)))
    if seen != tokens:
        console.print(
            Text(
                f"the diff saw {seen[0]:,} of {tokens[0]:,} and {seen[1]:,} of {tokens[1]:,} tokens"
            )
        )


def _condition_of(found: Comparison, search: SearchRules) -> str:
    """
    Say whether B is a duplicate if A is an original, and if not, which condition fails.
    """
    kinds = {made.kind for made in found.fingerprints}
    if Kind.EMPTY in kinds:
        return "a worker skips what has nothing to compare"
    if Kind.SHORT in kinds:
        return "so few tokens match only their equals" + (", as here" if found.similarity else "")
    original, copy = found.fingerprints
    one = SearchedDocument(copy.value, copy.doubts, copy.sketch)
    other = SearchedOriginal(0, original.value, original.doubts, original.sketch)
    told = "no duplicate" if best(search, one, [other]) is None else "a duplicate"
    return f"{told}, {condition(search, one, other)}"


def _drawn_bits(
    values: tuple[int, int], bits: int, width: int, doubts: tuple[int, int] | None = None
) -> list[Text]:
    """
    Draw two fingerprints in blocks, the highest bit first.

    Bits that differ are marked, and doubtful ones have a "?" below.
    """
    rows = [f"{value:0{bits}b}" for value in values]
    lines = [("A", rows[0]), ("B", rows[1])]
    if doubts is not None:
        marks = [f"{value:0{bits}b}".translate({48: ".", 49: "?"}) for value in doubts]
        lines = [lines[0], ("doubts", marks[0]), lines[1], ("doubts", marks[1])]
    lines.append(
        ("differ", "".join(".x"[left != right] for left, right in zip(*rows, strict=True)))
    )
    blocks = max(1, (width - 7) // (BLOCK_BITS + 1))  # in a line
    starts = range(0, bits, BLOCK_BITS)
    styles = {"differ": "bold red", "doubts": "dim"}
    return [
        Text(
            f"{label:8}"
            + " ".join(row[at : at + BLOCK_BITS] for at in starts[begin : begin + blocks]),
            style=styles.get(label, ""),
        )
        for begin in range(0, len(starts), blocks)
        for label, row in lines
    ]


def _shingles(found: Comparison, count: int) -> Table:
    table = Table(
        "shared", "only A", "only B", title="shingles (weights)", title_justify="left", box=None
    )
    columns = [
        [f"{one.shingle} ({one.weight}, {other.weight})" for one, other in found.shared[:count]]
    ]
    columns += [[f"{one.shingle} ({one.weight})" for one in only[:count]] for only in found.only]
    for column, total in zip(columns, (len(found.shared), *map(len, found.only)), strict=True):
        if total > count:
            column.append(f"… {total - count:,} more")
    for row in zip_longest(*columns, fillvalue=""):
        table.add_row(*map(Text, row))
    return table


def _diff(found: Comparison) -> Iterator[Text]:
    """
    Strike out in red what A has alone, show in green what B has alone, and shorten long equal runs.
    """
    if all(step.kind == "equal" for step in found.steps):
        yield Text("token for token the same", style="green")
        return
    last = len(found.steps) - 1
    for number, step in enumerate(found.steps):
        kind = step.kind
        tokens = step.tokens
        if number == STEPS_SHOWN_MAX:
            yield Text(f"… and {len(found.steps) - number:,} runs more", style="dim")
            return
        if kind == "removed":
            yield Text(f"[-{' '.join(tokens)}-]", style="red strike")
        elif kind == "added":
            yield Text("{+" + " ".join(tokens) + "+}", style="green")
        else:
            head = tokens[:CONTEXT_TOKENS] if number else []
            tail = tokens[-CONTEXT_TOKENS:] if number != last else []
            whole = len(tokens) <= len(head) + len(tail)
            yield Text(" ".join(tokens if whole else [*head, "…", *tail]), style="dim")


@with_settings(
    *FINGERPRINTS,
    *SEARCH,
    *CLUSTER,
    "topic_verdicts",
    "topic_dead_letter",
    "document_bytes_max",
    "text_characters_max",
)
def explain_command(
    settings: Settings,
    doc_id: Annotated[str, typer.Argument(help="Its doc_id, the beginning of it, or its URL.")],
    verdicts: Annotated[
        Path | None,
        typer.Argument(
            help=(
                "Verdicts: output of `neardup dedup` or `neardup verdicts --json`. Without it, the "
                "topics are read."
            )
        ),
    ] = None,
    documents: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "The documents that were judged, to show shingles and a diff. For topics, the "
                "documents' topic is read."
            )
        ),
    ] = None,
    encoding: EncodingOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as one JSON object.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """
    Explain why a document got its verdict: bits, search, shingles, diff.

    A new document is compared with the nearest earlier original. Use the worker's settings, because
    limits and blocks depend on them.
    """
    from worker.report.answers import explain  # noqa: PLC0415

    if verdicts == STDIN:
        raise typer.BadParameter(
            "the verdicts are read twice, which stdin does not allow: name a file"
        )
    if verdicts is None:
        await_cluster(settings)
    explanation = explain(lambda: _answers(verdicts, settings, quiet=quiet), doc_id)
    compared = _compared(
        explanation, documents, settings, encoding, from_topics=verdicts is None, quiet=quiet
    )
    if as_json:
        fields = {
            "why": _why(explanation, settings.search),
            "answers": [_message(one) for one in explanation.answers],
            "other": None if explanation.other is None else _message(explanation.other),
            "originals": explanation.originals,
            "rules": settings.search.text,
            "comparison": None if compared is None else _comparison_fields(compared),
        }
        echo_json(orjson.dumps(fields))
    else:
        _show_explanation(explanation, compared, settings.search)


def _answers(verdicts: Path | None, settings: Settings, *, quiet: bool) -> Iterator[Answer]:
    """
    Return the answers in a file, in a folder, on stdin, or in the topics (None). Shows how many
    have been read.
    """
    from worker.report.answers import of_lines  # noqa: PLC0415
    from worker.shell.admin.watch import watch  # noqa: PLC0415

    if verdicts is None:
        totals: list[int] = []
        names = [settings.topic_verdicts, settings.topic_dead_letter]
        seen = watch(settings, names, follow=False, on_start=totals.append)
        published = (one.answer for one in seen if one is not None)
        yield from passed(
            published, "reading answers", "answers", lambda _: sum(totals), quiet=quiet
        )
        return
    if verdicts.is_dir():
        parts = (of_lines(_unpacked(path), str(path)) for path in sorted(verdicts.iterdir()))
        yield from passed(
            chain.from_iterable(parts), "reading answers", "answers", lambda _: None, quiet=quiet
        )
        return
    with opened(verdicts) as stream:
        size = verdicts.stat().st_size if verdicts.is_file() else None
        found = of_lines(stream, "stdin" if verdicts == STDIN else str(verdicts))
        done = None if size is None else stream.tell
        yield from passed(
            found, "reading answers", "answers", lambda _: size, done=done, quiet=quiet
        )


def _unpacked(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file that is compressed as its name says."""
    with opened(path) as stream:
        if path.suffix == ".zst":
            yield from io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(stream))
        elif path.suffix == ".gz":
            yield from gzip.GzipFile(fileobj=stream)
        else:
            yield from stream


def _texts_of_files(
    documents: list[str],
    wanted: set[str],
    settings: Settings,
    encoding: str | None,
    quiet: bool,
    sample_of: int | None = None,
) -> WantedTexts:
    from worker.report.answers import read_texts  # noqa: PLC0415
    from worker.shell.files.crawl import CrawlFiles  # noqa: PLC0415

    crawl = CrawlFiles(documents, encoding=encoding)
    records = tracked(crawl, "reading texts", quiet=quiet)
    return read_texts(records, wanted, settings, sample_of)


def _compared(
    explanation: Explanation,
    documents: list[str] | None,
    settings: Settings,
    encoding: str | None,
    *,
    from_topics: bool,
    quiet: bool,
) -> Compared | None:
    """
    Compare document A with the explained document B.

    Their texts come from the files, or from the messages that the verdicts name.
    """
    from worker.core.compare import compare  # noqa: PLC0415
    from worker.report.answers import readable_text  # noqa: PLC0415
    from worker.shell.admin.watch import message_at  # noqa: PLC0415

    last = explanation.last
    other = explanation.other
    found: dict[str, ReadText] = {}
    if documents:
        wanted = {one.doc_id for one in (last, other) if one is not None and one.doc_id is not None}
        found = _texts_of_files(documents, wanted, settings, encoding, quiet).texts
    for one in (last, other) if from_topics and other is not None and not documents else ():
        message = message_at(settings, one.source_topic, one.source_partition, one.source_offset)
        if message is None:
            continue
        text = readable_text(message.key, message.value, settings, message.timestamp_ms)
        if text is not None:
            found[one.doc_id or ""] = text
    if other is None or other.doc_id not in found or (last.doc_id or "") not in found:
        return None
    first, second = found[other.doc_id], found[last.doc_id or ""]
    languages = (first.language, second.language)
    return Compared(
        compare(first.text, second.text, settings.parameters, languages),
        (first.account, second.account),
    )


def _message(answer: Answer) -> dict[str, Any]:
    """Return the fields of an answer as its message has them."""
    from worker.shell.messages import encode_verdict  # noqa: PLC0415

    fields: dict[str, Any] = orjson.loads(
        encode_verdict(answer)[1] if isinstance(answer, Verdict) else answer.line()
    )
    return fields


def _show_explanation(
    explanation: Explanation, compared: Compared | None, search: SearchRules
) -> None:
    console = _console()
    last = explanation.last
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(explanation):
        table.add_row(name, Text(printable(value)))
    console.print(table)
    console.print(Text(f"\n{printable(_why(explanation, search))}\n"))
    other = explanation.other
    if (
        not isinstance(last, Verdict)
        or last.fingerprint is None
        or other is None
        or other.fingerprint is None
    ):
        return
    console.print(
        Text(
            f"A  {printable(brought_url(other.url) or other.doc_id)}\n"
            f"B  {printable(brought_url(last.url) or last.doc_id)}\n"
        )
    )
    values = other.fingerprint, last.fingerprint
    doubts = (
        None
        if compared is None
        else (compared.texts.fingerprints[0].doubts, compared.texts.fingerprints[1].doubts)
    )
    for line in _drawn_bits(values, 64, console.width, doubts):
        console.print(line)
    console.print()
    if compared is None:
        console.print(
            Text(
                "--documents shows doubts, shingles and the diff: the texts of both were not found."
            )
        )
        return
    _show_accounts(console, compared)
    if tuple(made.value for made in compared.texts.fingerprints) != values:
        console.print(
            Text(
                "The texts at hand have other fingerprints: other parameters, or another version.\n"
            )
        )
    else:
        console.print(Text(f"{_search_text(compared.texts, search)}\n"))
    _show_texts(console, compared.texts, SHINGLES)


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
    record = f"record {last.log_offset:,}, with {last.index_documents:,} originals in the index"
    if explanation.other is not None:
        record += (
            f"; {'the original' if last.duplicate_of else 'the nearest'} is in "
            f"{explanation.other.log_offset:,}"
        )
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
        similarity = f"Similarity {match.similarity:.3f}, {search.similarity_min:.3f} wanted."
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
    other = explanation.other
    if other is None or other.fingerprint is None:
        held = (
            f"None of the {last.index_documents:,} originals before it is near enough; the nearest "
            "has no verdict."
        )
        return held if last.index_documents else "No original was before it."
    distance = (last.fingerprint ^ other.fingerprint).bit_count()
    return (
        f"Nothing before it is near enough ({search.text}). The nearest of "
        f"{explanation.originals:,} originals differs in {distance} of 64 bits."
    )


def _search_text(compared: Comparison, search: SearchRules) -> str:
    """Say how the search comes from B to A, or which condition fails."""
    original, own = compared.fingerprints
    told = _condition_of(compared, search)
    if search.mode == "exact":
        return told
    ways = []
    for number, runs in enumerate(search.runs, start=1):
        turned = block_of(own.value, runs) ^ block_of(original.value, runs)
        if turned in patterns(
            block_of(own.doubts, runs), sum(width for _, width in runs), search.patterns
        ):
            bits = turned.bit_count()
            ways.append(
                f"block {number}" + (f", {bits} of its bits turned" if bits else " as it is")
            )
    return (
        f"{told}\nOf {len(search.runs)} blocks (the first is the lowest) {len(ways)} lead from B "
        f"to A"
        f"{': ' if ways else ''}{'; '.join(ways)}. {(original.doubts | own.doubts).bit_count()} "
        f"bits are doubtful in "
        f"one or both."
    )


@with_settings(
    *CLUSTER, "topic_verdicts", "topic_dead_letter", "document_bytes_max", "text_characters_max"
)
def report(
    settings: Settings,
    verdicts: Annotated[
        Path | None,
        typer.Argument(
            help="Output of `dedup`, `verdicts --json` or `archive` (a folder); - for stdin. "
            "Without it, the topics are read."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Where to write the page; - is stdout.")] = Path(
        "report.html"
    ),
    documents: Annotated[
        list[str] | None,
        typer.Option(
            help="The judged documents (WARC, ARC, WET, JSON Lines), for texts and languages."
        ),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page. [default: the name of the file or topic]")
    ] = None,
    clusters: Annotated[
        int, typer.Option(help="How many of the largest clusters to show.", min=0, max=100)
    ] = 8,
    encoding: EncodingOption = None,
    quiet: QuietOption = False,
) -> None:
    """
    Write an HTML page that shows the verdicts of a file or of the topics.

    It shows documents over time, distances, clusters with their texts side by side, hosts,
    re-crawls, languages, and which documents were not judged and why. The page loads nothing from
    other addresses. The file is read once and takes some 35 bytes of memory per verdict.
    """
    from worker.report.page import page  # noqa: PLC0415
    from worker.report.tally import Tally  # noqa: PLC0415
    from worker.shell.files.places import shown_name  # noqa: PLC0415

    if verdicts is None:
        await_cluster(settings)
    inputs = [*(documents or []), *map(str, settings.files)]
    if verdicts is not None:
        inputs.append(str(verdicts))
    with Tally() as tally, opened_output(output, inputs) as stream:
        check_format(output, HTML)
        for answer in _answers(verdicts, settings, quiet=quiet):
            tally.take(answer)
        if not len(tally):
            raise StopError(
                f"{verdicts or settings.topic_verdicts} has no verdict yet: nothing to report"
            )
        largest = tally.clusters.largest(clusters)
        wanted = {
            doc_id for one in largest for doc_id in (one.original.doc_id, one.farthest.doc_id)
        }
        read = (
            _texts_of_files(documents, wanted, settings, encoding, quiet, len(tally))
            if documents
            else None
        )
        known = {settings.parameters.hash: settings.definition.settings}
        source = settings.topic_verdicts if verdicts is None else shown_name(verdicts.name)
        name = title or source
        stream.write(page(tally, name, largest, read, known))
    if not quiet:
        typer.echo(printable(f"{output}: {len(tally):,} answers"), err=True)
