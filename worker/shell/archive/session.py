"""
The engine that runs the tasks: anybody's Spark by its URL (Spark Connect), else one in this process, without Java.

Of the engine two things alone are asked: to run a function for each number, and to run it again where it was lost. No
column goes through it, nothing is shuffled, and no order of it is relied on: what tasks make lies in the run's folder.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from worker.errors import StopError
from worker.shell.archive.run import Run

WAIT_S = 0.5
Task = Callable[[Run, int], dict[str, Any]]
_RESULT = "number long, error string"


class Engine:
    """Runs tasks: `tasks_max` at once where it is ours; another one knows itself."""

    def __init__(self, spark: Any, tasks_max: int | None) -> None:
        self._spark = spark
        self._tasks_max = tasks_max

    def run(self, step: str, task: Task, run: Run, numbers: Sequence[int], tell: Callable[[], None]) -> None:
        """
        Run a step's task for each number, and keep what each returns; those that have ended well stay where one fails.

        Args:
            numbers: the largest first, so that the last to end is a short one.
            tell: called now and then.

        Raises:
            StopError: what a task has raised, or the engine's own words.
        """
        if not numbers:
            return
        parts = min(len(numbers), self._tasks_max or len(numbers))
        dealt = [list(numbers[part::parts]) for part in range(parts)]
        found = self._map(parts, _of_files(step, task, str(run.folder), dealt), _RESULT, tell)
        failed = [one["error"] for one in found if one["error"]]
        if failed:
            more = f" (and {len(failed) - 1:,} more such)" if len(failed) > 1 else ""
            raise StopError(f"{failed[0]}{more}")

    def check(self, run: Run) -> None:
        """Ask a task what it runs with. Raises StopError: no neardup, another version of it, no folder of the run."""
        [found] = self._map(1, _probe(str(run.folder / "run.json")), "version string, sees boolean", lambda: None)
        own = version("neardup")
        if found["version"] != own:
            there = f"neardup {found['version']}" if found["version"] else "no neardup"
            raise StopError(f"Spark's executors have {there}, this is {own}: install 'neardup[archive]=={own}' there")
        if not found["sees"]:
            raise StopError(
                f"Spark's executors do not see {run.folder}: name a folder that is mounted at one place on all machines"
            )

    def _map(self, parts: int, function: Any, schema: str, tell: Callable[[], None]) -> list[dict[str, Any]]:
        """Run a function over partitions of a number each, in a thread beside this one, which tells how far it is."""
        found: list[list[dict[str, Any]] | Exception] = []

        def work() -> None:
            try:
                frame = self._spark.range(0, parts, 1, parts).mapInArrow(function, schema)
                found.append([row.asDict() for row in frame.collect()])
            except Exception as error:  # the engine's own, of many classes
                found.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(WAIT_S)
            tell()
        [result] = found
        if isinstance(result, Exception):
            lines = [line.strip() for line in str(result).splitlines()]
            lines = [line for line in lines if line and not line.startswith("SQLSTATE")] or [repr(result)]
            raise StopError(f"Spark: {lines[0]} … {lines[-1]}. Run this again to go on") from result
        return result


@contextmanager
def engine(url: str | None, threads: int) -> Iterator[Engine]:
    """
    Open an engine: that of a URL, or one of our own, which runs as many tasks at once as there are `threads`.

    Raises:
        StopError: its packages are missing, or it does not answer.
    """
    environment = {
        "RUST_LOG": "off",
        "SAIL_EXECUTION__DEFAULT_PARALLELISM": str(threads),
        "SPARK_HOME": sys.prefix,  # else, where Python was started without a file, pyspark looks for jars, and exits
    }
    for name, value in environment.items():
        os.environ.setdefault(name, value)
    server: Any = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pandas, which is not used
            from pyspark.sql import SparkSession  # noqa: PLC0415

            if url is None:
                from pysail.spark import SparkConnectServer  # noqa: PLC0415

                server = SparkConnectServer()
                server.start()
                url = "sc://{}:{}".format(*server.listening_address)
            spark = SparkSession.builder.remote(url).getOrCreate()
    except ImportError as error:
        raise StopError(f"archive needs {error.name}: pip install 'neardup[archive]'") from None
    except Exception as error:
        raise StopError(f"Spark at {url} does not answer: {str(error).splitlines()[0]}") from error
    try:
        yield Engine(spark, None if server is None else threads)
    finally:
        spark.stop()
        if server is not None:
            server.stop()


def _probe(manifest: str) -> Any:
    """Return a function that needs no neardup where it runs: closures travel by value."""

    def probe(batches: Any) -> Any:
        import importlib.metadata  # noqa: PLC0415
        import os  # noqa: PLC0415

        import pyarrow  # noqa: PLC0415

        list(batches)
        try:
            found = importlib.metadata.version("neardup")
        except importlib.metadata.PackageNotFoundError:
            found = ""
        sees = os.path.exists(manifest)  # noqa: PTH110
        yield pyarrow.RecordBatch.from_pydict({"version": [found], "sees": [sees]})

    return probe


def _of_files(step: str, task: Task, folder: str, dealt: Sequence[Sequence[int]]) -> Any:
    """Return what a partition does: the task for each of its numbers, up to the first that fails."""
    name = f"{task.__module__}:{task.__name__}"

    def work(batches: Any) -> Any:
        import pyarrow  # noqa: PLC0415

        from worker.shell.archive.session import run_task  # noqa: PLC0415

        parts = [part for batch in batches for part in batch.column(0).to_pylist()]
        for number in [number for part in parts for number in dealt[part]]:
            error = run_task(step, name, folder, number)
            yield pyarrow.RecordBatch.from_pydict({"number": [number], "error": [error]})
            if error:
                return

    return work


def run_task(step: str, name: str, folder: str, number: int) -> str:
    """Run a task, wherever that is; return why it cannot be done, which trying again would not change."""
    from importlib import import_module  # noqa: PLC0415

    module, _, function = name.partition(":")
    run = _run_of(folder, (Path(folder) / "run.json").stat().st_mtime_ns)
    try:
        result = getattr(import_module(module), function)(run, number)
        run.finish(step, number, result)
    except StopError as error:
        return str(error)
    return ""


@lru_cache(2)
def _run_of(folder: str, _changed: int) -> Run:
    return Run.load(Path(folder))
