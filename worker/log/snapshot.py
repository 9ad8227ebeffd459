"""
A snapshot: the replica at one log offset as columns, and back. No I/O.

What other columns determine is left out: the index is built from the live rows, and what a pending
verdict says stands in its record. Snapshots of one log are interchangeable: any worker's replica at
this offset is this one.

    preamble  magic "NDSNAP\\r\\n" | version u32 | header bytes u32 | total bytes u64 | checksum u64
    header    JSON: what the caller gives, and the length of each array
    arrays    as in COLUMNS, each at a multiple of 64 bytes, little-endian: loaded as views

The checksum (XXH3, 64 bits) is over everything but itself: a file cut anywhere, or with any byte
changed, is refused. So is one with a right checksum whose columns no replica could have
(`snapshot_schema.py`).
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from worker.errors import RecordError, RestoreError, StopError
from worker.log.columns import Memory, anonymous
from worker.log.coverage import Coverage
from worker.log.judge import JUDGEMENT_COLUMNS, JudgedRows, Judgements
from worker.log.originals import BY_ROW, OriginalStore
from worker.log.outside import Outside
from worker.log.record import LogRecord, Source, Span, decode
from worker.log.replica import Pending, Replica
from worker.log.rules import Base, Definition, LogDefinition
from worker.log.snapshot_schema import (
    ARRAYS,
    NEVER,
    TOPIC_ID_BYTES,
    Arrays,
    check_columns,
    check_header,
)

# Only this format is read. A higher version strands groups that start from a base of this one: the
# changelog must say **rebuild**, or a reader of the older format must be kept.
FORMAT_VERSION = 11

_MAGIC = b"NDSNAP\r\n"
_PREAMBLE = struct.Struct("<8sIIQQ")
_CHECKED = _PREAMBLE.size - 8  # bytes of the preamble before the checksum
_CHECKED_AT_ONCE = 1 << 20
_ALIGNMENT = 64
# A restored replica leaves out originals that are gone if there are at least this many of them.
# Fewer are not worth a compaction.
_LEFT_MIN = 1 << 16

Pieces = Sequence[NDArray[np.generic]]


class Snapshot:
    """
    A replica as it was at `next_offset`.

    The replica may go on while this is written, because the pieces no longer change.
    """

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
        """
        Yield the bytes of the snapshot in parts. Equal replicas give equal bytes.

        The arrays are read twice, because the checksum stands in front of them.
        """
        preamble = _PREAMBLE.pack(_MAGIC, FORMAT_VERSION, len(self._header), self.nbytes, 0)[
            :_CHECKED
        ]
        checksum = xxhash.xxh3_64(preamble)
        for part in self._body():
            checksum.update(part)
        yield preamble + struct.pack("<Q", checksum.intdigest())
        yield from self._body()

    def _body(self) -> Iterator[bytes | memoryview]:
        # Here, since settings must load without numba.
        from worker.core.kernels.texts import ask_for  # noqa: PLC0415

        yield self._header
        for kind, pieces in self._pieces:
            size = 0
            for piece in pieces:
                column = np.ascontiguousarray(piece, np.dtype(kind).base)
                size += column.nbytes
                if column.nbytes:
                    # On a disk it would be read page by page.
                    ask_for(column.ctypes.data, column.nbytes)
                    yield column.reshape(-1).view(np.uint8).data
            yield b"\0" * (-size % _ALIGNMENT)


def unpack(data: bytes | memoryview) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """
    Return the header and the arrays of a snapshot, as views of `data`. Its checksum is verified
    first.

    Raises RestoreError: damaged, cut, or of an older format; StopError: whole, and of a newer
    format.

    Cost: a pass over all bytes, for the checksum. Other threads go on meanwhile; nothing is copied.
    """
    version, header_bytes, checksum = _preamble(data)
    actual = xxhash.xxh3_64(memoryview(data)[:_CHECKED])
    for begin in range(
        _PREAMBLE.size, len(data), _CHECKED_AT_ONCE
    ):  # other threads go on between them
        actual.update(memoryview(data)[begin : begin + _CHECKED_AT_ONCE])
    if actual.intdigest() != checksum:
        raise RestoreError(
            "the snapshot is damaged: "
            f"its checksum is {actual.intdigest():016x}, not {checksum:016x}"
        )
    if version > FORMAT_VERSION:
        raise StopError(
            f"the snapshot has format {version}, this worker reads format {FORMAT_VERSION}: a "
            "newer one wrote it. Start that one. A worker without the snapshot restores from its "
            "log: move the file to another folder"
        )
    if version < FORMAT_VERSION:
        raise RestoreError(
            f"the snapshot has format {version}, this worker reads format {FORMAT_VERSION}: "
            "an older one wrote it"
        )
    header = _header(data, header_bytes)
    arrays: dict[str, NDArray[Any]] = {}
    at = _PREAMBLE.size + header_bytes
    for name, kind in ARRAYS.items():
        size = header["arrays"][name] * np.dtype(kind).itemsize
        if at + size > len(data):
            raise RestoreError(
                f"the snapshot has {len(data)} bytes, and its column {name} ends at {at + size}"
            )
        arrays[name] = np.frombuffer(data, kind, header["arrays"][name], at)
        at += size + -size % _ALIGNMENT
    if at != len(data):
        raise RestoreError(f"the snapshot has {len(data)} bytes, and its columns end at {at}")
    return header, arrays


def _preamble(data: bytes | memoryview) -> tuple[int, int, int]:
    """
    Return the version, the size of the header and the checksum of what looks like a whole snapshot.
    """
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
            f"the snapshot has {len(data)} bytes and should have {total_bytes}: "
            "it was cut or damaged"
        )
    return version, header_bytes, checksum


def _header(data: bytes | memoryview, header_bytes: int) -> dict[str, Any]:
    """Return the header, whose fields have been checked. Raises RestoreError."""
    try:
        header = json.loads(bytes(data[_PREAMBLE.size : _PREAMBLE.size + header_bytes]))
    except (ValueError, RecursionError) as error:
        raise RestoreError(f"the snapshot's header is no JSON: {error}") from error
    check_header(header)
    fields: dict[str, Any] = header
    return fields


class LogIdentity(NamedTuple):
    """
    Identifies a log by its cluster and its topic's id, which changes if the topic is created again.
    """

    cluster_id: str
    topic_id: bytes

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> LogIdentity:
        """Return the log that a snapshot's header names."""
        return cls(header["cluster_id"], bytes.fromhex(header["topic_id"]))


