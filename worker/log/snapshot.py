"""
A snapshot: the replica at one log offset as columns, and back. No I/O.

What other columns determine is left out: the index is built from the live rows, and what a pending verdict says stands
in its record. Snapshots of one log are interchangeable: any worker's replica at this offset is this one.

    preamble   magic "NDSNAP\\r\\n" | version u32 | header bytes u32 | total bytes u64 | checksum u64
    header     JSON: what the caller gives, and the length of each array
    arrays     in the order of ARRAYS, each at a multiple of 64 bytes, little-endian: they load as views

The checksum (XXH3, 64 bits) is over everything but itself: a file cut anywhere, or with any byte changed, is refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import DTypeLike, NDArray

from worker.errors import RestoreError, StopError
from worker.log.judge import JUDGEMENT_COLUMNS, JudgedRows, Judgements
from worker.log.originals import BY_ROW, Memory, anonymous
from worker.log.record import Record, Source, Span, decode
from worker.log.replica import Coverage, Pending, Replica
from worker.log.rules import Base, Definition, LogDefinition

FORMAT_VERSION = 9  # who raises it strands the groups that still start from a base: read that on, or say **rebuild**

_MAGIC = b"NDSNAP\r\n"
_PREAMBLE = struct.Struct("<8sIIQQ")
_CHECKED = _PREAMBLE.size - 8  # bytes of the preamble before the checksum
_CHECKED_AT_ONCE = 1 << 20
_ALIGNMENT = 64
_TOPIC_ID_BYTES = 16
_NEVER = -(2**63)  # stands for a horizon that is not there
_LEFT_MIN = (
    1 << 16
)  # rows of originals that have left: fewer are not worth a compaction, where nobody waits yet

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
    "judged.originals": "<i8",  # one entry per row of the batches below
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
    """A replica as it stood at `next_offset`; it may go on while this is written: the pieces no longer change."""

    def __init__(self, header: Mapping[str, Any], arrays: Mapping[str, Pieces]) -> None:
        self.next_offset = int(header["next_offset"])
        counts = {name: sum(map(len, arrays[name])) for name in ARRAYS}
        text = json.dumps({**header, "arrays": counts}, sort_keys=True).encode()
        self._header = text + b" " * (-(_PREAMBLE.size + len(text)) % _ALIGNMENT)
        self._pieces = [(kind, arrays[name]) for name, kind in ARRAYS.items()]
        sizes = [counts[name] * np.dtype(kind).itemsize for name, kind in ARRAYS.items()]
        self.nbytes = (
            _PREAMBLE.size + len(self._header) + sum(size + -size % _ALIGNMENT for size in sizes)
        )

    def parts(self) -> Iterator[bytes | memoryview]:
        """Yield the bytes in parts, read twice: the checksum stands in front. Equal replicas give equal bytes."""
        preamble = _PREAMBLE.pack(_MAGIC, FORMAT_VERSION, len(self._header), self.nbytes, 0)[
            :_CHECKED
        ]
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
                    ask_for(
                        column.ctypes.data, column.nbytes
                    )  # on a disk it would be read page by page
                    yield column.data.cast("B")
            yield b"\0" * (-size % _ALIGNMENT)


def unpack(data: bytes | memoryview) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """
    Check a snapshot as a whole, by its checksum; return its header and arrays, which are views of `data`.

    Raises RestoreError: damaged, cut, or of an older format; StopError: whole, and of a newer format.
    """
    version, header_bytes, checksum = _preamble(data)
    actual = xxhash.xxh3_64(memoryview(data)[:_CHECKED])
    for begin in range(
        _PREAMBLE.size, len(data), _CHECKED_AT_ONCE
    ):  # other threads go on between them
        actual.update(memoryview(data)[begin : begin + _CHECKED_AT_ONCE])
    if actual.intdigest() != checksum:
        raise RestoreError(
            f"the snapshot is damaged: its checksum is {actual.intdigest():016x}, not {checksum:016x}"
        )
    if version > FORMAT_VERSION:
        raise StopError(
            f"the snapshot has format {version}, this worker reads up to {FORMAT_VERSION}: a newer one wrote it. Start "
            f"that one, or remove the snapshot to restore from the log"
        )
    if version < FORMAT_VERSION:
        raise RestoreError(
            f"the snapshot has format {version}, this worker reads {FORMAT_VERSION}: an older one wrote it"
        )
    header = _header(data, header_bytes)
    arrays: dict[str, NDArray[Any]] = {}
    at = _PREAMBLE.size + header_bytes
    for name, kind in ARRAYS.items():
        arrays[name] = np.frombuffer(data, kind, header["arrays"][name], at)
        at += arrays[name].nbytes + -arrays[name].nbytes % _ALIGNMENT
    return header, arrays


def _preamble(data: bytes | memoryview) -> tuple[int, int, int]:
    """Return the version, the bytes of the header and the checksum of what looks like a whole snapshot."""
    if len(data) < _PREAMBLE.size:
        raise RestoreError(
            f"the snapshot has {len(data)} bytes, its preamble alone {_PREAMBLE.size}: it was cut"
        )
    magic, version, header_bytes, total_bytes, checksum = _PREAMBLE.unpack_from(data)
    if magic != _MAGIC:
        raise RestoreError(
            f"not a snapshot of neardup: it starts with {magic!r}, expected {_MAGIC!r}"
        )
    if total_bytes != len(data):
        raise RestoreError(
            f"the snapshot has {len(data)} bytes and should have {total_bytes}: it was cut or damaged"
        )
    return version, header_bytes, checksum


def _header(data: bytes | memoryview, header_bytes: int) -> dict[str, Any]:
    header: dict[str, Any] = json.loads(bytes(data[_PREAMBLE.size : _PREAMBLE.size + header_bytes]))
    return header


class LogIdentity(NamedTuple):
    """Which log: its cluster, and the id of its topic, which changes when the topic is made anew."""

    cluster_id: str
    topic_id: bytes

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> LogIdentity:
        """Return the log that a snapshot's header names."""
        return cls(header["cluster_id"], bytes.fromhex(header["topic_id"]))


