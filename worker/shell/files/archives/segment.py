"""
The content of a file between two places of damage, as a stream to parse. It can go back a little: to the next record
behind one that is damaged.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from worker.shell.files.archives.inflate import Piece

HISTORY_BYTES_MAX = 64 << 20  # a damaged record longer than this hides records in all but its last bytes
_WINDOW_BYTES = 1 << 20
_MATCH_BYTES_MAX = 1 << 10


class Segment:
    """
    Reads forward through pieces up to the next problem, and remembers what was read since the last `forget`.

    A record may begin in one member and end in the next: positions count decompressed bytes of the whole segment.

    Attributes:
        problem: why the segment ends, once its end was met; None at the end of the file.
    """

    def __init__(self, first: Piece, more: Iterator[Piece]) -> None:
        self.problem: str | None = None
        self._more = more
        self._is_ended = False
        self._is_plain = first.is_plain
        self._history = bytearray()
        self._start = 0  # position of the history's first byte
        self._position = 0
        self._member_positions: list[int] = []
        self._member_offsets: list[int] = []
        self._add(first)

    def read(self, size: int = _WINDOW_BYTES) -> bytes:
        """Return some bytes, at most `size`; none at the end."""
        data = self.peek(1)
        if data:
            begin = self._position - self._start
            data = bytes(memoryview(self._history)[begin : begin + size])
            self._position += len(data)
        return data

    def take(self, size: int) -> None:
        """Step over bytes that were peeked at."""
        self._position += len(self.peek(size))

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def peek(self, size: int) -> bytes:
        """Return the next bytes without taking them; fewer at the end."""
        while not self._is_ended and self._start + len(self._history) - self._position < size:
            piece = next(self._more, None)
            if piece is None:
                self._is_ended = True
            else:
                self._add(piece)
        begin = self._position - self._start
        return bytes(memoryview(self._history)[begin : begin + size])

    def forget(self, before: int) -> None:
        """Give up what lies before a position."""
        drop = min(before, self._position) - self._start
        if drop > 0:
            del self._history[:drop]
            self._start += drop
            known = bisect_right(self._member_positions, self._start) - 1
            del self._member_positions[:known], self._member_offsets[:known]

    def go_to_next(self, pattern: re.Pattern[bytes], after: int) -> int | None:
        """Go to the next match of `pattern` (at most 1 KiB long) from the position `after` on; None at the end."""
        self._position = max(after, self._start)
        while True:
            window = self.peek(_WINDOW_BYTES)
            found = pattern.search(window)
            if found is not None and (found.end() < len(window) or self._is_ended):
                self._position += found.start()
                self.forget(self._position)
                return self._position
            if self._is_ended:
                self._position += len(window)
                return None
            self._position += max(0, len(window) - _MATCH_BYTES_MAX)
            self.forget(self._position)

    def offset_of(self, position: int) -> int:
        """Return where in the file a position lies: in a compressed file, where its member begins."""
        if self._is_plain:
            return position
        return self._member_offsets[max(0, bisect_right(self._member_positions, position) - 1)]

    def held(self, first: int, size: int) -> bytes:
        """Return `size` bytes from a position on that was not given up, as far as they have been read."""
        begin = first - self._start
        return bytes(memoryview(self._history)[begin : begin + size])

    def drain(self) -> None:
        """Read to the end, where `problem` is known."""
        while self.read():
            self.forget(self._position)

    def _add(self, piece: Piece) -> None:
        if not self._member_offsets or self._member_offsets[-1] != piece.offset:
            self._member_positions.append(self._start + len(self._history))
            self._member_offsets.append(piece.offset)
        self._history += piece.data
        if len(self._history) > HISTORY_BYTES_MAX:
            self.forget(self._start + len(self._history) - HISTORY_BYTES_MAX)
        if piece.problem is not None:
            self._is_ended = True
            self.problem = piece.problem

    @property
    def problem_offset(self) -> int:
        """Where in the file the member with the problem begins."""
        return self._member_offsets[-1]


def segments(pieces: Iterator[Piece]) -> Iterator[Segment]:
    """Return the segments of a file one after the other; what one leaves unread is read before the next."""
    for first in pieces:
        segment = Segment(first, pieces)
        yield segment
        segment.drain()
