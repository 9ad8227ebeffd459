"""
Turns a file (plain, gzip, zstd, bzip2 or xz) into decompressed pieces, member by member. Damage to
a member costs only this member.

    packed  [member 0][member 1] ~~damaged~~ [member 3]  archives mostly have a member a record
    plain   one member from start to end

After damage the next member is looked for by its magic number. The input is only read forward, so
it may be a pipe.
"""

from __future__ import annotations

import bz2
import io
import lzma
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any, BinaryIO, NamedTuple

import zstandard

from worker.errors import StopError
from worker.shell.files.archives.budget import Budget

# Also how far before the damage the search for the next member begins.
_READ_BYTES = 256 << 10
_OUTPUT_BYTES_MAX = 1 << 20  # bytes of one step, so that a bomb makes no piece of gigabytes
_ZSTD_BYTES = 512  # zstd returns all output of its input at once: 16 MiB at most
_FIRST_BYTES = 512  # first bytes of a member; with more, a short member wastes a copy
# Trying to read a member costs some us, even if it is short. Damaged data contains a member's magic
# number once in 16 MiB, and writers leave an empty member or two. If more than this follow each
# other, they were put there on purpose, and each further one costs the file this many bytes.
_FALSE_STARTS_MAX = 64
_EMPTY_MEMBERS_MAX = 1_000  # from there on they are false ones
_FALSE_START_BYTES = 256
_GZIP = b"\x1f\x8b\x08"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # behind a first byte of 0x50 to 0x5f
# A frame of this kind holds the dictionary of the others (.warc.zst)
_ZSTD_DICTIONARY = b"\x5d" + _ZSTD_SKIPPABLE
_DICTIONARY_BYTES_MAX = 64 << 20
# The longest window of zstd that is read, `--long=31`, as in dumps of Reddit. It is memory, but a
# system gives only what is written to, and a budget bounds that.
_ZSTD_WINDOW_BYTES_MAX = 1 << 31
_XZ_MEMORY_BYTES_MAX = 256 << 20  # xz -9 needs 65 MiB
# A damaged record longer than this hides records in all but its last bytes.
HISTORY_BYTES_MAX = 64 << 20
_WINDOW_BYTES = 1 << 20
_MATCH_BYTES_MAX = 1 << 10


class _Packing(NamedTuple):
    """A compression, and how its members are found and read."""

    name: str
    magic: re.Pattern[bytes]
    begin: Callable[[], Any]  # makes an object that decompresses one member


def _zstd(dictionary: zstandard.ZstdCompressionDict | None = None) -> Callable[[], Any]:
    """Return a function that begins a member of zstd."""
    return zstandard.ZstdDecompressor(
        dictionary, max_window_size=_ZSTD_WINDOW_BYTES_MAX
    ).decompressobj


_GZIP_PACKING = _Packing("gzip", re.compile(re.escape(_GZIP)), partial(zlib.decompressobj, 31))
_ZSTD_PACKING = _Packing("zstd", re.compile(re.escape(_ZSTD)), _zstd())
_PACKINGS = (
    _GZIP_PACKING,
    _ZSTD_PACKING,
    _Packing(
        "bzip2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17\x72\x45\x38\x50\x90)"), bz2.BZ2Decompressor
    ),
    _Packing(
        "xz",
        re.compile(rb"\xfd7zXZ\0"),
        partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES_MAX),
    ),
)
_START_BYTES = 10  # the longest magic number
_PADDING = re.compile(rb"\0++")  # which tapes and some writers leave


# What is not unpacked, and how it begins. Without this, a.jsonl.tar would be read as JSON lines
# because of its name.
_UNREAD = {
    b"\x04\x22\x4d\x18": "compressed by lz4",
    b"\xff\x06\0\0sNaPpY": "compressed by snappy",
    b"\x5d\0\0": "compressed by lzma",
    b"\x1f\x9d": "compressed by compress",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a\x07": "a rar archive",
}
_TAR = (b"ustar\0", b"ustar  \0")  # a mustard in a text has no NUL behind it
_TAR_AT = 257
UNREAD_BYTES = 265  # by so many first bytes, what is not read is recognised


def _packing_of(start: bytes) -> _Packing | None:
    """Return how a file that starts with these bytes is compressed; None: not at all."""
    if _is_skippable(start):
        return _ZSTD_PACKING
    return next((packing for packing in _PACKINGS if packing.magic.match(start)), None)


