"""Documents that a caller hands over one by one, read ahead; and their verdicts, taken one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, Literal, TypeAlias, TypeVar, cast

from worker.core.verdict import Verdict
from worker.errors import DocumentError
from worker.shell.files.archives.record import Message
from worker.shell.files.engine import FileEngine
from worker.shell.files.given import message_of

Errors: TypeAlias = Literal["raise", "skip", "return"]
Judged = TypeVar("Judged")  # Verdict, with "return" also Exception


class Verdicts(Iterator[Judged]):
    """The verdicts of one `add_many`. With `errors="raise"` nothing behind what is no document is read or judged."""

    def __init__(
        self, engine: FileEngine, documents: Iterator[Any], remember: Callable[[Verdict], None], errors: Errors
    ) -> None:
        self._remember = remember
        self._errors = errors
        self._wrong: deque[Exception | None] = deque()  # one a document whose verdict has not been taken
        self._failure: Exception | None = None  # raised when the verdicts have been taken
        self._answers = engine.judge(self._messages(documents, engine.next_offset), stop_at_dead=errors == "raise")

    def _messages(self, documents: Iterator[Any], number: int) -> Iterator[Message]:
        """Yield the message of each document, counted from `number`."""
        while True:
            try:
                document = next(documents)
            except StopIteration:
                return
            except Exception as error:  # whatever it is, those before it are answered first
                self._failure = error
                return
            try:
                message = message_of(document, number)
                self._wrong.append(None)
            except Exception as error:  # whatever it is, it is this document's
                if self._errors == "raise":
                    self._failure = error
                    return
                message = None, b"null"  # the log has a place for it
                self._wrong.append(error)
            yield message
            number += 1

    def __next__(self) -> Judged:
        for answered in self._answers:
            judged: Any = answered.answer
            wrong = self._wrong.popleft()
            if isinstance(judged, Verdict):
                self._remember(judged)
            else:
                judged = wrong or DocumentError(judged.code, f"document {answered.message.offset}: {judged.text}")
                if self._errors == "raise":
                    self._failure = judged
                if self._errors != "return":
                    continue
            return cast("Judged", judged)
        failure, self._failure = self._failure, None
        raise failure or StopIteration

    def close(self) -> None:
        """Read no more documents. Those that have been judged stay judged, whether or not their verdicts were taken."""
        self._answers.close()

    def end(self) -> None:
        """Close it for another call: whoever takes a verdict after that is told."""
        if getgeneratorstate(self._answers) != GEN_CLOSED:
            self.close()
            self._failure = RuntimeError("another call has ended this `add_many`: take all of its verdicts before")