def capture(
    replica: Replica, log: LogIdentity, extra_header: Mapping[str, Any] = MappingProxyType({})
) -> Snapshot:
    """
    Take a snapshot of a replica as it is now.

    Args:
        replica: it may continue at once; the snapshot refers only to pieces that no longer change.
        log: the log that the replica follows.
        extra_header: fields that the caller wants to find in the header again, under names of its
            own.

    Cost: O(chunks) for the originals, some 50 ns each, and O(rows) for what is pending. No column
    is copied.
    """
    # Some sources have no coverage: of these only a commit is known, or a verdict is pending.
    sources = sorted({*replica.coverage, *replica.pending})
    batches = [
        (source_place, batch)
        for source_place, source in enumerate(sources)
        for batch in replica.pending.get(source, ())
    ]
    # Several batches can share one record of the log, which is written once.
    batch_of_record = {batch.log_offset: batch for _, batch in batches}
    records = [batch_of_record[log_offset] for log_offset in sorted(batch_of_record)]
    arrays = {
        **_original_arrays(replica.judge.held),
        **_source_arrays(replica, sources),
        **_coverage_arrays(replica, sources),
        **_record_arrays(records),
        **_batch_arrays(batches, records),
    }
    return Snapshot({**extra_header, **_header_of(replica, log)}, arrays)


