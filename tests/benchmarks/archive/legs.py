"""
The judge of an archive in one task, and in legs, over the same made rows in turn.

A limit of memory makes the legs, as `--task-memory` does, where the rows are enough for several. For
fewer rows the legs are made smaller than any limit would make them, so that there are four.

Core seconds are those of the tasks. Some two of them load neardup and its compiled kernels into the
engine's process.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import islice, zip_longest
from pathlib import Path

import psutil

from tests.benchmarks.common import Figures, table
from worker.core import planner
from worker.core.search import SearchRules
from worker.shell.archive import legs as product
from worker.shell.archive.run import Run, begin
from worker.shell.archive.steps import Engine, Task, _judge, engine
from worker.shell.archive.tasks import answers_in, judged_of

SIZES = 1_000_000, 4_000_000, 20_000_000
TASK_BYTES_MAX = 4 << 30
LEGS = 4  # or more
WAYS = ("one", "legs")
CHECKED = 200_000  # answers, at most

_SMALLER = """
from worker.shell.archive import legs

legs.LEG_ROWS_MAX = legs.SLICE_ROWS_MAX = {rows}
"""


def limit_for(rules: SearchRules, rows: int) -> tuple[int, bool]:
    """
    Return a limit of memory, and whether it makes LEGS legs of so many rows.

    >>> limit_for(SearchRules(), 20_000_000)[1], limit_for(SearchRules(), 1_000_000)
    (True, (4294967296, False))
    """
    limit = TASK_BYTES_MAX
    while True:
        try:
            if planner.leg_rows(rules, limit) * (LEGS - 1) < rows:
                return limit, True
        except ValueError:  # less is not enough for any leg
            return TASK_BYTES_MAX, False
        limit = limit * 7 // 8


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


def judge(folder: Path, way: str, cores: int) -> None:
    """Judge the rows of a run, in one task or in legs; write what it took."""
    run = Run.load(folder / "out")
    rows = run.firsts[-1]
    if way == "legs":
        limit, is_enough = limit_for(run.judging.search, rows)
        run = _same_rows(run, folder / "legs", limit)
        if not is_enough:
            (folder / "sitecustomize.py").write_text(_SMALLER.format(rows=rows // LEGS))
            os.environ["PYTHONPATH"] = str(folder)  # of the engine's process, in which tasks run
            product.LEG_ROWS_MAX = product.SLICE_ROWS_MAX = rows // LEGS
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
        "limit": run.task_memory,
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


def check(folder: Path) -> None:
    """Compare the answers to the last input's rows, which most originals are outside of."""
    one, legs = Run.load(folder / "out"), Run.load(folder / "legs")
    number = len(one.inputs) - 1
    lines = [
        (
            answer.written
            for part in judged_of(run, number)
            for _, answer in answers_in(run, number, part)
        )
        for run in (one, legs)
    ]
    compared = 0
    for first, second in islice(zip_longest(*lines), CHECKED):
        assert first == second, (compared, first, second)
        compared += 1
    (folder / "checked.json").write_text(json.dumps(compared))


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
                    "" if took["limit"] is None else f"{took['limit'] / 1e9:.2f} GB",
                    f"{took['peak'] / 1e9:.2f} GB",
                    f"{took['leg_bytes'] / rows:,.0f}",
                )
            )
    head = (
        "rows", "legs", "tasks that asked", "core seconds", "of them asking", "µs of a core each",
        "compared with one task", "seconds", "`--task-memory`", "peak memory, all processes",
        "bytes a row written for legs",
    )  # fmt: skip
    checked = " and ".join(f"{size['checked']:,} of {size['count']:,}" for size in sizes)
    return [
        *table(head, lines),
        f"0 answers to the last rows differ: {checked} were compared. Where a limit of memory would "
        f"make fewer than {LEGS} legs, they were made of a {LEGS}th of the rows each.",
        "",
    ]
