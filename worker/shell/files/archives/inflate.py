"""
A file, plain, gzip or zstd -> its decompressed pieces, member by member; a damaged member costs itself only.

    gzip, zstd    [member 0][member 1] ~~damaged~~ [member 3]       archives mostly have a member a record
    plain         one member from start to end

After damage the next member is looked for by its magic number. The input is only read forward, so it may be a pipe.
"""

from __future__ import annotations

import io
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from enum import Enum
from typing import BinaryIO, NamedTuple

import zstandard

from worker.errors import StopError

_READ_BYTES = 256 << 10
_OUTPUT_BYTES_MAX = 1 << 20  # of one step: a bomb cannot become one piece of gigabytes
_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # behind a first byte of 0x50 to 0x5f
_ZSTD_DICTIONARY = b"\x5d" + _ZSTD_SKIPPABLE  # a frame of this kind holds the dictionary of the others (.warc.zst)
_DICTIONARY_BYTES_MAX = 64 << 20


class Piece(NamedTuple):
    """
    Some decompressed bytes, from the member that begins at `offset`.

    With a `problem` the content breaks off here, because the rest of the member is unreadable. `is_plain`: the file is
    not compressed, so that a position in the content is one in the file.
    """

    offset: int
    data: bytes
    problem: str | None = None
    is_plain: bool = False


class Format(Enum):
    """How a file is compressed."""

    PLAIN = "plain"
    GZIP = "gzip"
    ZSTD = "zstd"


class _Step(NamedTuple):
    """What one step of decompression gave."""

    data: bytes
    unused: bytes
    is_end: bool


