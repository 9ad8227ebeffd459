"""
The steps of a run, in order, and the engine that runs their tasks. A step skips results that are
already complete.

    rows        a task a file       rows of the log
    ask-LEG     tasks a leg         what each row may be a copy of, if the judge has legs
    judge       one task a leg      what becomes of each
    verdicts    a task a file       verdicts
    ids         a task a range      how many documents have another one's doc_id
    choose      a task a range      which document of each cluster is kept, if documents are
    copy        a task a file       the kept documents
    state, damage, summary          here

The engine is the user's Spark, named by a URL (Spark Connect), or else our own one without Java
(`server.py`). It only has to run a function for each number, and to run it again if a task was
lost. No column passes through it, nothing is shuffled, and its order does not matter, because tasks
write their results into the run's folder.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pyarrow

from worker.errors import StopError, install_extra
from worker.shell.archive.legs import ask_rows, ask_sizes, leg_of, remove_judged
from worker.shell.archive.outputs import (
    choose,
    choosers,
    copy_kept,
    count_ids,
    write_verdicts,
)
from worker.shell.archive.run import Run, check_limit
from worker.shell.archive.server import ENDING_S, own_server
from worker.shell.archive.tasks import judge_rows, make_rows
from worker.shell.files.account import InputTally, RunAccount
from worker.shell.files.choice import FIRST
from worker.shell.files.outputs import written
from worker.shell.files.places import shown_name
from worker.shell.files.state import RunState

WAIT_S = 0.5
INTERRUPT_S = 1.0
CONNECT_S = 120.0  # pyspark itself tries for ten minutes, without a word
Task = Callable[[Run, int], dict[str, Any]]
Tell = Callable[[str, int, int | None], None]
_RESULT = "number long, error string"


def make_all_rows(run: Run, engine: Engine, tell: Tell) -> None:
    """
    Make the rows of all inputs, and write the list of damage. `tell` gets the progress, in bytes.

    References come first: where none can be judged, no time goes into the inputs.

    Raises:
        StopError: no document of the inputs, or none of the references, can be judged. The run is
            removed, so that its folder may have another one; the list of damage stays.
    """
    sizes = [one.size or 0 for one in run.inputs]
    if run.references:
        _run("rows", make_rows, run, engine, sizes, tell, stop=run.references)
        _check_judged(run, _tallies(run)[0], "no reference")
    _run("rows", make_rows, run, engine, sizes, tell, begin=run.references)
    _check_judged(run, _tallies(run)[1])
    counts = [result["documents"] for result in run.results("rows")]
    with written(run.folder / "rows.json") as stream:
        stream.write(orjson.dumps(counts))
    _write_damage(run)


def _check_judged(run: Run, tally: InputTally, what: str = "nothing") -> None:
    """Remove a run and raise StopError if no document can be judged; `what` is its name there."""
    try:
        tally.check_judged(what)
    except StopError as error:
        damage = _write_damage(run)
        run.remove()
        if damage.stat().st_size:
            raise StopError(f"{error}. Each place is in {damage}") from None
        damage.unlink()
        raise


def _write_damage(run: Run) -> Path:
    """Write the list of damage of all rows that there are, and return its path."""
    path = run.folder / "damage.jsonl"
    with written(path) as stream:
        for part in sorted((run.folder / "rows").glob("*.jsonl")):
            with part.open("rb") as lines:
                shutil.copyfileobj(lines, stream)
    return path


def _tallies(run: Run) -> tuple[InputTally, InputTally]:
    """Return what was read of the references, and of the inputs."""
    results = run.results("rows")
    return (
        InputTally.joined(results[: run.references]),
        InputTally.joined(results[run.references :]),
    )


def judge_all(
    run: Run, engine: Engine, tell: Tell, threads: int = 1, state: RunState | None = None
) -> None:
    """
    Judge the rows, and write verdicts, documents, state and summary. `tell` gets the progress, in
    documents.

    The judge searches with `threads` threads, because it is the only task at that time.

    Raises:
        StopError: documents are to be preferred by a number that none of them has.
    """
    _judge(run, engine, tell, threads)
    begin = run.references
    counts = [stop - first for first, stop in zip(run.firsts, run.firsts[1:], strict=False)]
    counts[:begin] = [0] * begin  # nothing is written for references
    _run("verdicts", write_verdicts, run, engine, counts, tell, begin)
    parts = choosers(run)
    ranges = [sum(counts) // parts] * parts
    _run("ids", count_ids, run, engine, ranges, tell)
    if run.options.keep:
        found = run.results("verdicts")
        scored, unscored = (sum(one[name] for one in found) for name in ("scored", "unscored"))
        run.options.preference.check_scores(scored, unscored)
        _run("choose", choose, run, engine, ranges, tell)
        _run("copy", copy_kept, run, engine, counts, tell, begin)
    summary = _account(run).summary()
    if state is not None:
        run.keep_state(state)
    with written(run.summary) as stream:
        stream.write(orjson.dumps(summary))


def _judge(run: Run, engine: Engine, tell: Tell, threads: int) -> None:
    """
    Judge leg after leg: tasks ask for its candidates outside, then one task decides.

    Raises StopError: so many documents need a search for which a task's memory is too small.
    """
    check_limit(run)  # again: now the search is known
    remove_judged(run)  # a run may have been killed before it came to that
    while not run.is_judged:
        stops = [result["next_offset"] for result in run.results("judge")]
        number = len(stops)
        _run(
            f"ask-{number:06}",
            partial(ask_rows, leg_number=number),
            run,
            engine,
            ask_sizes(run, number),
            tell,
        )
        ends = [run.first, *stops, leg_of(run, number).stop, run.firsts[-1]]
        sizes = [stop - begin for begin, stop in pairwise(ends)]
        judge = partial(judge_rows, threads=threads)
        _run("judge", judge, run, engine, sizes, tell, number, number + 1)
        remove_judged(run)


def _run(
    step: str,
    task: Task,
    run: Run,
    engine: Engine,
    sizes: Sequence[int],
    tell: Tell,
    begin: int = 0,
    stop: int | None = None,
) -> None:
    """
    Run a step's task for each number of [begin, stop) that is not done, the largest first.

    Raises StopError: a task has failed, or the files of one that has ended cannot be seen: going on
    would leave out its documents.
    """
    left = set(range(begin, len(sizes) if stop is None else stop)) - run.done(step)
    numbers = sorted(left, key=lambda number: -sizes[number])
    total = sum(sizes)
    if numbers:
        # Time counts from here, because the work of an earlier run says nothing about the speed.
        tell(step, run.reached(step, sizes), total)
        engine.run(step, task, run, numbers, lambda: tell(step, run.reached(step, sizes), total))
        if missing := left - run.done(step):
            raise StopError(
                f"all tasks of the step {step} have ended, and the files of {len(missing):,} (the "
                f"first: {min(missing)}) are not in {run.folder}: were they removed, or does this "
                "machine see files of others late? Run this again to continue"
            )


def _account(run: Run) -> RunAccount:
    """Return what a run has done, all of whose tasks have ended."""
    references, inputs = _tallies(run)
    outcomes: Counter[str] = Counter()
    verdicts = run.results("verdicts")
    for result in verdicts:
        outcomes.update(result["outcomes"])
    again = sum(result["redelivered"] for result in verdicts)
    named_apart = run.results("judge")[-1]["named_apart"][0]
    if not run.options.keep:
        return RunAccount(inputs, references, outcomes, again, named_apart, None, None, None)
    kept = sum(result["kept"] for result in run.results("copy"))
    unscored = None
    if run.options.preference.has_score:
        unscored = sum(result["unscored"] for result in verdicts)
    kept_before = None
    if run.options.preference != FIRST:
        kept_before = sum(result["kept_before"] for result in run.results("choose"))
    return RunAccount(inputs, references, outcomes, again, named_apart, kept, unscored, kept_before)


# ---- the engine


class Engine:
    """
    Runs tasks.

    Args:
        tasks_max: how many tasks our own engine runs at once; None for another engine, which
            decides itself.
        check: raises StopError if the engine is gone, or disappears within the given seconds.
    """

    def __init__(
        self, spark: Any, tasks_max: int | None, check: Callable[[float], None] = lambda _: None
    ) -> None:
        self._spark = spark
        self._tasks_max = tasks_max
        self._check = check

    def run(
        self, step: str, task: Task, run: Run, numbers: Sequence[int], tell: Callable[[], None]
    ) -> None:
        """
        Run a step's task for each number, and keep what each returns.

        If a task fails, the results of the successful ones are kept.

        Args:
            numbers: the numbers of the largest inputs first, so that the last task is a short one.
            tell: is called now and then.
        Raises:
            StopError: a task has raised it, or the engine has failed, in its own words.
        """
        if not numbers:
            return
        parts = min(len(numbers), self._tasks_max or len(numbers))
        dealt = [list(numbers[part::parts]) for part in range(parts)]
        found = self._map(parts, _of_files(step, task, run.folder, dealt), _RESULT, tell)
        failed = [one["error"] for one in found if one["error"]]
        if failed:
            more = f" (and {len(failed) - 1:,} more such)" if len(failed) > 1 else ""
            raise StopError(f"{failed[0]}{more}")

    def check(self, run: Run) -> None:
        """
        Check the installation with which the tasks run.

        Raises:
            StopError: the tasks have no neardup or another version, or do not see the folder of the
                run.
        """
        [found] = self._map(
            1, _probe(run.folder / "run.json"), "version string, sees boolean", lambda: None
        )
        own = version("neardup")
        if found["version"] != own:
            there = f"neardup {found['version']}" if found["version"] else "no neardup"
            raise StopError(
                f"Spark's executors have {there}, this is {own}: install neardup {own} with its "
                f"extra `archive` there, from the same wheel or clone"
            )
        if not found["sees"]:
            raise StopError(
                f"Spark's executors do not see {run.folder}: name a folder that is mounted at one "
                f"place on all machines"
            )

    def _map(
        self, parts: int, function: Any, schema: str, tell: Callable[[], None]
    ) -> list[dict[str, Any]]:
        """
        Run a function over partitions of one number each, in a thread next to this one, which
        reports the progress.
        """

        def collect() -> list[dict[str, Any]]:
            frame = self._spark.range(0, parts, 1, parts).mapInArrow(function, schema)
            return [row.asDict() for row in frame.collect()]

        thread, found = _begun(collect)
        while thread.is_alive():
            thread.join(WAIT_S)
            self._check(0)
            tell()
        [result] = found
        if isinstance(result, Exception):
            self._check(ENDING_S)
            lines = [line.strip() for line in str(result).splitlines()]
            lines = [line for line in lines if line and not line.startswith("SQLSTATE")] or [
                repr(result)
            ]
            raise StopError(
                f"Spark: {lines[0]} … {lines[-1]}. Run this again to continue"
            ) from result
        collected: list[dict[str, Any]] = result
        return collected


def _begun(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """
    Start work in a thread that the process does not wait for. The list gets what it returns, or the
    exception that ends it.
    """
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:  # errors of the engine have many classes
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, found


@contextmanager
def engine(url: str | None, threads: int) -> Iterator[Engine]:
    """
    Open the Spark engine at a URL, or our own one with `threads` tasks at once.

    Our own engine is killed at the end of the block.

    Raises StopError if the engine is not installed, or does not answer.
    """
    # If Python was started without a file, pyspark would look for jars, find none and exit.
    os.environ.setdefault("SPARK_HOME", sys.prefix)
    with ExitStack() as stack:
        try:
            server = None if url is not None else stack.enter_context(own_server(threads))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of pandas, which is not used
                if server is not None:
                    url = server.url()
                assert url is not None, "ours has told it"
                spark = _connected(url)
        except ImportError as error:
            raise StopError(f"archive needs {error.name}: {install_extra('archive')}") from None
        except StopError:
            raise
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise StopError(f"Spark at {url} does not answer: {reason}") from error
        if server is None:
            opened = Engine(spark, None)
        else:
            spark.client.set_retry_policies([])  # a server that is gone does not come back
            opened = Engine(spark, threads, server.check)
        try:
            yield opened
        except KeyboardInterrupt:
            if server is None:
                _interrupt(spark)
            raise
        except BaseException:
            if server is None:
                spark.stop()
            raise
        spark.stop()


def _connected(url: str) -> Any:
    """
    Return a session of the engine at a URL.

    Raises StopError if nothing answers within CONNECT_S.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415

    session = SparkSession.builder.remote(url).getOrCreate()  # asks nobody yet
    thread, found = _begun(lambda: session.version)
    thread.join(CONNECT_S)
    if not found:
        session.client.set_retry_policies([])  # or pyspark would wait again at the end
        raise StopError(
            f"Spark at {url} has not answered for {CONNECT_S:g} s: see whether it runs, and "
            "whether this is its address"
        )
    [answer] = found
    if isinstance(answer, Exception):
        raise answer
    return session


