"""
Every error of neardup, in one small tree. The class says what the shell does with it.

    NeardupError
    ├── DocumentError    this document cannot be judged        -> dead letter, the batch goes on
    ├── RetryError       a passing condition                   -> abort, rewind, try again, with a limit
    ├── RestoreError     this snapshot cannot be used          -> the older one, else the log
    └── StopError        settings, topics or log are wrong     -> the process ends and says the remedy
        └── FencedError  another process has taken this slot   -> the process ends at once, touching nothing

A mistake of a library caller is a plain ValueError or TypeError.
"""

from __future__ import annotations


class NeardupError(Exception):
    """The root: catch it to catch everything that neardup raises on purpose."""


class DocumentError(NeardupError):
    """
    One document cannot be judged; it goes to the dead letters with `code` and the text of the error.

    Args:
        code: a short stable class for machines, in kebab case: "invalid-json", "no-body", "extractor-timeout".
        text: for people: the value, the bound and the remedy. Cut at 1,000 characters.
    """

    TEXT_CHARACTERS_MAX = 1_000

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = text if len(text) <= self.TEXT_CHARACTERS_MAX else text[: self.TEXT_CHARACTERS_MAX - 1] + "…"
        super().__init__(f"{code}: {self.text}")

    def __reduce__(self) -> tuple[type[DocumentError], tuple[str, str]]:
        return type(self), (self.code, self.text)


class RetryError(NeardupError):
    """
    A passing condition (a coordinator that moves, a time-out): what was begun is aborted and tried again.

    Args:
        settled: what was begun has certainly left no trace, so that the same thing may be tried again at once.
            Otherwise its outcome has to be asked for first.
    """

    def __init__(self, text: str, *, settled: bool = False) -> None:
        self.settled = settled
        super().__init__(text)


class RestoreError(NeardupError):
    """A snapshot cannot be used: it is damaged, foreign or of a newer version. The next older source is tried."""


class StopError(NeardupError):
    """Going on would be wrong or pointless: the process ends with exit code 1 and this text, remedy included."""


class FencedError(StopError):
    """Another process with the same worker id has taken over: this one must publish nothing more."""
