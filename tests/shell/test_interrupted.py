"""
A Deduplicator whose calls are cut off (Ctrl-C, a time limit, no memory), that is used by what it
reads, or that goes on in a forked process.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import neardup
import polars
import pytest
from neardup import CrawlFiles, Deduplicator

from tests.cli.program import ARTICLE, OTHER, lines
from tests.faults.cut import CALL, in_a_fork, known, made, saved, text
from worker.held_signals import hear, held_back
from worker.log.replica import Replica
from worker.shell.files.engine import FileEngine
from worker.shell.files.frames import Unjudged


def test_ctrl_c_while_documents_are_judged_is_heard_when_they_are() -> None:
    """The signal comes in the middle of a batch, which is whole afterwards: nothing is refused."""
    found = made()
    real = Replica.apply_together

    def apply_together(self: Replica, *given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)  # the handler runs before the next line
        return real(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replica, "apply_together", apply_together)
        with pytest.raises(KeyboardInterrupt):
            list(found.add_many(CALL))
    whole = made()
    list(whole.add_many(CALL))
    assert known(found) == known(whole)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
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


class Raised(Exception):  # noqa: N818  # what a handler of a test raises
    pass


@pytest.fixture
def called() -> Iterator[list[int]]:
    """Handlers of SIGUSR1 and SIGUSR2 that note that they are called, and raise."""
    called: list[int] = []

    def handler(number: int, _: object) -> None:
        called.append(number)
        raise Raised

    former = {number: signal.signal(number, handler) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    yield called
    for number, before in former.items():
        signal.signal(number, before)


def test_a_handler_that_raises_costs_no_other_signal(called: list[int]) -> None:
    """As a time limit and an orderly end that come while one change is made."""
    with pytest.raises(Raised), held_back():
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR2)
        assert called == []
    assert called == [signal.SIGUSR1, signal.SIGUSR2]


def test_signals_are_heard_in_a_wait_within_blocks(called: list[int]) -> None:
    """Also in a block within a block; each signal once; and without a block nothing waits."""
    with pytest.raises(Raised), held_back(), held_back():
        hear()
        signal.raise_signal(signal.SIGUSR2)
        hear()
        pytest.fail("the handler has raised")
    assert called == [signal.SIGUSR2]
    hear()
    assert called == [signal.SIGUSR2]


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


def test_a_forked_child_takes_no_documents_of_files_from_its_parent(tmp_path: Path) -> None:
    """Both have one place in an open file. It may read them from the beginning."""
    source = tmp_path / "many.jsonl"
    source.write_text(lines(*({"doc_id": f"b{n}", "text": text(n)} for n in range(3_000))))
    files = CrawlFiles([source])
    left = iter(files)
    next(left)
    assert "begun before this process was forked" in in_a_fork(lambda: next(left))
    assert in_a_fork(lambda: len([*files])) == "3000"
    assert len([*left]) == 2_999


def test_a_frame_that_was_cut_off_between_two_verdicts_leaves_nothing_behind() -> None:
    """As a notebook keeps the traceback of Ctrl-C, and with it what the call has begun."""

    def of(_: Unjudged, judged: Any) -> Iterator[Any]:
        yield next(judged)
        raise KeyboardInterrupt

    found, frame = made(), polars.DataFrame({"text": [text(n) for n in range(200, 204)]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Unjudged, "of", of)
        with pytest.raises(KeyboardInterrupt) as kept:
            found.verdicts_frame(frame)
    outcomes = [verdict.outcome.value for verdict in found.add_many([text(3), text(300)])]
    assert outcomes == ["duplicate", "new"]
    assert kept.traceback


def test_an_engine_that_was_cut_off_judges_nothing_more() -> None:
    """The engine itself refuses, so that a command cannot go on by mistake either."""
    found = made()
    engine: FileEngine = found._engine
    with pytest.raises(ZeroDivisionError), engine._whole():
        raise ZeroDivisionError
    with pytest.raises(RuntimeError, match="ZeroDivisionError ended a call in the middle"):
        list(engine.answers([(b"c", b'{"text": "a"}')]))
