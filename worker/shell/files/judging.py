"""Documents that a caller hands over one by one, read ahead; and their verdicts, taken one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any

from worker.core.verdict import Verdict
from worker.errors import DocumentError
from worker.shell.files.archives.record import Message
from worker.shell.files.engine import Answered
from worker.shell.files.given import message_of

__all__ = ["Reading", "Verdicts"]


class Reading:
    """The documents of one `add_many`, read ahead of their verdicts; it does not keep the iterator of these alive."""

    def __init__(self) -> None:
        self.is_over = False
        self.errors: deque[Exception | None] = deque()  # one a document whose verdict has not been taken
        self.failure: Exception | None = None  # of the caller's iterator

    def messages(self, documents: Iterator[Any], number: int) -> Iterator[Message]:
        """Yield the message of each document, counted from `number`."""
        while True:
            try:
                document = next(documents)
            except StopIteration:
                return
            except Exception as error:  # whatever it is, those before it are answered first
                self.failure = error
                return
            try:
                message = message_of(document, number)
                self.errors.append(None)
            except (TypeError, ValueError) as error:
                message = None, b"null"  # the log has a place for it
                self.errors.append(error)
            yield message
            number += 1


class Verdicts(Iterator[Verdict]):
    """The verdicts of one `add_many`: an error takes the place of a verdict and ends nothing."""

    def __init__(
        self, reading: Reading, answers: Generator[Answered, None, None], remember: Callable[[Verdict], None]
    ) -> None:
        self._reading, self._answers, self._remember = reading, answers, remember

    def __next__(self) -> Verdict:
        answered = next(self._answers, None)
        if answered is None:
            self.close()
            failure, self._reading.failure = self._reading.failure, None
            raise failure or StopIteration
        error = self._reading.errors.popleft()
        if error is not None:
            raise error
        answer = answered.answer
        if isinstance(answer, Verdict):
            self._remember(answer)
            return answer
        raise DocumentError(answer.code, f"document {answered.message.offset}: {answer.text}")

    def close(self) -> None:
        """Read no more documents. Those that have been judged stay judged, whether or not their verdicts were taken."""
        self._answers.close()
        self._reading.is_over = True

    __del__ = close