def _is_skippable(start: bytes) -> bool:
    return start[1:4] == _ZSTD_SKIPPABLE and 0x50 <= start[0] <= 0x5F


def unread_packing(start: bytes) -> str | None:
    r"""
    Return what a file is that starts with these bytes, if it has to be unpacked by others.

    >>> unread_packing(b"Rar!\x1a\x07\x01\x00"), unread_packing(b"WARC/1.1")
    ('a rar archive', None)
    """
    if start.startswith(_TAR, _TAR_AT):
        return "a tar archive"
    return next((name for magic, name in _UNREAD.items() if start.startswith(magic)), None)


class Piece(NamedTuple):
    """
    Some decompressed bytes, from the member that begins at `offset`.

    If there is a `problem`, the content ends here, because the rest of the member is unreadable. If
    `is_plain`, the file is not compressed, so positions in the content are positions in the file.
    """

    offset: int
    data: bytes
    problem: str | None = None
    is_plain: bool = False


class Segment:
    """
    Reads forward through pieces up to the next problem, and keeps what was read since the last
    `forget`.

    A record may begin in one member and end in the next, so positions count decompressed bytes of
    the whole segment.
    """

    def __init__(self, first: Piece, more: Iterator[Piece]) -> None:
        # The reason why it ends, after its end was read; None at the end of the file.
        self.problem: str | None = None
        self._more = more
        self._is_ended = False
        self._is_plain = first.is_plain
        self._history = bytearray()
        self._start = 0  # position of the history's first byte
        self._position = 0
        # Of each member: its position, and its offset in the file.
        self._members: list[tuple[int, int]] = []
        self._add(first)

    def read(self, size: int = _WINDOW_BYTES) -> bytes:
        """Return some bytes, at most `size`. Returns none at the end."""
        data = self.peek(1) and self.held(self._position, size)
        self._position += len(data)
        return data

    def take(self, size: int) -> None:
        self._position += len(self.peek(size))

    def tell(self) -> int:
        return self._position

    def go_back(self, position: int) -> None:
        """
        Let `read` return the bytes after a position again. The position must not have been
        forgotten.
        """
        self._position = position

    def peek(self, size: int) -> bytes:
        """Return the next bytes without taking them. Returns fewer at the end."""
        self._fill(size)
        return self.held(self._position, size)

    def _fill(self, size: int) -> None:
        """Read until `size` bytes are there to be taken, or all."""
        while not self._is_ended and self._start + len(self._history) - self._position < size:
            piece = next(self._more, None)
            if piece is None:
                self._is_ended = True
            else:
                self._add(piece)

    def forget(self, before: int) -> None:
        """Forget the bytes before a position."""
        drop = min(before, self._position) - self._start
        if drop > 0:
            del self._history[:drop]
            self._start += drop
            del self._members[: self._member(self._start)]

    def go_to_next(self, pattern: re.Pattern[bytes], after: int) -> int | None:
        """
        Go to the next match of `pattern` (at most 1 KiB long) at or after position `after`. None if
        there is none.
        """
        self._position = max(after, self._start)
        while True:
            self._fill(_WINDOW_BYTES)
            begin = self._position - self._start
            found = pattern.search(self._history, begin)  # no copy: the next one may be near
            end = len(self._history)
            if found is not None and (found.end() < end or self._is_ended):
                self._position = self._start + found.start()
                self.forget(self._position)
                return self._position
            if self._is_ended:
                self._position = self._start + end
                return None
            self._position = self._start + max(begin, end - _MATCH_BYTES_MAX)
            self.forget(self._position)

    def skip(self, pattern: re.Pattern[bytes]) -> None:
        """Skip everything that `pattern` matches, one or more bytes at a time. Forgets nothing."""
        while self.peek(1):
            begin = self._position - self._start
            found = pattern.match(self._history, begin)
            if found is None:
                return
            self._position = self._start + found.end()

    def offset_of(self, position: int) -> int:
        """
        Return the offset in the file of a position; in a compressed file, the offset of its member.
        """
        if self._is_plain:
            return position
        return self._members[self._member(position)][1]

    def _member(self, position: int) -> int:
        return max(0, bisect_right(self._members, position, key=itemgetter(0)) - 1)

    def held(self, first: int, size: int) -> bytes:
        """
        Return `size` bytes from a position that is still in memory, or as many as have been read.
        """
        begin = first - self._start
        return bytes(memoryview(self._history)[begin : begin + size])

    def drain(self) -> None:
        """Read to the end. Then `problem` is known."""
        while self.read():
            self.forget(self._position)

    def _add(self, piece: Piece) -> None:
        if not self._members or self._members[-1][1] != piece.offset:
            self._members.append((self._start + len(self._history), piece.offset))
        self._history += piece.data
        # Not counted from the end: how much is read ahead depends on the packing.
        self.forget(self._position - HISTORY_BYTES_MAX)
        if piece.problem is not None:
            self._is_ended = True
            self.problem = piece.problem

    @property
    def problem_offset(self) -> int:
        """The offset in the file where the member with the problem begins."""
        return self._members[-1][1]


