"""`neardup evaluate`: how well a search finds labelled pairs of documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import orjson
import typer
from numpy.typing import NDArray
from rich.table import Table
from rich.text import Text

from worker.cli.labelled import (
    ALL_KINDS,
    Corpus,
    drawn,
    error_cells,
    number_table,
    read_labelled,
    share,
)
from worker.cli.options import with_settings
from worker.cli.reading import Reading
from worker.cli.shared import (
    ObjectOption,
    QuietOption,
    console_of_terminal,
    echo_json,
    printable,
)
from worker.core import evaluation
from worker.core.evaluation import Measures, Pairs, Scores
from worker.core.search import NO_MATCH
from worker.settings import Settings
from worker.shell.files.formats import INPUTS

_BAR = 24  # characters of the longest bar


@dataclass(frozen=True)
class Evaluation:
    """The report on a search's pairs; mappings by names are as in the JSON."""

    pairs: Pairs
    measures: Measures
    found: NDArray[np.bool_]
    scores: dict[str, Scores]  # by kind of pair
    stream: dict[str, int]
    hard: dict[str, dict[str, int]]  # by kind of pair
    wrong: list[dict[str, Any]]  # same and missed, or found and not the same


@with_settings("definition", "document_bytes_max")
def evaluate(
    settings: Settings,
    documents: Annotated[
        str,
        typer.Argument(
            help=f"Documents in the order of their stream: {INPUTS}; a folder, or a name with *."
        ),
    ],
    pairs: Annotated[
        Path,
        typer.Argument(
            help=(
                "Lines of doc_id, doc_id, label and kind, separated "
                "by tabs. Label: 1 a copy, 0 not, -1 not scored."
            )
        ),
    ],
    wrong: Annotated[
        int, typer.Option(help="How many wrong pairs of each kind to explain.", min=0)
    ] = 5,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the distances to this file: .png or .svg.")
    ] = None,
    as_json: ObjectOption = False,
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Measure how many labelled copies and how many wrong pairs are found.

    Prints recall, false positives, precision and F1 by kind of pair, with 95 % intervals (Wilson's,
    by group of documents), the distances, and wrong pairs with the reason. Each pair is compared
    alone. Then prints the verdicts on a stream of all documents, and how many pairs of different
    documents it merges, by kind. In this stream no original expires, and recrawls = "replace" has
    no effect.
    """
    corpus, labelled = read_labelled(documents, pairs, plot, settings, reading, quiet=quiet)
    result = _evaluation(corpus, labelled, settings)
    if as_json:
        _write_json(result)
    else:
        _show(result, settings.search.text, wrong)
    if plot is not None:
        _plot_pairs(result, settings.search.max_distance, plot)


def _evaluation(corpus: Corpus, pairs: Pairs, settings: Settings) -> Evaluation:
    # Made once, 8 bytes each.
    shingles = cache(lambda row: evaluation.shingle_set(corpus.texts[row]))

    def jaccard(one: int, other: int) -> float:
        return evaluation.exact_jaccard(shingles(one), shingles(other))

    rules = settings.search
    batch = corpus.batch(settings.parameters)
    measures = evaluation.measure(batch, pairs, rules, corpus.pages)
    found = evaluation.finds(measures, rules)
    of_group = evaluation.groups(pairs, len(corpus.doc_ids))
    table: dict[str, Scores] = {}
    for kind in [*sorted(set(pairs.kinds)), ALL_KINDS]:
        mine = pairs.of_kind(kind) if kind != ALL_KINDS else pairs.first >= 0
        table[kind] = evaluation.score(found[mine], pairs.same[mine], of_group[mine])
    originals = evaluation.leaders(batch, rules, corpus.pages)
    why = evaluation.reasons(measures, rules)
    wrong: list[dict[str, Any]] = []
    for row in np.flatnonzero(found != pairs.same).tolist():
        first = int(pairs.first[row])
        second = int(pairs.second[row])
        wrong.append(
            {
                "first": corpus.doc_ids[first],
                "second": corpus.doc_ids[second],
                "same": bool(pairs.same[row]),
                "kind": pairs.kinds[row],
                "distance": int(measures.distances[row]),
                "look": int(measures.looks[row]),
                "similarity": int(measures.similarities[row]),
                "jaccard": jaccard(first, second),
                "reason": why[row] or "found",
            }
        )
    # missed ones first, the most similar of them first; of those found wrongly the least similar
    # first
    wrong.sort(
        key=lambda one: (
            not one["same"],
            -one["jaccard"] if one["same"] else one["jaccard"],
            one["first"],
        )
    )
    stream = _stream(originals, pairs, jaccard)
    return Evaluation(
        pairs, measures, found, table, stream, _hard_negatives(originals, found, pairs), wrong
    )


def _stream(
    originals: NDArray[np.int64], pairs: Pairs, jaccard: Callable[[int, int], float]
) -> dict[str, int]:
    """
    Count the verdicts on a stream of all documents in their order.

    Returns the documents, and the duplicates by their original.

    That is a true one if a label, or a Jaccard similarity of .8, calls them the same; a grey one
    has .5 to .8.
    """
    columns = pairs.first.tolist(), pairs.second.tolist(), pairs.same.tolist()
    label = {frozenset(pair): same for *pair, same in zip(*columns, strict=True)}
    found = [(row, original) for row, original in enumerate(originals.tolist()) if original >= 0]
    labelled = (label.get(frozenset(pair)) for pair in found)
    alike = [
        jaccard(*pair) if same is None else float(same)
        for pair, same in zip(found, labelled, strict=True)
    ]
    true = sum(one >= evaluation.SAME_FROM for one in alike)
    wrong = sum(one < evaluation.OTHER_BELOW for one in alike)
    return {
        "documents": len(originals),
        "true": true,
        "grey": len(alike) - true - wrong,
        "false": wrong,
    }


def _hard_negatives(
    originals: NDArray[np.int64], found: NDArray[np.bool_], pairs: Pairs
) -> dict[str, dict[str, int]]:
    """
    Count the pairs that are not the same by kind: all, those found, those that a stream makes one.

    Found: one is a duplicate of the other with nothing else held. Merged: one is of the other, or
    both are of a third.
    """
    merged = evaluation.in_one_cluster(originals, pairs)
    counts = {}
    for kind in sorted(
        {kind for kind, same in zip(pairs.kinds, pairs.same.tolist(), strict=True) if not same}
    ):
        other = pairs.of_kind(kind) & ~pairs.same
        marked = {"pairs": other, "found": other & found, "merged": other & merged}
        counts[kind] = {name: int(rows.sum()) for name, rows in marked.items()}
    return counts


def _write_json(result: Evaluation) -> None:
    fields: dict[str, Any] = {
        "scores": {
            kind: {"same": one.same, "other": one.other}
            | {
                name: getattr(one, name)._asdict()
                for name in ("recall", "false_positives", "precision", "f1")
            }
            for kind, one in result.scores.items()
        },
        "distances": {
            name: np.bincount(
                np.minimum(result.measures.distances[chosen], 65), minlength=66
            ).tolist()  # last: none
            for name, chosen in (("same", result.pairs.same), ("other", ~result.pairs.same))
        },
        "stream": result.stream,
        "hard_negatives": result.hard,
        "wrong": result.wrong,
    }
    echo_json(orjson.dumps(fields))


def _show(result: Evaluation, rules: str, wrong: int) -> None:
    """Print everything; the tables follow the terminal's width."""
    console = console_of_terminal()
    console.print(Text(f"search: {rules}\n"))
    console.print(_scores(result.scores))
    console.print(_distances(result))
    documents, *counts = result.stream.values()
    true, grey, false = counts
    console.print(
        Text(
            f"\nAs a stream in this order: {documents:,} documents, {sum(counts):,} duplicates, "
            f"of them {true:,} true, {grey:,} in between, {false:,} false (by label, else by exact "
            "Jaccard of 3-shingles: .8 and more, .5 to .8, below)"
        )
    )
    if any(one["found"] or one["merged"] for one in result.hard.values()):
        table = number_table(
            "kind", ("pairs", "found", "one in the stream"), "not the same, by kind"
        )
        for kind, one in result.hard.items():
            table.add_row(Text(printable(kind)), *(f"{count:,}" for count in one.values()))
        console.print(table)
    for same, title in ((True, "missed"), (False, "found, but not the same")):
        mine = [one for one in result.wrong if one["same"] is same]
        if mine and wrong:
            console.print(Text(f"\n{title}: {len(mine):,}, shown {min(wrong, len(mine)):,}"))
        for pair in mine[:wrong]:
            bits = "distance {distance}, look {look}, similarity {similarity}, ".format_map(pair)
            told = (bits if pair["distance"] != NO_MATCH else "") + f"Jaccard {pair['jaccard']:.2f}"
            line = "  {first} ~ {second} ({kind}): {reason}; ".format_map(pair) + told
            console.print(Text(printable(line)))


