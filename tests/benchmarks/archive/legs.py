"""
The judge of an archive in one task, and in legs, over the same made rows in turn.

The legs are made smaller than the limit of memory would make them, so that there are four of so few
rows.

Core seconds are those of the tasks. Some two of them load neardup and its compiled kernels into the
engine's process.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import psutil

from tests.benchmarks.common import Figures, table
from worker.log.judge import JUDGEMENT_COLUMNS, NAMING_COLUMNS
from worker.shell.archive.run import Run, begin
from worker.shell.archive.steps import Engine, Task, _judge, engine
from worker.shell.archive.tasks import JudgedPart, judged_of

SIZES = 1_000_000, 4_000_000, 20_000_000
TASK_BYTES = 4 << 30
LEGS = 4
WAYS = ("one", "legs")
INPUTS_CHECKED = 8  # the last ones: all of 4 M rows, and 8 M of more
PLAIN_COLUMNS = [name for name in JUDGEMENT_COLUMNS if name not in NAMING_COLUMNS]

_SMALLER = """
from worker.core import planner

planner.LEG_ROWS_MAX = planner.SLICE_ROWS_MAX = {rows}
"""


class _TimedEngine(Engine):
    """
    Runs tasks with an engine, and counts what they take.

    Attributes:
        core_s, tasks: by step.
        bytes: of the files that were written for legs, all of them.
    """

    def __init__(self, inner: Engine) -> None:
        self._inner = inner
        self.core_s = defaultdict[str, float](float)
        self.tasks: Counter[str] = Counter()
        self.bytes = 0

    def run(
        self, step: str, task: Task, run: Run, numbers: Sequence[int], tell: Callable[[], None]
    ) -> None:
        """Run a step's tasks."""
        name = step.partition("-")[0]
        begun = _core_s()
        self._inner.run(step, task, run, numbers, tell)
        self.core_s[name] += _core_s() - begun
        self.tasks[name] += len(numbers)
        if name == "ask":
            folders = (run.folder / "judge").glob("leg-*")
            files = [path for folder in folders for path in folder.iterdir()]
            self.bytes += sum(path.stat().st_size for path in files)


def _core_s() -> float:
    """Return the core seconds of this process and those below it."""
    top = psutil.Process()
    return sum(sum(one.cpu_times()[:2]) for one in (top, *top.children(recursive=True)))


def judge(place: str, way: str, cores: int) -> None:
    """Judge the rows of a run, in one task or in legs; write what it took."""
    folder = Path(place)
    run = Run.load(folder / "out")
    rows = run.firsts[-1]
    if way == "legs":
        run = _same_rows(run, folder / "legs", TASK_BYTES)
        smaller = _SMALLER.format(rows=rows // LEGS)
        (folder / "sitecustomize.py").write_text(smaller)
        os.environ["PYTHONPATH"] = str(folder)  # of the engine's process, in which tasks run
        exec(smaller)  # here, too
    with engine(None, cores) as tasks:
        tasks.check(run)
        timed = _TimedEngine(tasks)
        _judge(run, timed, lambda *_: None, 1)
    results = run.results("judge")
    took = {
        "core_s": sum(timed.core_s.values()),
        "ask_core_s": timed.core_s["ask"],
        "asked": timed.tasks["ask"],
        "legs": len(results),
        "leg_bytes": timed.bytes,
        "originals": results[-1]["originals"],
    }
    (folder / f"{way}.json").write_text(json.dumps(took))


def _same_rows(run: Run, folder: Path, limit: int) -> Run:
    """Begin a run with the rows and the time of another one."""
    again = begin(folder, run.inputs, run.options, run.settings, None, task_memory=limit)
    again = Run(folder, {**again.said, "started_at_ms": run.started_at_ms})
    again.write()
    for path in (run.folder / "rows").iterdir():
        os.link(path, again.path("rows", path.name))
    os.link(run.folder / "rows.json", again.folder / "rows.json")
    return again


def check(place: str) -> None:
    """Compare the judgements of both runs, those of the last inputs if there are many."""
    folder = Path(place)
    runs = [Run.load(folder / name) for name in ("out", "legs")]
    compared = 0
    for number in range(max(0, len(runs[0].inputs) - INPUTS_CHECKED), len(runs[0].inputs)):
        for one, other in zip(*(judged_of(run, number) for run in runs), strict=True):
            assert one.rows.log_offset == other.rows.log_offset
            for name in PLAIN_COLUMNS:
                columns = [getattr(part.rows.judged, name) for part in (one, other)]
                assert np.array_equal(*columns), (number, one.rows.span, name)
            for name in NAMING_COLUMNS:
                assert _named(one, name) == _named(other, name), (number, one.rows.span, name)
            compared += one.rows.stop - one.rows.first
    (folder / "checked.json").write_text(json.dumps(compared))


def _named(part: JudgedPart, name: str) -> list[bytes]:
    """Return the doc_ids of the originals that a column names; none: where it names none."""
    places = getattr(part.rows.judged, name)
    doc_ids, _ = part.held.texts.take(places[places >= 0])
    return [np.packbits(places >= 0).tobytes(), *doc_ids.tolist()]


def markdown(sizes: Sequence[Figures]) -> list[str]:
    """Return the table of all sizes."""
    lines = []
    for size in sizes:
        rows, whole = size["count"], size["one"]
        for way in WAYS:
            took = size[way]
            lines.append(
                (
                    f"{rows:,}",
                    f"{took['legs']}",
                    f"{took['asked']}",
                    f"{took['core_s']:,.1f}",
                    f"{took['ask_core_s']:,.1f}",
                    f"{took['core_s'] / rows * 1e6:,.1f}",
                    f"{took['core_s'] / whole['core_s']:.2f}",
                    f"{took['seconds']:,.0f}",
                    f"{took['peak'] / 1e9:.2f} GB",
                    f"{took['leg_bytes'] / rows:,.0f}",
                )
            )
    head = (
        "rows", "legs", "tasks that asked", "core seconds", "of them asking", "µs of a core each",
        "compared with one task", "seconds", "peak memory, all processes",
        "bytes a row written for legs",
    )  # fmt: skip
    checked = " and ".join(f"{size['checked']:,} of {size['count']:,}" for size in sizes)
    return [
        *table(head, lines),
        f"0 judgements differ: the last {checked} were compared. Tasks had a limit of "
        f"{TASK_BYTES / 1e9:.1f} GB; legs and slices were made smaller, of a {LEGS}th of the rows each.",
        "",
    ]
