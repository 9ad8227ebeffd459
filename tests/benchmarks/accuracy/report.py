"""The table in Markdown, and the plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.accuracy.hard import LENGTHS, POINTS
from worker.core.evaluation import Scores

_INK = "#1f2328"
Found = Mapping[str, Mapping[str, Scores]]  # sample -> method -> scores
Shares = Mapping[str, tuple[int, Mapping[str, float]]]  # kind -> number, method -> share found
DEFAULTS = "neardup, defaults"


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


def hard_table(hard: Shares) -> str:
    """A line a method, a column a kind: the share of pairs found, of a template's pages called duplicates."""
    methods = next(iter(hard.values()))[1]
    lines = [
        "### Hard negatives: pairs of other things that are found; pages of a template that a stream calls duplicates",
        "",
        f"| | {' | '.join(f'{kind} ({number:,})' for kind, (number, _) in hard.items())} |",
        f"|---|{'---|' * len(hard)}",
    ]
    for name in methods:
        shares = (
            f"{shares[name]:.5f}" if number > 50_000 else f"{shares[name]:.3f}" for number, shares in hard.values()
        )
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return "\n".join([*lines, "", "Legal notices share three quarters of their text: a person may go either way.", ""])


def edits_table(parts: Shares) -> str:
    """What is found around each likeness: by method, of all lengths; and by length, of the defaults."""
    methods = next(iter(parts.values()))[1]
    head = f"| {' | '.join(f'{point:g}' for point in POINTS)} |"
    lines = [
        "### Parts with words replaced: found, by Jaccard index of 3-shingles (± .03)", "",
        f"| mean of {', '.join(map(str, LENGTHS))} words {head}", f"|---|{'---|' * len(POINTS)}",
    ]  # fmt: skip
    for name in methods:
        lines.append(f"| {name} | {' | '.join(f'{found:.3f}' for found in _curve(parts, name, LENGTHS))} |")
    lines += ["", f"| {DEFAULTS}, of {head}", f"|---|{'---|' * len(POINTS)}"]
    for length in LENGTHS:
        lines.append(f"| {length} words | {' | '.join(f'{one:.3f}' for one in _curve(parts, DEFAULTS, (length,)))} |")
    return "\n".join([*lines, ""])


def plot_edits(parts: Shares, path: Path) -> None:
    """Two panels of what is found by likeness: each method; the defaults by length."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # heavy, and only in the extra `bench`

    figure = Figure(figsize=(13, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for number, name in enumerate(next(iter(parts.values()))[1]):
        mine = name.startswith("neardup")
        style = {"color": f"C{number % 10}", "linewidth": 2.5 if name == DEFAULTS else 1.2}
        left.plot(POINTS, _curve(parts, name, LENGTHS), linestyle="-" if mine else "--", label=name, **style)
    for length in LENGTHS:
        right.plot(POINTS, _curve(parts, DEFAULTS, (length,)), marker="o", markersize=3, label=f"{length} words")
    for axis, title in ((left, "found, each method"), (right, f"found, {DEFAULTS}, by length")):
        axis.set_title(title, loc="left", fontsize=9, color=_INK)
        axis.set_xlabel("Jaccard index of 3-shingles", fontsize=8)
        axis.set_ylim(0, 1.02)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=_INK, labelsize=7)
    figure.legend(handles=left.lines, frameon=False, fontsize=7, loc="outside left upper")
    figure.legend(handles=right.lines, frameon=False, fontsize=7, loc="outside right upper")
    figure.savefig(path, dpi=110, facecolor="white")


def _curve(parts: Shares, name: str, lengths: Sequence[int]) -> list[float]:
    """Return the share found around each point, of all parts of these lengths."""
    found = []
    for point in POINTS:
        cells = [parts[f"{length} {point}"] for length in lengths if f"{length} {point}" in parts]
        found.append(
            sum(number * shares[name] for number, shares in cells) / max(1, sum(number for number, _ in cells))
        )
    return found
