"""`neardup evaluate`: how well labelled pairs are found, and what a stream of the documents would report."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import orjson
import typer

from worker.cli import app, evaluate_view
from worker.cli.corpus import read_corpus, read_pairs
from worker.cli.lines import QuietOption
from worker.cli.options import FINGERPRINTS, SEARCH, with_settings
from worker.settings import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from worker.cli.corpus import Corpus
    from worker.core.evaluation import Measured, Pairs, Scores


class Stream(NamedTuple):
    """What a stream of all documents, in their order, would report."""

    documents: int
    true: int  # duplicates whose original a label, or a Jaccard similarity of .8, calls the same
    grey: int  # of a similarity between .5 and .8
    false: int


class Hard(NamedTuple):
    """Pairs of a kind that are not the same."""

    pairs: int
    found: int  # one is a duplicate of the other with nothing else held
    merged: int  # one is a duplicate of the other, or both are of a third, in a stream of all documents


class Wrong(NamedTuple):
    """A pair that is the same and missed, or found and not the same."""

    first: str
    second: str
    same: bool
    kind: str
    distance: int
    look: int
    similarity: int
    jaccard: float
    reason: str


@app.command()
@with_settings(*FINGERPRINTS, *SEARCH, "document_bytes_max", "text_characters_max")
def evaluate(
    settings: Settings,
    documents: Annotated[
        Path, typer.Argument(help="Documents: WARC, ARC, WET or JSON Lines; in their stream's order.")
    ],
    pairs: Annotated[
        Path, typer.Argument(help="Lines of doc_id, doc_id, label (1, 0, -1: not scored), kind; by tabs.")
    ],
    wrong: Annotated[int, typer.Option(help="Wrong pairs to explain, of each sort.", min=0)] = 5,
    plot: Annotated[Path | None, typer.Option(help="Write the distances as a plot: .png or .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    quiet: QuietOption = False,
) -> None:
    """
    Measure how many labelled pairs are found, and how many wrong ones.

    Recall, false positives, precision and F1 by kind of pair, with 95 % intervals (resampled by group of documents);
    the distances; wrong pairs with the reason. Then what a stream of all documents would report, and which pairs that
    are not the same it makes one, by kind.
    """
    from worker.core.evaluation import finds, groups, leaders, measure, reasons, score  # noqa: PLC0415
    from worker.core.fingerprint import Fingerprinter  # noqa: PLC0415

    corpus = read_corpus(documents, settings, quiet=quiet)
    labelled = read_pairs(pairs, corpus)
    rules = settings.search
    batch = Fingerprinter(settings.parameters).batch(corpus.texts, corpus.languages)
    measured = measure(batch, labelled, rules)
    found = finds(measured, rules)
    of_group = groups(labelled, len(corpus.doc_ids))
    table: dict[str, Scores] = {}
    for kind in [*sorted(set(labelled.kinds)), "all"]:
        mine = labelled.of_kind(kind) if kind != "all" else labelled.first >= 0
        table[kind] = score(found[mine], labelled.same[mine], of_group[mine])
    of, likeness = leaders(batch, rules), _likeness(corpus)
    stream = _stream(of, labelled, likeness)
    hard = _hard_negatives(of, found, labelled)
    wrong_pairs = np.flatnonzero(found != labelled.same).tolist()
    explained = _wrong(wrong_pairs, measured, reasons(measured, rules), labelled, corpus, likeness)
    if as_json:
        _write_json(table, measured, labelled, stream, hard, explained)
    else:
        evaluate_view.show(rules.text, table, (measured, found, labelled), stream, hard, explained, wrong)
    if plot is not None:
        evaluate_view.plot(measured, labelled, rules.max_distance, plot)


def _likeness(corpus: Corpus) -> Callable[[int, int], float]:
    """Return what measures the exact Jaccard index of two documents; their shingles are made once, 8 bytes each."""
    from worker.core.evaluation import exact_jaccard, shingle_set  # noqa: PLC0415

    shingles = cache(lambda row: shingle_set(corpus.texts[row]))
    return lambda one, other: exact_jaccard(shingles(one), shingles(other))


def _stream(of: NDArray[np.int64], labelled: Pairs, likeness: Callable[[int, int], float]) -> Stream:
    """Look at what each duplicate of a stream is a duplicate of."""
    from worker.core.tuning import OTHER_BELOW, SAME_FROM  # noqa: PLC0415

    label = {
        frozenset(pair): same
        for *pair, same in zip(labelled.first.tolist(), labelled.second.tolist(), labelled.same.tolist(), strict=True)
    }
    counts = {"true": 0, "grey": 0, "false": 0}
    for row, original in enumerate(of.tolist()):
        if original < 0:
            continue
        same = label.get(frozenset((row, original)))
        if same is None:
            alike = likeness(row, original)
            counts["true" if alike >= SAME_FROM else "grey" if alike >= OTHER_BELOW else "false"] += 1
        else:
            counts["true" if same else "false"] += 1
    return Stream(len(of), **counts)


def _hard_negatives(of: NDArray[np.int64], found: NDArray[np.bool_], labelled: Pairs) -> dict[str, Hard]:
    """Count the pairs that are not the same by kind: all, those found, those that a stream makes one."""
    original = np.where(of < 0, np.arange(len(of)), of)
    merged = original[labelled.first] == original[labelled.second]
    counts = {}
    for kind in sorted({kind for kind, same in zip(labelled.kinds, labelled.same.tolist(), strict=True) if not same}):
        other = labelled.of_kind(kind) & ~labelled.same
        counts[kind] = Hard(int(other.sum()), int((other & found).sum()), int((other & merged).sum()))
    return counts


def _wrong(
    rows: list[int],
    measured: Measured,
    told: list[str],
    labelled: Pairs,
    corpus: Corpus,
    likeness: Callable[[int, int], float],
) -> list[Wrong]:
    """Return the pairs that were missed, the most similar first; then those found wrongly, the least similar first."""
    found = []
    for row in rows:
        first, second = int(labelled.first[row]), int(labelled.second[row])
        found.append(
            Wrong(
                corpus.doc_ids[first], corpus.doc_ids[second], bool(labelled.same[row]), labelled.kinds[row],
                int(measured.distances[row]), int(measured.looks[row]),
                int(measured.similarities[row]), likeness(first, second), told[row] or "found",
            )
        )  # fmt: skip
    return sorted(found, key=lambda one: (not one.same, -one.jaccard if one.same else one.jaccard, one.first))


def _write_json(
    table: dict[str, Scores],
    measured: Measured,
    labelled: Pairs,
    stream: Stream,
    hard: dict[str, Hard],
    explained: list[Wrong],
) -> None:
    fields: dict[str, Any] = {
        "scores": {
            kind: {"same": one.same, "other": one.other}
            | {name: getattr(one, name)._asdict() for name in ("recall", "false_positives", "precision", "f1")}
            for kind, one in table.items()
        },
        "distances": {
            name: np.bincount(np.minimum(measured.distances[chosen], 65), minlength=66).tolist()  # last: no distance
            for name, chosen in (("same", labelled.same), ("other", ~labelled.same))
        },
        "stream": stream._asdict(),
        "hard_negatives": {kind: one._asdict() for kind, one in hard.items()},
        "wrong": [one._asdict() for one in explained],
    }
    sys.stdout.buffer.write(orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE))
