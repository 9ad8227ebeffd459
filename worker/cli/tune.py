"""`neardup tune`: the settings that find copies best."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from worker.cli.labelled import (
    Corpus,
    drawn,
    error_cells,
    number_table,
    read_labelled,
)
from worker.cli.options import with_settings
from worker.cli.plan import in_bytes, number
from worker.cli.progress import passed
from worker.cli.reading import Reading
from worker.cli.shared import QuietOption, console_of_terminal
from worker.core import planner
from worker.core.evaluation import (
    ALIKE_FROM,
    LOOKALIKES,
    OTHER_BELOW,
    Pairs,
    Scores,
    StreamTrial,
    Trial,
    choices,
    frontier,
    given_trial,
    groups,
    measure,
    searches,
    stream_trials,
    threshold_trials,
    trial_of,
    trials,
    variants,
)
from worker.errors import StopError
from worker.settings import Settings, toml_value
from worker.shell.files.formats import INPUTS

# Below them a share is known to some percent only, and no settings are recommended.
GROUPS_MIN = 200  # groups of copies
LOOKALIKES_MIN = 200  # sampled pairs
OTHER_MIN = 1_000  # labelled pairs, which people choose because they are hard
_MORE = "Give more documents, or more labelled pairs (PAIRS)"
_ADVICE = (
    "Until then, compare the usual thresholds: take another than the default if it is better by "
    "more than the intervals, and see what it gets wrong with `neardup evaluate --definition`"
)


@dataclass(frozen=True)
class Tuning:
    """All that was tried, and what is best of it."""

    tried: list[Trial]
    best: list[Trial]  # the best first
    streams: list[StreamTrial]
    recommended: Trial  # the best one, with the threshold and margin that the streams chose
    is_sure: bool  # whether there were pairs enough to recommend it

    def star(self, *, is_recommended: bool) -> str:
        """Return the mark behind a figure of what is recommended; empty for all others."""
        return " *" if self.is_sure and is_recommended else ""


@with_settings("definition", "document_bytes_max")
def tune(
    settings: Settings,
    documents: Annotated[
        str,
        typer.Argument(
            help=f"Documents like those you will judge: {INPUTS}; a folder, or a name with *."
        ),
    ],
    pairs: Annotated[
        Path | None,
        typer.Argument(
            help="Labelled pairs, as for evaluate. [default: sampled pairs, judged exactly]"
        ),
    ] = None,
    expected: Annotated[str, typer.Option(help="Originals that the index will hold.")] = "20M",
    false_positives: Annotated[
        float, typer.Option(help="Highest share of false positives.", min=0, max=1)
    ] = 0.001,
    plot: Annotated[
        Path | None, typer.Option(help="Draw recall and false positives: .png, .svg.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The best settings as JSON Lines, the best first.")
    ] = False,
    *,
    reading: Reading,
    quiet: QuietOption = False,
) -> None:
    """
    Find the settings that find the most copies among your documents.

    It tries weights, widths and masks, and combinations of bits, second look and similarity. A star
    marks the recommended settings. Too few labelled pairs show the usual thresholds side by side.

    Threshold and margin are chosen last, with all documents as a stream: whether a copy stands out
    does not show in a pair, only among many originals. Both errors have 95 % intervals.

    Without labels, it samples pairs, and judges them by the exact Jaccard index of their shingles.
    Give it labelled pairs if your pages look alike without being copies, like products of a shop.
    """
    documents_expected = number(expected, "--expected")
    corpus, labelled = read_labelled(documents, pairs, plot, settings, reading, quiet=quiet)
    if not labelled.same.any():
        among = "the sampled pairs" if pairs is None else f"the pairs of {pairs}"
        raise StopError(f"nothing can be tuned: none of {among} are copies. {_MORE}")
    shortfalls = _shortfalls(labelled, corpus, is_sampled=pairs is None)
    if shortfalls and pairs is not None and settings.search.similarity_min:
        typer.echo(f"no settings are recommended: {'; '.join(shortfalls)}. {_ADVICE}", err=True)
        _compare_thresholds(corpus, labelled, settings, plot, as_json=as_json)
        return
    tried = _tried(corpus, labelled, settings, quiet)
    best = frontier(tried, false_positives, settings.search)
    if not best:
        reason = f"no settings keep false positives at {false_positives} or below on these pairs"
        typer.echo(f"{reason}: look at them with `neardup evaluate`", err=True)
        raise typer.Exit(1)
    streams, recommended = _chosen_by_streams(corpus, labelled, best, false_positives, settings)
    if shortfalls:
        typer.echo(f"no settings are recommended: {'; '.join(shortfalls)}", err=True)
    result = Tuning(tried, best, streams, recommended, is_sure=not shortfalls)
    if as_json:
        _write_json(result, settings)
    else:
        _show(result, labelled, settings)
        _show_recommended(result, settings, documents_expected)
    if plot is not None:
        _plot_trials(tried, best, plot)


def _compare_thresholds(
    corpus: Corpus, labelled: Pairs, settings: Settings, plot: Path | None, *, as_json: bool
) -> None:
    """Print what the usual thresholds make of pairs that are too few to choose settings by."""
    batch = corpus.batch(settings.parameters)
    compared = threshold_trials(batch, labelled, settings.search, corpus.pages)
    if as_json:
        for one in compared:
            recall, false_positives = one.alone.recall, one.alone.false_positives
            _write_line(
                recall.value,
                false_positives.value if one.alone.other else None,
                {"similarity_min": one.rules.similarity_min},
                {"pairs": one.alone, "stream": one.stream},
            )
    else:
        same = int(labelled.same.sum())
        counted = f"{same:,} pairs the same, {len(labelled.same) - same:,} not"
        alone = [([f"{one.rules.similarity_min:g}"], one.alone) for one in compared]
        stream = [([f"{one.rules.similarity_min:g}"], one.stream) for one in compared]
        names = ("similarity_min",)
        console = console_of_terminal()
        console.print(_errors(names, alone, f"{counted}; each alone, with 95 % intervals"))
        console.print(_errors(names, stream, "as a stream in this order: pairs in one cluster"))
    if plot is not None:
        measured = measure(batch, labelled, settings.search, corpus.pages)
        made = [
            trial_of("", settings.parameters, one.rules, measured, labelled) for one in compared
        ]
        given = [trial for trial in made if trial.rules == settings.search]
        _plot_trials(made, given, plot)


def _errors(names: tuple[str, ...], rows: Iterable[tuple[list[str], Scores]], title: str) -> Table:
    """Return a table of what was tried, with the intervals of both errors."""
    shown = number_table("", (*names, "recall", "false positives"), title)
    for cells, scores in rows:
        shown.add_row(*cells, *error_cells(scores))
    return shown


def _with_intervals(scores: Scores) -> dict[str, Any]:
    """Return both errors for JSON; None for false positives where all pairs are the same."""
    return {
        "recall": scores.recall._asdict(),
        "false_positives": scores.false_positives._asdict() if scores.other else None,
    }


def _chosen_by_streams(
    corpus: Corpus, labelled: Pairs, best: list[Trial], false_positives: float, settings: Settings
) -> tuple[list[StreamTrial], Trial]:
    """
    Judge all documents as a stream, and set the threshold of the best trial by it.

    Returns what was tried, and the best trial with the margin that was chosen, too.
    """
    first = best[0]
    batch = corpus.batch(first.parameters)
    streams = stream_trials(batch, labelled, first, corpus.pages)
    chosen = frontier([one.trial for one in streams], false_positives, settings.search)
    if not chosen:
        if streams:
            typer.echo(
                f"no threshold and margin keep false positives at {false_positives} or below in "
                "the stream: both are left as the pairs have them",
                err=True,
            )
        return streams, first
    alike = replace(first.rules, similarity_min=chosen[0].rules.similarity_min)
    measured = measure(batch, labelled, alike, corpus.pages)
    best[0] = trial_of(first.name, first.parameters, alike, measured, labelled)
    return streams, best[0]._replace(rules=chosen[0].rules)


def _tried(corpus: Corpus, labelled: Pairs, settings: Settings, quiet: bool) -> list[Trial]:
    """Try everything, and show how far that has come."""
    base = settings.parameters, settings.search
    fingerprints = {parameters.hash for _, parameters in variants(settings.parameters)}
    total = len(fingerprints) * sum(1 for _ in searches(settings.search))
    all_trials = trials(corpus.texts, corpus.languages, labelled, base, corpus.pages)
    return list(passed(all_trials, "trying", "settings", lambda _: total, quiet=quiet))


def _shortfalls(labelled: Pairs, corpus: Corpus, *, is_sampled: bool) -> list[str]:
    """Say which pairs are missing before settings can be recommended. Empty if none are."""
    of_group = groups(labelled, len(corpus.doc_ids))
    copies = len(np.unique(of_group[labelled.same]))
    shortfalls = []
    if copies < GROUPS_MIN:
        shortfalls.append(
            f"{copies:,} groups of copies, {GROUPS_MIN:,} or more are needed: give more documents"
        )
    if is_sampled:
        lookalikes = int(labelled.of_kind(LOOKALIKES).sum())
        if lookalikes < LOOKALIKES_MIN:
            shortfalls.append(
                f"{lookalikes:,} pairs that look alike and are not the same "
                f"(a Jaccard index of {ALIKE_FROM} to {OTHER_BELOW}), "
                f"{LOOKALIKES_MIN:,} or more are needed: nothing else shows what a "
                "lower threshold would merge. Give more documents, or labelled pairs"
            )
    elif (other := int((~labelled.same).sum())) < OTHER_MIN:
        shortfalls.append(
            f"{other:,} pairs that are not the same, {OTHER_MIN:,} or more are needed: label more"
        )
    return shortfalls


def _write_json(result: Tuning, settings: Settings) -> None:
    rules = result.recommended.rules
    in_stream = [one.scores for one in result.streams if one.trial.rules == rules]
    for trial in result.best:
        is_best = trial is result.best[0]
        _write_line(
            trial.recall,
            trial.false_positives,
            _changed(result.recommended if is_best else trial, settings),
            {"stream": in_stream[0]} if is_best and in_stream else {},
            is_recommended=result.is_sure and is_best,
        )


def _write_line(
    recall: float,
    false_positives: float | None,
    settings: dict[str, Any],
    measured: dict[str, Scores],
    *,
    is_recommended: bool = False,
) -> None:
    """Write a trial as JSON, and the intervals of what was measured, by name."""
    fields: dict[str, Any] = {
        "recall": recall,
        "false_positives": false_positives,
        "recommended": is_recommended,
        "settings": settings,
    }
    fields |= {name: _with_intervals(scores) for name, scores in measured.items()}
    typer.echo(json.dumps(fields))


def _show(result: Tuning, labelled: Pairs, settings: Settings) -> None:
    """
    Print the pairs, the best trials, what each rule does to pairs, and what thresholds and margins
    do to a stream of all documents.
    """
    console = console_of_terminal()
    same = int(labelled.same.sum())
    lookalikes = int(labelled.of_kind(LOOKALIKES).sum())
    among = f", {lookalikes:,} of them look alike" if lookalikes else ""
    others = f"{len(labelled.same) - same:,} not{among}"
    console.print(Text(f"{same:,} pairs the same, {others}; best first"))
    console.print(_best(result, given_trial(result.tried, settings.search)))
    if around := choices(result.tried, result.best[0]):
        console.print(_choices(around, result))
    if result.streams:
        console.print(_streams(result))


def _streams(result: Tuning) -> Table:
    """Return what thresholds and margins do to a stream of all documents, with their intervals."""
    rows = []
    for one in result.streams:
        rules = one.trial.rules
        star = result.star(is_recommended=rules == result.recommended.rules)
        cells = [f"{rules.similarity_min:g}", f"{rules.similarity_margin:g}{star}"]
        rows.append((cells, one.scores))
    return _errors(
        ("similarity_min", "similarity_margin"),
        rows,
        "as a stream in this order: pairs in one cluster, with 95 % intervals",
    )


def _show_recommended(result: Tuning, settings: Settings, documents: int) -> None:
    """Print the definition's lines, if they are sure, and what its index takes."""
    if result.is_sure:
        changed = _changed(result.recommended, settings)
        lines = [f"  {name} = {toml_value(value)}" for name, value in changed.items()]
        typer.echo("\n".join(["definition:", *lines]) if lines else "definition: as given")
    console_of_terminal().print(Text(_cost(result.recommended, documents)))


