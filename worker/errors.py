"""
Every error of neardup, in one small tree. The class says what the shell does with it.

    NeardupError
    ├── DocumentError    this document cannot be judged      -> dead letter, the batch goes on
    ├── RetryError       a passing condition                 -> abort, rewind, try again
    ├── RecordError      this record of the log is not ours  -> ignored by all replicas, counted
    ├── RestoreError     this snapshot is damaged            -> the older one, else the log
    └── StopError        settings, topics or log are wrong   -> the process ends and says the remedy
        ├── DefinitionError  the log has another definition  -> the same
        ├── OffsetError      offsets that are not ours       -> the same
        └── FencedError      another process has this slot   -> the process ends at once

A mistake of a library caller is a plain ValueError or TypeError.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from importlib import metadata

_OF_A_FULL_DISK = {errno.ENOSPC, errno.EDQUOT}


def is_of_a_full_disk(error: BaseException | None) -> bool:
    """Return whether the remedy of an error is more room on a disk."""
    return isinstance(error, OSError) and error.errno in _OF_A_FULL_DISK


class NeardupError(Exception):
    """The root: catch it to catch everything that neardup raises on purpose."""


class DocumentError(NeardupError):
    """
    One document cannot be judged.

    It becomes a dead letter with this `code` and the text of the error.

    Args:
        code: a short stable class for machines, in kebab case: "invalid-json", "no-body",
            "fingerprint-failed".
        text: for people: the value, the bound and the remedy. Cut at 1,000 characters.
    """

    TEXT_CHARACTERS_MAX = 1_000

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        self.text = (
            text
            if len(text) <= self.TEXT_CHARACTERS_MAX
            else text[: self.TEXT_CHARACTERS_MAX - 1] + "…"
        )
        super().__init__(f"{code}: {self.text}")

    @classmethod
    def parse(cls, note: str) -> DocumentError:
        """Return the error whose `str` this is, as it stands in the log."""
        code, _, text = note.partition(": ")
        return cls(code, text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DocumentError) and (self.code, self.text) == (
            other.code,
            other.text,
        )

    def __hash__(self) -> int:
        return hash((self.code, self.text))

    def __reduce__(self) -> tuple[type[DocumentError], tuple[str, str]]:
        return type(self), (self.code, self.text)


class RetryError(NeardupError):
    """
    A passing condition, such as a time-out or a coordinator that moves.

    What was begun is aborted and tried again.

    Args:
        settled: what was begun has certainly left no trace, so that the same thing may be tried
            again at once.
            Otherwise its outcome has to be asked for first.
    """

    def __init__(self, text: str, *, settled: bool = False) -> None:
        self.settled = settled
        super().__init__(text)


class RecordError(NeardupError):
    """
    A record of the log is foreign, damaged or of another format.

    Every replica ignores it.

    Args:
        record_format: where it is a record, of a format that this version does not read; else 0.
    """

    def __init__(self, text: str, *, record_format: int = 0) -> None:
        self.record_format = record_format
        super().__init__(text)


class RestoreError(NeardupError):
    """
    A snapshot is damaged, or of an older format, so that the next older source is tried.

    A snapshot of another log is a StopError.
    """


class StopError(NeardupError):
    """
    Going on would be wrong or pointless.

    The process ends with exit code 1 and this text, which says the remedy.
    """


class DefinitionError(StopError):
    """
    The log, or a snapshot, has another definition than this process.

    Args:
        where: what has the other definition, such as "the log (record 0, written by w1)".
        differences: the settings that differ, by name: the value there, the value here.
        remedy: what to do. The caller adds it, because it knows whether this process is a worker.
    """

    def __init__(
        self, where: str, differences: Mapping[str, tuple[object, object]], remedy: str = ""
    ) -> None:
        self.where = where
        self.differences = differences
        self.remedy = remedy
        named = "; ".join(
            f"{name} is {there!r} there, {here!r} here"
            for name, (there, here) in differences.items()
        )
        super().__init__(
            f"{where} has another definition: {named}" + (f". {remedy}" if remedy else "")
        )

    def with_remedy(self, remedy: str) -> DefinitionError:
        """Return this error with what to do, unless it says that already."""
        return type(self)(self.where, self.differences, self.remedy or remedy)


class OffsetError(StopError):
    """
    The group's offsets are not those that its workers have committed.

    Args:
        partitions: how many have such an offset.
    """

    def __init__(self, text: str, partitions: int) -> None:
        self.partitions = partitions
        super().__init__(text)


class FencedError(StopError):
    """
    Another process with the same worker id has taken over: this one must publish nothing more.
    """


def safe_repr(value: object) -> str:
    """
    Return the `repr` of any value, or a substitute if the value is nested too deep or its `repr`
    fails.
    """
    try:
        return repr(value)
    except Exception:  # of the value's own class
        return "that cannot be shown"


def check_type(name: str, value: object, kind: type | tuple[type, ...]) -> None:
    """
    Raise a TypeError for an argument of a wrong type, before it fails deep inside as something
    else.

    >>> check_type("text", 3, str)
    Traceback (most recent call last):
    TypeError: text must be str, got int
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        wanted = " or ".join(each.__name__ for each in kinds)
        raise TypeError(f"{name} must be {wanted}, got {type(value).__name__}")


def install_extra(extra: str) -> str:
    """
    Return the command that installs the packages of one of neardup's extras.

    It names the packages themselves. By its own name pip would look for neardup on an index, which
    has none; and whether it was installed from a clone, a wheel or an image is not known here.

    >>> install_extra("parquet")
    "pip install 'pyarrow>=19.0'"
    """
    packages = []
    for line in metadata.requires("neardup") or ():
        package, _, marker = line.partition(";")
        if marker.strip().replace('"', "'") == f"extra == '{extra}'":
            packages.append(f"'{package.strip()}'")
    assert packages, f"neardup has no extra {extra!r}"
    return f"pip install {' '.join(packages)}"