class _Gzip:
    """Decompresses one member; `step` takes more input, or none, to go on with what is held back."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(31)

    def step(self, data: bytes) -> _Step:
        out = self._object.decompress(self._object.unconsumed_tail + data, _OUTPUT_BYTES_MAX)
        return _Step(out, self._object.unused_data, self._object.eof)


class _Zstd:
    """The same. The library returns all output of its input at once, so it gets little: 4 KiB are 128 MiB at most."""

    _INPUT_BYTES = 4 << 10

    def __init__(self, dictionary: zstandard.ZstdCompressionDict | None) -> None:
        self._object = zstandard.ZstdDecompressor(dict_data=dictionary).decompressobj()
        self._held = memoryview(b"")

    def step(self, data: bytes) -> _Step:
        if data:
            self._held = memoryview(bytes(self._held) + data)
        out = b""
        while self._held and not out and not self._object.eof:
            now, self._held = self._held[: self._INPUT_BYTES], self._held[self._INPUT_BYTES :]
            out = self._object.decompress(now)
        is_end = self._object.eof
        return _Step(out, self._object.unused_data + bytes(self._held) if is_end else b"", is_end)


class _Input:
    """A forward reader with an offset and a pushed-back rest."""

    def __init__(self, stream: BinaryIO, on_read: Callable[[int], None]) -> None:
        self._stream = stream
        self._on_read = on_read
        self._held = b""
        self.offset = 0  # of the first byte that `read` gives next

    def read(self) -> bytes:
        """Return some bytes, at the end none."""
        data, self._held = self._held, b""
        if not data:
            data = self._more()
        self.offset += len(data)
        return data

    def push_back(self, data: bytes) -> None:
        """Have `read` give these bytes, the last ones read, again."""
        self._held = data + self._held
        self.offset -= len(data)

    def peek(self, count: int) -> bytes:
        """Return the next bytes without taking them; fewer at the end."""
        while len(self._held) < count:
            data = self._more()
            if not data:
                break
            self._held += data
        return self._held[:count]

    def _more(self) -> bytes:
        try:
            data = self._stream.read(_READ_BYTES)
        except Exception as error:  # of a disk, or of a network in its own words: what is behind has not been seen
            name = getattr(self._stream, "path", None) or getattr(self._stream, "name", "a file")
            raise StopError(f"cannot read {name} to its end: {error or type(error).__name__}") from error
        self._on_read(len(data))
        return data

    def skip_to(self, magic: bytes) -> bool:
        """Go forward to the next place where `magic` stands; False at the end."""
        while data := self.read():
            found = data.find(magic)
            if found >= 0:
                self.push_back(data[found:])
                return True
            kept = data[len(data) - len(magic) + 1 :] if len(data) >= len(magic) else data
            self.push_back(kept)
            if len(self.peek(len(kept) + 1)) == len(kept):
                self.read()
                return False
        return False


def pieces(stream: BinaryIO, on_read: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
    """
    Return the decompressed content of a file piece by piece; the format is told from its first bytes.

    Args:
        stream: read forward only.
        on_read: told the number of (compressed) bytes of each read: for progress.

    Cost: that of the decompression; memory about 2 MiB whatever the file's size.
    """
    source = _Input(stream, on_read)
    kind = _format_of(source.peek(4))
    if kind is Format.PLAIN:
        while data := source.read():
            yield Piece(0, data, is_plain=True)
        return
    magic = _GZIP if kind is Format.GZIP else _ZSTD
    dictionary: zstandard.ZstdCompressionDict | None = None
    is_damaged = False  # one report for each stretch of damage, however many false starts it holds
    while start := source.peek(4):
        if kind is Format.ZSTD and start[1:] == _ZSTD_SKIPPABLE:
            offset, content = source.offset, _skippable_frame(source)
            if start == _ZSTD_DICTIONARY:
                dictionary, damage = _dictionary(offset, content)
                yield from damage
            continue
        offset, problem = source.offset, None
        if start.startswith(magic):
            inflater = _Gzip() if kind is Format.GZIP else _Zstd(dictionary)
            for piece in _member(source, inflater, offset):
                problem = piece.problem
                if problem is None or not is_damaged:
                    yield piece
        elif start.strip(b"\0"):
            problem = f"no {kind.value} member begins here"
            if not is_damaged:
                yield Piece(offset, b"", problem)
        else:  # padding with NUL bytes, as tapes and some writers leave it
            problem = "padding"
        is_damaged = problem is not None
        if is_damaged and not _go_on_behind(source, offset, magic):
            return


def _member(source: _Input, inflater: _Gzip | _Zstd, offset: int) -> Iterator[Piece]:
    """Return the pieces of one member, a damaged one up to its damage."""
    while data := source.read():
        try:
            step = inflater.step(data)
            while True:
                if step.is_end:
                    source.push_back(step.unused)
                    yield Piece(offset, step.data)
                    return
                if not step.data:
                    break
                yield Piece(offset, step.data)
                step = inflater.step(b"")
        except (zlib.error, zstandard.ZstdError) as error:
            source.push_back(data)
            yield Piece(offset, b"", f"damaged compression: {error}")
            return
    yield Piece(offset, b"", "the file ends within this member")


def _go_on_behind(source: _Input, offset: int, magic: bytes) -> bool:
    """After damage of the member at `offset`: go to the next magic number that was not tried."""
    if source.offset <= offset:  # the pushed-back rest begins at the damaged member: step over its own magic
        data = source.read()
        source.push_back(data[1:])
    return source.skip_to(magic)


def _format_of(start: bytes) -> Format:
    if start.startswith(_GZIP):
        return Format.GZIP
    if start.startswith(_ZSTD) or (start[1:] == _ZSTD_SKIPPABLE and 0x50 <= start[0] <= 0x5F):
        return Format.ZSTD
    return Format.PLAIN


def _skippable_frame(source: _Input) -> bytes:
    """Take a skippable zstd frame out of the input and return its content."""
    header = source.peek(8)
    length = int.from_bytes(header[4:8], "little")
    content, wanted = b"", 8 + length
    while wanted > 0 and (data := source.read()):
        if len(data) > wanted:
            source.push_back(data[wanted:])
            data = data[:wanted]
        wanted -= len(data)
        if len(content) < _DICTIONARY_BYTES_MAX:
            content += data
    return content[8:]


def _dictionary(offset: int, content: bytes) -> tuple[zstandard.ZstdCompressionDict | None, list[Piece]]:
    """Return the dictionary of a .warc.zst file, which may itself be compressed; or what is wrong with it."""
    if content.startswith(_ZSTD):
        plain = bytearray()
        for piece in pieces(io.BytesIO(content)):
            plain += piece.data
            if piece.problem is not None or len(plain) > _DICTIONARY_BYTES_MAX:
                return None, [Piece(offset, b"", f"damaged dictionary: {piece.problem or 'it is too large'}")]
        content = bytes(plain)
    return zstandard.ZstdCompressionDict(content), []


# ---- segments

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
