"""The table in Markdown, and the plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from worker.core.evaluation import Scores

__all__ = ["plot", "table"]

_INK = "#1f2328"
Found = Mapping[str, Mapping[str, Scores]]  # sample -> method -> scores


def table(found: Found) -> str:
    """For each sample a table: a line a method, with 95 % intervals (resampled by group of documents)."""
    lines: list[str] = []
    for sample, methods in found.items():
        any_one = next(iter(methods.values()))
        lines += [
            f"### {sample}: {any_one.same:,} pairs that are the same, {any_one.other:,} that are not",
            "",
            "| | recall | false positives | F1 |",
            "|---|---|---|---|",
        ]
        for name, one in methods.items():
            recall = f"{one.recall.value:.3f} ({one.recall.low:.3f} to {one.recall.high:.3f})"
            false = f"{one.false_positives.value:.5f} (to {one.false_positives.high:.5f})" if one.other else ""
            lines.append(f"| {name} | {recall} | {false} | {one.f1.value:.3f} |")
        lines.append("")
    return "\n".join(lines)


def plot(found: Found, path: Path) -> None:
    """A panel a sample: each method's recall as a dot with its interval, and its false positives as a number."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # heavy, and only in the extra `bench`

    methods = list(next(iter(found.values())))
    columns = 3
    rows = -(-len(found) // columns)
    figure = Figure(figsize=(15, rows * (0.9 + 0.22 * len(methods))))
    for place, (sample, scores) in enumerate(found.items(), start=1):
        axis = figure.add_subplot(rows, columns, place)
        for height, name in enumerate(reversed(methods)):
            one = scores[name]
            color = "#0969da" if name.startswith("neardup") else "#8c959f"
            axis.plot([one.recall.low, one.recall.high], [height, height], color=color, linewidth=1.2)
            axis.plot(one.recall.value, height, "o", color=color, markersize=5)
            share = one.false_positives.value
            axis.text(1.04, height, f"{share:.4f}" if share else "0", va="center", fontsize=7, color=_INK)
        axis.text(1.04, len(methods) - 0.3, "false", fontsize=7, color=_INK)
        axis.set_yticks(range(len(methods)), list(reversed(methods)) if place % columns == 1 else [""] * len(methods))
        axis.set_xlim(-0.02, 1.02)
        axis.set_title(f"{sample}: recall", loc="left", fontsize=9, color=_INK)
        axis.tick_params(colors=_INK, labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="x", alpha=0.25)
    figure.tight_layout()
    figure.savefig(path, dpi=110, facecolor="white")
