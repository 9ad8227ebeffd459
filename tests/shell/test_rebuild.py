"""Rebuilding a log, as far as it shows without a cluster: who ends the worker."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from worker.errors import RetryError, StopError
from worker.log.record import Row, RowKind, Rows, Section, Source, encode
from worker.settings import Settings
from worker.shell.admin import rebuild
from worker.shell.admin.rebuild import RebuildPlan, _check_answers, _Watch
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.reader import GroupOffsets
from worker.shell.pipeline.offsets import CommitMetadata
from worker.shell.ports import CommittedOffset, LogEntry

LOG = "0d9f"
FULL, DEAD = RowKind.FULL, RowKind.DEAD


def ours(offset: int, log_id: str = LOG) -> CommittedOffset:
    """A worker's commit."""
    return CommitMetadata(log_id, 4, "5c").committed_at(offset)


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_worker_ends_when_all_is_answered_or_nobody_watches_it_any_more(
    is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress that cannot be written would leave it running, with nobody who ever ends it."""
    monkeypatch.setattr(rebuild, "LOOK_S", 0.001)
    offsets = iter(range(4))
    group = SimpleNamespace(get=lambda: {0: ours(next(offsets))})
    shown: list[int] = []

    def show(answered: int, total: int) -> None:
        if answered == 2 and not is_shown:
            raise BrokenPipeError("nobody reads it")
        shown.append(answered)
        assert total == 3

    watch = _Watch(Settings(), LOG, {0: 3}, cast(GroupOffsets, group), threading.Event(), show)
    watch.run()
    assert watch.stop.is_set()
    assert (shown, watch.done) == (([0, 1, 2, 3], True) if is_shown else ([0, 1], False))
    assert (watch.failure is None) == is_shown
    assert is_shown or "nobody reads it" in str(watch.failure)


def _no_answer() -> dict[int, CommittedOffset]:
    raise RetryError("the coordinator is away")


@pytest.mark.parametrize(
    ("get", "reason"),
    [
        (
            lambda: {0: ours(1), 1: CommittedOffset(None, "")},
            "6 offsets of .* 0, 1 ",
        ),
        (_no_answer, "the coordinator is away: see the worker's log"),
    ],
)
def test_a_rebuild_that_stands_still_says_why(
    get: Callable[[], dict[int, CommittedOffset]], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left, or that nobody says what is."""
    monkeypatch.setattr(rebuild, "LOOK_S", 0.001)
    monkeypatch.setattr(rebuild, "STALL_S", 0.01)
    monkeypatch.setattr(_Watch, "_step_over", lambda *_: None)
    group = cast(GroupOffsets, SimpleNamespace(get=get))
    watch = _Watch(Settings(), LOG, {0: 3, 1: 4}, group, threading.Event(), lambda *_: None)
    watch.run()
    assert not watch.done and watch.stop.is_set()
    assert re.search(reason, str(watch.failure))


@pytest.mark.parametrize(
    "commit", [CommittedOffset(3, ""), ours(3, "77aa"), ours(3)._replace(offset=9)]
)
def test_offsets_of_another_log_or_of_nobody_are_no_answers(commit: CommittedOffset) -> None:
    """
    The new log was deleted and created again, or a tool has set the offsets: nothing in it is
    judged, and the workers say so.
    """
    group = cast(GroupOffsets, SimpleNamespace(get=lambda: {0: commit}))
    watch = _Watch(Settings(), LOG, {0: 3}, group, threading.Event(), lambda *_: None)
    assert not watch.look() and watch.answered == 0


TOPIC_ID = b"t" * 16


def _log(settings: Settings, *kinds: RowKind) -> list[LogEntry]:
    """
    Return a log whose rows are of these kinds, from offset 5 of partition 0 on, behind one of a
    topic of documents that was deleted.
    """
    rows = [Row(offset, kind, f"d{offset}", "", 0) for offset, kind in enumerate(kinds, 5)]
    section = Section(Source(TOPIC_ID, 0), 5, 5 + len(rows), 5, Rows.of(rows))
    former = Section(Source(b"f" * 16, 0), 0, 1, 0, Rows.of([Row(0, FULL, "former", "", 0)]))
    author = settings.rules.author("w")
    values = [settings.rules.declaration("w", 4), *encode(author, [former, section], 10_000)]
    return [LogEntry(offset, 0, value) for offset, value in enumerate(values)]


@pytest.mark.parametrize(
    ("committed", "ends", "kinds", "refusal"),
    [
        ({0: 7}, (0, 0), (DEAD, DEAD), "has answered 2 offsets, but .* are empty"),
        ({0: 7}, (3, 0), (FULL, FULL), None),
        ({0: 7}, (0, 1), (DEAD, FULL), "verdicts is empty, and .* has at most 1: verdicts were"),
        ({0: 7}, (0, 2), (DEAD, DEAD), None),
        ({0: 7}, (0, 1), (DEAD,), None),
        ({0: 7}, (0, 1), (DEAD, DEAD, FULL), None),
        ({0: 5}, (0, 0), (), None),
        ({1: 4}, (0, 0), (), "has answered 4 offsets"),
    ],
    ids=[
        "both topics are gone",
        "verdicts are there",
        "verdicts are gone, an old dead letter is there",
        "each answer is a dead letter",
        "each answer is a dead letter, and a transaction's marker gets none",
        "what would get a verdict is not answered yet",
        "retention has deleted the documents before",
        "retention has emptied another partition",
    ],
)
def test_answers_that_are_gone_are_not_said_to_be_there(
    committed: dict[int, int],
    ends: tuple[int, int],
    kinds: tuple[RowKind, ...],
    refusal: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Their topics were deleted and created again; the log and the offsets have stayed. What was judged
    of a topic of documents that has been deleted says nothing.
    """
    log = _log(Settings(), *kinds)
    monkeypatch.setattr(rebuild, "read_log", lambda *_: (entry for entry in log))
    names = Settings().topic_verdicts, Settings().topic_dead_letter
    made: Any = SimpleNamespace(
        existing=lambda names: dict.fromkeys(
            names, SimpleNamespace(partitions=1, topic_id=TOPIC_ID)
        ),
        ends=lambda _: {(name, 0): (0, end) for name, end in zip(names, ends, strict=True)},
    )
    plan = RebuildPlan(Settings(), (), {0: 9, 1: 9}, {0: 5, 1: 0, 2: 1_000_000}, {})
    if refusal is None:
        _check_answers(plan, cast(Admin, made), committed)
        return
    with pytest.raises(StopError, match=refusal):
        _check_answers(plan, cast(Admin, made), committed)


def test_answers_are_looked_for_as_soon_as_the_groups_offsets_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first look may get no answer, and the worker is running then."""
    monkeypatch.setattr(rebuild, "LOOK_S", 0.001)
    looks: list[RetryError | dict[int, CommittedOffset]]
    looks = [RetryError("the coordinator is away"), {0: ours(2)}]

    def get() -> dict[int, CommittedOffset]:
        answer = looks.pop(0)
        if isinstance(answer, RetryError):
            raise answer
        return answer

    def check(committed: Mapping[int, int]) -> None:
        raise StopError(f"{committed[0]} answers are gone")

    group = cast(GroupOffsets, SimpleNamespace(get=get))
    watch = _Watch(Settings(), LOG, {0: 3}, group, threading.Event(), lambda *_: None, check=check)
    assert not watch.look()
    watch.run()
    assert watch.failure == "2 answers are gone" and watch.stop.is_set()
