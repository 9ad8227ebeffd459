"""`neardup tune`: the settings that find copies best."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from worker.cli.labelled import (
    Corpus,
    check_plot,
    drawn,
    false_positives_cell,
    number_table,
    pairs_of,
    read_corpus,
    read_labels,
    recall_cell,
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
    sample_pairs,
    searches,
    stream_trials,
    threshold_trials,
    trial_of,
    trials,
    variants,
)
from worker.core.fingerprint import Fingerprinter
from worker.errors import StopError
from worker.settings import Settings, toml_value
from worker.shell.files.formats import INPUTS

PAIRS_MAX = 20_000  # sampled where no labels are given
# Below them a share is known to some percent only, and no settings are recommended.
GROUPS_MIN = 200  # groups of copies
LOOKALIKES_MIN = 200  # sampled pairs
OTHER_MIN = 1_000  # labelled pairs, which people choose because they are hard
_MORE = "Give more documents, or more labelled pairs (PAIRS)"
_ADVICE = (
    "Until then, compare the usual thresholds: take another than the default if it is better by "
    "more than the intervals, and see what it gets wrong with `neardup evaluate --definition`"
)


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
    others = [*settings.files] if pairs is None else [*settings.files, pairs]
    files = reading.files([documents], [] if plot is None else [plot], others)
    check_plot(plot)
    corpus, labelled = _labelled(files, pairs, settings, reading, quiet=quiet)
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
    if as_json:
        _write_json(best, recommended, streams, settings, is_sure=not shortfalls)
    else:
        _show(tried, best, labelled, settings, is_sure=not shortfalls)
        _show_streams(streams, recommended, is_sure=not shortfalls)
        _show_recommended(recommended, settings, documents_expected, is_sure=not shortfalls)
    if plot is not None:
        _plot_trials(tried, best, plot)


def _compare_thresholds(
    corpus: Corpus, labelled: Pairs, settings: Settings, plot: Path | None, *, as_json: bool
) -> None:
    """Print what the usual thresholds make of pairs that are too few to choose settings by."""
    batch = Fingerprinter(settings.parameters).batch(corpus.texts, corpus.languages)
    compared = threshold_trials(batch, labelled, settings.search, corpus.pages)
    if as_json:
        for one in compared:
            fields = {
                "recall": one.alone.recall.value,
                "false_positives": one.alone.false_positives.value if one.alone.other else None,
                "recommended": False,
                "settings": {"similarity_min": one.rules.similarity_min},
                "pairs": _with_intervals(one.alone),
                "stream": _with_intervals(one.stream),
            }
            typer.echo(json.dumps(fields))
    else:
        same = int(labelled.same.sum())
        counted = f"{same:,} pairs the same, {len(labelled.same) - same:,} not"
        alone = [(one.rules.similarity_min, one.alone) for one in compared]
        stream = [(one.rules.similarity_min, one.stream) for one in compared]
        console = console_of_terminal()
        console.print(_thresholds(alone, f"{counted}; each alone, with 95 % intervals"))
        console.print(_thresholds(stream, "as a stream in this order: pairs in one cluster"))
    if plot is not None:
        measured = measure(batch, labelled, settings.search, corpus.pages)
        made = [
            trial_of("", settings.parameters, one.rules, measured, labelled) for one in compared
        ]
        given = [trial for trial in made if trial.rules == settings.search]
        _plot_trials(made, given, plot)


def _thresholds(compared: list[tuple[float, Scores]], title: str) -> Table:
    """Return thresholds side by side, with the intervals of both errors."""
    shown = number_table("", ("similarity_min", "recall", "false positives"), title)
    for threshold, scores in compared:
        shown.add_row(f"{threshold:g}", recall_cell(scores), false_positives_cell(scores))
    return shown


def _with_intervals(scores: Scores) -> dict[str, Any]:
    """Return both errors for JSON; None for false positives where all pairs are the same."""
    return {
        "recall": scores.recall._asdict(),
        "false_positives": scores.false_positives._asdict() if scores.other else None,
    }


def _labelled(
    files: list[str], pairs: Path | None, settings: Settings, reading: Reading, *, quiet: bool
) -> tuple[Corpus, Pairs]:
    """Return the documents, and the labelled pairs of them or, without labels, a sample."""
    labels = None if pairs is None else read_labels(pairs)  # before documents: it may be missing
    corpus = read_corpus(files, settings, reading, quiet=quiet)
    if pairs is None or labels is None:
        return corpus, _sampled(corpus, settings)
    return corpus, pairs_of(labels, pairs, corpus)


def _sampled(corpus: Corpus, settings: Settings) -> Pairs:
    batch = Fingerprinter(settings.parameters).batch(corpus.texts, corpus.languages)
    return sample_pairs(corpus.texts, batch, PAIRS_MAX, pages=corpus.pages)


def _chosen_by_streams(
    corpus: Corpus, labelled: Pairs, best: list[Trial], false_positives: float, settings: Settings
) -> tuple[list[StreamTrial], Trial]:
    """
    Judge all documents as a stream, and set the threshold of the best trial by it.

    Returns what was tried, and the best trial with the margin that was chosen, too.
    """
    first = best[0]
    batch = Fingerprinter(first.parameters).batch(corpus.texts, corpus.languages)
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


def _write_json(
    best: list[Trial],
    recommended: Trial,
    streams: list[StreamTrial],
    settings: Settings,
    *,
    is_sure: bool,
) -> None:
    in_stream = next((one.scores for one in streams if one.trial.rules == recommended.rules), None)
    for trial in best:
        is_best = trial is best[0]
        fields: dict[str, Any] = {
            "recall": trial.recall,
            "false_positives": trial.false_positives,
            "recommended": is_sure and is_best,
            "settings": _changed(recommended if is_best else trial, settings),
        }
        if is_best and in_stream is not None:
            fields["stream"] = _with_intervals(in_stream)
        typer.echo(json.dumps(fields))


def _show(
    tried: list[Trial],
    best: list[Trial],
    labelled: Pairs,
    settings: Settings,
    *,
    is_sure: bool,
) -> None:
    """Print the pairs, the best trials and what each rule does to pairs."""
    console = console_of_terminal()
    same = int(labelled.same.sum())
    lookalikes = int(labelled.of_kind(LOOKALIKES).sum())
    among = f", {lookalikes:,} of them look alike" if lookalikes else ""
    others = f"{len(labelled.same) - same:,} not{among}"
    console.print(Text(f"{same:,} pairs the same, {others}; best first"))
    console.print(_best(best, given_trial(tried, settings.search), is_sure=is_sure))
    if around := choices(tried, best[0]):
        console.print(_choices(around, best[0], is_sure=is_sure))


def _show_streams(streams: list[StreamTrial], recommended: Trial, *, is_sure: bool) -> None:
    """Print what thresholds and margins do to a stream of all documents, with their intervals."""
    if not streams:
        return
    shown = number_table(
        "",
        ("similarity_min", "similarity_margin", "recall", "false positives"),
        "as a stream in this order: pairs in one cluster, with 95 % intervals",
    )
    for one in streams:
        star = " *" if is_sure and one.trial.rules == recommended.rules else ""
        shown.add_row(
            f"{one.trial.rules.similarity_min:g}",
            f"{one.trial.rules.similarity_margin:g}{star}",
            recall_cell(one.scores),
            false_positives_cell(one.scores),
        )
    console_of_terminal().print(shown)


def _show_recommended(
    recommended: Trial, settings: Settings, documents: int, *, is_sure: bool
) -> None:
    """Print the definition's lines, if they are sure, and what its index takes."""
    if is_sure:
        changed = _changed(recommended, settings)
        lines = [f"  {name} = {toml_value(value)}" for name, value in changed.items()]
        typer.echo("\n".join(["definition:", *lines]) if lines else "definition: as given")
    console_of_terminal().print(Text(_cost(recommended, documents)))


def _best(best: list[Trial], given: Trial, *, is_sure: bool) -> Table:
    """Return the best trials, the recommended one starred, and below them the settings given."""
    shown = number_table("", ("recall", "false positives"))
    shown.add_column("search", overflow="fold")
    shown.add_column("fingerprint", overflow="fold")
    rows = [*best, *([] if given in best else [given])]
    for trial in rows:
        star = " *" if is_sure and trial is best[0] else ""
        search = "as given: " if trial is given else ""
        shown.add_row(
            f"{trial.recall:.4f}{star}",
            f"{trial.false_positives:.5f}",
            f"{search}{trial.rules.text}",
            trial.name or "as given",
        )
    return shown


def _choices(around: dict[str, list[Trial]], best: Trial, *, is_sure: bool) -> Table:
    """Return what each rule does to both kinds of error, the others as the best has them."""
    shown = number_table(
        "rule", ("value", "recall", "false positives"), "the best, with one rule changed"
    )
    for name, alike in around.items():
        for at, trial in enumerate(alike):
            star = " *" if is_sure and trial.rules == best.rules else ""
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
