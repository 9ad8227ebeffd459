"""
A snapshot: the replica at one log offset as columns, and back. No I/O.

What other columns determine is left out: the index is built from the live rows, and what a pending verdict says stands
in its record. Snapshots of one log are interchangeable: any worker's replica at this offset is this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from worker.errors import StopError
from worker.log.answers import JUDGEMENT_COLUMNS, JudgedRows, Judgements
from worker.log.columns import Memory, anonymous
from worker.log.coverage import Coverage, Span
from worker.log.definition import Definition, LogDefinition
from worker.log.original_store import BY_ROW
from worker.log.pending import Pending
from worker.log.record import decode
from worker.log.replica import LEFT_MIN_AT_START, Replica
from worker.log.rows import Record, Source
from worker.log.snapshot_bytes import ARRAYS, Arrays, Pieces, Snapshot, unpack

_TOPIC_ID_BYTES = 16
_NEVER = -(2**63)  # stands for a horizon that is not there


class LogIdentity(NamedTuple):
    """Which log: its cluster, and the id of its topic, which changes when the topic is made anew."""

    cluster_id: str
    topic_id: bytes

    @classmethod
    def of(cls, header: Mapping[str, Any]) -> LogIdentity:
        """Return the log that a snapshot's header names."""
        return cls(header["cluster_id"], bytes.fromhex(header["topic_id"]))


def capture(replica: Replica, log: LogIdentity, beside: Mapping[str, Any] = MappingProxyType({})) -> Snapshot:
    """
    Take a replica as it stands now.

    Args:
        beside: what the caller adds to the header, under names of its own.

    Cost: O(chunks) for the originals, some 50 ns each, and O(rows) for what is pending. No column is copied.
    """
    judge, definition = replica.judge, replica.definition
    held = judge.held
    arrays: dict[str, Pieces] = {f"originals.{name}": pieces for name, pieces in held.originals.pieces().items()}
    arrays |= {f"originals.{name}": [] for name in BY_ROW}  # retention alone has all of them
    arrays |= {f"originals.{name}": column.pieces() for name, column in held.columns().items()}
    header = {
        "cluster_id": log.cluster_id,
        "topic_id": log.topic_id.hex(),
        "definition": replica.acceptance.declared or LogDefinition.of(definition, 0),
        "next_offset": replica.next_offset,
        "documents": replica.documents,
        "clock_ms": judge.eviction.clock_ms,
        "horizon_ms": judge.eviction.horizon_ms,
        "oldest": held.oldest,
        "firsts": held.originals.firsts,
    }
    return Snapshot({**beside, **header}, {**arrays, **_sources_of(replica), **_pending_of(replica)})


def _column(name: str, values: Sequence[int]) -> Pieces:
    return [np.array(values, ARRAYS[name])]


def _sources(replica: Replica) -> list[Source]:
    """Return all sources, those included of which nothing is known but how far they are committed."""
    return sorted({*replica.coverage, *replica.pending})


def _sources_of(replica: Replica) -> dict[str, Pieces]:
    """Return coverage, and how far each source is known to be committed."""
    sources = _sources(replica)
    spans = [(at, *span) for at, source in enumerate(sources) for span in replica.coverage.get(source, ())]
    pruned = [replica.pending[source].pruned if source in replica.pending else 0 for source in sources]
    columns = {
        "sources.topic_ids": [byte for source in sources for byte in source.topic_id],
        "sources.partitions": [source.partition for source in sources],
        "sources.pruned": pruned,
        "coverage.sources": [at for at, _, _ in spans],
        "coverage.firsts": [first for _, first, _ in spans],
        "coverage.stops": [stop for _, _, stop in spans],
    }
    return {name: _column(name, values) for name, values in columns.items()}


def _pending_of(replica: Replica) -> dict[str, Pieces]:
    """Return the verdicts that are not known to be committed: their records, and what the judge found."""
    sources = _sources(replica)
    batches = [(at, b) for at, source in enumerate(sources) for b in replica.pending.get(source, ())]
    kept = {batch.log_offset: batch for _, batch in batches}  # several batches can share a record
    held = [kept[offset] for offset in sorted(kept)]
    position = {batch.log_offset: at for at, batch in enumerate(held)}
    columns = {
        "records.ends": np.cumsum([len(batch.record.data) for batch in held], dtype=np.int64).tolist(),
        "records.log_offsets": [batch.log_offset for batch in held],
        "records.timestamps": [batch.timestamp_ms for batch in held],
        "records.horizons": [_NEVER if (at := batch.judged.horizon_ms) is None else at for batch in held],
        "batches.sources": [at for at, _ in batches],
        "batches.records": [position[batch.log_offset] for _, batch in batches],
        "batches.firsts": [batch.span.first for _, batch in batches],
        "batches.stops": [batch.span.stop for _, batch in batches],
        "batches.row_firsts": [batch.first for _, batch in batches],
        "batches.row_stops": [batch.stop for _, batch in batches],
    }
    arrays: dict[str, Pieces] = {name: _column(name, values) for name, values in columns.items()}
    arrays["records.bytes"] = [np.frombuffer(batch.record.data, np.uint8) for batch in held]
    for field in JUDGEMENT_COLUMNS:
        arrays[f"judged.{field}"] = [getattr(batch.judged, field) for _, batch in batches]
    return arrays


