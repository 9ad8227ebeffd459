"""The table in Markdown, and the plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.accuracy.measure import DISTANCES_MAX, Curve

__all__ = ["languages_table", "plot", "table"]

_SHOWN = (0, 3, 6, 7, 10)  # the distances of the table
_INK = "#1f2328"
_COLORS = ("#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#8c959f")


def table(found: Sequence[Curve]) -> str:
    """For each sample a table: a line a variant, recall and false positives at some distances."""
    lines: list[str] = []
    for sample in dict.fromkeys(curve.sample for curve in found):
        mine = [curve for curve in found if curve.sample == sample]
        same, other = sum(mine[0].distances_same), sum(mine[0].distances_other)
        lines += [
            f"### {sample}: {same:,} pairs that are the same, {other:,} that are not",
            "",
            "| features | " + " | ".join(f"k={k}" for k in _SHOWN) + " |",
            "|---" * (len(_SHOWN) + 1) + "|",
        ]
        for curve in mine:
            cells = (f"{curve.recall[k]:.3f}/{curve.false_positives[k]:.4f}" for k in _SHOWN)
            lines.append(f"| {curve.variant} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def languages_table(unrelated: dict[str, list[int]]) -> str:
    """Of unrelated articles of one language: the mean distance, the smallest, and shares within some distances."""
    lines = [
        "### unrelated articles of one language, by the defaults",
        "",
        "| language | pairs | mean distance | smallest | k=10 | k=14 | k=16 |",
        "|---|---|---|---|---|---|---|",
    ]
    for language, counts in unrelated.items():
        pairs = sum(counts)
        mean = sum(distance * count for distance, count in enumerate(counts)) / pairs
        smallest = next(distance for distance, count in enumerate(counts) if count)
        shares = " | ".join(f"{sum(counts[: k + 1]) / pairs:.5f}" for k in (10, 14, 16))
        lines.append(f"| {language} | {pairs:,} | {mean:.1f} | {smallest} | {shares} |")
    return "\n".join([*lines, ""])


def plot(found: Sequence[Curve], shown: Sequence[str], path: Path) -> None:
    """A row a sample: recall and false positives by distance for some variants, and the distances of the first one."""
    import matplotlib as mpl  # noqa: PLC0415  # heavy, and only in the extra `bench`

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    samples = list(dict.fromkeys(curve.sample for curve in found))
    figure, axes = plt.subplots(len(samples), 3, figsize=(15, 3.4 * len(samples)), squeeze=False)
    for row, sample in zip(axes, samples, strict=True):
        mine = {curve.variant: curve for curve in found if curve.sample == sample}
        for name, color in zip(shown, _COLORS, strict=False):
            row[0].plot(mine[name].recall, color=color, label=name, linewidth=1.8)
            row[1].plot(mine[name].false_positives, color=color, label=name, linewidth=1.8)
        row[0].set_ylim(0, 1.02)
        row[0].set_title(f"{sample}: recall within distance k", loc="left", fontsize=10, color=_INK)
        row[1].set_yscale("symlog", linthresh=1e-5)
        row[1].set_ylim(0, max(1e-4, *(max(mine[name].false_positives) for name in shown)))
        row[1].set_title("false positives within distance k", loc="left", fontsize=10, color=_INK)
        row[0].legend(fontsize=8, frameon=False, loc="lower right")
        _distances(row[2], mine[shown[0]])
        for axis in row:
            axis.spines[["top", "right"]].set_visible(False)
            axis.tick_params(colors=_INK, labelsize=8)
        for axis in row[:2]:
            axis.set_xlim(0, DISTANCES_MAX)
            axis.grid(alpha=0.25)
    figure.tight_layout()
    figure.savefig(path, dpi=110, facecolor="white")
    plt.close(figure)


def _distances(axis: Any, curve: Curve) -> None:
    for counts, color, name in (
        (curve.distances_same, _COLORS[0], "same"),
        (curve.distances_other, _COLORS[1], "not the same"),
    ):
        total = max(1, sum(counts))
        axis.bar(range(66), [count / total for count in counts], color=color, alpha=0.55, width=1.0, label=name)
    axis.set_title(f"share of pairs by distance ({curve.variant})", loc="left", fontsize=10, color=_INK)
    axis.legend(fontsize=8, frameon=False)
