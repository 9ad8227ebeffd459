"""
Compiled kernels: their code is made once, whoever asks, and kept; a cache that cannot be written
costs only time.
"""

from __future__ import annotations

import fcntl
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from numba.core import config

from tests.conftest import REPOSITORY
from tests.faults.forked import FORKED
from worker.core import carried, compiled
from worker.held_signals import held_back

# Not forks of this process: they would have the clients of Kafka of the tests before, without their
# threads. Nor new interpreters, which would import numba once more for each of some fifty kernels.
NEW_PROCESS = FORKED
MODULE = """
from worker.core.compiled import kernel

@kernel
def total(numbers):
    found = 0.0
    for number in numbers:
        found += number ** 0.5
    return found

import numpy as np
assert total(np.arange(4.0)) > 4
stats = sum(total.stats.cache_misses.values()), sum(total.stats.cache_hits.values())
"""
TYPES = """
import numba, numpy as np
from worker.core.compiled import kernel

def added(byte, short, number, count, part, column):
    return (
        byte + byte, byte + short, short + byte, short + number, number + short, number + number,
        number + count, count + number, count + count, part + count, count + part, part + part,
        column + byte, byte + column, column + part, column + column, number + 1, 1 + number,
    )

values = np.uint8(3), np.int16(3), np.int64(3), np.uint64(3), np.float32(3), np.arange(3.0)

def results(function):
    return [(repr(result), str(numba.typeof(result))) for result in function(*values)]

ours, numbas = results(kernel(added)), results(numba.njit(added))
"""
PASSES = """
import numba
from worker.core.compiled import kernel

def doubled(number):
    return number + number

def passes(function):
    function(1)
    [times] = function.get_metadata(function.signatures[0])["pipeline_times"].values()
    return [name.partition("_")[2] for name in times]

ours, numbas = passes(kernel(doubled)), passes(numba.njit(doubled))
"""
TOGETHER = (
    "import runpy, sys; import worker.core.compiled; sys.stdin.readline();"  # all begin together
    "print(*runpy.run_path(sys.argv[1])['stats'])"
)


def ran(script: Path, cache: Path) -> tuple[int, int]:
    """Misses and hits of one process, a new one."""
    with ProcessPoolExecutor(1, mp_context=NEW_PROCESS) as process:
        return process.submit(stats, script, cache).result(120)


def stats(script: Path, cache: Path) -> tuple[int, int]:
    config.CACHE_DIR = str(cache)  # type: ignore[attr-defined]
    misses, hits = runpy.run_path(str(script))["stats"]
    return misses, hits


def with_cache(cache: Path) -> dict[str, str]:
    """The environment of a process that keeps its kernels there, and imports ours from here."""
    return os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(REPOSITORY)}


def ran_with(carried_in: Path, script: Path, cache: Path) -> tuple[int, int, str]:
    """The same in an installation that carries machine code; and why that is not used."""
    with ProcessPoolExecutor(1, mp_context=NEW_PROCESS) as process:
        return process.submit(stats_with, carried_in, script, cache).result(120)


def stats_with(carried_in: Path, script: Path, cache: Path) -> tuple[int, int, str]:
    carried.FOLDER = carried_in
    for answer in (carried.fitting, carried.why_unused):
        answer.cache_clear()
    return *stats(script, cache), carried.why_unused()


def searches(places: int) -> int:
    """How often numba looks for a signature while a kernel with so many additions is compiled."""
    with ProcessPoolExecutor(1, mp_context=NEW_PROCESS) as process:
        return process.submit(count_searches, places).result(120)