def pieces(
    stream: BinaryIO,
    on_read: Callable[[int], None] | None = None,
    budget: Budget | None = None,
) -> Iterator[Piece]:
    """
    Yield the decompressed pieces of a file. Its first bytes decide how it is decompressed.

    Args:
        on_read: gets the number of bytes read.
        budget: of the input; None: one for this stream alone, which notes the bytes that are read.
            Reading ends with a problem when it is spent.
    """
    if budget is None:
        budget = Budget()
        on_read = on_read or budget.take_in
    source = Segment(Piece(0, b"", is_plain=True), _parts(stream, on_read or (lambda _: None)))
    packing = _packing_of(source.peek(_START_BYTES))
    unpacked = _plain(source) if packing is None else _members(source, packing)
    for piece in unpacked:
        reason = budget.take_out(len(piece.data))
        if reason is not None:
            yield Piece(piece.offset, b"", reason, piece.is_plain)
            return
        yield piece


def _plain(source: Segment) -> Iterator[Piece]:
    """Yield the pieces of a file that is not compressed."""
    while data := source.read():
        source.forget(source.tell())
        yield Piece(0, data, is_plain=True)


def _members(source: Segment, packing: _Packing) -> Iterator[Piece]:
    """
    Return the decompressed members of a packed file. Each stretch of damage is reported once.
    """
    is_zstd = packing is _ZSTD_PACKING
    false_starts = 0  # in a row
    empty_members = 0  # in a row
    while start := _behind_padding(source):
        offset = source.tell()
        content_bytes = 0
        problem: Piece | None = None
        if is_zstd and start[1:] == _ZSTD_SKIPPABLE:
            content, is_whole = _skippable_frame(source)
            if not is_whole:
                problem = Piece(offset, b"", "the file ends within this frame")
            elif start == _ZSTD_DICTIONARY:
                begin, damage = _dictionary(offset, content)
                packing = packing._replace(begin=begin)
                yield from damage
        elif packing.magic.match(source.peek(_START_BYTES)):
            for piece in _member(source, packing):
                if piece.problem is not None:
                    problem = piece
                    break
                content_bytes += len(piece.data)
                yield piece
        else:
            problem = Piece(offset, b"", f"no {packing.name} member begins here")
        empty_members = 0 if content_bytes else empty_members + 1
        if problem is None and empty_members > _EMPTY_MEMBERS_MAX:
            reason = (
                f"more than {_EMPTY_MEMBERS_MAX:,} {packing.name} members in a row hold nothing"
            )
            problem = Piece(offset, b"", reason)
        if problem is None:
            false_starts = 0
            continue
        if not false_starts:
            yield problem
        false_starts += 1
        step = 1 if false_starts <= _FALSE_STARTS_MAX else _FALSE_START_BYTES
        if source.go_to_next(packing.magic, max(source.tell(), offset + step)) is None:
            return


def _behind_padding(source: Segment) -> bytes:
    """Skip padding and return the first bytes behind it, none at the end."""
    source.skip(_PADDING)
    source.forget(source.tell())
    return source.peek(4)


def is_packed(start: bytes) -> bool:
    r"""
    Return whether a file that starts with these bytes is compressed.

    >>> is_packed(b"\x1f\x8b\x08"), is_packed(b"WARC/1.1")
    (True, False)
    """
    return _packing_of(start) is not None


