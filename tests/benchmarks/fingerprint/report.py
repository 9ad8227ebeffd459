"""The trials as tables and a plot, and held against the bars."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.fingerprint.contenders import ESTIMATE_MIN, PACKAGES
from tests.benchmarks.fingerprint.texts import CHANGES

OURS = "neardup"
CLICKHOUSE = "ClickHouse wordShingleSimHash"
LIVE = (0.4, 0.6)  # a bit that is set in a smaller or larger share of unrelated texts tells little
_INK, _OURS, _OTHERS = "#1f2328", "#0969da", "#afb8c1"
_SHADES = ("#0a3069", "#0969da", "#54aeff", "#afb8c1")

Found = Mapping[str, Mapping[str, Any]]  # contender -> what its trial told


def markdown(found: Found) -> str:
    """A table of speed for each set of texts, and one of nearness for each set of originals."""
    lines: list[str] = []
    for kind in _kinds(found, "speed"):
        ours = found[OURS]["speed"][kind]["documents_s"]
        lines += [f"### {kind}", "", "| | version | documents/s | MB/s | neardup is |", "|---" * 5 + "|"]
        for name, trial in found.items():
            if "left_out" in trial:
                lines.append(f"| {name} | | {trial['left_out']} | | |")
                continue
            speed = trial["speed"][kind]
            ratio = "" if PACKAGES.get(name) is None else f"{ours / speed['documents_s']:.1f} ×"
            lines.append(
                f"| {name} | {trial['version']} | {speed['documents_s']:,.0f} | {speed['mb_s']:,.0f} | {ratio} |"
            )
        lines.append("")
    for kind in _kinds(found, "nearness"):
        lines += [
            f"### found again within 3 bits (MinHash: estimate of {ESTIMATE_MIN} or more), {kind}",
            "",
            f"| | {' | '.join(CHANGES)} | false pairs | live bits |",
            "|---" * (len(CHANGES) + 3) + "|",
        ]
        for name, trial in found.items():
            if name.endswith("one a call") or "left_out" in trial:
                continue
            near = trial["nearness"][kind]
            told = [f"{near['recall'][change]:.3f}" for change in CHANGES]
            told.append(f"{near['false_pairs']:,} of {near['pairs']:,}")
            told.append("" if trial["shares"] is None else f"{live_bits(trial['shares'])} of {len(trial['shares'])}")
            lines.append(f"| {name} | {' | '.join(told)} |")
        lines.append("")
    return "\n".join(lines)


def live_bits(shares: list[float]) -> int:
    """
    How many bits are set in 40 to 60 % of the texts.

    >>> live_bits([0.5, 0.0, 0.41, 0.39])
    2
    """
    return sum(LIVE[0] <= share <= LIVE[1] for share in shares)


def bars(found: Found, first_start_s: float, later_start_s: float) -> str:
    """What is wanted, beside what was measured."""
    lines = ["| what | measured | wanted | |", "|---|---|---|---|"]

    def add(what: str, value: float, wanted: str, reached: bool, form: str = ",.0f") -> None:
        lines.append(f"| {what} | {value:{form}} | {wanted} | {'reached' if reached else '**missed**'} |")

    ours = found[OURS]
    for kind, speed in ours["speed"].items():
        if "languages" in kind:
            add(f"{kind}: documents/s in batches", speed["documents_s"], "≥ 75,000", speed["documents_s"] >= 75_000)
        for peer, factor in ((CLICKHOUSE, 2), ("gaoya", 5)):
            if "speed" in found.get(peer, {}):
                ratio = speed["documents_s"] / found[peer]["speed"][kind]["documents_s"]
                add(f"{kind}: times {peer}", ratio, f"≥ {factor} ×", ratio >= factor, ".1f")
    live = live_bits(ours["shares"])
    add("bits set in 40 to 60 % of the unrelated texts", live, "64", live == 64)
    for kind, speed in found.get(f"{OURS}, one a call", {}).get("speed", {}).items():
        call_us = 1e6 / speed["documents_s"]
        add(f"{kind}: one `str` a call, µs", call_us, "≤ 25", call_us <= 25, ".1f")
    add("first start, nothing cached, to the first fingerprint, s", first_start_s, "≤ 8", first_start_s <= 8, ".1f")
    add("later start, s", later_start_s, "≤ 1", later_start_s <= 1, ".2f")
    return "\n".join([*lines, ""])


def plot(found: Found, path: Path) -> None:
    """Documents a second by contender, and what is found again by contender and change."""
    try:
        import matplotlib as mpl  # noqa: PLC0415  # heavy, and only in the extra `bench`
    except ImportError:
        return
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    shown = {name: trial for name, trial in found.items() if "left_out" not in trial}
    names = list(reversed(shown))
    kind = _kinds(found, "speed")[0]
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), sharey=True, layout="constrained")
    speeds = [shown[name]["speed"][kind]["documents_s"] for name in names]
    colors = [_OURS if name.startswith(OURS) else _OTHERS for name in names]
    left.scatter(speeds, names, color=colors, s=60, zorder=2)  # dots: a bar on this scale would begin nowhere
    for name, speed in zip(names, speeds, strict=True):
        left.annotate(f"{speed:,.0f}", (speed, name), (8, -3), textcoords="offset points", fontsize=8, color=_INK)
    left.set_xscale("log")
    left.set_xlim(right=max(speeds) * 3)
    left.set_title(f"documents/s on one core: {kind}", loc="left", fontsize=10, color=_INK)
    for change, shade, marker in zip(CHANGES, _SHADES, "osD^", strict=True):
        values = [shown[name]["nearness"]["generated"]["recall"][change] for name in names]
        right.scatter(values, names, color=shade, marker=marker, s=44, label=change, zorder=2)
    right.set_xlim(-0.02, 1.02)
    right.set_title("share found again (k = 3; MinHash: 0.8)", loc="left", fontsize=10, color=_INK)
    figure.legend(fontsize=8, frameon=False, loc="outside lower right", ncols=len(CHANGES))
    for axis in (left, right):
        axis.grid(axis="y", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=_INK, labelsize=8)
    figure.savefig(path, dpi=110, facecolor="white")
    plt.close(figure)


def _kinds(found: Found, part: str) -> list[str]:
    return list(found[OURS][part])