def _header_of(replica: Replica, log: LogIdentity) -> dict[str, Any]:
    judge = replica.judge
    originals = judge.held
    duplicates = originals.duplicates.entries
    return {
        "cluster_id": log.cluster_id,
        "topic_id": log.topic_id.hex(),
        "definition": replica.acceptance.declared or LogDefinition.of(replica.definition, 0),
        "next_offset": replica.next_offset,
        "last_digest": replica.last_digest,
        "documents": replica.documents,
        "clock_ms": judge.clock_ms,
        "horizon_ms": judge.horizon_ms,
        "oldest": originals.oldest,
        "firsts": (originals.first, originals.texts.data.first),
        "duplicate_texts": (duplicates.first, len(duplicates)),
    }


def _original_arrays(originals: OriginalStore) -> dict[str, Pieces]:
    """
    Return a column's pieces by its name. Only with retention are there pieces of every column.
    """
    arrays: dict[str, Pieces] = {f"originals.{name}": [] for name in BY_ROW}
    for name, pieces in originals.pieces().items():
        arrays[f"originals.{name}"] = pieces
    return arrays


def _source_arrays(replica: Replica, sources: Sequence[Source]) -> dict[str, Pieces]:
    topic_ids = b"".join(source.topic_id for source in sources)
    pruned = []
    for source in sources:
        pending = replica.pending.get(source)
        pruned.append(0 if pending is None else pending.pruned)
    return {
        "sources.topic_ids": [np.frombuffer(topic_ids, np.uint8)],
        **_columns(
            {
                "sources.partitions": [source.partition for source in sources],
                "sources.pruned": pruned,
            }
        ),
    }


def _coverage_arrays(replica: Replica, sources: Sequence[Source]) -> dict[str, Pieces]:
    spans = [
        (source_place, span)
        for source_place, source in enumerate(sources)
        for span in replica.coverage.get(source, ())
    ]
    return _columns(
        {
            "coverage.sources": [source_place for source_place, _ in spans],
            "coverage.firsts": [span.first for _, span in spans],
            "coverage.stops": [span.stop for _, span in spans],
        }
    )


def _record_arrays(records: Sequence[JudgedRows]) -> dict[str, Pieces]:
    """Return the log's records with pending verdicts; of each, any one of its batches is given."""
    data = []
    for batch in records:
        assert isinstance(batch.record, LogRecord), "what is kept came with a record"
        data.append(batch.record.data)
    horizons = [batch.judged.horizon_ms for batch in records]
    return {
        "records.bytes": [np.frombuffer(record, np.uint8) for record in data],
        **_columns(
            {
                "records.ends": list(itertools.accumulate(map(len, data))),
                "records.log_offsets": [batch.log_offset for batch in records],
                "records.timestamps": [batch.timestamp_ms for batch in records],
                "records.horizons": [NEVER if ms is None else ms for ms in horizons],
            }
        ),
    }


def _batch_arrays(
    batches: Sequence[tuple[int, JudgedRows]], records: Sequence[JudgedRows]
) -> dict[str, Pieces]:
    """Return the pending batches, each with its source, and what was judged of their rows."""
    record_place = {batch.log_offset: place for place, batch in enumerate(records)}
    arrays: dict[str, Pieces] = {
        f"judged.{name}": [getattr(batch.judged, name) for _, batch in batches]
        for name in JUDGEMENT_COLUMNS
    }
    return arrays | _columns(
        {
            "batches.sources": [source_place for source_place, _ in batches],
            "batches.records": [record_place[batch.log_offset] for _, batch in batches],
            "batches.firsts": [batch.span.first for _, batch in batches],
            "batches.stops": [batch.span.stop for _, batch in batches],
            "batches.row_firsts": [batch.first for _, batch in batches],
            "batches.row_stops": [batch.stop for _, batch in batches],
        }
    )


def _columns(values: Mapping[str, Sequence[int]]) -> dict[str, Pieces]:
    """Return each named list of numbers as one piece of the array's type."""
    return {name: [np.array(numbers, ARRAYS[name])] for name, numbers in values.items()}


