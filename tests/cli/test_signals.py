"""
Ctrl-C and SIGTERM: every long command ends, says so, and leaves nothing half written.

No test here says how soon: next to other work, a process may wait for its turn for seconds. What
ends at once and what would go on for ever differ by more than any machine's load.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.cli.program import ARTICLE, defined, lines, page, run
from tests.cli.terminal import Started
from tests.conftest import EVENTUALLY_S, REPOSITORY, deployed, free_ports
from worker import signals
from worker.settings import Settings

IMPORTING_S = 0.3  # while modules are imported
READING_S = 1.5  # while input is read
WORKING_S = 3.0  # in full work
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143}


WHO = {"terminal": signal.SIGINT, "no-terminal": signal.SIGTERM}


def ends_of(commands: Iterable[str], *moments_s: float, also: float) -> list[ParameterSet]:
    """
    Return which command is ended by whom, and when.

    A person presses Ctrl-C on a terminal; a supervisor, which has none, sends SIGTERM. What a signal
    does is the same code for both, so each command is ended by one of them in turn, SIGINT at the
    first moment and SIGTERM at the last. `make nightly` plays all others, and the moment `also`.
    """
    chosen = itertools.cycle(zip(WHO, (moments_s[0], moments_s[-1]), strict=True))
    return [
        pytest.param(
            name,
            who == "terminal",
            WHO[who],
            after_s,
            id=f"{name}-{who}-{after_s}",
            marks=() if (who, after_s) == one else pytest.mark.nightly,
        )
        for name, one in zip(commands, chosen, strict=False)
        for who, after_s in itertools.product(WHO, (also, *moments_s))
    ]


OUTPUTS = ("out.jsonl", "out.html", "out.warc.gz")
BEFORE = "what was there before"
ENDLESS = "endless.jsonl"  # a pipe from which documents come without an end
VERDICTS = "verdicts.jsonl"  # the same of verdicts
ANSWERS = "answers"  # a folder with more than a command comes to the end of: it reads them twice
MANY = "many.jsonl"
FEW = "few.jsonl"  # enough for every kernel that a command runs

DEDUP = ["dedup", ENDLESS, "--output", "out.jsonl"]
# What other commands are given; "out" exists and has to stay as it is. How `dedup --state` ends is shown
# by `tests/cli/test_dedup.py`, and how `archive` without a terminal by `tests/shell/test_archive_ends.py`.
LONG = {
    "dedup --keep": ["dedup", *["documents.jsonl"] * 400, "--keep", "new", "--output", "out.jsonl"],
    "fingerprint": ["fingerprint", ENDLESS, "--output", "out.jsonl"],
    "find-all": ["find-all", "--input", "numbers", "--distance", "10", "--output", "out.jsonl"],
    "find-clusters": ["find-clusters", "--input", MANY, "--output", "out.jsonl"],
    "nearest": ["nearest", "--to", "doc-1", MANY],
    "report": ["report", VERDICTS, "--output", "out.html"],
    "explain": ["explain", "doc-1", ANSWERS],
    "evaluate": ["evaluate", ENDLESS, "pairs.tsv"],
    "tune": ["tune", ENDLESS],
    "sample-crawl": ["sample-crawl", "--documents", "10000000", "out.warc.gz"],
}
# These wait for a cluster. `feed` and `top` wait in the same code, so they are ended on a cluster only
# (below).
WAITING = {
    "worker": ["worker"],
    "topics": ["topics", "check"],
    "verdicts": ["verdicts", "--follow"],
    "verify": ["verify"],
    "rebuild": ["rebuild", *defined(max_distance=9)],
}
# How `verdicts --follow` ends on a cluster is shown by `tests/cli/test_group.py`.
ON_A_CLUSTER = {"feed": ["feed", ENDLESS], "top": ["top"]}


@contextmanager
def endless(path: Path, data: bytes) -> Iterator[None]:
    """A named pipe into which the same bytes are written as long as somebody reads."""
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb", buffering=0) as stream, suppress(BrokenPipeError):
            while True:
                stream.write(data)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        # Open for reading once more: the command may have ended before it came to read.
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        writer.join()
        path.unlink()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents, and their verdicts."""
    folder = tmp_path_factory.mktemp("signals")
    documents = [page(n, text=f"{n} {ARTICLE} {n}", doc_id=f"doc-{n}") for n in range(1_000)]
    (folder / "documents.jsonl").write_text(lines(*documents))
    (folder / FEW).write_text(lines(*documents[:20]))
    run("dedup", folder / "documents.jsonl", "--output", folder / "judged.jsonl", "--quiet")
    assert (folder / "judged.jsonl").exists()
    return folder