def _best(result: Tuning, given: Trial) -> Table:
    """Return the best trials, the recommended one starred, and below them the settings given."""
    shown = number_table("", ("recall", "false positives"))
    shown.add_column("search", overflow="fold")
    shown.add_column("fingerprint", overflow="fold")
    best = result.best
    rows = [*best, *([] if given in best else [given])]
    for trial in rows:
        star = result.star(is_recommended=trial is best[0])
        search = "as given: " if trial is given else ""
        shown.add_row(
            f"{trial.recall:.4f}{star}",
            f"{trial.false_positives:.5f}",
            f"{search}{trial.rules.text}",
            trial.name or "as given",
        )
    return shown


def _choices(around: dict[str, list[Trial]], result: Tuning) -> Table:
    """Return what each rule does to both kinds of error, the others as the best has them."""
    shown = number_table(
        "rule", ("value", "recall", "false positives"), "the best, with one rule changed"
    )
    for name, alike in around.items():
        for at, trial in enumerate(alike):
            star = result.star(is_recommended=trial.rules == result.best[0].rules)
            value = f"{getattr(trial.rules, name):,}{star}"
            shown.add_row(
                "" if at else name, value, f"{trial.recall:.4f}", f"{trial.false_positives:.5f}"
            )
    return shown


def _cost(best: Trial, documents: int) -> str:
    """Say what the index takes, and a document where that is known."""
    if best.rules.mode == "exact":
        cost = planner.plan(documents, best.rules.max_distance)[0]
        memory_bytes = cost.memory_bytes
        document_us: float | None = cost.query_insert_ns / 1e3
    else:
        memory_bytes = planner.directed_bytes(best.rules, documents)
        document_us = planner.directed_us(best.rules, documents)
    told = f"at {documents:,} originals: an index of {in_bytes(memory_bytes)}"
    if document_us is None:
        return f"{told}; what a document takes was not measured with these rules"
    return f"{told}, {document_us:,.1f} µs per document on one core (`neardup plan`)"