def restore(
    data: bytes | memoryview,
    definition: Definition,
    log: LogIdentity,
    memory: Memory = anonymous,
    outside: Outside | None = None,
) -> Replica:
    """
    Return the replica of a snapshot.

    It refers to `data` (such as a mapped file), which must stay unchanged.

    Args:
        definition: this worker's; log: the one it follows. Both must be the snapshot's; a
            definition without a base takes the snapshot's.
        memory: stores the columns of later originals that the search does not need.
        outside: the originals that the replica's own index shall not have; then no row gets
            another number than in the snapshot.
    Raises:
        RestoreError: damaged or cut.
        StopError: of a newer format, of another log or of another definition: falling back silently
            would hide it.
    Cost: O(bytes) for the checksum, and inserting each live row into the index and the table of
    doc_ids.
    """
    header, arrays = unpack(data)
    written = LogIdentity.of(header)
    if written != log:
        raise StopError(
            f"the snapshot is of the log {written.topic_id.hex()} in cluster {written.cluster_id}, "
            f"this worker follows {log.topic_id.hex()} in cluster {log.cluster_id}: the topic was "
            "recreated or renewed, or the cluster is another. If it was renewed, the worker needs "
            "the state_dir that neardup log renew has printed; NEARDUP_STATE_DIR comes before a "
            "file. Otherwise give the worker the topic and the cluster of its snapshots. If this "
            "log is the right one, move the snapshots to another folder"
        )
    return _restored(header, arrays, definition, memory, outside)


def definition_of(data: bytes | memoryview) -> LogDefinition:
    """Return the definition of a snapshot, which may be damaged. Cost: reading its header."""
    return LogDefinition(*header_of(data)["definition"])


def header_of(data: bytes | memoryview) -> dict[str, Any]:
    """Return the header of a snapshot, which may be damaged. Cost: reading its header."""
    _, header_bytes, _ = _preamble(data)
    return _header(data, header_bytes)


def digest_of(data: bytes | memoryview) -> str:
    """
    Return the checksum by which a snapshot is recognised, in hex. Cost: reading its preamble.

    Snapshots of files are all of one log, so two of them can end at one offset and hold different
    originals.

    Raises RestoreError: the file is no snapshot, or cut off (`unpack` finds other damage).
    """
    return f"{_preamble(data)[2]:016x}"


def with_base(definition: Definition, data: bytes | memoryview) -> Definition:
    """
    Return the definition of a log that begins with the originals of a snapshot. Cost: reading its
    header.

    Raises RestoreError: the file is no snapshot, or cut off (`adopt` finds other damage);
    DefinitionError: its rules differ.
    """
    header = header_of(data)
    declared = LogDefinition(*header["definition"])
    definition.with_base_of(declared).check(declared, "the snapshot")
    return replace(definition, base=Base(digest_of(data), header["documents"]))


def adopt(data: bytes | memoryview, definition: Definition, memory: Memory = anonymous) -> Replica:
    """
    Return the replica at the beginning of a log whose base is a snapshot.

    It refers to `data`, like that of `restore`.

    Which log the snapshot is of does not matter, files or a group's: what that log covers and has
    not published yet is about other sources, and stays behind. Errors are those of `with_base` and
    `restore`.
    """
    begun = with_base(definition, data)
    header, arrays = unpack(data)
    replica = Replica(begun, memory=memory)
    replica.judge = _restored(header, arrays, replace(definition, base=None), memory).judge
    return replica


def _restored(
    header: Mapping[str, Any],
    arrays: Arrays,
    definition: Definition,
    memory: Memory,
    outside: Outside | None = None,
) -> Replica:
    declared = LogDefinition(*header["definition"])
    definition = definition.with_base_of(declared)
    definition.check(declared, "the snapshot")
    check_columns(header, arrays, has_times=not definition.retention.is_endless)
    replica = Replica(definition, declared if declared.record_format else None, memory)
    replica.next_offset = int(header["next_offset"])
    replica.last_digest = header.get("last_digest", "")
    replica.judge.clock_ms = header["clock_ms"]
    replica.judge.horizon_ms = header["horizon_ms"]
    _restore_sources(replica, arrays)
    originals = replica.judge.held
    columns = {
        name.removeprefix("originals."): values
        for name, values in arrays.items()
        if name.startswith("originals.")
    }
    originals.load(columns, header["firsts"], header["duplicate_texts"][0])
    originals.outside = outside
    if not replica.compact_if_due(_LEFT_MIN):
        originals.build()
        originals.oldest = int(header["oldest"])
    return replica


