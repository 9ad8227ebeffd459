"""The headers of a message as the client can read them."""

from __future__ import annotations

from confluent_kafka import Message

from worker.shell.ports import Headers


def headers_of(message: Message) -> Headers:
    """
    Return a message's headers; none where a name is no UTF-8, which Kafka takes and the client refuses.

    The document itself is whole, and is judged.
    """
    try:
        return tuple(message.headers() or ())  # type: ignore[arg-type]
    except UnicodeDecodeError:
        return ()
