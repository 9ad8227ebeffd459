"""What was measured, as tables and a plot, and held against the bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from tests.benchmarks.pages.contenders import FUSED, KERNEL

BEFORE = "the way before"
_OURS, _OTHERS = "#0969da", "#afb8c1"


def markdown(kept: Mapping[str, Any]) -> str:
    """The bars, then a table each of speed, quality, steadiness and pairs."""
    told = ", ".join(f"{name} {value}" for name, value in kept["machine"].items())
    lines = [f"Pages to text, {kept['pages']} pages of {kept['mean_bytes']:,} bytes on average. {told}.", ""]
    lines += [*_bars(kept), "", *_speed(kept), "", *_quality(kept["quality"])]
    return "\n".join(lines) + "\n"


def _bars(kept: Mapping[str, Any]) -> list[str]:
    speed, quality = kept["speed"], kept["quality"][KERNEL]
    rows = [
        ("kernel, times resiliparse's main content", speed["resiliparse, main content"]["us"] / speed[KERNEL]["us"], 8),
        (
            "bytes to fingerprint, times the way before",
            speed[f"{BEFORE}, bytes to fingerprint"]["us"] / speed[FUSED]["us"],
            5,
        ),
        ("two threads, times one: kernel", kept["threads"][KERNEL], 1.7),
        ("two threads, times one: bytes to fingerprint", kept["threads"][FUSED], 1.7),
        ("article-extraction-benchmark, F1", quality["bodies"]["f1"], 0.960),
        ("mozilla/readability, F1", quality["portals"]["f1"], 0.960),
        ("strings of trafilatura's evaluation, F1", quality["strings"]["f1"], 0.930),
        ("same page in other surroundings, within 3 bits", mean(quality["stability"].values()), 0.96),
        ("adswap with classes renamed, k = 3", quality["pairs"]["adswap, classes renamed, k = 3"], 0.70),
        ("languages × layouts, the least F1", min(quality["languages"].values()), 0.97),
    ]
    lines = ["| bar | measured | at least | |", "|---" * 4 + "|"]
    return lines + [
        f"| {name} | {value:.3f} | {least} | {'met' if value >= least else 'MISSED'} |" for name, value, least in rows
    ]


def _speed(kept: Mapping[str, Any]) -> list[str]:
    lines = ["| one core | µs per page | pages/s | MB/s |", "|---" * 4 + "|"]
    for name, row in kept["speed"].items():
        megabytes = row["pages_s"] * kept["mean_bytes"] / 1e6
        lines.append(f"| {name} | {row['us']:,.0f} | {row['pages_s']:,.0f} | {megabytes:,.0f} |")
    return lines


def _quality(quality: Mapping[str, Any]) -> list[str]:
    names = list(quality)
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for measure, label in (
        ("bodies", "article-extraction-benchmark"),
        ("portals", "mozilla/readability"),
        ("strings", "strings of trafilatura's evaluation"),
    ):
        for part in ("f1", "precision", "recall"):
            cells = " | ".join(f"{quality[name][measure][part]:.3f}" for name in names)
            lines.append(f"| {label}, {part.replace('f1', 'F1')} | {cells} |")
    for measure, label in (("pairs", ""), ("stability", "within 3 bits: ")):
        for key in quality[names[0]][measure]:
            cells = " | ".join(f"{quality[name][measure][key]:.3f}" for name in names)
            lines.append(f"| {label}{key} | {cells} |")
    for label, of in (("mean of the changes", mean), ("languages, the least F1", min)):
        measure = "stability" if of is mean else "languages"
        cells = " | ".join(f"{of(quality[name][measure].values()):.3f}" for name in names)
        lines.append(f"| {label} | {cells} |")
    return lines


def plot(kept: Mapping[str, Any], path: Path) -> None:
    """Speed beside quality."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    speed = dict(sorted(kept["speed"].items(), key=lambda item: item[1]["pages_s"]))
    speeds = [row["pages_s"] for row in speed.values()]
    colors = [_OURS if name in (KERNEL, FUSED) else _OTHERS for name in speed]
    left.scatter(speeds, list(speed), color=colors, s=60, zorder=2)  # dots: a bar on this scale would begin nowhere
    for name, value in zip(speed, speeds, strict=True):
        left.annotate(f"{value:,.0f}", (value, name), (8, -3), textcoords="offset points", fontsize=8)
    left.set_xscale("log")
    left.set_xlim(right=max(speeds) * 3)
    left.set_xlabel("pages a second, one core")
    quality = kept["quality"]
    rows: dict[str, Callable[[Any], float]] = {
        "article bodies, F1": lambda found: found["bodies"]["f1"],
        "strings, F1": lambda found: found["strings"]["f1"],
        "other surroundings,\nwithin 3 bits": lambda found: mean(found["stability"].values()),
        "adswap renamed,\nk = 3": lambda found: found["pairs"]["adswap, classes renamed, k = 3"],
    }
    shades = (_OURS, "#54aeff", "#afb8c1", "#6e7781")
    for (name, found), shade, marker in zip(quality.items(), shades, "oD^s", strict=True):
        values = [row(found) for row in rows.values()]
        right.scatter(
            values, list(rows), label=name, color=shade, marker=marker, s=50, zorder=3 if shade == _OURS else 2
        )
    right.set_xlim(-0.02, 1.02)
    right.invert_yaxis()
    for axis in (left, right):
        axis.margins(y=0.1)
        axis.grid(axis="y", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(fontsize=8, frameon=False, loc="outside lower right", ncols=len(quality))
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