@pytest.fixture(scope="module")
def full_folder(folder: Path) -> Path:
    """Inputs that no command comes to the end of."""
    (folder / MANY).write_text((folder / "documents.jsonl").read_text() * 300)
    numbers = random.Random(1)
    text = "".join(f"{numbers.getrandbits(64)}\n" for _ in range(1_500_000))
    (folder / "numbers").write_text(text)
    (folder / "pairs.tsv").write_text("doc-1\tdoc-2\t1\n")
    (folder / "few").write_text("1\n3\n")
    # A signal waits for the end of a compilation, which takes seconds on a machine that has no cache
    # yet: each kernel is compiled before, and kept.
    few = folder / FEW
    run("find-all", "--input", folder / "few", "--distance", "10")
    run("find-clusters", "--input", few)
    run("nearest", "--to", "doc-1", few)
    run("evaluate", few, folder / "pairs.tsv")
    run("tune", few)
    (folder / ANSWERS).mkdir()
    for number in range(5_000):
        (folder / ANSWERS / f"{number:04}.jsonl").hardlink_to(folder / "judged.jsonl")
    return folder


def check_ends(
    arguments: list[str],
    folder: Path,
    number: signal.Signals,
    after_s: float,
    *,
    terminal: bool,
    **environment: str,
) -> None:
    """
    Start a command, end it by a signal after a while, and look at how it ended and what it left.
    """
    for name in OUTPUTS:
        (folder / name).write_text(BEFORE)
    before = {path.name for path in folder.iterdir()}
    with ExitStack() as stack:
        for name, source in ((ENDLESS, "documents.jsonl"), (VERDICTS, "judged.jsonl")):
            if name in arguments:
                stack.enter_context(endless(folder / name, (folder / source).read_bytes()))
        command = stack.enter_context(Started(arguments, folder, terminal=terminal, **environment))
        assert command.run_for(after_s) is None, f"ended by itself: {command.output[-500:]!r}"
        command.end_by(number)
        code = command.run(EVENTUALLY_S)
        with pytest.raises(ProcessLookupError):  # nothing that it started is left
            os.killpg(command.process.pid, 0)
    said = command.output.decode(errors="replace")
    # In the first moment Python itself may not be ready: then it ends by the signal, which shells
    # call the same, or with 1 while it imports `site`.
    codes = [SIGNALS[number], -number]
    if after_s == IMPORTING_S and "import the site module" in said:
        codes.append(1)
    assert code in codes, (code, said[-500:])
    if after_s > IMPORTING_S:
        assert "Traceback" not in said, said
    assert {path.name for path in folder.iterdir()} <= before
    assert not [*folder.rglob("*.part")]
    for name in OUTPUTS:
        assert (folder / name).read_text() == BEFORE, name


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "no-terminal"])
def test_a_command_in_the_middle_of_its_work_ends(folder: Path, terminal: bool) -> None:
    """With the signal's exit code, and the output that was there stays."""
    for number in SIGNALS:
        check_ends(DEDUP, folder, number, READING_S, terminal=terminal)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_command_that_has_hardly_started_ends(folder: Path, number: signal.Signals) -> None:
    """The same while modules are imported, which is the same code in all commands."""
    terminal = number == signal.SIGINT
    check_ends(DEDUP, folder, number, IMPORTING_S, terminal=terminal)


@pytest.mark.slow
@pytest.mark.xdist_group("signals")
@pytest.mark.parametrize(
    ("name", "terminal", "number", "after_s"),
    ends_of(LONG, WORKING_S, READING_S, also=IMPORTING_S),
)
def test_every_other_command_over_files_ends_at_any_moment(
    full_folder: Path, name: str, terminal: bool, number: signal.Signals, after_s: float
) -> None:
    """The same of every other command that works for long."""
    check_ends(LONG[name], full_folder, number, after_s, terminal=terminal)


@pytest.mark.slow
@pytest.mark.xdist_group("signals")
def test_an_archive_on_a_terminal_ends_by_its_key(full_folder: Path, tmp_path: Path) -> None:
    """The key sends the signal to the engine's processes, too, and none of them shows a traceback."""
    command = ["archive", "--input", MANY, "--output", str(tmp_path / "archived")]
    check_ends(command, full_folder, signal.SIGINT, WORKING_S, terminal=True)
    assert not [*tmp_path.rglob("*.part")]


