"""
A group of three workers for as long as one likes, on Kafka: are its disk and its memory flat?

Documents of 1 KB come at an even rate. A worker is killed every two minutes, and started again. The
log is renewed twice, each time with `verify` before it, and what the old one leaves is deleted. The
definition keeps a tenth of the documents as originals, and the workers share a folder for snapshots.
Only if these are more than a chunk of a column has rows does a snapshot share chunks with the
replica, and does the replica forget some: the table says so of a run that is too small for it.
`verify` checks every verdict, of all three logs. It is `make soak` with renewals and retention, and
fails as that does: a document that is lost, repeated or judged wrongly, or a worker whose memory its
originals do not explain.

    make bench-week [MINUTES=40] [DOCUMENTS=2000000] [BENCH=--no-save]

Written to tests/benchmarks/results: figures as JSON, tables in Markdown, and week.png, the plot.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

from tests.benchmarks import common
from tests.benchmarks.common import INK, table
from tests.benchmarks.kept import keep, machine
from tests.faults.soak import WORKERS, Look, Plan, Renewed, Soak, soaked
from worker.log.columns import ROWS_BITS

RENEWALS = 2
KEPT = 0.1  # of the documents, as originals
KILL_EVERY_S = 120.0
LOOKS_KEPT = 200
COLORS = ("#1a7f37", common.OURS_COLOR, "#cf222e")


def sections(looks: Sequence[Look], renewals: Sequence[Renewed]) -> list[list[Look]]:
    """Return the looks at each of the logs, one after the other."""
    times = [0.0, *(renewed.seconds for renewed in renewals), float("inf")]
    return [
        [look for look in looks if begin <= look.seconds < end] for begin, end in pairwise(times)
    ]


def lines(plan: Plan, run: Soak) -> list[str]:
    """Return the tables: each log at its most, and each renewal."""
    head = ("log", "seconds", "originals", "log, MB", "snapshots, MB", "memory of a worker, MB")
    rows = [
        (
            str(number),
            f"{looks[0].seconds:.0f} to {looks[-1].seconds:.0f}",
            f"{max(look.originals for look in looks):,}",
            f"{max(look.log_mb for look in looks):.1f}",
            f"{max(look.snapshots_mb for look in looks):.1f}",
            str(max(max(look.resident_mb.values(), default=0) for look in looks)),
        )
        for number, looks in enumerate(sections(run.looks, run.renewals), 1)
        if looks
    ]
    renewed = [
        (f"{one.seconds:.0f}", f"{one.pause_s:.0f}", f"{one.verify_s:.0f}", f"{one.records:,}")
        for one in run.renewals
    ]
    return [
        f"{plan.documents:,} documents in {plan.minutes:g} minutes, {plan.documents_max:,} originals "
        f"are kept, {len(run.kills)} kills. Each verdict was checked: none is lost, repeated or wrong.",
        "",
        *_chunks(plan),
        "At its most, of all workers and logs together, and of the worker that had most memory:",
        "",
        *table(head, rows),
        *table(("renewed at, s", "pause, s", "of it verify, s", "records of the old log"), renewed),
        "![disk, memory and originals over the run](week.png)",
    ]


def _chunks(plan: Plan) -> list[str]:
    """Say so if the originals fill no chunk, so that none is shared or forgotten."""
    rows = 1 << ROWS_BITS
    if plan.documents_max >= 2 * rows:
        return []
    return [
        f"The originals do not fill two chunks of {rows:,} rows: what a longer run forgets and "
        "shares with its snapshots was not tried.",
        "",
    ]


def plot(run: Soak, path: Path) -> None:
    """Draw originals, disk and memory by time, with the kills and the renewals."""
    figure, axes = common.drawing(8, 7, rows=3, sharex=True)
    minutes = [look.seconds / 60 for look in run.looks]
    _curve(axes[0], minutes, [look.originals for look in run.looks], COLORS[1], "originals")
    common.titled(axes[0], "originals")
    _curve(axes[1], minutes, [look.log_mb for look in run.looks], COLORS[1], "logs")
    _curve(axes[1], minutes, [look.snapshots_mb for look in run.looks], COLORS[0], "snapshots")
    common.titled(axes[1], "disk, MB")
    for worker, color in zip(WORKERS, COLORS, strict=True):
        resident = [look.resident_mb.get(worker, float("nan")) for look in run.looks]
        _curve(axes[2], minutes, resident, color, worker)
    below = "minutes; dashed: the log is renewed, dotted: a worker is killed"
    common.titled(axes[2], "memory of each worker, MB", below)
    for axis in axes:
        axis.set_ylim(bottom=0)
        for renewed in run.renewals:
            axis.axvline(renewed.seconds / 60, color=INK, linestyle="--", linewidth=0.8)
        for killed in run.kills:
            axis.axvline(killed / 60, color=INK, linestyle=":", linewidth=0.5)
    for axis, place in zip(axes[1:], ("upper left", "lower left"), strict=True):
        axis.legend(fontsize=8, frameon=False, loc=place)
    common.saved(figure, path)


def _curve(
    axis: object, minutes: Sequence[float], values: Sequence[float], color: str, label: str
) -> None:
    axis.plot(minutes, values, color=color, linewidth=1.2, label=label)  # type: ignore[attr-defined]


def main() -> int:
    """Run, tell, and keep what was measured if every check has passed."""
    parser = common.options(__doc__)
    parser.add_argument("--documents", type=int, default=2_000_000)
    parser.add_argument("--minutes", type=float, default=40.0, help="over which they are fed")
    parser.add_argument("--kill-every-s", type=float, default=KILL_EVERY_S)
    chosen = parser.parse_args()
    where = machine()
    kept = max(int(chosen.documents * KEPT), 1)
    plan = Plan(chosen.documents, chosen.minutes, chosen.kill_every_s, RENEWALS, kept)
    code, run = soaked(plan)
    print(*lines(plan, run), sep="\n")
    if code == 0:
        figures = {
            "machine": where,
            "plan": plan._asdict(),
            "kills_s": [round(seconds, 1) for seconds in run.kills],
            "renewals": [renewed._asdict() for renewed in run.renewals],
            "looks": [look._asdict() for look in run.looks[:: len(run.looks) // LOOKS_KEPT + 1]],
        }
        keep(chosen, "week", figures, lines(plan, run), {"week.png": partial(plot, run)})
    return code


if __name__ == "__main__":
    sys.exit(main())