def _changed(best: Trial, settings: Settings) -> dict[str, object]:
    """Return the settings that differ from those given; none when they are the best."""
    rules = best.rules
    parameters = best.parameters
    values: dict[str, object] = planner.settings_of(rules)
    for name in (
        "anchored_weight",
        "unanchored_weight",
        "term_frequency",
        "mask_numbers",
        "mask_identifiers",
    ):
        values[name] = getattr(parameters, name)
    values["shingle_widths"] = parameters.shingle_widths
    # What is left out depends on the mode, and the margin also on the threshold.
    of_mode = settings.model_copy(update={"search_mode": rules.mode})
    of_threshold = of_mode.model_copy(update={"similarity_min": rules.similarity_min})
    given = planner.settings_of(of_mode.search) | {
        "search_mode": settings.search_mode,
        "similarity_margin": of_threshold.search.similarity_margin,
    }
    return {
        name: value
        for name, value in values.items()
        if value != given.get(name, getattr(settings, name))
    }


def _plot_trials(tried: list[Trial], best: list[Trial], path: Path) -> None:
    """
    Draw the trials: recall against false positives, with exact and directed searches apart and the
    chosen one marked.
    """
    with drawn(path, (8, 5)) as figure:
        axis = figure.subplots()
        for mode, color in (("exact", "#8c959f"), ("directed", "#0969da")):
            shown = [trial for trial in tried if trial.rules.mode == mode]
            axis.plot(
                [trial.false_positives for trial in shown],
                [trial.recall for trial in shown],
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
