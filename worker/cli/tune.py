"""
`neardup evaluate`: how well labelled pairs are found. `neardup tune`: the settings that find copies
best.

Both read documents, whose texts stay in memory, and pairs of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import orjson
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli import app
from worker.cli.options import FINGERPRINTS, SEARCH, with_settings
from worker.cli.plan import in_bytes, number
from worker.cli.shared import NO_TIME, QuietOption, echo_json, passed, printable, summary, tracked
from worker.core import planner
from worker.core.document import Deletion
from worker.core.search import NO_MATCH
from worker.errors import StopError
from worker.settings import Settings, flag
from worker.shell.files.places import check_places, written

if TYPE_CHECKING:
    from worker.core.evaluation import Measures, Pairs, Scores, Trial

PAIRS_MAX = 20_000  # sampled where no labels are given
# Below them a share is known to some percent only.
GROUPS_MIN = 100
OTHER_MIN = 1_000
_LABELS = {"1": True, "0": False, "-1": None}  # None: not scored
# Of a wrong pair.
WRONG = ("first", "second", "same", "kind", "distance", "look", "similarity", "jaccard", "reason")
_BAR = 24  # characters of the longest bar


class Corpus(NamedTuple):
    """Documents in the order of their file, a row each."""

    doc_ids: list[str]
    texts: list[str]
    languages: list[str | None]  # as the messages name them


def read_corpus(path: Path, settings: Settings, *, quiet: bool = False) -> Corpus:
    """
    Read the texts of a file as a worker would; a doc_id that comes again replaces its former self.
    """
    from worker.report.answers import text_of  # noqa: PLC0415
    from worker.shell.files.crawl import CrawlFiles  # noqa: PLC0415

    crawl = CrawlFiles([str(path)], fetched_at_default=NO_TIME)
    held: dict[str, tuple[str, str | None]] = {}
    without = 0
    for record in tracked(crawl, "reading", quiet=quiet):
        try:
            document, text = text_of(record.key, record.value, settings)
        except Exception as error:  # whatever it is, it costs this document
            typer.echo(printable(f"no text: {record.place}: {error}"), err=True)
            without += 1
            continue
        held.pop(document.doc_id, None)
        if isinstance(document, Deletion):
            continue
        if text is None:
            without += 1
        else:
            held[document.doc_id] = text, document.language
    if not quiet:
        typer.echo(f"{summary(crawl)}, {without} without a text", err=True)
    if not held:
        raise StopError(f"no document of {path} has a text")
    texts, languages = zip(*held.values(), strict=True)
    return Corpus(list(held), list(texts), list(languages))


def read_pairs(path: Path, corpus: Corpus) -> Pairs:
    """
    Read lines of doc_id, doc_id, label (1 the same, 0 not, -1 not scored), and last the kind, by
    tabs.
    """
    from worker.core.evaluation import Pairs  # noqa: PLC0415

    number = {doc_id: row for row, doc_id in enumerate(corpus.doc_ids)}
    rows: list[tuple[int, int, bool | None, str]] = []
    unknown = 0
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StopError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        ) from error
    for line_number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if len(cells) < 3 or cells[2] not in _LABELS:
            raise StopError(
                f"{path}, line {line_number}: must be doc_id, doc_id, label (1, 0 or -1) and, if "
                f"you like, a kind, "
                f"separated by tabs, got {line[:100]!r}"
            )
        if _LABELS[cells[2]] is None:
            continue
        if cells[0] not in number or cells[1] not in number:
            unknown += 1
            continue
        rows.append(
            (
                number[cells[0]],
                number[cells[1]],
                _LABELS[cells[2]],
                cells[-1] if len(cells) > 3 else "pairs",
            )
        )
    if unknown:
        typer.echo(
            f"{unknown:,} pairs left out: the documents have no such doc_id, or no text under it",
            err=True,
        )
    if not rows:
        raise StopError(f"no pair of {path} can be scored with these documents")
    first, second, same, kinds = zip(*rows, strict=True)
    return Pairs(
        np.array(first, np.int64), np.array(second, np.int64), np.array(same, np.bool_), kinds
    )


@dataclass(frozen=True)
class Evaluation:
    """All that is shown of a search's pairs; mappings by names are as in the JSON."""

    pairs: Pairs
    measures: Measures
    found: NDArray[np.bool_]
    scores: dict[str, Scores]  # by kind of pair
    stream: dict[str, int]
    hard: dict[str, dict[str, int]]  # by kind of pair
    wrong: list[dict[str, Any]]  # same and missed, or found and not the same


