"""The trials as a table and a plot, and held against the bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.index.directed import DIRECTED

OURS = "neardup"
INK = "#1f2328"
COLORS = {
    DIRECTED: "#1b1f24",
    OURS: "#0969da",
    "gaoya": "#cf222e",
    "faiss MultiHash": "#1a7f37",
    "faiss MultiHash, 500 a call": "#7ad18b",
    "faiss Flat": "#9a6700",
    "datasketch": "#8250df",
    "simhash": "#8c959f",
}
MILLION = 1_000_000


class Trial(NamedTuple):
    """One contender at one size, distance and kind of fingerprints."""

    name: str
    size: int
    distance: int
    data: str
    found: dict[str, Any]

    @property
    def key(self) -> tuple[str, int, int, str]:
        """What tells it from the others."""
        return self[:4]

    def __str__(self) -> str:
        figures = ", ".join(f"{name} {_short(value)}" for name, value in self.found.items() if value not in ("", None))
        return f"{self.name}, {self.size:,} {self.data}, k={self.distance}: {figures}"

    def __lt__(self, other: object) -> bool:
        return _order(self) < _order(other) if isinstance(other, Trial) else NotImplemented


class Bar(NamedTuple):
    """What is wanted of a figure."""

    name: str
    size: int
    distance: int
    figure: str
    wanted: float
    unit: str
    at_most: bool = False


BARS = (
    Bar(OURS, MILLION, 3, "new_per_s", 3.5e6, "documents/s"),
    Bar(OURS, 10 * MILLION, 3, "new_per_s", 1.3e6, "documents/s"),
    Bar(OURS, MILLION, 3, "new_p99_us", 1.0, "µs, p99", at_most=True),
    Bar(OURS, 10 * MILLION, 3, "new_p99_us", 2.0, "µs, p99", at_most=True),
    Bar("growth", 10 * MILLION, 3, "new_per_s", 1.2e6, "documents/s from 0"),
    Bar("growth", 10 * MILLION, 3, "new_worst_ms", 10.0, "ms, longest call from 0", at_most=True),
    Bar(OURS, 10 * MILLION, 3, "bytes_each", 60.0, "bytes each", at_most=True),
    Bar(OURS, MILLION, 7, "new_per_s", 200e3, "documents/s"),
    Bar(DIRECTED, MILLION, 12, "new_per_s", 300e3, "documents/s judged by the defaults"),
    Bar(DIRECTED, 10 * MILLION, 12, "new_per_s", 100e3, "documents/s judged by the defaults"),
    Bar(DIRECTED, 10 * MILLION, 12, "bytes_each", 70.0, "bytes each", at_most=True),
    Bar("unrelated", 10 * MILLION, 12, "false_per_query", 1e-5, "false matches a query", at_most=True),
)
RATIOS = (("gaoya", 10.0), ("faiss MultiHash", 20.0))


def markdown(found: Sequence[Trial]) -> str:
    """A table a size, distance and kind of fingerprints."""
    lines: list[str] = []
    for group in dict.fromkeys((trial.size, trial.distance, trial.data) for trial in found):
        size, distance, data = group
        kind = "random fingerprints" if data == "random" else "fingerprints of texts"
        lines += [
            f"### {size:,} {kind}, k = {distance}",
            "",
            "| | version | new documents/s | p50 µs | p99 µs | longest call ms | half near/s | bytes each | recall |",
            "|---" * 9 + "|",
        ]
        mine = [trial for trial in found if (trial.size, trial.distance, trial.data) == group]
        lines += [_line(trial) for trial in mine if trial.name != "unrelated"]
        lines += ["", *(_unrelated(trial) for trial in mine if trial.name == "unrelated")]
        lines.append("")
    return "\n".join(lines)


def _unrelated(trial: Trial) -> str:
    found = trial.found
    if "left_out" in found:
        return f"Unrelated: {found['left_out']}."
    return (
        f"{trial.size:,} unrelated documents, judged one after the other: {found['false_matches']:,} false matches, "
        f"{found['sketches_per_query_at_the_end']:.3f} sketches of others read for each of the last million."
    )


def _line(trial: Trial) -> str:
    found = trial.found
    name = "neardup, from 0" if trial.name == "growth" else trial.name
    if "left_out" in found:
        return f"| {name} | {found.get('version', '')} | {found['left_out']} | | | | | | |"
    told = [_short(found[figure]) for figure in ("new_per_s", "new_p50_us", "new_p99_us", "new_worst_ms")]
    told += [_short(found.get(figure)) for figure in ("near_per_s", "bytes_each")]
    found_of = found.get("recall")
    told.append("" if found_of is None else f"{found_of:.3f}")
    return f"| {name} | {found.get('version') or found.get('layout', '')} | {' | '.join(told)} |"


def bars(found: Sequence[Trial]) -> str:
    """What is wanted, beside what was measured with random fingerprints."""
    of = {trial.key: trial.found for trial in found}
    lines = ["| what | measured | wanted | |", "|---|---|---|---|"]
    for bar in BARS:
        value = of.get((bar.name, bar.size, bar.distance, "random"), {}).get(bar.figure)
        if value is not None:
            reached = value <= bar.wanted if bar.at_most else value >= bar.wanted
            sign = "≤" if bar.at_most else "≥"
            what = f"{bar.size:,}, k = {bar.distance}: {bar.unit}"
            lines.append(f"| {what} | {_short(value)} | {sign} {_short(bar.wanted)} | {_told(reached)} |")
    ours = of.get((OURS, MILLION, 3, "random"), {}).get("new_per_s")
    for name, wanted in RATIOS:
        theirs = of.get((name, MILLION, 3, "random"), {}).get("new_per_s")
        if ours and theirs:
            told = f"| {ours / theirs:.0f} × {name} | ≥ {wanted:.0f} × | {_told(ours / theirs >= wanted)} |"
            lines.append(f"| {MILLION:,}, k = 3 {told}")
    recalls = [trial.found["recall"] for trial in found if trial.name == OURS and trial.found.get("recall") is not None]
    if recalls:
        lines.append(
            f"| recall, all {len(recalls)} trials | {min(recalls):.3f} | 1.000 | {_told(min(recalls) == 1.0)} |"
        )
    return "\n".join([*lines, ""])


def plot(found: Sequence[Trial], path: Path) -> None:
    """Documents a second and bytes each by size, random fingerprints, k = 3, directed search k = 12."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  # heavy, and only in the extra `bench`
    except ImportError:
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    titles = (("new_per_s", "documents a second; k = 3, directed 12"), ("bytes_each", "bytes each"))
    for axis, (wanted, title) in zip(axes, titles, strict=True):
        for name, color in COLORS.items():
            distance = 12 if name == DIRECTED else 3
            mine = [trial for trial in found if trial.key[:1] + trial.key[2:] == (name, distance, "random")]
            points = [(trial.size, trial.found[wanted]) for trial in mine if wanted in trial.found]
            if points:
                axis.plot(
                    *zip(*points, strict=True), "o-", color=color, label=name, linewidth=2.4 if name == OURS else 1.4
                )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(title, loc="left", fontsize=10, color=INK)
        axis.set_xlabel("fingerprints held", fontsize=9, color=INK)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK, labelsize=8)
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, frameon=False, loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=90, facecolor="white")
    plt.close(figure)


def _order(trial: Trial) -> tuple[int, int, str, int]:
    names = [*COLORS, "growth", "unrelated"]
    place = names.index(trial.name) if trial.name in names else len(names)
    return trial.size, trial.distance, trial.data, place


def _told(reached: bool) -> str:
    return "reached" if reached else "**missed**"


def _short(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if value >= 1_000 or value == int(value) else f"{value:.3g}"
