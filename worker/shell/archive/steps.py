"""
The steps of a run, one after the other; what is whole is left alone.

    rows        a task a file       rows of the log
    judge       one task            what becomes of each
    choose      one task            of each cluster the longest or newest, if that is asked for
    verdicts    a task a file       verdicts, documents that stay
    state, damage, summary          here
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from worker.errors import StopError
from worker.shell.archive.judge import answer_files, judge_rows
from worker.shell.archive.rows import make_rows
from worker.shell.archive.run import Run, copy_snapshot
from worker.shell.archive.session import Engine, Task
from worker.shell.archive.verdicts import choose, write_verdicts
from worker.shell.checkpoint import newest, remove_old
from worker.shell.files.outputs import written

Tell = Callable[[str, int, int | None], None]


def make_all_rows(run: Run, engine: Engine, tell: Tell) -> None:
    """Make the rows of all inputs; `tell` is told of their bytes."""
    sizes = [one.size or 0 for one in run.inputs]
    _run("rows", make_rows, run, engine, sizes, tell)
    counts = [result["documents"] for result in run.results("rows")]
    with written(run.folder / "rows.json") as stream:
        stream.write(orjson.dumps(counts))


def judge_all(run: Run, engine: Engine, tell: Tell) -> None:
    """Judge the rows, and write verdicts, state and summary; `tell` is told of documents."""
    count = run.firsts[-1] - run.first

    def tell_judged() -> None:
        files = answer_files(run)
        tell("judge", files[-1][2] - run.first if files else 0, count)

    if not run.done("judge"):
        engine.run("judge", judge_rows, run, [0], tell_judged)
    if run.options.prefer != "first" and not run.done("choose"):
        engine.run("choose", choose, run, [0], lambda: tell("choose", 0, None))
    counts = [stop - first for first, stop in zip(run.firsts, run.firsts[1:], strict=False)]
    _run("verdicts", write_verdicts, run, engine, counts, tell)
    summary = _summary(run)
    if run.said["state"] is not None:
        _keep_state(run, Path(run.said["state"]))
    with written(run.folder / "summary.json") as stream:
        stream.write(orjson.dumps(summary))


def _run(step: str, task: Task, run: Run, engine: Engine, sizes: Sequence[int], tell: Tell) -> None:
    """Run a task for each input that is not done, the largest first."""
    numbers = sorted(set(range(len(sizes))) - run.done(step), key=lambda number: -sizes[number])
    total = sum(sizes)
    engine.run(step, task, run, numbers, lambda: tell(step, sum(sizes[n] for n in run.done(step)), total))


def _summary(run: Run) -> dict[str, Any]:
    """Return what `dedup` sums up, and write what is damaged. Raises StopError when nothing could be judged."""
    found: dict[str, Any] = {"documents": run.firsts[-1] - run.first, "damaged": 0, "left_out": Counter()}
    for result in run.results("rows"):
        found["damaged"] += result["damaged"]
        found["left_out"].update(result["left_out"])
    with written(run.folder / "damage.jsonl") as stream:
        for path in sorted((run.folder / "rows").glob("*.jsonl")):
            with path.open("rb") as lines:
                shutil.copyfileobj(lines, stream)
    outcomes: Counter[str] = Counter()
    results = run.results("verdicts")
    for result in results:
        outcomes.update(result["outcomes"])
    if outcomes.total() == outcomes["dead-letter"]:
        dead = next((f": {result['dead']}" for result in results if result["dead"]), "")
        raise StopError(f"nothing could be judged: {found['documents']:,} documents{dead}")
    kept = sum(result["kept"] for result in results) if run.options.keep else None
    return {**found, "outcomes": outcomes, "kept": kept}


def _keep_state(run: Run, state: Path) -> None:
    """Put the judge's last snapshot into the state, from which runs and workers go on."""
    last, there = newest(run.folder / "judge"), newest(state)
    assert last is not None, "the judge has written one"
    if there is not None and there.name not in (run.said["base"], last.name):
        raise StopError(f"{state} has gone on since the run began, to {there.name}: begin another one, from there")
    if there is None or there.name != last.name:
        copy_snapshot(last, state / last.name)
    remove_old(state)
