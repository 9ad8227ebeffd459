"""`neardup tune`: the settings that find the copies of one's own documents best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli import app
from worker.cli.corpus import read_corpus, read_pairs
from worker.cli.figure import drawn
from worker.cli.lines import QuietOption
from worker.cli.options import FINGERPRINTS, SEARCH, with_settings
from worker.cli.plan import in_bytes, number
from worker.cli.progress import passed
from worker.settings import Settings
from worker.settings.load import flag

if TYPE_CHECKING:
    from rich.table import Table

    from worker.cli.corpus import Corpus
    from worker.core.evaluation import Pairs
    from worker.core.tuning import Trial

PAIRS_MAX = 20_000  # sampled where no labels are given
GROUPS_MIN, OTHER_MIN = 100, 1_000  # below them a share is known to some percent only


@app.command()
@with_settings(*FINGERPRINTS, *SEARCH, "document_bytes_max", "text_characters_max")
def tune(
    settings: Settings,
    documents: Annotated[Path, typer.Argument(help="Documents like those to come: WARC, ARC, WET or JSON Lines.")],
    pairs: Annotated[
        Path | None, typer.Argument(help="Labelled pairs, as for evaluate. [default: pairs sampled and judged exactly]")
    ] = None,
    expected: Annotated[str, typer.Option(help="Originals that the index will hold, like 20M.")] = "20M",
    false_positives: Annotated[
        float, typer.Option(help="Share of the pairs that are not the same that may be found.", min=0, max=1)
    ] = 0.001,
    plot: Annotated[Path | None, typer.Option(help="Write recall by false positives as a plot: .png or .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The best settings as JSON Lines, the best first.")] = False,
    quiet: QuietOption = False,
) -> None:
    """
    Find the settings that find most copies of your documents.

    Weights, widths and masks are tried, and bits, second look and similarity together.

    Without labels, pairs are sampled and judged by the exact Jaccard similarity of their shingles. Give labelled pairs
    where pages look alike and are not one, as products of a shop.
    """
    from worker.core.fingerprint import Fingerprinter  # noqa: PLC0415
    from worker.core.tuning import choices, frontier, sample_pairs, searches, trials, variants  # noqa: PLC0415

    count = number(expected, "--expected")
    corpus = read_corpus(documents, settings, quiet=quiet)
    if pairs is None:
        batch = Fingerprinter(settings.parameters).batch(corpus.texts, corpus.languages)
        labelled = sample_pairs(corpus.texts, batch, PAIRS_MAX)
    else:
        labelled = read_pairs(pairs, corpus)
    _warn(labelled, corpus)
    base = settings.parameters, settings.search
    total = len({one.hash for _, one in variants(base[0])}) * sum(1 for _ in searches(base[1]))
    tried = list(
        passed(
            trials(corpus.texts, corpus.languages, labelled, base), "trying", "settings", lambda _: total, quiet=quiet
        )
    )
    best = frontier(tried, false_positives)
    if not best:
        typer.echo(
            f"no settings keep false positives at {false_positives} or below on these pairs: look at them with "
            f"`neardup evaluate`",
            err=True,
        )
        raise typer.Exit(1)
    if as_json:
        for one in best:
            scores = {name: getattr(one, name) for name in ("recall", "false_positives")}
            typer.echo(json.dumps({**scores, "settings": _changed(one, settings)}))
    else:
        _print(best, choices(tried, best[0]), labelled, count, settings)
    if plot is not None:
        _plot(tried, best, plot)


def _print(best: list[Trial], around: dict[str, list[Trial]], labelled: Pairs, count: int, settings: Settings) -> None:
    console = Console(highlight=False)
    changed = _changed(best[0], settings)
    flags = " ".join(flag(settings.model_copy(update=changed), name) for name in changed)
    console.print(Text(f"{int(labelled.same.sum()):,} pairs the same, {int((~labelled.same).sum()):,} not; best first"))
    console.print(_table(best))
    if around:
        console.print(_choices(around, best[0]))
    console.print(Text(f"settings: {flags or 'as given'}"))
    console.print(Text(_cost(best[0], count)))


def _warn(labelled: Pairs, corpus: Corpus) -> None:
    """Say when there is too little to go by."""
    from worker.core.evaluation import groups  # noqa: PLC0415

    same = len(set(groups(labelled, len(corpus.doc_ids))[labelled.same].tolist()))
    other = int((~labelled.same).sum())
    if same < GROUPS_MIN or other < OTHER_MIN:
        typer.echo(
            f"too little data: {same:,} groups of copies (better {GROUPS_MIN} or more) and {other:,} pairs that are "
            f"not the same (better {OTHER_MIN:,}): what comes out may be chance",
            err=True,
        )
    if not same:
        typer.echo("no pair is the same: nothing can be tuned", err=True)
        raise typer.Exit(1)


def _table(best: list[Trial]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("recall", "false positives"):
        shown.add_column(name, justify="right")
    shown.add_column("search", overflow="fold")
    shown.add_column("fingerprint", overflow="fold")
    for one in best:
        cells = (f"{one.recall:.4f}", f"{one.false_positives:.5f}")
        shown.add_row(*cells, one.rules.text, one.name or "as given")
    return shown


def _choices(around: dict[str, list[Trial]], best: Trial) -> Table:
    """What each rule does to both kinds of error, the others as the best has them."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="the best, with one rule changed", title_justify="left")
    shown.add_column("rule")
    for name in ("value", "recall", "false positives"):
        shown.add_column(name, justify="right")
    for name, alike in around.items():
        for at, one in enumerate(alike):
            mark = " *" if one.rules == best.rules else ""
            value = f"{getattr(one.rules, name):,}{mark}"
            shown.add_row("" if at else name, value, f"{one.recall:.4f}", f"{one.false_positives:.5f}")
    return shown


