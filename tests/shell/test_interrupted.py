"""
A Deduplicator whose calls are cut off (Ctrl-C, a time limit, no memory), that is used by what it
reads, or that goes on in a forked process.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import neardup
import pytest
from neardup import Deduplicator, Verdict

from tests.cli.program import ARTICLE, OTHER
from tests.conftest import EVENTUALLY_S
from worker.log.replica import Replica
from worker.shell.files.engine import FileEngine
from worker.shell.runtime.held_signals import held_back


def text(number: int) -> str:
    """A text that is like no other."""
    return " ".join(f"w{number}x{place} the of and" for place in range(40))


BEFORE: list[Any] = [
    *({"doc_id": f"a{n}", "url": f"u{n % 7}", "text": text(n)} for n in range(12)),
    {"doc_id": "short", "text": "short one"},
]
# A copy, a new one, another text of a known doc_id, short ones, and another version of a URL.
CALL: list[Any] = [
    {"doc_id": "b1", "text": text(3)},
    {"doc_id": "b2", "text": text(100)},
    {"doc_id": "a5", "text": text(101)},
    "short one",
    {"doc_id": "b3", "url": "u1", "text": text(102)},
    neardup.Deletion("a7"),
]
AFTER: list[Any] = [text(number) for number in (3, 5, 7, 101, 102, 500, 500)] + ["short one"]


def told(verdict: Verdict) -> dict[str, Any]:
    """A verdict's message, without the time at which it was decided."""
    fields: dict[str, Any] = json.loads(neardup.encode_verdict(verdict)[1])
    del fields["decided_at"]
    return fields


def made() -> Deduplicator:
    """One that knows some documents."""
    found = Deduplicator(threads=1)
    list(found.add_many(BEFORE))
    return found


def partly(count: int) -> Deduplicator:
    """One that has judged so many documents of the call, and could not read the next one."""
    found = made()
    with pytest.raises(TypeError):
        list(found.add_many([*CALL[:count], None]))
    return found


def known(found: Deduplicator) -> str:
    """All that a Deduplicator says about later documents."""
    asked = told(found.ask(text(4)))
    near = repr(found.nearest(text(5), 3))
    judged = [told(verdict) for verdict in found.add_many(AFTER)]
    return json.dumps([len(found), asked, near, judged, found.clusters()])


def saved(found: Deduplicator) -> int:
    """Save it to nowhere."""
    found.save("/dev/null")
    return 0


CALLS: dict[str, Callable[[Deduplicator], Any]] = {
    "add_many": lambda found: len(list(found.add_many(CALL))),
    "add": lambda found: found.add({"doc_id": "a5", "text": text(101)}),
    "ask": lambda found: found.ask({"doc_id": "a5", "text": text(101)}),
    "nearest": lambda found: found.nearest(text(5)),
    "clusters": lambda found: found.clusters(),
    "save": saved,
}