def _interrupt(spark: Any) -> None:
    """
    Ask a shared Spark to end our tasks. The command ends even if it does not answer in time.
    """
    thread, _ = _begun(spark.interruptAll)
    thread.join(INTERRUPT_S)


def _probe(manifest: Path) -> Any:
    """
    Return a function that runs without neardup: it is sent by value, and modules that are not
    neardup's by name.
    """

    def probe(batches: Any) -> Any:
        list(batches)
        try:
            found = version("neardup")
        except PackageNotFoundError:
            found = ""
        sees = os.path.exists(manifest)  # noqa: PTH110  # a Path raises where it may not look
        yield pyarrow.RecordBatch.from_pydict({"version": [found], "sees": [sees]})

    return probe


def _of_files(step: str, task: Task, folder: Path, dealt: Sequence[Sequence[int]]) -> Any:
    """
    Return the function of a partition. It runs the task for each of its numbers, up to the first
    that fails.
    """

    def work(batches: Any) -> Any:
        parts = [part for batch in batches for part in batch.column(0).to_pylist()]
        for number in [number for part in parts for number in dealt[part]]:
            error = run_task(step, task, folder, number)
            yield pyarrow.RecordBatch.from_pydict({"number": [number], "error": [error]})
            if error:
                return

    return work


def run_task(step: str, task: Task, folder: Path, number: int) -> str:
    """
    Run a task, on any machine. Returns the reason if it fails in a way that another try would not
    change.
    """
    run = _run_of(folder, (folder / "run.json").stat().st_mtime_ns)
    try:
        run.finish(step, number, task(run, number))
    except StopError as error:
        return shown_name(str(error))  # it contains names of files, and Arrow accepts only UTF-8
    finally:
        # The next task in this process counts on as much memory.
        pyarrow.default_memory_pool().release_unused()
    return ""


@lru_cache(2)
def _run_of(folder: Path, _changed: int) -> Run:
    return Run.load(folder)