def _scores(scores: dict[str, Scores]) -> Table:
    shown = number_table("kind", ("same", "other", "recall", "false positives", "precision", "F1"))
    for kind, one in scores.items():
        shares = (share(one.precision.value, 3), share(one.f1.value, 3))
        shown.add_row(
            Text(printable(kind)), f"{one.same:,}", f"{one.other:,}", *error_cells(one), *shares
        )
    return shown


def _distances(result: Evaluation) -> Table:
    """
    Return the pairs by distance, in four groups: copies found and missed, others found and not.
    """
    shown = number_table("", ("bits", "same", "missed", "other", "found"), "pairs by distance")
    shown.add_column("same #, other .")
    rows = []
    for distance in sorted(set(result.measures.distances.tolist())):
        here = result.measures.distances == distance
        same = here & result.pairs.same
        other = here & ~result.pairs.same
        rows.append(
            (
                distance,
                *(
                    int(one.sum())
                    for one in (same, same & ~result.found, other, other & result.found)
                ),
            )
        )
    longest = max(max(row[1], row[3]) for row in rows)
    for distance, *counts in rows:
        bars = f"{'#' * -(-_BAR * counts[0] // longest)}{'.' * -(-_BAR * counts[2] // longest)}"
        name = "none" if distance == NO_MATCH else str(distance)
        shown.add_row(name, *(f"{count:,}" for count in counts), bars)
    return shown


def _plot_pairs(result: Evaluation, max_distance: int, path: Path) -> None:
    """
    Draw the pairs by distance and by similarity, those that are the same and those that are not.
    """
    measures = result.measures
    same = result.pairs.same
    with drawn(path, (10, 4)) as figure:
        left, right = figure.subplots(1, 2)
        for mine, color, name in (
            (same, "#0969da", "the same"),
            (~same, "#cf222e", "not the same"),
        ):
            left.hist(measures.distances[mine], bins=range(66), color=color, alpha=0.55, label=name)
            right.hist(
                measures.similarities[mine] / 1_000,
                bins=50,
                range=(0, 1),
                color=color,
                alpha=0.55,
                label=name,
            )
        label = f"max_distance {max_distance}"
        left.axvline(max_distance + 1, color="#57606a", linewidth=1, linestyle="--", label=label)
        left.set(xlabel="bits that differ", ylabel="pairs")
        right.set(xlabel="similarity", ylabel="pairs")
        left.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)