@pytest.fixture(autouse=True)
def _handlers_come_back() -> Iterator[None]:
    """An error that is injected where handlers are put back can leave another one."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


class Cut:
    """Raises an error before the n-th line of the library's code that this thread runs."""

    def __init__(self, stop: int, error: type[BaseException]) -> None:
        self.lines = 0
        self._stop = stop
        self._error = error

    def __call__(self, frame: FrameType, _event: str, _value: object) -> Any:
        return self._line if "/worker/" in frame.f_code.co_filename else None

    def _line(self, _frame: FrameType, event: str, _value: object) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self._stop:
                sys.settrace(None)
                raise self._error
        return self._line

    def run(self, call: Callable[[Deduplicator], Any], found: Deduplicator) -> None:
        """Make the call, up to the error."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            call(found)
        except (self._error, RuntimeError, neardup.DocumentError):
            pass
        finally:
            sys.settrace(before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_an_error_at_any_line_leaves_a_call_done_or_not_begun_or_the_rest_refused(
    name: str,
) -> None:
    """
    Every n-th line of the library within a call: afterwards all answers are those of a Deduplicator
    that has had the whole call, or none of it; else each call is refused, and says why.

    An error while a document is read is that document's: those before it are judged.
    """
    call = CALLS[name]
    whole = made()
    length = Cut(0, KeyboardInterrupt)
    length.run(call, whole)
    allowed = {known(made()), known(whole), *(known(partly(count)) for count in range(len(CALL)))}
    seen: Counter[str] = Counter()
    step = max(1, length.lines // 60)
    for stop in range(random.randrange(step) + 1, length.lines + 1, step):
        found = made()
        Cut(stop, random.choice([KeyboardInterrupt, MemoryError])).run(call, found)
        try:
            found._engine.check_whole()
        except RuntimeError:
            seen["refused"] += 1
            _check_refused(found)
            continue
        assert known(found) in allowed, f"line {stop} of {length.lines} of `{name}`"
        found._engine.replica.check()
        seen["answered"] += 1
    assert seen["answered"]
    assert bool(seen["refused"]) == (name in {"add_many", "add", "ask"})


def _check_refused(found: Deduplicator) -> None:
    """Every call says that a call was cut off, and `close` ends the threads."""
    for call in (*CALLS.values(), len):
        with pytest.raises(
            RuntimeError, match=r"(KeyboardInterrupt|MemoryError|an exception) ended"
        ):
            call(found)
    assert "make another Deduplicator" in repr(found)
    found.close()


def test_ctrl_c_while_documents_are_judged_is_heard_when_they_are() -> None:
    """The signal comes in the middle of a batch, which is whole afterwards: nothing is refused."""
    found = made()
    real = Replica.answers

    def answers(self: Replica, *given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)  # the handler runs before the next line
        return real(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replica, "answers", answers)
        with pytest.raises(KeyboardInterrupt):
            list(found.add_many(CALL))
    whole = made()
    list(whole.add_many(CALL))
    assert known(found) == known(whole)


def test_ctrl_c_at_any_moment_leaves_the_answers_right() -> None:
    """Real signals, whenever they come: the next documents get their own verdicts."""
    documents = [{"doc_id": f"b{n}", "text": text(n % 900)} for n in range(1_500)]
    begun = time.monotonic()
    list(made().add_many(documents))
    whole_s = time.monotonic() - begun
    interrupted = 0
    for _ in range(12):
        found = made()
        moment_s = random.uniform(0, whole_s)
        timer = threading.Timer(moment_s, os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            list(found.add_many(documents))
            timer.join()
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            timer.cancel()
        originals = [
            verdict.duplicate_of and verdict.duplicate_of.original.doc_id
            for verdict in found.add_many({"doc_id": f"c{n}", "text": text(n)} for n in range(12))
        ]
        assert originals == [f"a{n}" for n in range(12)]
    assert interrupted


def test_signals_that_wait_come_in_their_order_and_handlers_come_back() -> None:
    """Also if the block fails; and a thread that hears no signals changes no handlers."""
    heard: list[str] = []
    former = {
        number: signal.signal(number, lambda number, _: heard.append(signal.Signals(number).name))
        for number in (signal.SIGUSR1, signal.SIGUSR2)
    }
    try:
        installed = [signal.getsignal(number) for number in former]
        with pytest.raises(ZeroDivisionError), held_back():
            signal.raise_signal(signal.SIGUSR2)
            signal.raise_signal(signal.SIGUSR1)
            other = threading.Thread(target=lambda: held_back().__enter__())
            other.start()
            other.join()
            assert heard == []
            raise ZeroDivisionError
        assert heard == ["SIGUSR2", "SIGUSR1"]
        assert [signal.getsignal(number) for number in former] == installed
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


REENTERING: dict[str, Callable[[Deduplicator], Any]] = {
    "add": lambda found: found.add(OTHER),
    "add_many": lambda found: found.add_many([OTHER]),
    "save": saved,
    "close": lambda found: found.close(),
}


@pytest.mark.parametrize("name", REENTERING)
def test_documents_that_call_their_own_judge_are_told_so(name: str) -> None:
    """The error says what has happened and what may be called; the rest is as it was."""
    found = Deduplicator(threads=1)

    def documents() -> Iterator[str]:
        yield ARTICLE
        assert found.ask(OTHER).outcome is neardup.Outcome.NEW and found.clusters() == []
        REENTERING[name](found)
        raise AssertionError("it was called")

    verdicts = found.add_many(documents())
    assert next(verdicts).outcome is neardup.Outcome.NEW
    with pytest.raises(
        RuntimeError, match=r"the documents that `add_many` is reading call .*`ask`"
    ):
        next(verdicts)
    assert [verdict.outcome.value for verdict in found.add_many([ARTICLE, OTHER])] == [
        "duplicate",
        "new",
    ]


def in_a_fork(work: Callable[[], object]) -> str:
    """What the work returns in a forked child, as text; a child that hangs is ended."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writes, str(work()).encode())
        except BaseException as error:
            os.write(writes, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writes)
    killer = threading.Timer(EVENTUALLY_S, os.kill, (child, signal.SIGKILL))
    killer.start()
    with os.fdopen(reads, "rb") as result:
        said = result.read().decode()
    killer.cancel()
    os.waitpid(child, 0)
    return said or "hung"


def test_a_forked_child_goes_on_with_threads_of_its_own(tmp_path: Path) -> None:
    """What is known goes with it; verdicts that were left in the parent can be taken there, too."""
    found = made()
    alone = [verdict.outcome.value for verdict in made().add_many(CALL)]
    assert in_a_fork(lambda: [verdict.outcome.value for verdict in found.add_many(CALL)]) == str(
        alone
    )
    assert in_a_fork(lambda: found.ask(text(3)).outcome.value) == "duplicate"
    assert in_a_fork(lambda: found.add(text(3)).outcome.value) == "duplicate"
    assert in_a_fork(lambda: found.save(tmp_path / "child.ndsnap")) == "None"
    assert in_a_fork(found.close) == "None"
    many = [{"doc_id": f"b{n}", "text": text(n)} for n in range(4_000)]
    left = found.add_many(many)
    next(left)
    assert in_a_fork(lambda: len(list(left))) == str(len(many) - 1)
    assert len(list(left)) == len(many) - 1
    list(found.add_many(CALL))
    assert len(Deduplicator.load(tmp_path / "child.ndsnap")) == len(made())


def test_an_engine_that_was_cut_off_judges_nothing_more() -> None:
    """The engine itself refuses, so that a command cannot go on by mistake either."""
    found = made()
    engine: FileEngine = found._engine
    with pytest.raises(ZeroDivisionError), engine._whole():
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="ZeroDivisionError ended a call in the middle"):
        list(engine.answers([(b"c", b'{"text": "a"}')]))
