"""The table, the bars beside it, and the files that keep both: JSON, Markdown and a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.machine import RESULTS

_INK, _MUTED, _OURS, _OTHERS = "#1f2328", "#8c959f", "#0969da", "#afb8c1"


@dataclass(frozen=True)
class Line:
    """One row of the table."""

    workload: str
    contender: str
    value: float
    unit: str
    ratio: float | None = None  # to what `ratio_to` names, in the same run
    ratio_to: str = ""
    bar: str = ""  # what it must reach
    reached: bool | None = None


def markdown(lines: Sequence[Line], where: dict[str, Any]) -> str:
    """Return the table as Markdown."""
    rows = ["| workload | what | measured | ratio | bar | |", "|---|---|---|---|---|---|"]
    for line in lines:
        ratio = "" if line.ratio is None else f"{line.ratio:.2f} × {line.ratio_to}"
        mark = "" if line.reached is None else "reached" if line.reached else "**missed**"
        rows.append(
            f"| {line.workload} | {line.contender} | {line.value:,.0f} {line.unit} | {ratio} | {line.bar} | {mark} |"
        )
    machine_text = ", ".join(f"{name} {value}" for name, value in where.items())
    return "\n".join([*rows, "", f"Measured with `make bench-stream`: {machine_text}.", ""])


def save(lines: Sequence[Line], where: dict[str, Any], name: str = "stream") -> list[Path]:
    """Write NAME.json, NAME.md and, where matplotlib is there, NAME.png."""
    RESULTS.mkdir(exist_ok=True)
    paths = [RESULTS / f"{name}.json", RESULTS / f"{name}.md"]
    kept = {"machine": where, "lines": [asdict(line) for line in lines]}
    paths[0].write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    paths[1].write_text(markdown(lines, where))
    try:
        paths.append(plot(lines, RESULTS / f"{name}.png"))
    except ImportError:
        print("no plot: pip install 'neardup[bench]' brings matplotlib")
    return paths


def plot(lines: Sequence[Line], path: Path) -> Path:
    """Documents a second and latency, a panel a workload."""
    import matplotlib as mpl  # noqa: PLC0415  # heavy, and only in the extra `bench`

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    units = {"docs/s": "documents per second", "ms": "milliseconds"}
    shown = [line for line in lines if line.unit in units]
    workloads = list(dict.fromkeys(line.workload for line in shown))
    heights = [sum(line.workload == workload for line in shown) for workload in workloads]
    figure, axes = plt.subplots(
        len(workloads), 1, figsize=(8, 0.9 + 0.5 * len(shown)), height_ratios=heights, squeeze=False
    )
    for axis, workload in zip(axes[:, 0], workloads, strict=True):
        mine = [line for line in shown if line.workload == workload][::-1]
        colors = [_OURS if line.contender.startswith("neardup") else _OTHERS for line in mine]
        bars = axis.barh([line.contender for line in mine], [line.value for line in mine], color=colors, height=0.6)
        axis.bar_label(bars, [f"{line.value:,.0f}" for line in mine], padding=4, color=_INK, fontsize=9)
        axis.set_title(f"{workload}, {units[mine[0].unit]}", loc="left", fontsize=10, color=_INK)
        axis.margins(x=0.12)
        axis.xaxis.set_visible(False)
        axis.tick_params(length=0, colors=_INK, labelsize=9)
        axis.spines[:].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=140, facecolor="white")
    plt.close(figure)
    return path
