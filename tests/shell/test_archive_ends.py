"""The end of `neardup archive`: by signals, with an engine that fails or is killed, by kill -9."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import neardup
import psutil
import pytest

from tests.cli.program import OTHER
from tests.conftest import EVENTUALLY_S
from tests.shell.test_archive import (
    archive,
    command,
    crawl,
    dedup,
    here,  # noqa: F401  # a fixture
    told,
    verdicts,
)
from worker.shell.archive import server as engine_server
from worker.shell.archive.server import own_server


def engine_of(process: subprocess.Popen[bytes]) -> int:
    """
    Return the engine's process of a command, once it has one that runs the engine.

    A process that has been forked and runs nothing yet is not returned: a test that stops it would
    stop the command as well, which waits until the engine's program has been started.
    """
    while True:
        assert process.poll() is None, process.communicate()
        with suppress(psutil.Error):
            for child in psutil.Process(process.pid).children():
                if "server import serve" in " ".join(child.cmdline()):
                    return int(child.pid)
        time.sleep(0.002)


@contextmanager
def commanded(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """
    Run the command in a process of its own, whose stderr can be read, and leave none of it behind.
    """
    command_ = [sys.executable, "-m", "worker", *map(str, arguments)]
    with subprocess.Popen(command_, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[bytes], output: Path, pattern: str) -> None:
    """Wait until a run has such a file, while the command runs."""
    while not [*output.glob(pattern)]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def is_running(number: int) -> bool:
    """Return whether there is a process of a number."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


def whole_files(output: Path) -> dict[str, bytes]:
    """Return all files of a run that have their names."""
    found = [path for path in output.rglob("*") if path.is_file() and path.suffix != ".part"]
    return {
        str(path.relative_to(output)): path.read_bytes()
        for path in found
        if not path.name.startswith(".")
    }


MOMENTS = "run.json", "rows/*.part", "verdicts/*"
IN_TURN = signal.SIGINT, signal.SIGTERM, signal.SIGINT
THE_OTHERS = signal.SIGTERM, signal.SIGINT, signal.SIGTERM


@pytest.mark.slow
@pytest.mark.usefixtures("here")  # which the run that goes on has: it needs no other engine
@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param(IN_TURN, id="in turn"),
        pytest.param(THE_OTHERS, id="the others", marks=pytest.mark.nightly),
    ],
)
def test_a_signal_ends_the_command_though_its_engine_never_would(
    tmp_path: Path, numbers: tuple[signal.Signals, ...]
) -> None:
    """
    Before the engine is up, while tasks run, while verdicts are written; what tasks have written
    whole stays, and it goes on.
    """
    crawl(tmp_path)
    expected, output = dedup(tmp_path), tmp_path / "out"
    given = ("--format", "jsonl", "--state", tmp_path / "state")
    arguments = command(output, *given)
    for moment, number in zip(MOMENTS, numbers, strict=True):
        with commanded(*arguments) as process:
            wait_for(process, output, moment)
            engine = engine_of(process)
            os.kill(engine, signal.SIGSTOP)  # its tasks do not end, and it answers nobody
            files_before = whole_files(output)
            process.send_signal(number)
            _, said = process.communicate(timeout=EVENTUALLY_S)
        reason = "interrupted" if number == signal.SIGINT else "terminated"
        assert (process.returncode, said.splitlines()[-1]) == (
            128 + number,
            f"neardup: {reason}".encode(),
        )
        assert not is_running(engine)
        is_begun = (
            moment != MOMENTS[0]
        )  # before a task has ended there is no run, and no file of one
        assert whole_files(output) == (files_before if is_begun else {})
        assert not [*output.rglob("*.part")]
    archive(output, *given)
    assert told(verdicts(output)) == told(expected)


@pytest.mark.slow
def test_a_signal_ends_the_command_though_somebody_elses_spark_answers_no_more(
    tmp_path: Path,
) -> None:
    """
    While it is asked for the first time, and while tasks run: it is told to end them, and not
    waited for.
    """
    crawl(tmp_path)
    with own_server(1) as server:
        arguments = command(tmp_path / "out", "--spark", server.url())
        spark = server._process.pid
        for moment in ("run.json", "rows/*.part"):
            with commanded(*arguments) as process:
                wait_for(process, tmp_path / "out", moment)
                os.kill(spark, signal.SIGSTOP)
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=EVENTUALLY_S)
                os.kill(spark, signal.SIGCONT)
            assert process.returncode == 130


def test_a_signal_while_the_engine_starts_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come before the command knows the engine, which no one else would end."""

    class Interrupting(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            super().submit(*args, **kwargs)
            raise KeyboardInterrupt

    monkeypatch.setattr(engine_server, "ThreadPoolExecutor", Interrupting)
    started: list[subprocess.Popen[bytes]] = []
    start = engine_server._start

    def slowly(*args: Any) -> subprocess.Popen[bytes]:
        time.sleep(0.1)
        started.append(start(*args))
        return started[0]

    monkeypatch.setattr(engine_server, "_start", slowly)
    with pytest.raises(KeyboardInterrupt), own_server(1):
        pytest.fail("nothing was started")
    assert started[0].returncode == -signal.SIGKILL
    assert not engine_server._servers


_INTERRUPTED = """
import os, signal
from worker import signals
signals.handle()
with signals.ended_in_time() as last:
    last.append(lambda: os.write(1, b"the last"))
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_what_is_done_last_is_done_however_the_block_ends() -> None:
    """The block's own clean-up may have been cut off by the signal."""
    command_ = [sys.executable, "-c", _INTERRUPTED]
    done = subprocess.run(command_, capture_output=True, check=False, timeout=EVENTUALLY_S)
    assert done.returncode == 130
    assert done.stdout == b"the last"


