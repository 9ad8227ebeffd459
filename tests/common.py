"""
One thing for all processes of a test run, such as a node of Kafka: it costs some ten seconds of a
processor, and four processes that run tests need no more than one.

The first process that needs it makes it and tells the others by a file where it is. It ends it when
none of them uses it any more. Each user holds a shared lock meanwhile, which the system releases if
its process dies.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO


class Common:
    """
    A part in what processes have in common.

    Args:
        folder: one for all processes that are to share it, which exists.
        make: makes it, and yields the address that all users are told; its end ends it.
    """

    def __init__(self, folder: Path, make: Callable[[], AbstractContextManager[str]]) -> None:
        self._address = folder / "common-address"
        self._turn = folder / "common-turn"
        self._make = make
        self._users: IO[bytes] = (folder / "common-users").open("ab")
        self._made: AbstractContextManager[str] | None = None

    def open(self) -> str:
        """Return the address, once somebody has made it; this process may be the one."""
        fcntl.flock(self._users, fcntl.LOCK_SH)
        with _alone(self._turn):
            if not self._address.exists():
                made = self._make()
                self._address.write_text(made.__enter__())
                self._made = made
            return self._address.read_text()

    def close(self) -> None:
        """Use it no more; if this process has made it, wait for the other users and end it."""
        if self._made is not None:
            # Who comes later finds no address, and makes another one.
            fcntl.flock(self._users, fcntl.LOCK_EX)
            self._address.unlink()
        self._users.close()
        if self._made is not None:
            self._made.__exit__(None, None, None)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Be the only process in this block."""
    with path.open("ab") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield
