"""`neardup compare`: two documents side by side, what they share and what tells them apart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from worker.cli import app
from worker.cli.compare_view import show
from worker.cli.options import FINGERPRINTS, SEARCH, with_settings
from worker.core.document import BodyKind, Document
from worker.errors import StopError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.core.compare import Comparison

STDIN = "-"


@app.command("compare")
@with_settings(*FINGERPRINTS, *SEARCH, "text_characters_max")
def compare_command(
    settings: Settings,
    first: Annotated[str, typer.Argument(metavar="A", help="A text or an HTML page; - for stdin.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another; - for stdin.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    shingles: Annotated[int, typer.Option(help="Shingles shown of each kind, the heaviest first.", min=0)] = 8,
    language: Annotated[str | None, typer.Option(help="Of both, for --anchors named.")] = None,
) -> None:
    """
    Compare two documents: bits, shingles, classical measures, a diff.

    Pages are compared by their main content, as everywhere. Of longer texts the subsequence and the diff see 20,000
    tokens each, equal beginnings and ends apart.
    """
    from worker.core.compare import compare  # noqa: PLC0415

    if first == second == STDIN:
        raise typer.BadParameter("stdin can be read once: one of A and B must be a file")
    found = compare(_text(first, settings), _text(second, settings), settings.parameters, (language, language))
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(as_fields(found), option=orjson.OPT_APPEND_NEWLINE))
    else:
        show(found, (first, second), shingles, settings.search)


def _text(name: str, settings: Settings) -> str:
    """Return the text of a document, as the worker would see it."""
    from worker.core.extract import Skipped, extract  # noqa: PLC0415

    try:
        body = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise StopError(f"cannot read {name}: {error.strerror or error}") from error
    found = extract(Document(name, name, 0, BodyKind.BYTES, body), settings.text_characters_max)
    if isinstance(found, Skipped):
        raise StopError(f"{name} has no text to compare ({found.reason}): texts and HTML pages have")
    return found.text


def as_fields(found: Comparison) -> dict[str, Any]:
    """Return all of a comparison as the fields of a JSON object."""
    digits = found.bits // 4
    documents = [
        {
            "fingerprint": f"{made.value:0{digits}x}",
            "kind": made.kind.name.lower(),
            "features": made.features,
            "tokens": tokens,
            "only": [
                {"shingle": one.shingle, "weight": one.weight, "anchored": one.anchored, "occurrences": one.occurrences}
                for one in only
            ],
        }
        for made, tokens, only in zip(found.fingerprints, found.tokens, found.only, strict=True)
    ]
    return {
        "documents": documents,
        "differing_bits": [bit for bit in range(found.bits) if found.differing >> bit & 1],
        "distance": found.distance,
        "similarity": found.similarity,
        "jaccard_words": found.jaccard_words,
        "jaccard_shingles": found.jaccard_shingles,
        "subsequence": found.subsequence,
        "subsequence_tokens": found.subsequence_tokens,
        "shared": [{"shingle": one.shingle, "weights": one.weights} for one in found.shared],
        "steps": [{"kind": step.kind, "tokens": step.tokens} for step in found.steps],
    }
