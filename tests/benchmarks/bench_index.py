"""
The index beside its peers: `make bench-index`.

For each size, distance and kind of fingerprints: documents a second (each is asked for, then held),
the share of a call that falls to one document (p50, p99), the longest call, bytes each, recall
against a scan. Directed search at its defaults has trials of its own, and one that counts the
sketches that unrelated documents cost. Every trial has a process to itself and one core. Peers run
in an environment of their own; one that cannot be installed is absent. Written to
tests/benchmarks/results: index.json, index.md, index.png.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks import common
from tests.benchmarks.common import Figures, ask_contender, names, numbers, reached, table
from tests.benchmarks.contenders import OF_FINGERPRINTS
from tests.benchmarks.index_data import DIRECTED, kept_fingerprints
from tests.benchmarks.kept import keep, kept_results, machine
from worker.core.search import SearchRules

OURS, GROWTH, UNRELATED = "neardup", "growth", "unrelated"
MILLION = 1_000_000
SIZES = (100_000, MILLION, 10 * MILLION)
DIRECTED_DISTANCE = SearchRules().max_distance
USUAL = 3  # the distance that peers are built for
DISTANCES = (USUAL, 7, DIRECTED_DISTANCE)
UNRELATED_FROM = 10 * MILLION  # documents: fewer have no candidate
DATA = ("random", "texts")
LOAD_S_MAX = 120.0
REST_S_MAX = 120.0  # for the rest of a trial
UNRELATED_S_MAX = 1_800.0
MORE = 100_000  # fingerprints of texts beyond the residents: the new ones that are asked for
COLORS = {
    DIRECTED: "#1b1f24",
    OURS: common.OURS_COLOR,
    "gaoya": "#cf222e",
    "faiss MultiHash": "#1a7f37",
    "faiss MultiHash, 500 a call": "#7ad18b",
    "faiss Flat": "#9a6700",
    "datasketch": "#8250df",
    "simhash": "#8c959f",
}
ORDER = [*COLORS, GROWTH, UNRELATED]
# At distance 3, where peers are at their best, all contenders are compared; elsewhere only these,
# because all of them would take hours.
EVERYWHERE = (DIRECTED, OURS, "gaoya", "faiss MultiHash, 500 a call", GROWTH, UNRELATED)
ALL = (DIRECTED, *OF_FINGERPRINTS, GROWTH, UNRELATED)


class Trial(NamedTuple):
    """One contender at one size, distance and kind of fingerprints."""

    name: str
    size: int
    distance: int
    data: str
    found: Figures

    @property
    def key(self) -> tuple[str, int, int, str]:
        """What tells it from the others."""
        return self[:4]

    @property
    def group(self) -> tuple[int, int, str]:
        """Whom it is compared with."""
        return self[1:4]

    @property
    def place(self) -> tuple[tuple[int, int, str], int]:
        """Where it stands in the tables."""
        return self.group, ORDER.index(self.name) if self.name in ORDER else len(ORDER)

    def __str__(self) -> str:
        figures = ", ".join(
            f"{name} {_short(value)}"
            for name, value in self.found.items()
            if value not in ("", None)
        )
        return f"{self.name}, {self.size:,} {self.data}, k={self.distance}: {figures}"


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
    Bar(OURS, MILLION, 3, "new_per_s", 3e6, "documents/s"),
    Bar(OURS, 10 * MILLION, 3, "new_per_s", 0.8e6, "documents/s"),
    Bar(OURS, MILLION, 3, "new_p99_us", 1.0, "µs, p99", at_most=True),
    Bar(OURS, 10 * MILLION, 3, "new_p99_us", 2.0, "µs, p99", at_most=True),
    Bar(GROWTH, 10 * MILLION, 3, "new_per_s", 1.2e6, "documents/s from 0"),
    Bar(GROWTH, 10 * MILLION, 3, "new_worst_ms", 10.0, "ms, longest call from 0", at_most=True),
    Bar(OURS, 10 * MILLION, 3, "bytes_each", 60.0, "bytes each", at_most=True),
    Bar(OURS, MILLION, 7, "new_per_s", 200e3, "documents/s"),
    Bar(
        DIRECTED,
        MILLION,
        DIRECTED_DISTANCE,
        "new_per_s",
        300e3,
        "documents/s judged by the defaults",
    ),
    Bar(
        DIRECTED,
        10 * MILLION,
        DIRECTED_DISTANCE,
        "new_per_s",
        100e3,
        "documents/s judged by the defaults",
    ),
    Bar(
        DIRECTED,
        10 * MILLION,
        DIRECTED_DISTANCE,
        "bytes_counted",  # without the sketches
        55.0,
        "bytes each in the index",
        at_most=True,
    ),
)
RATIOS = (("gaoya", 10.0), ("faiss MultiHash", 20.0))


def trials(chosen: argparse.Namespace) -> Iterator[tuple[str, int, int, str]]:
    """Contender, size, distance, data: those asked for that make sense."""
    for size, distance, data in product(chosen.sizes, chosen.distances, chosen.data):
        for name in chosen.contenders or _by_default(size, distance, data):
            if _makes_sense(name, size, distance, data):
                yield name, size, distance, data


def _by_default(size: int, distance: int, data: str) -> Sequence[str]:
    """The contenders where none are named."""
    if size > MILLION and data == "texts":
        return ()  # drawing so many texts takes longer than all trials together
    return ALL if (size <= MILLION, distance, data) == (True, USUAL, "random") else EVERYWHERE


def _makes_sense(name: str, size: int, distance: int, data: str) -> bool:
    is_directed = name in (DIRECTED, UNRELATED)
    if is_directed != (distance == DIRECTED_DISTANCE):
        return False  # its distance is no choice but part of the rules
    if name == UNRELATED and size < UNRELATED_FROM:
        return False
    if name == GROWTH and distance != USUAL:
        return False  # the bar is for this one
    # gaoya makes its own, as random as any
    return data == "random" or not (is_directed or name in (GROWTH, "gaoya"))


def run(name: str, size: int, distance: int, data: str, chosen: argparse.Namespace) -> Trial:
    source = kept_fingerprints(size + MORE) if data == "texts" else data
    seconds = chosen.load_s_max + (UNRELATED_S_MAX if name == UNRELATED else REST_S_MAX)
    found = ask_contender(
        "fingerprints",
        name,
        size,
        distance,
        source,
        chosen.load_s_max,
        peers_python=chosen.peers_python,
        seconds_max=seconds,
    )
    return Trial(name, size, distance, data, found)


def parsed() -> argparse.Namespace:
    parser = common.options(
        __doc__, "100,000 random fingerprints, distance 3 and directed", has_peers=True
    )
    parser.add_argument("--sizes", type=numbers, default=SIZES)
    parser.add_argument("--distances", type=numbers, default=DISTANCES)
    parser.add_argument("--data", type=names, default=DATA, help="random, texts")
    parser.add_argument(
        "--contenders", type=names, help="default: all at distance 3, elsewhere those of EVERYWHERE"
    )
    parser.add_argument(
        "--load-s-max",
        type=float,
        default=LOAD_S_MAX,
        help="a contender that loads longer is left out",
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="to the trials that are kept, in their place where repeated",
    )
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.sizes, chosen.distances, chosen.data = (
            SIZES[:1],
            (USUAL, DIRECTED_DISTANCE),
            DATA[:1],
        )
    return chosen


def main() -> None:
    """
    Measure, print, keep what there is after each trial: a run that is ended early has its figures.
    """
    chosen = parsed()
    where = machine()
    kept = kept_results("index").get("trials", []) if chosen.add else []
    found = {trial.key: trial for trial in (Trial(**fields) for fields in kept)}
    lines: list[str] = []
    keys = list(trials(chosen))
    if not keys:
        sys.exit("no trial makes sense of these options: name --contenders, or fewer --sizes")
    for key in keys:
        found[key] = run(*key, chosen)
        print(found[key], flush=True)
        ordered = sorted(found.values(), key=lambda trial: trial.place)
        lines = tables(ordered) + bars(ordered)
        figures = {"machine": where, "trials": [trial._asdict() for trial in ordered]}
        keep(chosen, "index", figures, lines, {"index.png": partial(plot, ordered)})
    print("", *lines, sep="\n")


def tables(found: Sequence[Trial]) -> list[str]:
    """A table a size, distance and kind of fingerprints."""
    head = (
        "",
        "version",
        "new documents/s",
        "p50 µs",
        "p99 µs",
        "longest call ms",
        "half near/s",
        "bytes each",
    )
    lines: list[str] = []
    for group in dict.fromkeys(trial.group for trial in found):
        size, distance, data = group
        kind = "random fingerprints" if data == "random" else "fingerprints of texts"
        mine = [trial for trial in found if trial.group == group]
        lines += [f"### {size:,} {kind}, k = {distance}", ""]
        lines += table(
            (*head, "recall"), [_row(trial) for trial in mine if trial.name != UNRELATED]
        )
        lines += [
            line for trial in mine if trial.name == UNRELATED for line in (_unrelated(trial), "")
        ]
    return lines


def _unrelated(trial: Trial) -> str:
    found = trial.found
    if "left_out" in found:
        return f"Unrelated: {found['left_out']}."
    return (
        f"{trial.size:,} unrelated documents, judged one after the other: "
        f"{found['false_matches']:,} false matches, "
        f"{found['sketches_per_query_at_the_end']:.3f} sketches of others read for each of the "
        f"last million."
    )


def _row(trial: Trial) -> list[str]:
    found = trial.found
    name = "neardup, from 0" if trial.name == GROWTH else trial.name
    told = [name, found.get("layout") or found.get("version", "")]
    if "left_out" in found:
        return [*told, found["left_out"], *[""] * 6]
    figures = ("new_per_s", "new_p50_us", "new_p99_us", "new_worst_ms", "near_per_s", "bytes_each")
    recall = found.get("recall")
    return [
        *told,
        *(_short(found.get(figure)) for figure in figures),
        "" if recall is None else f"{recall:.3f}",
    ]


def bars(found: Sequence[Trial]) -> list[str]:
    of = {trial.key: trial.found for trial in found}
    rows = []
    for bar in BARS:
        value = of.get((bar.name, bar.size, bar.distance, "random"), {}).get(bar.figure)
        if value is not None:
            is_reached = value <= bar.wanted if bar.at_most else value >= bar.wanted
            what = f"{bar.size:,}, k = {bar.distance}: {bar.unit}"
            wanted = f"{'≤' if bar.at_most else '≥'} {_short(bar.wanted)}"
            rows.append((what, _short(value), wanted, reached(is_reached)))
    ours = of.get((OURS, MILLION, 3, "random"), {}).get("new_per_s")
    for name, wanted_times in RATIOS:
        theirs = of.get((name, MILLION, 3, "random"), {}).get("new_per_s")
        if ours and theirs:
            times = ours / theirs
            told = (
                f"{times:.0f} × {name}",
                f"≥ {wanted_times:.0f} ×",
                reached(times >= wanted_times),
            )
            rows.append((f"{MILLION:,}, k = 3", *told))
    recalls = [
        trial.found["recall"]
        for trial in found
        if trial.name == OURS and trial.found.get("recall") is not None
    ]
    if recalls:
        least = min(recalls)
        rows.append(
            (f"recall, all {len(recalls)} trials", f"{least:.3f}", "1.000", reached(least == 1.0))
        )
    return table(("what", "measured", "wanted", ""), rows)


def plot(found: Sequence[Trial], path: Path) -> None:
    """
    Documents a second and bytes each by size, random fingerprints: k = 3, and directed search.
    """
    figure, axes = common.drawing(10, 4.2, columns=2)
    titles = (
        ("new_per_s", f"queries and insertions a second, k = 3 (directed: {DIRECTED_DISTANCE})"),
        ("bytes_each", "bytes per fingerprint"),
    )
    for axis, (wanted, title) in zip(axes, titles, strict=True):
        for name, color in COLORS.items():
            distance = DIRECTED_DISTANCE if name == DIRECTED else 3
            mine = [
                trial
                for trial in found
                if (trial.name, *trial.group[1:]) == (name, distance, "random")
            ]
            points = [(trial.size, trial.found[wanted]) for trial in mine if wanted in trial.found]
            if points:
                width = 2.4 if name == OURS else 1.4
                axis.plot(
                    *zip(*points, strict=True), "o-", color=color, label=name, linewidth=width
                )
        axis.set_xscale("log")
        axis.set_yscale("log")
        common.titled(axis, title, "fingerprints held")
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        fontsize=8,
        frameon=False,
        loc="outside lower center",
        ncols=4,
    )
    common.saved(figure, path)


def _short(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if value >= 1_000 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    main()
