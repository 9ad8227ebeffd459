"""What `neardup evaluate` shows: scores by kind, pairs by distance as bars, wrong pairs explained; and the plot."""

from __future__ import annotations

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli.columns import printable
from worker.cli.figure import drawn
from worker.core.search import NO_MATCH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from worker.cli.evaluate import Hard, Stream, Wrong
    from worker.core.evaluation import Measured, Pairs, Scores

_BAR = 24  # characters of the longest bar


def show(
    rules: str,
    table: dict[str, Scores],
    pairs: tuple[Measured, NDArray[np.bool_], Pairs],
    stream: Stream,
    hard: dict[str, Hard],
    explained: list[Wrong],
    wrong: int,
) -> None:
    """Print everything; the tables follow the terminal's width."""
    console = Console(highlight=False)
    console.print(Text(f"search: {rules}\n"))
    console.print(_scores(table))
    console.print(_distances(*pairs))
    duplicates = stream.true + stream.grey + stream.false
    console.print(
        Text(
            f"\nAs a stream in this order: {stream.documents:,} documents, {duplicates:,} duplicates, of them "
            f"{stream.true:,} true, {stream.grey:,} in between, {stream.false:,} false "
            "(by label, else by exact Jaccard of 3-shingles: .8 and more, .5 to .8, below)"
        )
    )
    if any(one.found or one.merged for one in hard.values()):
        console.print(_hard_negatives(hard))
    for same, title in ((True, "missed"), (False, "found, but not the same")):
        mine = [one for one in explained if one.same is same]
        if mine and wrong:
            console.print(Text(f"\n{title}: {len(mine):,}, shown {min(wrong, len(mine)):,}"))
        for one in mine[:wrong]:
            measures = (
                f"distance {one.distance}, look {one.look}, similarity {one.similarity}, "
                if one.distance != NO_MATCH
                else ""
            )
            line = f"  {one.first} ~ {one.second} ({one.kind}): {one.reason}; {measures}Jaccard {one.jaccard:.2f}"
            console.print(Text(printable(line)))


def _scores(table: dict[str, Scores]) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("kind", overflow="fold")
    for name in ("same", "other", "recall", "false positives", "precision", "F1"):
        shown.add_column(name, justify="right", no_wrap=len(name) != len("false positives"))
    for kind, one in table.items():
        recall = f"{_share(one.recall.value, 3)} ({_share(one.recall.low, 2)}-{_share(one.recall.high, 2)})"
        false = f"{_share(one.false_positives.value, 4)} (to {_share(one.false_positives.high, 4)})"
        cells = (recall if one.same else "", false if one.other else "")
        shares = (_share(one.precision.value, 3), _share(one.f1.value, 3))
        shown.add_row(Text(printable(kind)), f"{one.same:,}", f"{one.other:,}", *cells, *shares)
    return shown


def _hard_negatives(hard: dict[str, Hard]) -> Table:
    """Pairs that are not the same and yet found, or made one by the stream, by kind."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="not the same, by kind", title_justify="left")
    shown.add_column("kind", overflow="fold")
    for name in ("pairs", "found", "one in the stream"):
        shown.add_column(name, justify="right", no_wrap=True)
    for kind, one in hard.items():
        shown.add_row(Text(printable(kind)), *(f"{count:,}" for count in one))
    return shown


def _share(value: float, digits: int) -> str:
    """A share without its leading zero; nothing for a share of nothing."""
    return "" if isnan(value) else f"{value:.{digits}f}".removeprefix("0")


def _distances(measured: Measured, is_found: NDArray[np.bool_], labelled: Pairs) -> Table:
    """Pairs by distance: those that are the same and found, the same and missed, not the same and found, or not."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="pairs by distance", title_justify="left")
    for name in ("bits", "same", "missed", "other", "found"):
        shown.add_column(name, justify="right")
    shown.add_column("same #, other .")
    rows = []
    for distance in sorted(set(measured.distances.tolist())):
        here = measured.distances == distance
        same, other = here & labelled.same, here & ~labelled.same
        rows.append((distance, same.sum(), (same & ~is_found).sum(), other.sum(), (other & is_found).sum()))
    longest = max(max(row[1], row[3]) for row in rows)
    for distance, same, missed, other, found in rows:
        bars = f"{'#' * -(-_BAR * same // longest)}{'.' * -(-_BAR * other // longest)}"
        name = "none" if distance == NO_MATCH else str(distance)
        shown.add_row(name, f"{same:,}", f"{missed:,}", f"{other:,}", f"{found:,}", bars)
    return shown


def plot(measured: Measured, labelled: Pairs, max_distance: int, path: Path) -> None:
    """
    Draw the pairs by distance and by similarity, those that are the same and those that are not.

    Raises:
        StopError: matplotlib is not installed, or the file cannot be written.
    """
    with drawn(path, (10, 4)) as figure:
        left, right = figure.subplots(1, 2)
        chosen = ((labelled.same, "#0969da", "the same"), (~labelled.same, "#cf222e", "not the same"))
        for mine, color, name in chosen:
            left.hist(measured.distances[mine], bins=range(66), color=color, alpha=0.55, label=name)
            right.hist(measured.similarities[mine] / 1_000, bins=50, range=(0, 1), color=color, alpha=0.55, label=name)
        left.axvline(
            max_distance + 1, color="#57606a", linewidth=1, linestyle="--", label=f"max_distance {max_distance}"
        )
        left.set_xlabel("bits that differ")
        right.set_xlabel("similarity")
        for axis in (left, right):
            axis.set_ylabel("pairs")
            axis.spines[["top", "right"]].set_visible(False)
        left.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=3)