def capture(
    replica: Replica, log: LogIdentity, beside: Mapping[str, Any] = MappingProxyType({})
) -> Snapshot:
    """
    Take a replica as it stands now; `beside` goes into the header, under names of its own.

    Cost: O(chunks) for the originals, some 50 ns each, and O(rows) for what is pending. No column is copied.
    """
    judge, held = replica.judge, replica.judge.held
    sources = sorted(
        {*replica.coverage, *replica.pending}
    )  # also those of which only a commit is known
    batches = [
        (at, batch)
        for at, source in enumerate(sources)
        for batch in replica.pending.get(source, ())
    ]
    kept = {batch.log_offset: batch for _, batch in batches}  # several batches can share a record
    records = [kept[offset] for offset in sorted(kept)]
    place = {batch.log_offset: at for at, batch in enumerate(records)}
    ends = np.cumsum([len(batch.record.data) for batch in records], dtype=np.int64).tolist()
    horizons = [_NEVER if (at := batch.judged.horizon_ms) is None else at for batch in records]
    pruned = [
        replica.pending[source].pruned if source in replica.pending else 0 for source in sources
    ]
    spans = [
        (at, *span)
        for at, source in enumerate(sources)
        for span in replica.coverage.get(source, ())
    ]
    arrays: dict[str, Pieces] = {
        **{f"originals.{name}": [] for name in BY_ROW},  # retention alone has all of them
        **{f"originals.{name}": pieces for name, pieces in held.pieces().items()},
        "sources.topic_ids": [
            np.array([byte for source in sources for byte in source.topic_id], np.uint8)
        ],
        **_columns(
            "sources", list(zip((source.partition for source in sources), pruned, strict=True))
        ),
        **_columns("coverage", spans),
        "records.bytes": [np.frombuffer(batch.record.data, np.uint8) for batch in records],
        **_columns(
            "records",
            [
                (end, one.log_offset, one.timestamp_ms, at)
                for end, one, at in zip(ends, records, horizons, strict=True)
            ],
        ),
        **{
            f"judged.{name}": [getattr(batch.judged, name) for _, batch in batches]
            for name in JUDGEMENT_COLUMNS
        },
        **_columns(
            "batches",
            [(at, place[one.log_offset], *one.span, one.first, one.stop) for at, one in batches],
        ),
    }
    header = {
        "cluster_id": log.cluster_id,
        "topic_id": log.topic_id.hex(),
        "definition": replica.acceptance.declared or LogDefinition.of(replica.definition, 0),
        "next_offset": replica.next_offset,
        "documents": replica.documents,
        "clock_ms": judge.clock_ms,
        "horizon_ms": judge.horizon_ms,
        "oldest": held.oldest,
        "firsts": (held.first, held.texts.data.first),
    }
    return Snapshot({**beside, **header}, arrays)


def _names(group: str) -> list[str]:
    """Return the arrays of a group that have a number for each of its rows: all but those of bytes."""
    return [name for name, kind in ARRAYS.items() if name.startswith(f"{group}.") and kind != "u1"]


def _columns(group: str, rows: Sequence[tuple[int, ...]]) -> dict[str, Pieces]:
    names = _names(group)
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return {
        name: [np.array(values, ARRAYS[name])] for name, values in zip(names, columns, strict=True)
    }


def _rows(arrays: Arrays, group: str) -> Iterator[tuple[int, ...]]:
    return zip(*(arrays[name].tolist() for name in _names(group)), strict=True)


