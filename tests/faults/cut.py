"""Library calls that an error cuts off at any line, and processes that end at any moment."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import neardup
import pytest
from neardup import Deduplicator, Verdict

from tests.conftest import EVENTUALLY_S


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


def in_a_fork(work: Callable[[], object]) -> str:
    """What the work returns in a forked child, as text; one that hangs is killed."""
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
    return said or "hung or killed"


class Kill:
    """
    Ends this process at its n-th rename or wait for the disk, before it is done or behind it.

    Attributes:
        count: renames and waits so far.
    """

    def __init__(self, at: int = -1, *, behind: bool = False) -> None:
        self.count = 0
        self._at = at
        self._behind = behind
        for name in ("replace", "rename", "fsync"):
            setattr(os, name, self._watched(getattr(os, name)))

    def _watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            is_it = self.count == self._at
            self.count += 1
            if is_it and not self._behind:
                os.kill(os.getpid(), signal.SIGKILL)
            result = real(*given, **named)
            if is_it:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return watched
