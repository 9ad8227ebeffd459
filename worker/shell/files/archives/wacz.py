"""
WACZ -> the archives in it: a zip with WARC files, as Browsertrix and pywb write it.

    datapackage.json, pages/…, indexes/index.cdxj  left alone
    archive/data.warc.gz, …                        read one by one, in the order of the zip
    archive/data.warc.xz, part.wacz, …             damage: there are documents in it, unread

Nothing is unpacked to the disk, so a member's name can do no harm. A zip can claim more than it
holds: its index and the number of bytes it is said to be packed in are checked before a member is
opened, and members are decompressed piece by piece.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from worker.shell.files.archives import Damage
from worker.shell.files.places import is_aside

ZIP = b"PK\x03\x04"
_SUFFIXES = (".warc", ".arc", ".wet")
_PACKED = ("", ".gz", ".zst")
_NAMES = tuple(suffix + packed for suffix in _SUFFIXES for packed in _PACKED)
_FOLDER = "archive/"  # of a WACZ, with its archives
# Endings of archives that are not read inside a zip.
_OTHER_NAMES = (".wacz", *(f"{suffix}{end}" for suffix in _SUFFIXES for end in (".bz2", ".xz")))
# The library holds the whole index in memory, some ten times as large.
_INDEX_BYTES_MAX = 16 << 20
_END = b"PK\x05\x06"
_END_64 = b"PK\x06\x06"
_END_BYTES = 22
_END_64_BYTES = 56
_LOCATOR_64_BYTES = 20
_COMMENT_BYTES_MAX = 1 << 16
_COUNT_UNKNOWN = 0xFFFF  # of members: too many for the field
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1


def is_arc(name: str) -> bool:
    """
    Return whether a member has the name of an ARC file, compressed or not.

    >>> is_arc("archive/a.arc.gz"), is_arc("archive/a.warc.gz")
    (True, False)
    """
    return name.lower().endswith(tuple(f".arc{packed}" for packed in _PACKED))


def _is_unread(name: str) -> bool:
    """
    Return whether a member that is not read as an archive seems to be one.

    >>> _is_unread("archive/a.warc.gz.open"), _is_unread("part.wacz"), _is_unread("pages/a.jsonl")
    (True, True, False)
    """
    name = name.lower()
    if name.endswith(("/", *_NAMES)) or is_aside(name.split("/")):
        return False
    return name.startswith(_FOLDER) or name.endswith(_OTHER_NAMES)


class ZipArchive:
    """
    An archive in a zip, which reads like a file up to what is damaged.

    Attributes:
        name: the name of the zip and, behind a slash, that of the member.
        problem: why the reading ended before the member did; None: it did not.
    """

    def __init__(self, name: str, stream: BinaryIO, on_read: Callable[[int], None]) -> None:
        self.name = name
        self.problem: str | None = None
        self._stream = stream
        self._on_read = on_read

    def read(self, size: int) -> bytes:
        """Return some bytes, none at the end or where the member is damaged."""
        if self.problem is not None:
            return b""
        try:
            data = self._stream.read(size)
        except Exception as error:  # the library has no list of what it raises
            self.problem = f"damaged compression: {str(error) or type(error).__name__}"
            return b""
        self._on_read(self._stream.tell())
        return data


def members(
    file: str, stream: BinaryIO, on_read: Callable[[int, int], None] = lambda *_: None
) -> Iterator[ZipArchive | Damage]:
    """
    Yield the archives in a zip. Read each one before you ask for the next one.

    Args:
        file: the name of the zip.
        stream: the zip, which can be read from any place.
        on_read: is called with the bytes of all archives that have been read, and their total.
    """
    try:
        index_bytes, count = _index_of(stream)
        if index_bytes > _INDEX_BYTES_MAX:
            reason = f"its index has {index_bytes:,} bytes, at most {_INDEX_BYTES_MAX:,} are read"
            yield Damage(file, 0, reason)
            return
        size = stream.seek(0, 2)
        opened = zipfile.ZipFile(stream)
    except Exception as error:  # BadZipFile, and of a damaged index many others
        reason = str(error) or type(error).__name__
        yield Damage(
            file, 0, f"not a whole zip: {reason}. Unpack what there is, and read its WARCs"
        )
        return
    with opened:
        infos = opened.infolist()
        if count != _COUNT_UNKNOWN and len(infos) < count:
            reason = f"its index has {len(infos):,} members, and says that it has {count:,}"
            yield Damage(file, 0, reason)
        packed_bytes = sum(info.compress_size for info in infos)
        if packed_bytes > size:
            reason = f"its members are said to have {packed_bytes:,} bytes, and it has {size:,}"
            yield Damage(file, 0, f"{reason}: they overlap, or it is cut short")
            return
        archives = [info for info in infos if info.filename.lower().endswith(_NAMES)]
        if not archives:
            ends = ", ".join(_NAMES[::3])
            reason = f"a zip without a file that ends in {ends}: unpack it, and name what is in it"
            yield Damage(file, 0, reason)
        for info in infos:
            reason = _unread_reason(info)
            if reason:
                yield _damage(file, info, reason)
        total = sum(info.file_size for info in archives)
        before = 0
        for info in archives:
            reason = _refusal(info)
            if reason:
                yield _damage(file, info, reason)
                continue

            def on_member(done: int, before: int = before) -> None:
                on_read(min(before + done, total), max(total, 1))

            try:
                content = opened.open(info)
            except Exception as error:
                reason = str(error) or type(error).__name__
                yield _damage(file, info, reason)
                continue
            with content:
                member = ZipArchive(f"{file}/{info.filename}", cast("BinaryIO", content), on_member)
                yield member
                if member.problem is not None:
                    yield _damage(file, info, member.problem)
            before += info.file_size


def _damage(file: str, info: zipfile.ZipInfo, reason: str) -> Damage:
    """Return what is wrong with a member; one whose name is lost has the name of the zip."""
    name = f"{file}/{info.filename}" if info.filename else file
    return Damage(name, info.header_offset, reason)


def _unread_reason(info: zipfile.ZipInfo) -> str:
    """Return why a member that may be an archive is not read as one; "": it is none, or is read."""
    if "\0" in info.orig_filename:
        return "its name is damaged, so it may be an archive: unpack it, and name the file"
    if _is_unread(info.filename):
        ends = ", ".join(_NAMES)
        return f"it is not read, because it ends in none of {ends}: unpack it, and name the file"
    return ""


def _refusal(info: zipfile.ZipInfo) -> str:
    """Return why a member is not opened; "": it can be."""
    if info.flag_bits & _ENCRYPTED:
        return "it is encrypted: unpack it, and read its WARC"
    if info.compress_type not in _METHODS:
        return f"it is compressed by method {info.compress_type}: a WACZ stores or deflates"
    return ""


def _index_of(stream: BinaryIO) -> tuple[int, int]:
    """
    Return how long the index of a zip says that it is, and how many members it says that it has.

    Raises:
        ValueError: it has no end with an index.
    """
    size = stream.seek(0, 2)
    stream.seek(max(size - _COMMENT_BYTES_MAX - _END_BYTES - _END_64_BYTES - _LOCATOR_64_BYTES, 0))
    tail = stream.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_BYTES:
        raise ValueError("it has no index at its end")
    count, length = struct.unpack_from("<HL", tail, at + 10)
    at_64 = at - _LOCATOR_64_BYTES - _END_64_BYTES  # where the library looks, too
    if at_64 >= 0 and tail.startswith(_END_64, at_64):  # of a zip of more than 4 GiB
        count, length = struct.unpack_from("<QQ", tail, at_64 + 32)
    return int(length), int(count)