def restore(data: bytes | memoryview, definition: Definition, log: LogIdentity, memory: Memory = anonymous) -> Replica:
    """
    Return the replica of a snapshot. It refers to `data` (a mapped file, say), which must stay as it is.

    Args:
        definition: this worker's; log: the one it follows. Both must be the snapshot's.
        memory: where the columns of later originals lie that finding does not need.

    Raises:
        RestoreError: damaged or cut.
        StopError: of a newer format, of another log or of another definition: falling back silently would hide it.
    Cost: O(bytes) for the checksum, and inserting each live row into the index and the table of doc_ids.
    """
    header: Mapping[str, Any]
    arrays: Arrays
    header, arrays = unpack(data)
    _check_identity(header, definition, log)
    declared = LogDefinition(*header["definition"])
    replica = Replica(definition, declared if declared.record_format else None, memory)
    judge, held = replica.judge, replica.judge.held
    replica.next_offset = int(header["next_offset"])
    judge.eviction.clock_ms, judge.eviction.horizon_ms = header["clock_ms"], header["horizon_ms"]
    _restore_sources(replica, arrays)
    held.load(_of_originals(arrays), header["firsts"])
    if not replica.compact_if_due(LEFT_MIN_AT_START):
        held.build()
        held.oldest = int(header["oldest"])
    return replica


def _of_originals(arrays: Arrays) -> Arrays:
    return {name.removeprefix("originals."): values for name, values in arrays.items() if name.startswith("originals.")}


def _check_identity(header: Mapping[str, Any], definition: Definition, log: LogIdentity) -> None:
    written = LogIdentity.of(header)
    if written != log:
        raise StopError(
            f"the snapshot is of the log {written.topic_id.hex()} in cluster {written.cluster_id}, this worker follows "
            f"{log.topic_id.hex()} in cluster {log.cluster_id}: the topic was recreated, or the cluster is another. "
            f"Remove the snapshots to restore from this log"
        )
    definition.check(LogDefinition(*header["definition"]), "the snapshot")


def _restore_sources(replica: Replica, arrays: Arrays) -> None:
    """Put back coverage and pending verdicts."""
    ids = arrays["sources.topic_ids"].tobytes()
    sources = [
        Source(ids[at * _TOPIC_ID_BYTES : (at + 1) * _TOPIC_ID_BYTES], partition)
        for at, partition in enumerate(arrays["sources.partitions"].tolist())
    ]
    for source, pruned in zip(sources, arrays["sources.pruned"].tolist(), strict=True):
        replica.coverage[source] = Coverage()
        replica.pending[source] = Pending()
        replica.pending[source].prune(pruned)
    for at, first, stop in _rows_of(arrays, "coverage.sources", "coverage.firsts", "coverage.stops"):
        replica.coverage[sources[at]].add(first, stop)
    records = list(_records_of(arrays))
    row = 0
    for source_at, record_at, first, stop, row_first, row_stop in _rows_of(
        arrays, *(f"batches.{name}" for name in ("sources", "records", "firsts", "stops", "row_firsts", "row_stops"))
    ):
        record, horizon_ms, log_offset, timestamp_ms = records[record_at]
        row, begin = row + row_stop - row_first, row
        columns = {field: arrays[f"judged.{field}"][begin:row] for field in JUDGEMENT_COLUMNS}
        judged = Judgements(**columns, horizon_ms=horizon_ms)
        replica.pending[sources[source_at]].add(
            JudgedRows(Span(first, stop), record, row_first, row_stop, judged, log_offset, timestamp_ms)
        )


def _records_of(arrays: Arrays) -> Iterator[tuple[Record, int | None, int, int]]:
    """Return each record with pending verdicts, its horizon, its offset and its time stamp."""
    start = 0
    for end, log_offset, timestamp_ms, horizon_ms in _rows_of(
        arrays, *(f"records.{name}" for name in ("ends", "log_offsets", "timestamps", "horizons"))
    ):
        record = decode(arrays["records.bytes"][start:end].tobytes())
        yield record, None if horizon_ms == _NEVER else horizon_ms, log_offset, timestamp_ms
        start = end


def _rows_of(arrays: Arrays, *names: str) -> Iterator[tuple[int, ...]]:
    return zip(*(arrays[name].tolist() for name in names), strict=True)