def _parts(stream: BinaryIO, on_read: Callable[[int], None]) -> Iterator[Piece]:
    """Yield a file unchanged."""
    while True:
        try:
            data = stream.read(_READ_BYTES)
        except StopError:
            raise
        except Exception as error:  # of a disk, or of a network: what is behind has not been seen
            name = getattr(stream, "path", None) or getattr(stream, "name", "a file")
            raise StopError(
                f"cannot read {name} to its end: {error or type(error).__name__}"
            ) from error
        if not data:
            return
        on_read(len(data))
        yield Piece(0, data, is_plain=True)


def _member(source: Segment, packing: _Packing) -> Iterator[Piece]:
    """
    Return the pieces of the member that begins here; of a damaged one, those before the damage.
    """
    offset = source.tell()
    member = packing.begin()
    is_zstd = packing.name == _ZSTD_PACKING.name
    part_bytes = _ZSTD_BYTES if is_zstd else _READ_BYTES
    read_bytes = _FIRST_BYTES
    while data := source.read(min(read_bytes, _READ_BYTES - source.tell() % _READ_BYTES)):
        read_bytes = part_bytes
        begin = source.tell() - len(data)
        begin -= begin % _READ_BYTES
        source.forget(begin)
        try:
            inflated = _inflated(packing, member, data)
            while inflated and not member.eof:
                yield Piece(offset, inflated)
                inflated = _inflated(packing, member, None)
        except (
            zlib.error,
            zstandard.ZstdError,
            lzma.LZMAError,
            OSError,
            EOFError,
            MemoryError,
        ) as error:
            source.go_back(max(offset, begin))
            yield Piece(offset, b"", _said_of(error, packing))
            return
        if member.eof:
            source.go_back(source.tell() - len(member.unused_data))
            yield Piece(offset, inflated)
            return
    yield Piece(offset, b"", "the file ends within this member")


def _inflated(packing: _Packing, member: Any, data: bytes | None) -> bytes:
    """
    Return the next bytes of a member, at most _OUTPUT_BYTES_MAX where the library has such a bound.

    Args:
        data: more of its bytes; None: those that are left of the last ones.
    """
    if packing is _GZIP_PACKING:
        more = member.unconsumed_tail if data is None else data
        return bytes(member.decompress(more, _OUTPUT_BYTES_MAX))
    if packing.name == _ZSTD_PACKING.name:  # it returns everything at once
        return b"" if data is None else bytes(member.decompress(data))
    if data is None and member.needs_input:
        return b""
    return bytes(member.decompress(data or b"", _OUTPUT_BYTES_MAX))


def _said_of(error: Exception, packing: _Packing) -> str:
    """Return what is wrong with a member, and the remedy where there is one."""
    text = str(error) or type(error).__name__
    if "memory" in text.lower():  # also of a window beyond the bound, in zstd's words
        return (
            f"its {packing.name} compression needs more memory than is given to it ({text}): "
            f"unpack it first, zstd with `zstd -d --long=31`"
        )
    return f"damaged compression: {text}"


def _skippable_frame(source: Segment) -> tuple[bytes, bool]:
    """
    Take a skippable zstd frame out of the input and return its content, and whether it is whole.
    """
    wanted = 8 + int.from_bytes(source.peek(8)[4:], "little")
    content = b""
    while wanted > 0 and (data := source.read(wanted)):
        source.forget(source.tell())
        wanted -= len(data)
        if len(content) < _DICTIONARY_BYTES_MAX:
            content += data
    return content[8:], wanted <= 0


def _dictionary(offset: int, content: bytes) -> tuple[Callable[[], Any], list[Piece]]:
    """
    Return a factory of decompressors with the dictionary of a .warc.zst file, which may itself be
    compressed, and no problem; or one without it, and the problem.
    """
    if content.startswith(_ZSTD):
        plain = bytearray()
        for piece in pieces(io.BytesIO(content)):
            plain += piece.data
            if piece.problem is not None or len(plain) > _DICTIONARY_BYTES_MAX:
                reason = piece.problem or "it is too large"
                return _zstd(), [Piece(offset, b"", f"damaged dictionary: {reason}")]
        content = bytes(plain)
    try:
        begin = _zstd(zstandard.ZstdCompressionDict(content))
        begin()  # which reads it
    except (zstandard.ZstdError, MemoryError) as error:
        return _zstd(), [Piece(offset, b"", f"damaged dictionary: {error}")]
    return begin, []
