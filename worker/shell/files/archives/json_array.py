"""
Reads the elements of a JSON array one at a time, so the array may have any length.

A JSON parser would hold the whole array in memory. This reader only looks for the end of each
element, by strings and brackets. Each element is then parsed on its own, like a line of JSON Lines.

    [ {"text": "a, ] \\" b"}, {"text": "c"} ]
      └──── element ──────┘  └─ element ─┘      what stands in a string ends nothing

Damage is a control character in a string (a quote is missing), a bracket that closes another one,
or an element of more than `bytes_max`. Reading goes on at the next object after a comma.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

import numpy as np

from worker.core.kernels.json_elements import (
    CLOSES_NOTHING,
    CONTROL,
    END,
    LEVELS_MAX,
    MORE,
    STATE_SIZE,
    TOO_DEEP,
    scan_element,
)
from worker.shell.files.archives import Damage
from worker.shell.files.archives.inflate import Piece
from worker.shell.files.archives.lines import Line

_EMPTY_ELEMENTS = re.compile(rb"[ \t\r\n,]*+")
_EMPTY_ARRAYS = re.compile(rb"(?:[ \t\r\n]*+\[[ \t\r\n,]*+\])*+[ \t\r\n]*+")
_NEXT = re.compile(rb"\}[ \t\r\n]*,[ \t\r\n]*(?=\{)")
_NEXT_BYTES_MAX = 4_096  # bytes of such a match that the end of a piece cuts
_REASONS = {
    CLOSES_NOTHING: "a bracket closes nothing that is open",
    TOO_DEEP: "nested too deep",
    CONTROL: "a control character in a string: a quote is missing before it",
}


class _State(Enum):
    """The state of the reader."""

    OUTSIDE = "before an array, or behind one"
    BETWEEN = "an element, a comma or the end of the array is next"
    ELEMENT = "within an element"
    LOST = "behind damage, where the next object is looked for"


class ArrayElements:
    """
    The elements of the arrays in a file, as lines. `number` is the number of the line where an
    element begins.

    Args:
        file: the name of the file, for damage.
        pieces: its decompressed bytes, in UTF-8.
        bytes_max: the largest element. A longer one is damage, and is not held in memory.

    Cost: O(bytes), and a step of Python for each element. Memory: one element.
    """

    def __init__(self, file: str, pieces: Iterator[Piece], bytes_max: int) -> None:
        self._file = file
        self._pieces = pieces
        self._bytes_max = bytes_max
        self._data = bytearray()  # the bytes that were read and are still needed
        self._begin = 0  # where the element that is being read begins in it
        self._at = 0  # up to where it has been examined
        self._position = 0  # the element's position in the file
        self._number = 1  # number of the line where it begins
        self._state = _State.OUTSIDE
        self._open = np.zeros(LEVELS_MAX, np.uint8)  # brackets of the element
        self._scan = np.zeros(STATE_SIZE, np.int64)

    def __iter__(self) -> Iterator[Line | Damage]:
        for piece in self._pieces:
            del self._data[: self._begin]
            self._at -= self._begin
            self._begin = 0
            self._data += piece.data
            yield from self._read()
            if piece.problem is not None:
                yield Damage(self._file, piece.offset, piece.problem)
                self._lose()
        yield from self._end()

    def _read(self) -> Iterator[Line | Damage]:
        """Yield the elements that end in the bytes that are there."""
        steps = {
            _State.OUTSIDE: self._outside,
            _State.BETWEEN: self._between,
            _State.ELEMENT: self._element,
            _State.LOST: self._search,
        }
        while self._at < len(self._data):
            before = self._at, self._state
            entry = steps[self._state]()
            if entry is not None:
                yield entry
            if (self._at, self._state) == before:  # it waits for more bytes
                break
        if len(self._data) - self._begin > self._bytes_max:
            yield self._damage(f"an element of more than {self._bytes_max:,} bytes")

    def _outside(self) -> Damage | None:
        self._skip(_EMPTY_ARRAYS)
        if self._begin == len(self._data):
            return None
        if self._data[self._begin] != ord("["):
            return self._damage("it stands outside of an array")
        self._give_up(self._begin + 1)
        self._state = _State.BETWEEN
        return None

    def _between(self) -> None:
        self._skip(_EMPTY_ELEMENTS)
        if self._begin == len(self._data):
            return
        if self._data[self._begin] == ord("]"):
            self._give_up(self._begin + 1)
            self._state = _State.OUTSIDE
        else:
            self._scan[:] = 0
            self._state = _State.ELEMENT

    def _element(self) -> Line | Damage | None:
        # The view must be gone before the buffer changes its size.
        data = np.frombuffer(self._data, np.uint8)
        self._at, outcome = scan_element(data, self._at, self._open, self._scan)
        del data
        if outcome == MORE:
            return None
        if outcome != END:
            return self._damage(_REASONS[outcome])
        line = self._line(self._at)
        self._give_up(self._at)
        self._state = _State.BETWEEN
        return line

    def _search(self) -> None:
        """Go to the next object after a comma."""
        # The array may end before the next object. That cannot be seen here, so the search goes on
        # over everything in between.
        following = _NEXT.search(self._data, self._begin)
        if following is None:
            self._give_up(max(len(self._data) - _NEXT_BYTES_MAX, self._begin))
            self._at = len(self._data)
            return
        self._give_up(following.end())
        self._state = _State.BETWEEN

    def _end(self) -> Iterator[Line | Damage]:
        """Yield the rest at the end of the file."""
        if self._state is _State.ELEMENT and not self._scan.any():
            yield self._line(len(self._data))
        elif self._state is _State.ELEMENT:
            yield self._damage("the file ends within this element")
        if self._state in (_State.ELEMENT, _State.BETWEEN):
            yield Damage(self._file, self._position, "the file ends before its array", self._number)

    def _line(self, stop: int) -> Line:
        return Line(self._position, self._number, bytes(self._data[self._begin : stop].rstrip()))

    def _damage(self, reason: str) -> Damage:
        """Return the damage of the element, and look for the next one."""
        damage = Damage(self._file, self._position, reason, self._number)
        self._lose()
        return damage

    def _lose(self) -> None:
        """Look for the next element after the examined bytes."""
        if self._state is _State.OUTSIDE and self._begin == len(self._data):
            return
        # `_NEXT` begins with the bracket that may just have closed.
        self._give_up(max(self._at - 1, self._begin))
        self._state = _State.LOST

    def _skip(self, pattern: re.Pattern[bytes]) -> None:
        skipped = pattern.match(self._data, self._begin)
        assert skipped is not None, "it matches nothing, too"
        self._give_up(skipped.end())

    def _give_up(self, stop: int) -> None:
        """Let the next element begin at `stop`."""
        self._number += self._data.count(b"\n", self._begin, stop)
        self._position += stop - self._begin
        self._begin = stop
        self._at = stop