@app.command()
@with_settings(*FINGERPRINTS, *SEARCH, "document_bytes_max", "text_characters_max")
def evaluate(
    settings: Settings,
    documents: Annotated[
        Path,
        typer.Argument(help="Documents: WARC, ARC, WET or JSON Lines; in their stream's order."),
    ],
    pairs: Annotated[
        Path,
        typer.Argument(
            help="Lines of doc_id, doc_id, label (1, 0, -1: not scored), kind; by tabs."
        ),
    ],
    wrong: Annotated[int, typer.Option(help="Wrong pairs to explain, of each sort.", min=0)] = 5,
    plot: Annotated[
        Path | None, typer.Option(help="Write the distances as a plot: .png or .svg.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    quiet: QuietOption = False,
) -> None:
    """
    Measure how many labelled pairs are found, and how many wrong ones.

    Recall, false positives, precision and F1 by kind of pair, with 95 % intervals (resampled by
    group of documents); the distances; wrong pairs with the reason. Then what a stream of all
    documents would report, and which pairs that are not the same it makes one, by kind.
    """
    check_places([documents, pairs, *settings.files], [] if plot is None else [plot])
    corpus = read_corpus(documents, settings, quiet=quiet)
    result = _evaluation(corpus, read_pairs(pairs, corpus), settings)
    if as_json:
        _write_json(result)
    else:
        _show(result, settings.search.text, wrong)
    if plot is not None:
        _plot_pairs(result, settings.search.max_distance, plot)


def _evaluation(corpus: Corpus, pairs: Pairs, settings: Settings) -> Evaluation:
    from worker.core import evaluation  # noqa: PLC0415
    from worker.core.fingerprint import Fingerprinter  # noqa: PLC0415

    # Made once, 8 bytes each.
    shingles = cache(lambda row: evaluation.shingle_set(corpus.texts[row]))

    def jaccard(one: int, other: int) -> float:
        return evaluation.exact_jaccard(shingles(one), shingles(other))

    rules = settings.search
    batch = Fingerprinter(settings.parameters).batch(corpus.texts, corpus.languages)
    measures = evaluation.measure(batch, pairs, rules)
    found = evaluation.finds(measures, rules)
    of_group = evaluation.groups(pairs, len(corpus.doc_ids))
    table: dict[str, Scores] = {}
    for kind in [*sorted(set(pairs.kinds)), "all"]:
        mine = pairs.of_kind(kind) if kind != "all" else pairs.first >= 0
        table[kind] = evaluation.score(found[mine], pairs.same[mine], of_group[mine])
    originals = evaluation.leaders(batch, rules)
    why = evaluation.reasons(measures, rules)
    wrong: list[dict[str, Any]] = []
    for row in np.flatnonzero(found != pairs.same).tolist():
        first = int(pairs.first[row])
        second = int(pairs.second[row])
        pair = (
            corpus.doc_ids[first],
            corpus.doc_ids[second],
            bool(pairs.same[row]),
            pairs.kinds[row],
        )
        seen = (
            *(int(column[row]) for column in measures[:3]),
            jaccard(first, second),
            why[row] or "found",
        )
        wrong.append(dict(zip(WRONG, (*pair, *seen), strict=True)))
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
    Count what a stream of all documents, in their order, would report: the documents, and
    duplicates by their original.

    That is a true one if a label, or a Jaccard similarity of .8, calls them the same; a grey one
    has .5 to .8.
    """
    from worker.core.evaluation import OTHER_BELOW, SAME_FROM  # noqa: PLC0415

    columns = pairs.first.tolist(), pairs.second.tolist(), pairs.same.tolist()
    label = {frozenset(pair): same for *pair, same in zip(*columns, strict=True)}
    found = [(row, original) for row, original in enumerate(originals.tolist()) if original >= 0]
    labelled = (label.get(frozenset(pair)) for pair in found)
    alike = [
        jaccard(*pair) if same is None else float(same)
        for pair, same in zip(found, labelled, strict=True)
    ]
    true = sum(one >= SAME_FROM for one in alike)
    wrong = sum(one < OTHER_BELOW for one in alike)
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
    leader = np.where(originals < 0, np.arange(len(originals)), originals)
    merged = leader[pairs.first] == leader[pairs.second]
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
    console = Console(highlight=False)
    console.print(Text(f"search: {rules}\n"))
    console.print(_scores(result.scores))
    console.print(_distances(result))
    documents, *counts = result.stream.values()
    true, grey, false = counts
    console.print(
        Text(
            f"\nAs a stream in this order: {documents:,} documents, {sum(counts):,} duplicates, "
            f"of them "
            f"{true:,} true, {grey:,} in between, {false:,} false "
            "(by label, else by exact Jaccard of 3-shingles: .8 and more, .5 to .8, below)"
        )
    )
    if any(one["found"] or one["merged"] for one in result.hard.values()):
        table = _table("kind", ("pairs", "found", "one in the stream"), "not the same, by kind")
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


def _table(first: str, numbers: tuple[str, ...], title: str | None = None) -> Table:
    """
    Return a table whose first column has names, if it has a name itself, and the others numbers.
    """
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    if first:
        shown.add_column(first, overflow="fold")
    for name in numbers:
        shown.add_column(name, justify="right", no_wrap=name != "false positives")
    return shown


def _scores(scores: dict[str, Scores]) -> Table:
    shown = _table("kind", ("same", "other", "recall", "false positives", "precision", "F1"))
    for kind, one in scores.items():
        recall = f"{_share(one.recall.value, 3)} ({_share(one.recall.low, 2)}-{_share(one.recall.high, 2)})"
        false = f"{_share(one.false_positives.value, 4)} (to {_share(one.false_positives.high, 4)})"
        cells = (recall if one.same else "", false if one.other else "")
        shares = (_share(one.precision.value, 3), _share(one.f1.value, 3))
        shown.add_row(Text(printable(kind)), f"{one.same:,}", f"{one.other:,}", *cells, *shares)
    return shown


def _share(value: float, digits: int) -> str:
    """Return a share without its leading zero; nothing for a share of nothing."""
    return "" if isnan(value) else f"{value:.{digits}f}".removeprefix("0")


def _distances(result: Evaluation) -> Table:
    """
    Return pairs by distance: the same and found, the same and missed, not the same and found, or
    not.
    """
    shown = _table("", ("bits", "same", "missed", "other", "found"), "pairs by distance")
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


@contextmanager
def _drawn(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """
    Return a figure of this size in inches to draw on; it is written at the end, in the format of
    the path.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # without a window, whatever the machine has
    except ImportError as error:
        raise StopError("--plot needs matplotlib: pip install matplotlib") from error
    figure = Figure(figsize=size)
    yield figure
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    try:
        with written(path) as stream:
            figure.savefig(stream, dpi=120, format=path.suffix.removeprefix(".") or None)
    except ValueError as error:  # an ending that matplotlib does not know
        raise StopError(f"cannot write {path}: {error}") from error


def _plot_pairs(result: Evaluation, max_distance: int, path: Path) -> None:
    """
    Draw the pairs by distance and by similarity, those that are the same and those that are not.
    """
    measures = result.measures
    same = result.pairs.same
    with _drawn(path, (10, 4)) as figure:
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


@app.command()
@with_settings(*FINGERPRINTS, *SEARCH, "document_bytes_max", "text_characters_max")
def tune(
    settings: Settings,
    documents: Annotated[
        Path, typer.Argument(help="Documents like those to come: WARC, ARC, WET or JSON Lines.")
    ],
    pairs: Annotated[
        Path | None,
        typer.Argument(
            help="Labelled pairs, as for evaluate. [default: pairs sampled and judged exactly]"
        ),
    ] = None,
    expected: Annotated[
        str, typer.Option(help="Originals that the index will hold, like 20M.")
    ] = "20M",
    false_positives: Annotated[
        float,
        typer.Option(
            help="Share of the pairs that are not the same that may be found.", min=0, max=1
        ),
    ] = 0.001,
    plot: Annotated[
        Path | None, typer.Option(help="Write recall by false positives as a plot: .png or .svg.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The best settings as JSON Lines, the best first.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """
    Find the settings that find most copies of your documents.

    Weights, widths and masks are tried, and bits, second look and similarity together.

    Without labels, pairs are sampled and judged by the exact Jaccard similarity of their shingles.
    Give labelled pairs where pages look alike and are not one, as products of a shop.
    """
    from worker.core.evaluation import choices, frontier, sample_pairs, searches, trials, variants  # noqa: PLC0415
    from worker.core.fingerprint import Fingerprinter  # noqa: PLC0415

    count = number(expected, "--expected")
    labels = [] if pairs is None else [pairs]
    check_places([documents, *labels, *settings.files], [] if plot is None else [plot])
    corpus = read_corpus(documents, settings, quiet=quiet)
    if pairs is None:
        batch = Fingerprinter(settings.parameters).batch(corpus.texts, corpus.languages)
        labelled = sample_pairs(corpus.texts, batch, PAIRS_MAX)
    else:
        labelled = read_pairs(pairs, corpus)
    _warn(labelled, corpus)
    base = settings.parameters, settings.search
    total = len({one.hash for _, one in variants(base[0])}) * sum(1 for _ in searches(base[1]))
    all_trials = trials(corpus.texts, corpus.languages, labelled, base)
    tried = list(passed(all_trials, "trying", "settings", lambda _: total, quiet=quiet))
    best = frontier(tried, false_positives)
    if not best:
        told = f"no settings keep false positives at {false_positives} or below on these pairs"
        typer.echo(f"{told}: look at them with `neardup evaluate`", err=True)
        raise typer.Exit(1)
    if as_json:
        for one in best:
            scores = {name: getattr(one, name) for name in ("recall", "false_positives")}
            typer.echo(json.dumps({**scores, "settings": _changed(one, settings)}))
    else:
        console = Console(highlight=False)
        same = int(labelled.same.sum())
        console.print(
            Text(f"{same:,} pairs the same, {len(labelled.same) - same:,} not; best first")
        )
        console.print(_best(best))
        if around := choices(tried, best[0]):
            console.print(_choices(around, best[0]))
        changed = _changed(best[0], settings)
        flags = " ".join(flag(settings.model_copy(update=changed), name) for name in changed)
        console.print(Text(f"settings: {flags or 'as given'}"))
        console.print(Text(_cost(best[0], count)))
    if plot is not None:
        _plot_trials(tried, best, plot)


def _warn(labelled: Pairs, corpus: Corpus) -> None:
    """Say when there is too little to go by."""
    from worker.core.evaluation import groups  # noqa: PLC0415

    same = len(set(groups(labelled, len(corpus.doc_ids))[labelled.same].tolist()))
    other = int((~labelled.same).sum())
    if same < GROUPS_MIN or other < OTHER_MIN:
        told = f"{same:,} groups of copies (better {GROUPS_MIN} or more) and {other:,} pairs that are not the same"
        typer.echo(
            f"too little data: {told} (better {OTHER_MIN:,}): what comes out may be chance",
            err=True,
        )
    if not same:
        typer.echo("no pair is the same: nothing can be tuned", err=True)
        raise typer.Exit(1)


def _best(best: list[Trial]) -> Table:
    shown = _table("", ("recall", "false positives"))
    shown.add_column("search", overflow="fold")
    shown.add_column("fingerprint", overflow="fold")
    for one in best:
        shown.add_row(
            f"{one.recall:.4f}",
            f"{one.false_positives:.5f}",
            one.rules.text,
            one.name or "as given",
        )
    return shown


def _choices(around: dict[str, list[Trial]], best: Trial) -> Table:
    """Return what each rule does to both kinds of error, the others as the best has them."""
    shown = _table(
        "rule", ("value", "recall", "false positives"), "the best, with one rule changed"
    )
    for name, alike in around.items():
        for at, one in enumerate(alike):
            mark = " *" if one.rules == best.rules else ""
            value = f"{getattr(one.rules, name):,}{mark}"
            shown.add_row(
                "" if at else name, value, f"{one.recall:.4f}", f"{one.false_positives:.5f}"
            )
    return shown


def _cost(best: Trial, documents: int) -> str:
    """Say what the index takes, by the planner's model."""
    found: planner.Plan[Any]
    if best.rules.mode == "exact":
        found = planner.plan(documents, best.rules.max_distance)[0]
    else:
        found = planner.estimate_directed(best.rules, documents)
    return (
        f"at {documents:,} originals: an index of {in_bytes(found.memory_bytes)}, "
        f"{found.query_insert_ns / 1e3:,.1f} µs per document on one core (`neardup plan`)"
    )


def _changed(best: Trial, settings: Settings) -> dict[str, object]:
    """Return the settings that differ from those given; none when they are the best."""
    rules = best.rules
    parameters = best.parameters
    values: dict[str, object] = rules.settings
    for name in (
        "anchored_weight",
        "unanchored_weight",
        "term_frequency",
        "mask_numbers",
        "mask_identifiers",
    ):
        values[name] = getattr(parameters, name)
    values["shingle_widths"] = parameters.shingle_widths
    # What is left out depends on it.
    alike = settings.model_copy(update={"search_mode": rules.mode}).search.settings
    given = alike | {"search_mode": settings.search_mode}
    return {
        name: value
        for name, value in values.items()
        if value != given.get(name, getattr(settings, name))
    }


def _plot_trials(tried: list[Trial], best: list[Trial], path: Path) -> None:
    """
    Draw each trial: recall by false positives, exact and directed searches apart, the chosen one
    marked.
    """
    with _drawn(path, (8, 5)) as figure:
        axis = figure.subplots()
        for mode, color in (("exact", "#8c959f"), ("directed", "#0969da")):
            mine = [one for one in tried if one.rules.mode == mode]
            axis.plot(
                [one.false_positives for one in mine],
                [one.recall for one in mine],
                ".",
                color=color,
                label=mode,
            )
        axis.plot(
            best[0].false_positives,
            best[0].recall,
            "o",
            color="#cf222e",
            fillstyle="none",
            label="chosen",
        )
        axis.set_xscale("symlog", linthresh=1e-4)
        axis.set(xlabel="share of false positives", ylabel="recall", ylim=(0, 1.02))
        axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
