"""
The pace of questions: while documents wait to be judged, questions have a fifteenth of the time.

A question costs most when it comes alone: 0.4 ms, and 0.05 ms each where 20 are answered together
(`questions.py`). So questions are put off, and none is refused for what it costs. After each
computation the next one waits REST times as long as that one took, and what reading and answering
requests took, but never longer than REST_S_MAX. Then it answers all questions that have come
meanwhile: the more are asked, the more share a computation.

    computing ██         ███           ████            as many questions as have come
    documents   █████████   ███████████    ██████████

A worker without documents to judge answers at once.

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

# After questions, documents get this many times the processor time that the questions took ...
REST = 14
REST_S_MAX = 2.0  # ... but no turn waits longer than this
_LOOK_S = 0.01  # between two checks whether documents still wait


class QuestionPace:
    """
    Takes turns with documents. Any thread may call.

    Args:
        clock: seconds that pass.
        processor: seconds of a processor that the calling thread has taken.
        sleep: waits this many seconds.

    Attributes:
        documents_wait: says whether documents are waiting to be judged.
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
        self._next_s = clock()  # when the next turn may begin, by the clock
        self._charged = threading.local()  # `.seconds`: by the thread, since it was begun

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the next turn. The processor time of the block puts off the turn after it."""
        until_s = self._next_s  # as it is now: those who come later do not put off this one
        while (left_s := until_s - self._clock()) > 0 and self.documents_wait():
            self._sleep(min(left_s, _LOOK_S))
        with self.charged():
            yield

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Put off the next turn by the processor time of the block, without that of turns in it."""
        begun_s = self._processor()
        before_s = getattr(self._charged, "seconds", 0.0)
        try:
            yield
        finally:
            inside_s = getattr(self._charged, "seconds", 0.0) - before_s
            cost_s = self._processor() - begun_s - inside_s
            self._charged.seconds = before_s + inside_s + cost_s
            if self.documents_wait():  # a worker that has caught up owes nothing
                self._put_off(REST * cost_s)

    def _put_off(self, seconds: float) -> None:
        with self._guard:
            now_s = self._clock()
            self._next_s = min(max(self._next_s, now_s) + seconds, now_s + REST_S_MAX)
