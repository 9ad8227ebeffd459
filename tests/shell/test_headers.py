"""Headers that the client can read, and those that it cannot."""

from __future__ import annotations

from typing import Any

from worker.shell.kafka.client import headers_of


class _Message:
    """A message of the client, whose names of headers are bytes until somebody asks for them."""

    def __init__(self, *names: bytes) -> None:
        self._names = names

    def headers(self) -> Any:
        return [(name.decode(), b"x") for name in self._names] or None


def test_a_name_that_is_no_utf8_costs_the_headers_not_the_document() -> None:
    """Other clients write such names: the message is read all the same."""
    messages: Any = _Message(b"ok"), _Message(b"ok", b"caf\xe9"), _Message()
    assert [headers_of(message) for message in messages] == [(("ok", b"x"),), (), ()]