def restore(
    data: bytes | memoryview, definition: Definition, log: LogIdentity, memory: Memory = anonymous
) -> Replica:
    """
    Return the replica of a snapshot. It refers to `data` (a mapped file, say), which must stay as it is.

    Args:
        definition: this worker's; log: the one it follows. Both must be the snapshot's; a definition without a base
            takes the snapshot's.
        memory: where the columns of later originals lie that finding does not need.
    Raises:
        RestoreError: damaged or cut.
        StopError: of a newer format, of another log or of another definition: falling back silently would hide it.
    Cost: O(bytes) for the checksum, and inserting each live row into the index and the table of doc_ids.
    """
    header, arrays = unpack(data)
    written = LogIdentity.of(header)
    if written != log:
        raise StopError(
            f"the snapshot is of the log {written.topic_id.hex()} in cluster {written.cluster_id}, this worker follows "
            f"{log.topic_id.hex()} in cluster {log.cluster_id}: the topic was recreated, or the cluster is another. "
            f"Remove the snapshots to restore from this log"
        )
    return _restored(header, arrays, definition, memory)


def definition_of(data: bytes | memoryview) -> LogDefinition:
    """Return the definition of a snapshot, which may be damaged. Cost: reading its header."""
    _, header_bytes, _ = _preamble(data)
    return LogDefinition(*_header(data, header_bytes)["definition"])


def digest_of(data: bytes | memoryview) -> str:
    """
    Return the digest by which a snapshot is recognised: its checksum, in hex. Cost: reading its
    preamble.

    Snapshots of files are all of one log, so two of them can end at one offset and hold different
    originals.

    Raises RestoreError: it is none, or cut (`unpack` finds other damage).
    """
    return f"{_preamble(data)[2]:016x}"


def with_base(definition: Definition, data: bytes | memoryview) -> Definition:
    """
    Return the definition of a log that begins with the originals of a snapshot. Cost: reading its header.

    Raises RestoreError: it is none, or cut (damaged `adopt` finds); DefinitionError: it is of other rules.
    """
    _, header_bytes, _ = _preamble(data)
    header = _header(data, header_bytes)
    declared = LogDefinition(*header["definition"])
    definition.with_base_of(declared).check(declared, "the snapshot")
    return replace(definition, base=Base(digest_of(data), header["documents"]))


def adopt(data: bytes | memoryview, definition: Definition, memory: Memory = anonymous) -> Replica:
    """
    Return the replica at the beginning of a log that has a snapshot for its base. It refers to `data`, as `restore`.

    Which log the snapshot is of does not matter, files or a group's: what that log covers and has not published yet is
    about other sources, and stays behind. Errors are those of `with_base` and `restore`.
    """
    begun = with_base(definition, data)
    header, arrays = unpack(data)
    replica = Replica(begun, memory=memory)
    replica.judge = _restored(header, arrays, replace(definition, base=None), memory).judge
    return replica


def _restored(
    header: Mapping[str, Any], arrays: Arrays, definition: Definition, memory: Memory
) -> Replica:
    declared = LogDefinition(*header["definition"])
    definition = definition.with_base_of(declared)
    definition.check(declared, "the snapshot")
    replica = Replica(definition, declared if declared.record_format else None, memory)
    judge, held = replica.judge, replica.judge.held
    replica.next_offset = int(header["next_offset"])
    judge.clock_ms, judge.horizon_ms = header["clock_ms"], header["horizon_ms"]
    _restore_sources(replica, arrays)
    originals = "originals."
    held.load(
        {
            name.removeprefix(originals): arrays[name]
            for name in ARRAYS
            if name.startswith(originals)
        },
        header["firsts"],
    )
    if not replica.compact_if_due(_LEFT_MIN):
        held.build()
        held.oldest = int(header["oldest"])
    return replica


def _restore_sources(replica: Replica, arrays: Arrays) -> None:
    """Put back coverage and pending verdicts."""
    ids = arrays["sources.topic_ids"].tobytes()
    sources = [
        Source(ids[at * _TOPIC_ID_BYTES : (at + 1) * _TOPIC_ID_BYTES], partition)
        for at, partition in enumerate(arrays["sources.partitions"].tolist())
    ]
    for source, (_, pruned) in zip(sources, _rows(arrays, "sources"), strict=True):
        replica.coverage[source] = Coverage()
        replica.pending[source] = Pending()
        replica.pending[source].prune(pruned)
    for at, first, stop in _rows(arrays, "coverage"):
        replica.coverage[sources[at]].add(first, stop)
    records: list[tuple[Record, int | None, int, int]] = []
    start = row = 0
    for end, log_offset, timestamp_ms, horizon_ms in _rows(arrays, "records"):
        record = decode(arrays["records.bytes"][start:end].tobytes())
        records.append(
            (record, None if horizon_ms == _NEVER else horizon_ms, log_offset, timestamp_ms)
        )
        start = end
    for source_at, record_at, first, stop, row_first, row_stop in _rows(arrays, "batches"):
        record, horizon, log_offset, timestamp_ms = records[record_at]
        row, begin = row + row_stop - row_first, row
        columns = {field: arrays[f"judged.{field}"][begin:row] for field in JUDGEMENT_COLUMNS}
        judged = Judgements(**columns, horizon_ms=horizon)
        replica.pending[sources[source_at]].add(
            JudgedRows(
                Span(first, stop), record, row_first, row_stop, judged, log_offset, timestamp_ms
            )
        )
