"""
The container of a snapshot: a header and named arrays as bytes, and back. They load as they stand, as views.

    preamble   magic "NDSNAP\\r\\n" | version u32 | header bytes u32 | total bytes u64 | checksum u64
    header     JSON: what the caller gives, and the length of each array
    arrays     in the order of ARRAYS, each at a multiple of 64 bytes, little-endian

The checksum (XXH3, 64 bits) is over everything but itself: a file cut anywhere, or with any byte changed, is refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xxhash
from numpy.typing import DTypeLike, NDArray

from worker.errors import RestoreError, StopError

FORMAT_VERSION = 9

_MAGIC = b"NDSNAP\r\n"
_PREAMBLE = struct.Struct("<8sIIQQ")
_CHECKED = _PREAMBLE.size - 8  # bytes of the preamble before the checksum
_CHECKED_AT_ONCE = 1 << 20
_ALIGNMENT = 64

ARRAYS: dict[str, DTypeLike] = {
    "originals.times": "<i8",
    "originals.text_begins": "<i8",  # of doc_id and URL, in turn
    "originals.text_bytes": "u1",
    "originals.fingerprints": "<u8",
    "originals.doubts": "<u8",
    "originals.sketches": ("<u8", 8),
    "originals.digests": "<u8",
    "originals.kinds": "u1",
    "originals.live": "u1",  # 1: in the index
    "originals.latest": "u1",  # 1: no later original had its URL
    "originals.seen": "<i8",  # the log's time; empty where originals stay for ever
    "sources.topic_ids": "u1",  # 16 bytes a source
    "sources.partitions": "<i4",
    "sources.pruned": "<i8",
    "coverage.sources": "<u4",  # position among the sources
    "coverage.firsts": "<i8",
    "coverage.stops": "<i8",
    "records.bytes": "u1",  # of the log, those with pending verdicts, back to back
    "records.ends": "<i8",
    "records.log_offsets": "<i8",
    "records.timestamps": "<i8",
    "records.horizons": "<i8",
    "judged.originals": "<i8",  # one entry a row of the batches below
    "judged.formers": "<i8",
    "judged.distances": "u1",
    "judged.similarities": "<u2",
    "judged.remarks": "u1",
    "judged.documents": "<i8",
    "batches.sources": "<u4",
    "batches.records": "<u4",
    "batches.firsts": "<i8",
    "batches.stops": "<i8",
    "batches.row_firsts": "<u4",
    "batches.row_stops": "<u4",
}

Pieces = Sequence[NDArray[np.generic]]
Arrays = Mapping[str, NDArray[Any]]


class Snapshot:
    """
    A replica as it stood at `next_offset`; the replica may go on while this is written.

    Args:
        header: what stands beside the arrays.
        arrays: each in pieces that no longer change.
    """

    def __init__(self, header: Mapping[str, Any], arrays: Mapping[str, Pieces]) -> None:
        self.next_offset = int(header["next_offset"])
        counts = {name: sum(map(len, arrays[name])) for name in ARRAYS}
        text = json.dumps({**header, "arrays": counts}, sort_keys=True).encode()
        self._header = text + b" " * (-(_PREAMBLE.size + len(text)) % _ALIGNMENT)
        self._pieces = [(kind, arrays[name]) for name, kind in ARRAYS.items()]
        sizes = [counts[name] * np.dtype(kind).itemsize for name, kind in ARRAYS.items()]
        self.nbytes = _PREAMBLE.size + len(self._header) + sum(size + -size % _ALIGNMENT for size in sizes)

    def parts(self) -> Iterator[bytes | memoryview]:
        """
        Yield the bytes in parts, to be written one behind the other. The same replica gives the same bytes.

        Cost: O(bytes), read twice: the checksum stands in front.
        """
        preamble = _PREAMBLE.pack(_MAGIC, FORMAT_VERSION, len(self._header), self.nbytes, 0)[:_CHECKED]
        checksum = xxhash.xxh3_64(preamble)
        for part in self._body():
            checksum.update(part)
        yield preamble + struct.pack("<Q", checksum.intdigest())
        yield from self._body()

    def _body(self) -> Iterator[bytes | memoryview]:
        from worker.core.kernels.texts import ask_for  # noqa: PLC0415  # numba: settings must load without it

        yield self._header
        for kind, pieces in self._pieces:
            size = 0
            for piece in pieces:
                column = np.ascontiguousarray(piece, np.dtype(kind).base)
                size += column.nbytes
                if column.nbytes:
                    ask_for(column.ctypes.data, column.nbytes)  # on a disk it would be read page by page
                    yield column.data.cast("B")
            yield b"\0" * (-size % _ALIGNMENT)


def unpack(data: bytes | memoryview) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """
    Check a snapshot as a whole and return its header and arrays, which are views of `data`.

    Raises:
        RestoreError: damaged, cut, or of an older format.
        StopError: whole, and of a newer format.
    Cost: O(bytes) for the checksum.
    """
    if len(data) < _PREAMBLE.size:
        raise RestoreError(f"the snapshot has {len(data)} bytes, its preamble alone {_PREAMBLE.size}: it was cut")
    magic, version, header_bytes, total_bytes, checksum = _PREAMBLE.unpack_from(data)
    if magic != _MAGIC:
        raise RestoreError(f"not a snapshot of neardup: it starts with {magic!r}, expected {_MAGIC!r}")
    if total_bytes != len(data):
        raise RestoreError(f"the snapshot has {len(data)} bytes and should have {total_bytes}: it was cut or damaged")
    actual = xxhash.xxh3_64(memoryview(data)[:_CHECKED])
    for begin in range(_PREAMBLE.size, len(data), _CHECKED_AT_ONCE):  # other threads go on between them
        actual.update(memoryview(data)[begin : begin + _CHECKED_AT_ONCE])
    if actual.intdigest() != checksum:
        raise RestoreError(f"the snapshot is damaged: its checksum is {actual.intdigest():016x}, not {checksum:016x}")
    if version > FORMAT_VERSION:
        raise StopError(
            f"the snapshot has format {version}, this worker reads up to {FORMAT_VERSION}: a newer one wrote it. Start "
            f"that one, or remove the snapshot to restore from the log"
        )
    if version < FORMAT_VERSION:
        raise RestoreError(
            f"the snapshot has format {version}, this worker reads {FORMAT_VERSION}: an older one wrote it"
        )
    header = json.loads(bytes(data[_PREAMBLE.size : _PREAMBLE.size + header_bytes]))
    arrays: dict[str, NDArray[Any]] = {}
    at = _PREAMBLE.size + header_bytes
    for name, kind in ARRAYS.items():
        arrays[name] = np.frombuffer(data, kind, header["arrays"][name], at)
        at += arrays[name].nbytes + -arrays[name].nbytes % _ALIGNMENT
    return header, arrays
