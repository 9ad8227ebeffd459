"""
The pace of questions: while documents wait to be judged, questions have a fifteenth of the time.

A question costs most when it comes alone: 0.4 ms, and 0.05 ms each where 20 are answered together
(`questions.py`). So questions are slowed down before any is refused. After each computation the
next one waits REST times as long as that one took, and what reading and answering requests took.
Then it answers all questions that have come meanwhile: the more are asked, the more share a
computation.

A question waits at most WAIT_S_MAX for its turn; then it is told when there will be one. A request
does not even begin while the next turn is further away than that: its body stays with the client.
So refusing costs as little as waiting, also if a client asks again at once. What questions take
while no documents wait puts nothing off.

    computing ██         ███           ████            as many questions as have come
    documents   █████████   ███████████    ██████████

A worker that has applied the log and has no documents to judge answers at once.

REST is 14 because questions cost a worker more than what they compute: threads take turns with the
interpreter. With 9, documents were judged at .89 of their rate next to 100 single questions a
second; with 14 at .96 next to 100 and to 1,000 (`tests/benchmarks/results/ask.md`). Without a pace
it was .95 next to 100, and .71 next to 1,000.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

REST = 14  # times what questions took: what documents have before the next computation
WAIT_S_MAX = 1.0  # for a turn; below the time-out of any client
_LOOK_S = 0.01  # between two looks at whether documents still wait


class NoTurnError(Exception):
    """
    The turn does not come in time.

    Args:
        left_s: until it comes, as far as known now.
    """

    def __init__(self, left_s: float) -> None:
        self.left_s = left_s
        super().__init__(f"the next turn comes in {left_s:.1f} s")


class QuestionPace:
    """
    Takes turns with documents. One thread at a time has a turn.

    Args:
        clock: seconds that pass.
        processor: seconds of a processor that the calling thread has taken.
        sleep: waits so many seconds.

    Attributes:
        documents_wait: says whether documents or records of the log are to be worked off.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.documents_wait: Callable[[], bool] = lambda: False
        self._clock = clock
        self._processor = processor
        self._sleep = sleep
        self._guard = threading.Lock()
        self._next_s = clock()  # of the clock: when the next turn may come
        self._charged = threading.local()  # `.seconds`: by the thread, since it was begun

    def admit(self) -> None:
        """
        Wait until a request may begin: until its turn comes within WAIT_S_MAX.

        Raises:
            NoTurnError: that has taken WAIT_S_MAX.
        """
        self._wait(self.wait_until_s(), WAIT_S_MAX)

    def processor_s(self) -> float:
        """Return the processor time that the calling thread has taken."""
        return self._processor()

    def wait_until_s(self) -> float:
        """Return the time of the clock until which a question that comes now waits for a turn."""
        return self._clock() + WAIT_S_MAX

    @contextmanager
    def turn(self, until_s: float) -> Iterator[None]:
        """
        Wait for the next turn; what the block takes of a processor puts off the one after it.

        Raises:
            NoTurnError: it does not come by `until_s`.
        """
        self._wait(until_s, 0.0)
        with self.charged():
            yield

    def _wait(self, until_s: float, left_s_max: float) -> None:
        """
        Wait until the next turn is at most `left_s_max` away; this alone decides about waiting.

        Raises:
            NoTurnError: it is further away at `until_s`.
        """
        while self.documents_wait():
            now_s = self._clock()
            left_s = self._next_s - now_s
            if left_s <= left_s_max:
                return
            if now_s >= until_s:
                raise NoTurnError(left_s)
            self._sleep(min(left_s - left_s_max, until_s - now_s, _LOOK_S))

    @contextmanager
    def charged(self, since_s: float | None = None) -> Iterator[None]:
        """
        Put off the next turn by what the block takes of a processor, turns in it left out.

        What it takes while no documents wait puts nothing off.

        Args:
            since_s: of the thread's processor time: what it has taken since then counts, too.
        """
        begun_s = self._processor() if since_s is None else since_s
        before_s = getattr(self._charged, "seconds", 0.0)
        try:
            yield
        finally:
            inside_s = getattr(self._charged, "seconds", 0.0) - before_s
            cost_s = self._processor() - begun_s - inside_s
            self._charged.seconds = before_s + inside_s + cost_s
            if self.documents_wait():
                with self._guard:
                    self._next_s = max(self._next_s, self._clock()) + REST * cost_s