def _cost(best: Trial, documents: int) -> str:
    """Memory and time of the index, by the planner's model."""
    from worker.core.planner import estimate_directed, plan  # noqa: PLC0415

    rules = best.rules
    is_exact = rules.mode == "exact"
    found = plan(documents, rules.max_distance)[0] if is_exact else estimate_directed(rules, documents)
    return (
        f"at {documents:,} originals: an index of {in_bytes(found.memory_bytes)}, "
        f"{found.query_insert_ns / 1e3:,.1f} µs a document on one core (`neardup plan`)"
    )


def _changed(best: Trial, settings: Settings) -> dict[str, object]:
    """Return the settings that differ from those given; none when they are the best."""
    rules, parameters = best.rules, best.parameters
    values: dict[str, object] = rules.settings
    for name in ("anchored_weight", "unanchored_weight", "term_frequency", "mask_numbers", "mask_identifiers"):
        values[name] = getattr(parameters, name)
    values["shingle_widths"] = parameters.shingle_widths
    alike = settings.model_copy(update={"search_mode": rules.mode}).search.settings  # what is left out depends on it
    given = alike | {"search_mode": settings.search_mode}
    return {name: value for name, value in values.items() if value != given.get(name, getattr(settings, name))}


def _plot(tried: list[Trial], best: list[Trial], path: Path) -> None:
    """Draw each trial: recall by false positives, exact and directed searches apart, the chosen one marked."""
    with drawn(path, (8, 5)) as figure:
        axis = figure.subplots()
        for mode, color in (("exact", "#8c959f"), ("directed", "#0969da")):
            mine = [one for one in tried if one.rules.mode == mode]
            axis.plot([one.false_positives for one in mine], [one.recall for one in mine], ".", color=color, label=mode)
        axis.plot(best[0].false_positives, best[0].recall, "o", color="#cf222e", fillstyle="none", label="chosen")
        axis.set_xscale("symlog", linthresh=1e-4)
        axis.set_xlabel("share of false positives")
        axis.set_ylabel("recall")
        axis.set_ylim(0, 1.02)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)
