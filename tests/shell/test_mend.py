"""
Mending answers and offsets, as far as it shows without a cluster: whom it waits for, and what it
publishes for a document that cannot be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from structlog.testing import capture_logs

from worker.core.document import Outcome
from worker.errors import DocumentError, StopError
from worker.settings import Settings
from worker.shell.admin import mend, offsets, stopped_group
from worker.shell.admin.remains import MENDED
from worker.shell.admin.stopped_group import StoppedGroup
from worker.shell.kafka.admin import Admin, Member, Topic
from worker.shell.messages import VerdictBytes, decode_dead_letter
from worker.shell.ports import UNREADABLE, CommittedOffset

SETTINGS = Settings(bootstrap="127.0.0.1:1")
MEMBER = "stable", [Member("m1", "killed", "a", (0,))]


class StandsStillError(Exception):
    """The command goes on: the group has no member."""


class Group:
    """A group whose last member's session ends after some looks."""

    def __init__(self, looks: int) -> None:
        self.answers = [MEMBER] * looks

    def existing(self, names: list[str]) -> dict[str, Topic]:
        return {name: Topic(name, bytes(16), 1, 1, {}) for name in names}

    def members(self, _group: str) -> tuple[str, list[Member]]:
        return self.answers.pop() if self.answers else ("empty", [])


def _ask(*_: object) -> Any:
    raise StandsStillError


def _mend() -> None:
    mend.mend(SETTINGS, dry_run=True, on_found=print)


def _restore() -> None:
    offsets.restore(SETTINGS, is_confirmed=False, on_found=print)


@pytest.mark.parametrize("command", [_mend, _restore])
@pytest.mark.parametrize(("session_s", "looks"), [(10, 3), (0, 1_000_000)])
def test_the_last_session_of_a_worker_that_was_killed_is_waited_for(
    command: Callable[[], None],
    session_s: int,
    looks: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    As long as a session may last, and no longer: a member that goes on is named. One line says for
    whom it waits, and how long.
    """
    group = Group(looks)
    asked = SimpleNamespace(get=_ask, close=lambda: None)
    for module in (mend, offsets):
        monkeypatch.setattr(module, "Admin", lambda _settings: group)
    monkeypatch.setattr(stopped_group, "LOOK_S", 0.0)
    monkeypatch.setattr(stopped_group, "GroupOffsets", lambda *_: asked)
    monkeypatch.setattr(Settings, "session_timeout_ms", session_s * 1_000)
    error, text = (
        (StandsStillError, None)
        if session_s
        else (
            StopError,
            r"killed\): .* only while no worker runs\. Stop all of them: it has waited 0 s for "
            "sessions of workers that have ended$",
        )
    )
    with capture_logs() as said, pytest.raises(error, match=text):
        command()
    waits = [line["event"] for line in said if "waiting up to" in line["event"]]
    assert waits == ["waiting up to 10 s for the sessions of killed"] or not session_s


def test_no_session_is_waited_for_where_the_cluster_refuses_to_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A login that is refused is no member whose session will end."""

    def refuse(_group: str) -> Any:
        raise StopError("the brokers refuse the login")

    waits: list[float] = []
    monkeypatch.setattr("worker.shell.admin.stopped_group.time.sleep", waits.append)
    group = cast(Admin, SimpleNamespace(members=refuse))
    with pytest.raises(StopError, match=r"^the brokers refuse the login$"):
        stopped_group._await_stopped(SETTINGS, group, "it is done")
    assert waits == []


def test_the_dead_letter_of_a_batch_that_cannot_be_read_is_published_without_reading_it() -> None:
    """It is what a worker publishes: it points to the message."""
    text = "documents[0] cannot be read at offset 7"
    answer = DocumentError(UNREADABLE, text)
    sent = mend._outgoing(SETTINGS, (0, 7), answer)
    letter = decode_dead_letter(sent.key, sent.value, sent.headers)
    assert (letter.code, letter.text, letter.is_pointer) == (UNREADABLE, text, True)
    assert (letter.source_partition, letter.source_offset, letter.key) == (0, 7, None)
    assert orjson.loads(sent.value or b"") == {"topic": "documents", "partition": 0, "offset": 7}


@pytest.mark.parametrize(
    "answer", [VerdictBytes(b"k", b"{}", Outcome.NEW), DocumentError(UNREADABLE, "")]
)
def test_what_was_mended_can_be_told_from_what_a_worker_published(
    answer: VerdictBytes | DocumentError,
) -> None:
    """By a header: it says nothing of what retention has deleted before it."""
    sent = mend._outgoing(SETTINGS, (0, 7), answer)
    assert MENDED in dict(sent.headers)


def test_a_group_that_is_no_longer_as_it_was_is_left_alone() -> None:
    """What was looked at may be set; other offsets, or a member, have come since."""
    looked_at = {0: CommittedOffset(7, "a worker's")}
    commits = {0: CommittedOffset(9, "a worker's")}
    were_set: list[object] = []

    def set_offsets(present: dict[int, CommittedOffset], looks: int = 0) -> None:
        members = cast(Admin, Group(looks))
        asked = cast(Any, SimpleNamespace(get=lambda: present, set=were_set.append))
        StoppedGroup(SETTINGS, members, asked, looked_at, "77", "it is done").set(commits)

    for present in ({0: CommittedOffset(7)}, {0: CommittedOffset(8, "a worker's")}, {}):
        with pytest.raises(StopError, match=r"have changed since .* Find out who commits them"):
            set_offsets(present)
    with pytest.raises(StopError, match="only while no worker runs"):
        set_offsets(dict(looked_at), looks=1)
    assert were_set == []
    set_offsets(dict(looked_at))
    assert were_set == [commits]


@pytest.mark.parametrize("committed", [{0: 7}, {0: None}, {}])
def test_what_the_next_worker_answers_is_not_published(
    committed: dict[int, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The group's offset was 7, then 9 while the answers were checked, and 7 again before they were
    published: those of 7 and 8 are missing, and a worker that begins at 7 publishes them.
    """
    looked_at = {number: CommittedOffset(offset, "") for number, offset in committed.items()}
    group = StoppedGroup(SETTINGS, cast(Admin, None), cast(Any, None), looked_at, "00", "")
    monkeypatch.setattr(StoppedGroup, "refuse_foreign", lambda _: None)
    monkeypatch.setattr(StoppedGroup, "refuse_change", lambda _: None)
    monkeypatch.setattr(mend, "Admin", lambda _: Group(0))
    monkeypatch.setattr(mend, "stopped_group", lambda *_: nullcontext(group))
    missing = SimpleNamespace(
        lost_answers=((0, 5), (0, 7), (0, 8)), defects=Counter(), no_answers=0
    )
    monkeypatch.setattr(mend, "verify", lambda *_, **__: missing)
    with pytest.raises(StopError, match=r"has changed since: a worker will answer offset [57]\."):
        mend.mend(SETTINGS, dry_run=True, on_found=print)