def _restore_sources(replica: Replica, arrays: Arrays) -> None:
    """Put back coverage and pending verdicts."""
    topic_ids = arrays["sources.topic_ids"].tobytes()
    sources = []
    for place, partition in enumerate(arrays["sources.partitions"].tolist()):
        topic_id = topic_ids[place * TOPIC_ID_BYTES : (place + 1) * TOPIC_ID_BYTES]
        sources.append(Source(topic_id, partition))
    for source, pruned in zip(sources, arrays["sources.pruned"].tolist(), strict=True):
        replica.coverage[source] = Coverage()
        replica.pending[source] = Pending()
        replica.pending[source].prune(pruned)
    covered = zip(
        arrays["coverage.sources"].tolist(),
        arrays["coverage.firsts"].tolist(),
        arrays["coverage.stops"].tolist(),
        strict=True,
    )
    for source_place, first, stop in covered:
        replica.coverage[sources[source_place]].add(first, stop)
    _restore_pending(replica, sources, arrays)


def _restore_pending(replica: Replica, sources: Sequence[Source], arrays: Arrays) -> None:
    records = _restored_records(arrays)
    batches = zip(
        arrays["batches.sources"].tolist(),
        arrays["batches.records"].tolist(),
        arrays["batches.firsts"].tolist(),
        arrays["batches.stops"].tolist(),
        arrays["batches.row_firsts"].tolist(),
        arrays["batches.row_stops"].tolist(),
        strict=True,
    )
    judged_begin = 0  # the columns of `judged` hold the rows of all batches, one after the other
    for source_place, record_place, first, stop, row_first, row_stop in batches:
        pending = records[record_place]
        source = sources[source_place]
        span = Span(first, stop)
        if not _has_rows(pending.record, source, span, (row_first, row_stop)) or (
            replica.coverage[source].missing(first, stop)
        ):
            raise RestoreError(
                f"the snapshot's batch of the offsets [{first}, {stop}) has rows "
                f"[{row_first}, {row_stop}) of a record that has others there, or is not covered"
            )
        judged_end = judged_begin + row_stop - row_first
        columns = {
            name: arrays[f"judged.{name}"][judged_begin:judged_end] for name in JUDGEMENT_COLUMNS
        }
        judged_begin = judged_end
        replica.pending[source].add(
            JudgedRows(
                span,
                pending.record,
                row_first,
                row_stop,
                Judgements(**columns, horizon_ms=pending.horizon_ms),
                pending.log_offset,
                pending.timestamp_ms,
            )
        )


def _has_rows(record: LogRecord, source: Source, span: Span, rows: tuple[int, int]) -> bool:
    """Return whether a record has, for these offsets of a source, exactly these rows."""
    begin = 0  # the section's first row in the record
    for section in record.sections:
        is_within = section.first <= span.first and span.stop <= section.stop
        if section.source == source and is_within:
            found = begin + np.searchsorted(section.rows.offsets, span)
            if tuple(found.tolist()) == rows:
                return True
        begin += len(section.rows)
    return False


class _PendingRecord(NamedTuple):
    """A record of the log with verdicts that are not committed yet."""

    record: LogRecord
    log_offset: int
    timestamp_ms: int
    horizon_ms: int | None


def _restored_records(arrays: Arrays) -> list[_PendingRecord]:
    columns = zip(
        arrays["records.ends"].tolist(),
        arrays["records.log_offsets"].tolist(),
        arrays["records.timestamps"].tolist(),
        arrays["records.horizons"].tolist(),
        strict=True,
    )
    records = []
    begin = 0
    for end, log_offset, timestamp_ms, horizon_ms in columns:
        try:
            record = decode(arrays["records.bytes"][begin:end].tobytes())
        except RecordError as error:
            raise RestoreError(f"a record in the snapshot is damaged: {error}") from error
        begin = end
        horizon = None if horizon_ms == NEVER else horizon_ms
        records.append(_PendingRecord(record, log_offset, timestamp_ms, horizon))
    return records
