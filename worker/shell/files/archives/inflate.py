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
from operator import itemgetter
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


class _Gzip:
    """Decompresses one member; `step` takes more input, or none, to go on with what is held back."""

    def __init__(self) -> None:
        self.object = zlib.decompressobj(31)

    def step(self, data: bytes) -> bytes:
        return self.object.decompress(self.object.unconsumed_tail + data, _OUTPUT_BYTES_MAX)

    def rest(self) -> bytes:
        """Return what has been taken and lies behind the member."""
        return self.object.unused_data


class _Zstd:
    """The same. The library returns all output of its input at once, so it gets little: 4 KiB are 128 MiB at most."""

    _INPUT_BYTES = 4 << 10

    def __init__(self, dictionary: zstandard.ZstdCompressionDict | None) -> None:
        self.object = zstandard.ZstdDecompressor(dict_data=dictionary).decompressobj()
        self._held = memoryview(b"")

    def step(self, data: bytes) -> bytes:
        if data:
            self._held = memoryview(bytes(self._held) + data)
        out = b""
        while self._held and not out and not self.object.eof:
            now, self._held = self._held[: self._INPUT_BYTES], self._held[self._INPUT_BYTES :]
            out = self.object.decompress(now)
        return out

    def rest(self) -> bytes:
        return self.object.unused_data + bytes(self._held)


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
        while len(self.peek(len(magic))) == len(magic):
            found = self._held.find(magic)
            passed = len(self._held) - len(magic) + 1 if found < 0 else found
            self._held, self.offset = self._held[passed:], self.offset + passed
            if found >= 0:
                return True
        self.read()
        return False


def pieces(stream: BinaryIO, on_read: Callable[[int], None] = lambda _: None) -> Iterator[Piece]:
    """Return what a file decompresses to, as its first bytes say it is packed; `on_read` is told the bytes read."""
    source = _Input(stream, on_read)
    start = source.peek(4)
    is_zstd = start.startswith(_ZSTD) or (start[1:] == _ZSTD_SKIPPABLE and 0x50 <= start[0] <= 0x5F)
    if not is_zstd and not start.startswith(_GZIP):
        while data := source.read():
            yield Piece(0, data, is_plain=True)
        return
    name, magic = ("zstd", _ZSTD) if is_zstd else ("gzip", _GZIP)
    dictionary: zstandard.ZstdCompressionDict | None = None
    is_damaged = False  # one report for each stretch of damage, however many false starts it holds
    while start := source.peek(4):
        if is_zstd and start[1:] == _ZSTD_SKIPPABLE:
            offset, content = source.offset, _skippable_frame(source)
            if start == _ZSTD_DICTIONARY:
                dictionary, damage = _dictionary(offset, content)
                yield from damage
            continue
        offset, problem = source.offset, None
        if start.startswith(magic):
            inflater = _Zstd(dictionary) if is_zstd else _Gzip()
            for piece in _member(source, inflater, offset):
                problem = piece.problem
                if problem is None or not is_damaged:
                    yield piece
        elif start.strip(b"\0"):
            problem = f"no {name} member begins here"
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
            inflated = inflater.step(data)
            while inflated and not inflater.object.eof:
                yield Piece(offset, inflated)
                inflated = inflater.step(b"")
        except (zlib.error, zstandard.ZstdError) as error:
            source.push_back(data)
            yield Piece(offset, b"", f"damaged compression: {error}")
            return
        if inflater.object.eof:
            source.push_back(inflater.rest())
            yield Piece(offset, inflated)
            return
    yield Piece(offset, b"", "the file ends within this member")


def _go_on_behind(source: _Input, offset: int, magic: bytes) -> bool:
    """After damage of the member at `offset`: go to the next magic number that was not tried."""
    if source.offset <= offset:  # the pushed-back rest begins at the damaged member: step over its own magic
        data = source.read()
        source.push_back(data[1:])
    return source.skip_to(magic)


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
    """

    def __init__(self, first: Piece, more: Iterator[Piece]) -> None:
        self.problem: str | None = None  # why it ends, once its end was met; None at the end of the file
        self._more = more
        self._is_ended = False
        self._is_plain = first.is_plain
        self._history = bytearray()
        self._start = 0  # position of the history's first byte
        self._position = 0
        self._members: list[tuple[int, int]] = []  # each begins at this position, and in the file at this offset
        self._add(first)

    def read(self, size: int = _WINDOW_BYTES) -> bytes:
        """Return some bytes, at most `size`; none at the end."""
        data = self.peek(1) and self.held(self._position, size)
        self._position += len(data)
        return data

    def take(self, size: int) -> None:
        self._position += len(self.peek(size))

    def tell(self) -> int:
        return self._position

    def peek(self, size: int) -> bytes:
        """Return the next bytes without taking them; fewer at the end."""
        while not self._is_ended and self._start + len(self._history) - self._position < size:
            piece = next(self._more, None)
            if piece is None:
                self._is_ended = True
            else:
                self._add(piece)
        return self.held(self._position, size)

    def forget(self, before: int) -> None:
        """Give up what lies before a position."""
        drop = min(before, self._position) - self._start
        if drop > 0:
            del self._history[:drop]
            self._start += drop
            del self._members[: self._member(self._start)]

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
        return self._members[self._member(position)][1]

    def _member(self, position: int) -> int:
        return max(0, bisect_right(self._members, position, key=itemgetter(0)) - 1)

    def held(self, first: int, size: int) -> bytes:
        """Return `size` bytes from a position on that was not given up, as far as they have been read."""
        begin = first - self._start
        return bytes(memoryview(self._history)[begin : begin + size])

    def drain(self) -> None:
        """Read to the end, where `problem` is known."""
        while self.read():
            self.forget(self._position)

    def _add(self, piece: Piece) -> None:
        if not self._members or self._members[-1][1] != piece.offset:
            self._members.append((self._start + len(self._history), piece.offset))
        self._history += piece.data
        if len(self._history) > HISTORY_BYTES_MAX:
            self.forget(self._start + len(self._history) - HISTORY_BYTES_MAX)
        if piece.problem is not None:
            self._is_ended = True
            self.problem = piece.problem

    @property
    def problem_offset(self) -> int:
        """Where in the file the member with the problem begins."""
        return self._members[-1][1]