_DEAF = """
import signal, sys, time
from worker import signals
signals.END_S = float(sys.argv[1])
signals.handle()
with signals.ended_in_time():
    print("ready", flush=True)
    while True:
        try:
            time.sleep(1)
        except KeyboardInterrupt:
            print("swallowed", flush=True)
"""


@pytest.mark.parametrize(("end_s", "signals"), [(0.5, 1), (1e6, 2)], ids=["time", "second"])
def test_a_signal_ends_a_process_that_does_not_hear_it(end_s: float, signals: int) -> None:
    """When its time is over, and at the second one at once."""
    with subprocess.Popen(
        [sys.executable, "-c", _DEAF, str(end_s)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
            if signals > 1:
                process.stdout.readline()
        _, said = process.communicate(timeout=EVENTUALLY_S)
    assert (process.returncode, said) == (130, b"neardup: interrupted\n")


_FAILING = """
from worker.shell.archive import steps
from worker.errors import StopError

def work(batches):
    [number] = [number for batch in batches for number in batch.column(0).to_pylist()]
    if number == 0:
        raise RuntimeError("this one fails")
    while True:  # a thread that comes back to Python is what a process cannot end with
        pass
    yield

try:
    with steps.engine(None, 2) as engine:
        engine._map(2, work, "number long", lambda: None)
except StopError as error:
    print(error)
"""


_UNANSWERED = """
from worker.shell.archive import steps
from worker.errors import StopError

steps.CONNECT_S = 1.0
try:
    with steps.engine("sc://127.0.0.1:1", 2):
        print("connected")
except StopError as error:
    print(error)
"""


@pytest.mark.slow
def test_an_engine_that_does_not_answer_ends_the_run() -> None:
    """Its client would try for ten minutes; the process does not wait for it either."""
    command_ = [sys.executable, "-c", _UNANSWERED]
    done = subprocess.run(command_, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(
        b"Spark at sc://127.0.0.1:1 has not answered for 1 s: see whether"
    )


@pytest.mark.slow
def test_a_task_that_fails_ends_the_run_though_another_runs_on() -> None:
    """
    The error is said and the process ends in order, without waiting for a thread that nobody can
    end.
    """
    command_ = [sys.executable, "-c", _FAILING]
    done = subprocess.run(command_, capture_output=True, timeout=EVENTUALLY_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.match(rb"Spark: .*this one fails\. Run this again to continue\n", done.stdout)


@pytest.mark.slow
@pytest.mark.usefixtures("here")  # which the next run has: it needs no other engine
def test_an_engine_that_is_killed_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    """As the kernel kills what takes too much memory; the next run goes on."""
    crawl(tmp_path)
    output = tmp_path / "out"
    with commanded(*command(output)) as process:
        wait_for(process, output, "rows/*")
        engine = engine_of(process)
        os.kill(engine, signal.SIGKILL)
        _, said = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == 1
    assert b"neardup: the engine was killed by SIGKILL. If memory is short" in said.splitlines()[-1]
    archive(output, "--quiet")


# Every Python that has this file in its path begins with it: the command, and its engine.
SMALL_LEGS = """
from worker.core import planner
from worker.shell.archive import legs

planner.LEG_ROWS_MAX = {rows}
planner.SLICE_ROWS_MAX = {rows} * 2 // 5
legs.PIECE_ROWS = {rows} // 5
"""


KILLS = (
    "run.json",
    "rows/*",
    "judge/leg-000001/slice*",
    "judge/leg-000001/found*",
    "done/judge-000001.json",
    "judge/leg-000002/found*",
    "done/verdicts*",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "moments",
    [
        pytest.param(KILLS[1:4:2], id="some moments"),
        pytest.param(KILLS, id="all moments", marks=pytest.mark.nightly),
    ],
)
def test_the_command_on_its_own_engine_survives_kill_9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: tuple[str, ...]
) -> None:
    """
    Killed at any moment, in legs and between them, and run again, while nobody else can run it: the
    verdicts are those of `dedup`; the snapshot is gone on from.
    """
    (tmp_path / "sitecustomize.py").write_text(SMALL_LEGS.format(rows=150))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    crawl(tmp_path)
    small = ("--batch-documents-max", "20")
    expected, output = dedup(tmp_path, *small), tmp_path / "out"
    limit = ("--task-memory", "1G", "--format", "jsonl", "--state", str(tmp_path / "state"))
    arguments = command(output, *small, *limit)
    draw = random.Random()
    for moment in moments:
        with commanded(*arguments) as process:
            while process.poll() is None and not [*output.glob(moment)]:
                time.sleep(0.002)
            if moment == "rows/*":
                assert "is in use by another process" in archive(output, *small, *limit, code=1)
            time.sleep(draw.random() * 0.05)
    with commanded(*arguments, "--json") as process:
        said, _ = process.communicate(timeout=EVENTUALLY_S)
    assert json.loads(said)["documents"] == len(expected)
    assert told(verdicts(output)) == told(expected)
    assert len([*(output / "done").glob("judge-*.json")]) > 2
    assert not [*output.rglob("leg-*")]
    assert neardup.Deduplicator.load(tmp_path / "state").add(OTHER).outcome == "new"