def count_searches(places: int) -> int:
    asked: list[tuple[Any, ...]] = []
    search = compiled._search

    def counted(function: Any, context: Any, arguments: Any, named: Any) -> Any:
        asked.append(arguments)
        return search(function, context, arguments, named)

    compiled._search = counted
    compiled._signatures.clear()  # of what other tests have compiled; this process is a copy
    lines = ["def total(number):", *["    number = number + number"] * places, "    return number"]
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)
    path = compiled.cache_directory
    compiled.cache_directory = lambda _function: None  # type: ignore[assignment]
    try:
        assert compiled.kernel(made["total"])(1) == 2**places
    finally:
        compiled.cache_directory = path
    return len(asked)


def test_a_signature_is_looked_for_once() -> None:
    """However many places add numbers of the same types."""
    assert 0 < searches(2) == searches(30)


def test_a_kernel_goes_through_no_pass_that_it_does_not_need(tmp_path: Path) -> None:
    """Numba's own compilation of the same function goes through each of them."""
    script = tmp_path / "script.py"
    script.write_text(PASSES)
    with ProcessPoolExecutor(1, mp_context=NEW_PROCESS) as process:
        ours, numbas = process.submit(both_results, script, tmp_path).result(120)
    passes: Any = compiled._NOT_FOR_KERNELS
    unneeded = {step.name() for step in passes}
    assert set(numbas) - set(ours) == unneeded


def test_what_is_remembered_of_one_type_is_not_taken_for_another(tmp_path: Path) -> None:
    """One operator of many types: results and their types are those of numba without a memory."""
    script = tmp_path / "script.py"
    script.write_text(TYPES)
    with ProcessPoolExecutor(1, mp_context=NEW_PROCESS) as process:
        ours, numbas = process.submit(both_results, script, tmp_path).result(120)
    assert ours == numbas


def both_results(script: Path, cache: Path) -> tuple[list[Any], list[Any]]:
    config.CACHE_DIR = str(cache)  # type: ignore[attr-defined]
    found = runpy.run_path(str(script))
    return found["ours"], found["numbas"]


def test_code_that_others_could_have_written_is_not_loaded(tmp_path: Path) -> None:
    """
    In a folder of the group, of the world or of another user; a file that others may write is
    removed unread.
    """
    script, folder = tmp_path / "script.py", tmp_path / "cache" / "neardup"
    script.write_text(MODULE)
    compiled_anew, loaded = (1, 0), (0, 1)
    assert ran(script, folder.parent) == compiled_anew
    for mode in (0o775, 0o757):
        folder.chmod(mode)
        assert ran(script, folder.parent) == compiled_anew
    folder.chmod(0o755)
    assert ran(script, folder.parent) == loaded
    for pattern in ("*.nbi", "*.nbc"):
        [path] = folder.glob(pattern)
        # A pickle that would harm.
        path.write_bytes(b"cos\nsystem\n(S'touch " + bytes(folder / "harm") + b"'\ntR.")
        path.chmod(0o666)
        assert ran(script, folder.parent) == compiled_anew
        assert not (folder / "harm").exists()
        assert not path.stat().st_mode & 0o022
    assert ran(script, folder.parent) == loaded
    if os.geteuid() == 0:  # only root gives files away
        os.chown(folder, 12_345, 12_345)
        assert ran(script, folder.parent) == compiled_anew


def test_a_damaged_file_is_compiled_anew(tmp_path: Path) -> None:
    """
    Cut short, or zeros where a disk lost power: no error, and the next process loads whole code
    again.
    """
    script = tmp_path / "script.py"
    # Lets the group write, but not to code.
    script.write_text("import os; os.umask(0o002)\n" + MODULE)
    ran(script, tmp_path)
    for pattern, kept in (("*.nbi", 100), ("*.nbc", 100), ("*.nbc", 0)):
        [path] = (tmp_path / "neardup").glob(pattern)
        path.write_bytes(path.read_bytes()[:kept] or bytes(100))
        assert [ran(script, tmp_path) for _ in range(2)] == [(1, 0), (0, 1)]


@pytest.fixture
def carrying(tmp_path: Path) -> tuple[Path, Path]:
    """A script with a kernel, and a folder with its machine code, as a wheel carries it."""
    script, folder = tmp_path / "script.py", tmp_path / "machine_code"
    script.write_text(MODULE)
    assert ran(script, tmp_path / "made") == (1, 0)
    shutil.copytree(tmp_path / "made" / "neardup", folder)
    describe(folder)
    return script, folder


def describe(folder: Path, **changed: str) -> None:
    """Write what its code was made with: as here, with some entries changed."""
    made = carried.origin_here()._replace(**changed)._asdict()
    (folder / carried.DESCRIPTION).write_text(json.dumps(made))


def test_code_that_came_along_is_loaded(tmp_path: Path, carrying: tuple[Path, Path]) -> None:
    """
    Nothing is compiled, and nothing stored; also where the cache cannot be written, and for a
    processor that can do more than the code needs.
    """
    script, folder = carrying
    assert ran_with(folder, script, tmp_path / "empty") == (0, 1, "")
    assert list((tmp_path / "empty").rglob("*.nb?")) == []
    (tmp_path / "file").touch()
    assert ran_with(folder, script, tmp_path / "file") == (0, 1, "")
    here = carried.origin_here()
    fewer = [feature for feature in here.features.split(",") if feature != "+sse4.2"]
    older = here._replace(processor="older", features=",".join(fewer))
    assert fewer and not carried._difference(older)


OTHERS = {
    "python": "cpython-310",
    "numba": "0.1",
    "sources": "0123456789abcdef",
    "system": "s390x-ibm-linux",
}


@pytest.mark.parametrize("entry", [*OTHERS, "processor"])
def test_code_that_does_not_fit_is_compiled_here(
    tmp_path: Path, carrying: tuple[Path, Path], entry: str
) -> None:
    """Made with another Python or numba, of other sources, for another system or processor."""
    script, folder = carrying
    changed = {entry: OTHERS.get(entry, "newer")}
    if entry == "processor":
        changed["features"] = f"{carried.origin_here().features},+later"
    describe(folder, **changed)
    misses, hits, why = ran_with(folder, script, tmp_path / "empty")
    assert (misses, hits) == (1, 0)
    here = getattr(carried.origin_here(), entry)
    what = "Python" if entry == "python" else entry
    assert why.endswith(f"it is for {what} {changed[entry]}, and this is {here}")


def test_damaged_code_that_came_along_is_compiled_here(
    tmp_path: Path, carrying: tuple[Path, Path]
) -> None:
    """Its files, which belong to the installation, stay as they are."""
    script, folder = carrying
    for number, pattern in enumerate(("*.nbc", "*.nbi", carried.DESCRIPTION)):
        [path] = folder.glob(pattern)
        whole = path.read_bytes()
        path.write_bytes(whole[:100])
        cache = tmp_path / f"cache {number}"
        misses, hits, why = ran_with(folder, script, cache)
        assert (misses, hits, path.read_bytes()) == (1, 0, whole[:100])
        assert (carried.DESCRIPTION in why) == (pattern == carried.DESCRIPTION)
        assert ran_with(folder, script, cache)[:2] == (0, 1)  # stored since then
        path.write_bytes(whole)


def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    """One compiles, and says so; the others wait and load its code."""
    script = tmp_path / "script.py"
    script.write_text(MODULE)
    environment = with_cache(tmp_path / "cache")
    command, pipe = [sys.executable, "-c", TOGETHER, str(script)], subprocess.PIPE
    processes = [
        subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120) for process in processes]
    counted = sorted(tuple(map(int, out.split())) for out, _ in said)
    assert sum("`neardup warm-up` compiles all beforehand" in told for _, told in said) == 1
    assert [process.returncode for process in processes] == [0] * 4
    assert counted == [(0, 1), (0, 1), (0, 1), (1, 0)]


TWO_KERNELS = """
import sys
from worker.core.compiled import kernel

@kernel
def first(number):
    return number + 1

@kernel
def second(number):
    return number + 2

for name in sys.argv[1:]:
    globals()[name](1)
"""