def ended(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own in this folder, and return how it has ended."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=EVENTUALLY_S,
        check=False,
    )


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_for_the_end_of_an_import(tmp_path: Path, number: signal.Signals) -> None:
    """
    A module is imported whole before the command ends: half a module crashes some that need it.
    """
    (tmp_path / "needed.py").write_text(
        f"import os\nos.kill(os.getpid(), {int(number)})\nprint('whole', flush=True)\n"
    )
    program = (
        "import time\nfrom worker.signals import handle\nhandle()\n"
        "import needed\ntry:\n    time.sleep(20)\nexcept KeyboardInterrupt:\n    print('ended')\n"
    )
    ran = ended(program, tmp_path)
    assert (ran.returncode, ran.stdout.split()) == (0, ["whole", "ended"])


def test_a_signal_that_a_document_swallows_comes_again(tmp_path: Path) -> None:
    """
    A call into C turns it into a SystemError, which a document's own `except` takes for damage.

    The garbage collector is off: nobody else may have to find out that the exception was dropped.
    """
    program = """
import gc, os, signal, time
from worker.signals import handle

def one_document():
    try:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt as error:
            raise SystemError("returned a result with an exception set") from error
    except Exception:
        print("swallowed")

handle()
gc.disable()
one_document()
try:
    time.sleep(20)
    print("lost")
except KeyboardInterrupt:
    print("ended")
"""
    ran = ended(program, tmp_path)
    assert (ran.returncode, ran.stdout.split()) == (0, ["swallowed", "ended"])


def test_a_command_that_has_said_its_last_word_waits_for_no_thread(tmp_path: Path) -> None:
    """
    As the Kafka client's, of which Python would wait for the end; this one has none. What was
    printed is written all the same.
    """
    program = """
import os, signal, threading
import worker.cli
from worker.__main__ import main

def work():
    threading.Thread(target=threading.Event().wait).start()
    print("printed")
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()

worker.cli.app = work
main()
"""
    ran = ended(program, tmp_path)
    assert (ran.returncode, ran.stdout) == (143, "printed\n")
    assert ran.stderr.splitlines() == ["neardup: terminated"]


def test_a_signal_is_found_behind_the_errors_that_it_caused() -> None:
    interrupted = signals.Interrupted()
    first, second = SystemError("a kernel's call"), SystemError("the call around it")
    first.__cause__, second.__context__ = interrupted, first
    assert signals.cause_of(second) is interrupted
    assert signals.cause_of(interrupted) is interrupted


def test_no_signal_is_found_behind_other_errors() -> None:
    first, second = ValueError("one"), ValueError("other")
    first.__context__, second.__context__ = second, first  # as some libraries leave them
    assert signals.cause_of(first) is None


@pytest.mark.slow
@pytest.mark.xdist_group("signals")
@pytest.mark.parametrize(
    ("name", "terminal", "number", "after_s"), ends_of(WAITING, READING_S, also=IMPORTING_S)
)
def test_every_command_that_waits_for_a_cluster_ends(
    folder: Path, name: str, terminal: bool, number: signal.Signals, after_s: float
) -> None:
    """Nobody answers at the address that it was given."""
    [port] = free_ports()
    check_ends(
        WAITING[name],
        folder,
        number,
        after_s,
        terminal=terminal,
        NEARDUP_BOOTSTRAP=f"127.0.0.1:{port}",
    )


@pytest.fixture(scope="module")
def group(request: pytest.FixtureRequest) -> Settings:
    """Topics of its own on the session's broker."""
    return deployed(request.getfixturevalue("kafka"))


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize(
    ("name", "terminal", "number", "after_s"),
    ends_of(ON_A_CLUSTER, WORKING_S, READING_S, also=IMPORTING_S),
)
def test_every_command_on_a_cluster_ends_at_any_moment(
    folder: Path,
    group: Settings,
    name: str,
    terminal: bool,
    number: signal.Signals,
    after_s: float,
) -> None:
    """While messages are sent, or waited for."""
    names = {
        f"NEARDUP_{field.upper()}": str(getattr(group, field)) for field in group.model_fields_set
    }
    check_ends(ON_A_CLUSTER[name], folder, number, after_s, terminal=terminal, **names)
