"""One request of Kafka's protocol, by hand: who serves? A port that is open does not answer that."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"

METADATA_KEY = 3
METADATA_VERSION = 1  # the oldest with the controller, and plain fixed-width fields
ANSWER_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class Metadata:
    """What a node knows: the brokers that serve (id -> client port) and the controller's id, -1 while unknown."""

    brokers: dict[int, int]
    controller: int


def ask_metadata(port: int, timeout_s: float = 1.0) -> Metadata | None:
    """
    Ask the node at this loopback port which brokers serve; None when it does not answer within the time.

    A broker is listed once its registration is unfenced: it has caught up with the metadata and takes requests.
    """
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(encode_request())
            (size,) = struct.unpack(">i", _read(connection, 4))
            if not 0 < size <= ANSWER_BYTES_MAX:
                return None
            return decode_answer(_read(connection, size))
    except (OSError, struct.error):
        return None


def encode_request() -> bytes:
    """
    Return the Metadata request for no topic: size, then key, version, correlation id, client id, number of topics.

    >>> encode_request().hex(" ", -4)
    '00000015 00030001 00000001 00076e65 61726475 70000000 00'
    """
    client = b"neardup"
    body = struct.pack(f">hhih{len(client)}si", METADATA_KEY, METADATA_VERSION, 1, len(client), client, 0)
    return struct.pack(">i", len(body)) + body


def decode_answer(answer: bytes) -> Metadata:
    """
    Read the brokers and the controller from a Metadata answer.

    Raises:
        struct.error: the answer is cut.
    """
    _correlation, count = struct.unpack_from(">ii", answer)
    position, brokers = 8, {}
    for _ in range(count):
        node, host_bytes = struct.unpack_from(">ih", answer, position)
        position += 6 + host_bytes
        port, rack_bytes = struct.unpack_from(">ih", answer, position)
        position += 6 + max(rack_bytes, 0)  # -1 is "no rack"
        brokers[node] = port
    (controller,) = struct.unpack_from(">i", answer, position)
    return Metadata(brokers, controller)


def _read(connection: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes; a closed connection is an OSError, as every other end of it."""
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("closed before the answer was complete")
        data += chunk
    return bytes(data)
