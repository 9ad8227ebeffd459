"""What processes share in a test run is made once, and ended when nobody uses it any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.common import Common


class Nodes:
    """Counts what is made and ended; each has another address."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @contextmanager
    def make(self) -> Iterator[str]:
        """Make one more."""
        name = f"node-{len(self.events)}"
        self.events.append(f"{name} serves")
        yield name
        self.events.append(f"{name} ended")


def test_the_first_user_makes_it_and_the_others_use_it(tmp_path: Path) -> None:
    """The maker waits for all other users before it ends it."""
    nodes = Nodes()
    first, second = Common(tmp_path, nodes.make), Common(tmp_path, nodes.make)
    assert [first.open(), second.open()] == ["node-0", "node-0"]
    ending = threading.Thread(target=first.close)
    ending.start()
    ending.join(0.2)
    assert ending.is_alive() and nodes.events == ["node-0 serves"]
    second.close()
    ending.join()
    assert nodes.events == ["node-0 serves", "node-0 ended"]


def test_a_user_who_comes_when_it_has_ended_makes_another_one(tmp_path: Path) -> None:
    """No address of something that is gone is told."""
    nodes = Nodes()
    for _ in range(2):
        user = Common(tmp_path, nodes.make)
        assert user.open() == f"node-{len(nodes.events) - 1}"
        user.close()
    assert nodes.events == ["node-0 serves", "node-0 ended", "node-2 serves", "node-2 ended"]


def test_where_it_cannot_be_made_the_next_user_tries_again(tmp_path: Path) -> None:
    """The error is the maker's; nothing is left that another user could take for an address."""

    @contextmanager
    def fail() -> Iterator[str]:
        raise OSError("no room")
        yield ""

    user = Common(tmp_path, fail)
    with pytest.raises(OSError, match="no room"):
        user.open()
    user.close()
    other = Common(tmp_path, Nodes().make)
    assert other.open() == "node-0"
    other.close()
