"""
The schema of a snapshot: of each column the type, the length, the range and the order, and what the
header and several columns have to agree on.

The kernels check nothing, and a checksum only shows that a file is as it was written. So whoever
can write a file with a right checksum could make a worker read foreign memory, or end with an error
of Python. Everything is therefore checked before anything is used:

    check_header   once the JSON is read: each field has its type and range
    check_columns  once the definitions agree: each column is as `COLUMNS` says; then the rules that
                   tie columns together: rows and texts, spans of offsets, batches and records

A column that is added needs a row of `COLUMNS`, and a rule below only if its values depend on those
of another column. What fails a check is damage (`RestoreError`): the worker passes the snapshot
over.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from worker.core.search import APART_SHIFT, ApartBy
from worker.core.sketch import SIMILARITY_MAX
from worker.errors import RestoreError
from worker.log import columns, duplicates
from worker.log.duplicates import ENTRY, NO_ROW, TEXTS_STOP
from worker.log.judge import NAMING_COLUMNS, ReasonCode
from worker.log.originals import ROW
from worker.log.record import ROWS_MAX, TIME_MS_MAX, TIME_MS_MIN, RowKind
from worker.log.replica import RENUMBERED_FROM
from worker.log.texts import Texts

NEVER = -(2**63)  # stands for a horizon that is not there
TOPIC_ID_BYTES = 16
# Half of what 64 bits hold: what is computed from an offset, a time or a place stays a number.
NUMBER_MAX = 2**62
_FINGERPRINT_BITS = 64
_TEXTS_AT_ONCE = 100_000  # rows whose texts are looked at together

Arrays = Mapping[str, NDArray[Any]]


class Column(NamedTuple):
    """
    What a column may hold.

    Attributes:
        dtype: of an entry.
        like: the column that has as many entries; "" if the column may have any number.
        per_entry: entries for each one of `like`.
        field: the field of an entry to which the range applies.
        low, high: the range of the values, both included. None: any value.
        places_in: the column whose entries the values are places of; instead of a range.
        step_min: the least difference from one value to the next, 0 or 1. None: in any order.
    """

    dtype: DTypeLike
    like: str = ""
    per_entry: int = 1
    field: str = ""
    low: int | None = None
    high: int | None = None
    places_in: str = ""
    step_min: int | None = None


# In the order in which they stand in the file.
COLUMNS: dict[str, Column] = {
    "originals.rows": Column(ROW, field="times", low=TIME_MS_MIN, high=TIME_MS_MAX),
    "originals.text_bytes": Column("u1"),
    "originals.kinds": Column("u1", "originals.rows", low=RowKind.SHORT, high=RowKind.FULL),
    # 1: in the index
    "originals.live": Column("u1", "originals.rows", low=0, high=1),
    # 1: no later original had its URL
    "originals.latest": Column("u1", "originals.rows", low=0, high=1),
    # The blocks in which it was listed at birth, bit by bit. `OriginalStore.build` checks that they
    # have room for it.
    "originals.listed": Column("<u2", "originals.rows"),
    # Of how many rows each has been the original.
    "originals.copies": Column("<u4", "originals.rows"),
    # The log's time; empty if originals never expire. `_check_rows` checks its length.
    "originals.seen": Column("<i8", low=0, high=TIME_MS_MAX, step_min=0),
    # The row that each has left its own for, or 0; as many as `seen`. `_check_moved` checks them.
    "originals.moved": Column("<u4", "originals.seen"),
    # The texts of duplicates, with rows of originals, which may be gone: `_check_duplicates`.
    "originals.duplicates": Column(ENTRY),
    "sources.topic_ids": Column("u1", "sources.partitions", TOPIC_ID_BYTES),
    "sources.partitions": Column("<i4", low=0, high=2**31 - 1),
    "sources.pruned": Column("<i8", "sources.partitions", low=0, high=NUMBER_MAX),
    "coverage.sources": Column("<u4", places_in="sources.partitions", step_min=0),
    "coverage.firsts": Column("<i8", "coverage.sources", low=0, high=NUMBER_MAX),
    "coverage.stops": Column("<i8", "coverage.sources", low=0, high=NUMBER_MAX),
    # The log's records with pending verdicts, back to back, and where each ends.
    "records.bytes": Column("u1"),
    "records.ends": Column("<i8", low=1, high=NUMBER_MAX, step_min=1),
    "records.log_offsets": Column("<i8", "records.ends", low=0, high=NUMBER_MAX, step_min=1),
    "records.timestamps": Column("<i8", "records.ends", low=TIME_MS_MIN, high=TIME_MS_MAX),
    "records.horizons": Column("<i8", "records.ends"),  # or NEVER: see `_check_records`
    # One entry per row of the batches below. -1: none
    "judged.originals": Column("<i8", low=-1, high=NUMBER_MAX),
    "judged.formers": Column("<i8", "judged.originals", low=-1, high=NUMBER_MAX),
    # Bits, of a fingerprint; of a row without an original any value. See `_check_judged`.
    "judged.distances": Column("u1", "judged.originals"),
    "judged.similarities": Column("<u2", "judged.originals", low=0, high=SIMILARITY_MAX),
    # ApartBy above a similarity, or 0. See `_check_judged`.
    "judged.kept_apart": Column(
        "<u2", "judged.originals", low=0, high=max(ApartBy) << APART_SHIFT | SIMILARITY_MAX
    ),
    "judged.apart_from": Column("<i8", "judged.originals", low=-1, high=NUMBER_MAX),
    "judged.remarks": Column("u1", "judged.originals", low=0, high=max(ReasonCode)),
    "judged.documents": Column("<i8", "judged.originals", low=0, high=NUMBER_MAX),
    # 0 for rows without an original, and for no others: see `_check_judged`.
    "judged.copies": Column("<u4", "judged.originals"),
    "batches.sources": Column("<u4", places_in="sources.partitions", step_min=0),
    "batches.records": Column("<u4", "batches.sources", places_in="records.ends"),
    "batches.firsts": Column("<i8", "batches.sources", low=0, high=NUMBER_MAX),
    "batches.stops": Column("<i8", "batches.sources", low=0, high=NUMBER_MAX),
    "batches.row_firsts": Column("<u4", "batches.sources", low=0, high=ROWS_MAX),
    "batches.row_stops": Column("<u4", "batches.sources", low=0, high=ROWS_MAX),
}
ARRAYS: dict[str, DTypeLike] = {name: column.dtype for name, column in COLUMNS.items()}


def _is_whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _is_hex(value: Any) -> bool:
    return (
        type(value) is str
        and len(value) % 2 == 0
        and all(digit in "0123456789abcdef" for digit in value)
    )


def _is_base(value: Any) -> bool:
    """Return whether this is what rules have of a base: nothing, or its digest and its size."""
    return not value or (
        type(value) is dict
        and value.keys() == {"digest", "documents"}
        and type(value["digest"]) is str
        and type(value["documents"]) is int
    )


def _is_definition(value: Any) -> bool:
    """Return whether this is a `LogDefinition`."""
    types = [int, str, str, str, dict, bool]
    return (
        type(value) is list
        and [type(field) for field in value] == types
        and _is_base(value[4].get("base_snapshot"))
    )


def _are_firsts(value: Any) -> bool:
    """Return whether this is the first row and the first byte of the texts: those of chunks."""
    if type(value) is not list or [type(first) for first in value] != [int, int]:
        return False
    sizes = (1 << columns.ROWS_BITS, 1 << columns.BYTES_BITS)
    return all(
        0 <= first <= NUMBER_MAX and first % size == 0
        for first, size in zip(value, sizes, strict=True)
    )


def _are_duplicates(value: Any) -> bool:
    """
    Return whether these are numbers of texts of duplicates: that of the first, which begins a
    chunk, and the one after the last.
    """
    if type(value) is not list or [type(number) for number in value] != [int, int]:
        return False
    first, stop = map(int, value)
    is_chunk = first % (1 << duplicates.STEP_BITS) == 0
    return is_chunk and 0 <= first <= stop <= TEXTS_STOP + ROWS_MAX


def _are_counts(value: Any) -> bool:
    """Return whether this is the length of each column."""
    return (
        type(value) is dict
        and value.keys() == COLUMNS.keys()
        and all(type(count) is int and 0 <= count <= NUMBER_MAX for count in value.values())
    )


# What a replica knows besides its columns. A caller may add fields of its own to a header.
_HEADER: dict[str, Callable[[Any], bool]] = {
    "cluster_id": lambda value: type(value) is str,
    "topic_id": _is_hex,
    "definition": _is_definition,
    "next_offset": _is_whole(0, NUMBER_MAX),
    "documents": _is_whole(0, NUMBER_MAX),
    "clock_ms": _is_whole(0, TIME_MS_MAX),
    "horizon_ms": lambda value: value is None or _is_whole(0, TIME_MS_MAX)(value),
    "oldest": _is_whole(0, NUMBER_MAX),
    "firsts": _are_firsts,
    "duplicate_texts": _are_duplicates,
    "arrays": _are_counts,
}


# What older snapshots lack.
_OPTIONAL: dict[str, Callable[[Any], bool]] = {"last_digest": lambda value: type(value) is str}


def check_header(header: Any) -> None:
    """Raise RestoreError if a header lacks a field, or if one is of a wrong type or range."""
    if type(header) is not dict:
        raise RestoreError(f"the snapshot's header is a {type(header).__name__}, not an object")
    for name, is_right in (_HEADER | _OPTIONAL).items():
        if name not in header:
            if name in _OPTIONAL:
                continue
            raise RestoreError(f"the snapshot's header lacks {name}")
        if not is_right(header[name]):
            text = repr(header[name])
            shown = text if len(text) <= 100 else f"{text[:99]}…"
            raise RestoreError(f"the snapshot's header cannot have this {name}: {shown}")


def check_columns(header: Mapping[str, Any], arrays: Arrays, *, has_times: bool) -> None:
    """
    Raise RestoreError if a column is not as `COLUMNS` says, or does not fit the others.

    Args:
        header: one that has been checked.
        arrays: every column, as a view of the file.
        has_times: whether the definition keeps the time at which each original was seen.
    Cost: a pass over all columns but the sketches; some 50 ns per original, most of it for texts.
    """
    for name, column in COLUMNS.items():
        _check_column(name, column, arrays)
    _check_rows(header, arrays, has_times)
    _check_duplicates(header, arrays)
    _check_texts(header["firsts"][1], arrays)
    _check_sources(arrays)
    _check_spans("coverage", arrays, gap_min=1)
    _check_spans("batches", arrays, gap_min=0)
    _check_records(header, arrays)
    _check_judged(header, arrays)


def _check_column(name: str, column: Column, arrays: Arrays) -> None:
    values = arrays[name]
    if column.like:
        wanted = len(arrays[column.like]) * column.per_entry
        if len(values) != wanted:
            raise RestoreError(
                f"the snapshot's columns differ in length: {name} has {len(values)} entries, "
                f"{wanted} are needed for {len(arrays[column.like])} of {column.like}"
            )
    if column.field:
        values = values[column.field]
    low = column.low
    high = column.high
    if column.places_in:
        low = 0
        high = len(arrays[column.places_in]) - 1
    if low is not None and high is not None and len(values):
        least = int(values.min())
        most = int(values.max())
        if least < low or most > high:
            raise RestoreError(
                f"the snapshot's column {name} has values from {least} to {most}, "
                f"and may have {low} to {high}"
            )
    if column.step_min is not None:
        is_order = values[1:] > values[:-1] if column.step_min else values[1:] >= values[:-1]
        if not is_order.all():
            raise RestoreError(f"the snapshot's column {name} does not ascend")


def _check_rows(header: Mapping[str, Any], arrays: Arrays, has_times: bool) -> None:
    """Check the rows of originals: how many, which of them are live, and when they were seen."""
    count = len(arrays["originals.rows"])
    first = header["firsts"][0]
    # Beyond, all rows are numbered anew; a record adds some before that.
    if first + count > RENUMBERED_FROM + ROWS_MAX:
        raise RestoreError(
            f"the snapshot has rows to {first + count}, and may have {RENUMBERED_FROM + ROWS_MAX}"
        )
    live = arrays["originals.live"]
    documents = np.count_nonzero(live)
    if documents != header["documents"]:
        raise RestoreError(
            f"the snapshot has {documents} live originals, its header says {header['documents']}"
        )
    oldest = header["oldest"]
    if not first <= oldest <= first + count or live[: oldest - first].any():
        raise RestoreError(
            f"the snapshot's rows are [{first}, {first + count}); no row below the oldest, "
            f"{oldest}, may be live"
        )
    seen = arrays["originals.seen"]
    if len(seen) != (count if has_times else 0):
        raise RestoreError(
            f"the snapshot's columns differ in length: originals.seen has {len(seen)} entries for "
            f"{count} rows, and retention is {'on' if has_times else 'off'}"
        )
    if len(seen) and seen[-1] > header["clock_ms"]:
        raise RestoreError(
            f"the snapshot has an original seen at {seen[-1]}, "
            f"after its clock ({header['clock_ms']})"
        )


def _check_duplicates(header: Mapping[str, Any], arrays: Arrays) -> None:
    """
    Check that rows have moved to later ones; and how many texts of duplicates there are, and that
    they name rows.
    """
    first_text, stop_text = header["duplicate_texts"]
    count = len(arrays["originals.duplicates"])
    if stop_text - first_text != count:
        raise RestoreError(
            f"the snapshot has {count} texts of duplicates, "
            f"its header says {stop_text - first_text}"
        )
    first = header["firsts"][0]
    stop = first + len(arrays["originals.rows"])
    moved = arrays["originals.moved"]
    from_places = np.flatnonzero(moved)
    rows = moved[from_places]
    is_live = arrays["originals.live"][from_places] == 1
    if is_live.any() or (rows <= first + from_places).any() or (rows >= stop).any():
        raise RestoreError(
            "the snapshot's column originals.moved must name, of rows that have left, "
            f"later ones below {stop}"
        )
    named = arrays["originals.duplicates"]["originals"]
    named = named[named != NO_ROW]
    if len(named) and named.max() >= stop:
        raise RestoreError(
            f"the snapshot's column originals.duplicates names the row {named.max()}, "
            f"and the rows end at {stop}"
        )


def _check_texts(first_byte: int, arrays: Arrays) -> None:
    """
    Check that the texts of the rows lie back to back, end with the bytes, and are UTF-8 each.
    """
    places = arrays["originals.rows"]["texts"]
    data = arrays["originals.text_bytes"]
    end = first_byte + len(data)
    if end > NUMBER_MAX:
        raise RestoreError(f"the snapshot's texts end at byte {end}, beyond {NUMBER_MAX}")
    begin = int(places["begin"][0]) if len(places) else end
    for at in range(0, len(places), _TEXTS_AT_ONCE):
        part = places[at : at + _TEXTS_AT_ONCE]
        sizes = np.empty((len(part), 2), np.int64)
        sizes[:, 0] = part["doc_id_bytes"]
        sizes[:, 1] = part["url_bytes"]
        ends = begin + np.cumsum(sizes)
        begins = np.concatenate(([begin], ends[:-1]))
        if begin < first_byte or ends[-1] > end or (begins[::2] != part["begin"]).any():
            raise RestoreError(
                f"the texts of the snapshot's rows from {at} on "
                f"do not lie back to back in [{first_byte}, {end})"
            )
        part_bytes = data[begin - first_byte : int(ends[-1]) - first_byte]
        fault = Texts(part_bytes, ends - begin).utf8_fault()
        if fault:
            raise RestoreError(f"a text of the snapshot {fault}")
        begin = int(ends[-1])
    if begin != end:
        raise RestoreError(f"the snapshot's texts end at byte {begin}, their bytes at {end}")


def _check_sources(arrays: Arrays) -> None:
    """Check that sources ascend, so that none comes twice."""
    topic_ids = arrays["sources.topic_ids"].tobytes()
    sources = [
        (topic_ids[at * TOPIC_ID_BYTES : (at + 1) * TOPIC_ID_BYTES], partition)
        for at, partition in enumerate(arrays["sources.partitions"].tolist())
    ]
    if any(source >= after for source, after in itertools.pairwise(sources)):
        raise RestoreError("the snapshot's sources do not ascend")


def _check_spans(kind: str, arrays: Arrays, gap_min: int) -> None:
    """
    Check that spans of offsets are not empty, and that those of a source ascend, apart by
    `gap_min` at least.
    """
    sources = arrays[f"{kind}.sources"]
    firsts = arrays[f"{kind}.firsts"]
    stops = arrays[f"{kind}.stops"]
    is_next = sources[1:] == sources[:-1]
    if (firsts >= stops).any() or (firsts[1:] < stops[:-1] + gap_min)[is_next].any():
        raise RestoreError(
            f"the snapshot's {kind} has spans of offsets that are empty, meet or do not ascend"
        )


def _check_records(header: Mapping[str, Any], arrays: Arrays) -> None:
    """Check that records fill their bytes, stand below the next offset and have horizons."""
    ends = arrays["records.ends"]
    size = int(ends[-1]) if len(ends) else 0
    if size != len(arrays["records.bytes"]):
        raise RestoreError(
            f"the snapshot's records end at byte {size}, "
            f"their bytes at {len(arrays['records.bytes'])}"
        )
    log_offsets = arrays["records.log_offsets"]
    if len(log_offsets) and log_offsets[-1] >= header["next_offset"]:
        raise RestoreError(
            f"the snapshot has the record at {log_offsets[-1]}, "
            f"and the next one to apply is {header['next_offset']}"
        )
    horizons = arrays["records.horizons"]
    horizons = horizons[horizons != NEVER]
    if len(horizons) and not TIME_MS_MIN <= horizons.min() <= horizons.max() <= TIME_MS_MAX:
        raise RestoreError(
            f"the snapshot's column records.horizons has values from {horizons.min()} to "
            f"{horizons.max()}, and may have {TIME_MS_MIN} to {TIME_MS_MAX}"
        )


def _check_judged(header: Mapping[str, Any], arrays: Arrays) -> None:
    """Check that each row of a batch has a judgement, and that it names rows that are there."""
    sizes = arrays["batches.row_stops"].astype(np.int64) - arrays["batches.row_firsts"]
    judged = len(arrays["judged.originals"])
    if (sizes < 0).any() or sizes.sum() != judged:
        raise RestoreError(
            f"the snapshot's batches have {sizes.sum()} rows, and {judged} judgements"
        )
    distances = arrays["judged.distances"][arrays["judged.originals"] >= 0]
    if len(distances) and distances.max() > _FINGERPRINT_BITS:
        raise RestoreError(
            f"the snapshot has a distance of {distances.max()} bits, "
            f"and fingerprints have {_FINGERPRINT_BITS}"
        )
    if ((arrays["judged.copies"] > 0) != (arrays["judged.originals"] >= 0)).any():
        raise RestoreError(
            "the snapshot's column judged.copies must count the copies of each original that "
            "judged.originals names, and of no other row"
        )
    apart = arrays["judged.kept_apart"][arrays["judged.kept_apart"] > 0]
    similarities = apart & ((1 << APART_SHIFT) - 1)
    if (apart >> APART_SHIFT == 0).any() or (similarities > SIMILARITY_MAX).any():
        raise RestoreError(
            "the snapshot's column judged.kept_apart has values without a rule, or with a "
            f"similarity beyond {SIMILARITY_MAX:,} thousandths"
        )
    first = header["firsts"][0]
    stop = first + len(arrays["originals.rows"])
    has_rule = arrays["judged.kept_apart"] > 0
    if not np.array_equal(has_rule, arrays["judged.apart_from"] >= 0):
        raise RestoreError(
            f"the snapshot has {np.count_nonzero(has_rule)} rows that are kept apart, and says of "
            f"{np.count_nonzero(arrays['judged.apart_from'] >= 0)} from which original"
        )
    for name in (f"judged.{column}" for column in NAMING_COLUMNS):
        rows = arrays[name][arrays[name] >= 0]
        if len(rows) and not first <= rows.min() <= rows.max() < stop:
            raise RestoreError(
                f"the snapshot's column {name} names rows from {rows.min()} to {rows.max()}, and "
                f"has [{first}, {stop})"
            )
