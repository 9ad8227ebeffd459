"""`neardup tune`: the settings that find copies best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli.labelled import Corpus, drawn, number_table, read_corpus, read_pairs
from worker.cli.options import FINGERPRINTS, SEARCH, with_settings
from worker.cli.plan import in_bytes, number
from worker.cli.progress import passed
from worker.cli.shared import QuietOption
from worker.core import planner
from worker.core.evaluation import (
    Pairs,
    Trial,
    choices,
    frontier,
    groups,
    sample_pairs,
    searches,
    trials,
    variants,
)
from worker.core.fingerprint import Fingerprinter
from worker.settings import Settings, flag
from worker.shell.files.formats import INPUTS
from worker.shell.files.places import check_places

PAIRS_MAX = 20_000  # sampled where no labels are given
# Below them a share is known to some percent only.
GROUPS_MIN = 100
OTHER_MIN = 1_000


@with_settings(*FINGERPRINTS, *SEARCH, "document_bytes_max", "text_characters_max")
def tune(
    settings: Settings,
    documents: Annotated[Path, typer.Argument(help=f"Documents like those to come: {INPUTS}.")],
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
    shown = number_table("", ("recall", "false positives"))
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
    shown = number_table(
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
    with drawn(path, (8, 5)) as figure:
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
