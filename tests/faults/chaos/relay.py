"""
Between workers and nodes: passes bytes on, and for a time not, as a network that pauses would.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from tests.faults.chaos.schedule import EVERYBODY

_CHUNK = 1 << 16
_LOOK_S = 0.01


def client_id(request: bytes) -> str | None:
    """
    Read who sends a Kafka request from its first bytes; None while there are too few.

        size i32 | api key i16 | version i16 | correlation id i32 | length of the client id i16 |
        client id
    """
    if len(request) < 14:
        return None
    (length,) = struct.unpack_from(">h", request, 12)
    return (
        request[14 : 14 + max(length, 0)].decode("utf-8", "replace")
        if len(request) >= 14 + length
        else None
    )


@dataclass(eq=False)
class _Connection:
    """One client's connection to one node."""

    node: str
    writers: Sequence[asyncio.StreamWriter]
    who: str = ""

    def is_of(self, who: str, node: str) -> bool:
        return who in (EVERYBODY, self.who) and node in (EVERYBODY, self.node)

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


class Relay:
    """
    Listens once for each node, in a thread of its own; `ports`: of each node where it and the relay
    listen.
    """

    def __init__(self, ports: Sequence[tuple[int, int]]) -> None:
        self._ports = ports
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()
        self._paused: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(60)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def pause(self, who: str, node: str) -> None:
        """
        Hold what passes between a worker and a node, in both directions; EVERYBODY stands for all
        of either.
        """
        self._paused.append((who, node))

    def resume(self, who: str, node: str) -> None:
        """Let it pass again."""
        self._paused.remove((who, node))

    def cut(self, who: str, node: str) -> None:
        """Close the connections between a worker and a node."""
        for connection in list(self._connections):
            if connection.is_of(who, node):
                self._loop.call_soon_threadsafe(connection.close)

    async def _listen(self) -> None:
        for number, (port, told) in enumerate(self._ports, 1):
            self._servers.append(
                await asyncio.start_server(self._accept(str(number), port), "127.0.0.1", told)
            )

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, node: str, port: int) -> Callable[..., Any]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                writer.close()  # the node is away
                return
            connection = _Connection(node, (writer, far_writer))
            self._connections.add(connection)
            try:
                await asyncio.gather(
                    self._pump(connection, reader, far_writer, is_request=True),
                    self._pump(connection, far_reader, writer),
                )
            except OSError:
                pass  # one side is gone: the other one learns of it
            finally:
                connection.close()
                self._connections.discard(connection)

        return serve

    async def _pump(
        self,
        connection: _Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_request: bool = False,
    ) -> None:
        first = b""
        while data := await reader.read(_CHUNK):
            if is_request and not connection.who:
                first += data
                connection.who = client_id(first) or ""
            while any(connection.is_of(*pair) for pair in list(self._paused)):
                await asyncio.sleep(_LOOK_S)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