def test_a_first_start_is_told_of_only_where_nothing_is_kept(tmp_path: Path) -> None:
    """
    The first start is announced to whoever has no compiled kernel; one more, where it is needed;
    nothing, where all are there.
    """
    script = tmp_path / "script.py"
    script.write_text(TWO_KERNELS)
    environment = with_cache(tmp_path)

    def said(*kernels: str) -> str:
        command = [sys.executable, str(script), *kernels]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=REPOSITORY, env=environment
        )
        return done.stderr

    assert "compiling on the first start" in said("first")
    assert "compiling what has not been used yet" in said("first", "second")
    assert said("first", "second") == ""


@pytest.mark.timeout(30)
def test_nobody_waits_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A holder that does not let go costs the time limit, no more; a lock that cannot be made costs
    nothing.
    """
    monkeypatch.setattr(compiled, "TURN_S_MAX", 0.2)
    path = tmp_path / "lock"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        began = time.monotonic()
        for turn in (compiled._Turn(path), compiled._Turn(tmp_path / "no" / "folder" / "lock")):
            turn.take()
            turn.give()
        assert time.monotonic() - began >= 0.2


def test_a_signal_is_heard_while_another_process_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait for its turn ends at once, and the turn is given up."""
    monkeypatch.setattr(compiled, "TURN_S_MAX", 300.0)
    path = tmp_path / "lock"
    turn = compiled._Turn(path)
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(KeyboardInterrupt), held_back():
            signal.raise_signal(signal.SIGINT)
            turn.take()
            pytest.fail("the other process still has its turn")
    turn.take()
    assert turn._file is not None
    turn.give()


def test_code_is_kept_where_it_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Where NUMBA_CACHE_DIR says, else beside the source, else in the user's cache; else nowhere.
    """
    script, beside, chosen = tmp_path / "script.py", tmp_path / "__pycache__", tmp_path / "chosen"
    script.write_text("def function(): pass")
    function = runpy.run_path(str(script))["function"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(chosen))
    monkeypatch.setattr(config, "CACHE_DIR", str(chosen))
    assert compiled.cache_directory(function) == chosen / "neardup"
    monkeypatch.setattr(config, "CACHE_DIR", "")
    assert compiled.cache_directory(function) == beside
    beside.rmdir()
    beside.touch()  # a file: not even root can write below it
    assert compiled.cache_directory(function) == chosen / "neardup" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", str(beside))
    assert compiled.cache_directory(function) is None


SIGNALLED = """
import os, signal, threading
from llvmlite import binding
from llvmlite.binding.ffi import register_lock_callback
from worker.core.compiled import kernel

@kernel
def first(number):
    return number + 1

def send():
    if first.is_compiling and threading.current_thread() is threading.main_thread():
        os.kill(os.getpid(), signal.SIGINT)

register_lock_callback(lambda: None, send)  # called right before LLVM's lock is unlocked
try:
    first(1)
except KeyboardInterrupt:
    print("interrupted")
is_unlocked = threading.Event()
threading.Thread(
    target=lambda: (binding.get_host_cpu_name(), is_unlocked.set()), daemon=True
).start()
print("unlocked" if is_unlocked.wait(20) else "locked")
print(len(first.overloads), sum(first.stats.cache_hits.values()), flush=True)
os._exit(0)
"""


def test_a_signal_leaves_no_lock_that_another_thread_waits_for(tmp_path: Path) -> None:
    """It comes in the middle of every call into LLVM, and is heard when the kernel is ready."""
    script = tmp_path / "script.py"
    script.write_text(SIGNALLED)
    environment = with_cache(tmp_path / "cache")
    for hits in (0, 1):  # compiled, then loaded
        ran = subprocess.run(
            [sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        assert ran.stdout.split() == ["interrupted", "unlocked", "1", str(hits)]
