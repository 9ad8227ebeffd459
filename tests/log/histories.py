"""Histories that a replica judges, alone or with the oracle and with restarts in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.log.test_replica import packed
from tests.log.test_snapshot import LOG, to_bytes
from tests.oracle import Oracle
from worker.log.record import Row, decode
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.log.snapshot import restore

Check = Callable[[Replica], None]
CHECKED_EVERY = 16  # records of a long history: a check looks at all originals


def in_records(rows: Sequence[Row], rows_of: int) -> list[Sequence[Row]]:
    """Return rows in records of so many."""
    return [rows[first : first + rows_of] for first in range(0, len(rows), rows_of)]


def applied(of: Definition, *records: Sequence[Row]) -> Replica:
    """
    Return a replica that has applied these records, and was whole on the way and at the end. Their
    rows get the offsets from 0 on.
    """
    replica = Replica(of)
    offset = 0
    for number, rows in enumerate(filter(None, records)):
        placed = [row._replace(offset=offset + at) for at, row in enumerate(rows)]
        offset += len(rows)
        replica.apply(decode(packed(of, placed)), number, number)
        if number % CHECKED_EVERY == 0:
            replica.check()
    replica.check()
    return replica


def judged_in_records(
    of: Definition,
    rows: list[Row],
    rows_of: int,
    restarts: set[int],
    watch: Callable[[Replica, list[Row]], Check] | None = None,
) -> tuple[Oracle, Replica]:
    """
    Return the oracle and the replica that have judged some rows, for `agree` to compare.

    Args:
        of: the definition of the log.
        rows: in order.
        rows_of: how many a record has.
        restarts: the records behind which the replica is restored from a snapshot, with its rows
            numbered anew if that is due.
        watch: is called before each record with the replica and its rows; what it returns is called
            behind the record.
    """
    oracle = Oracle(of.search, of.retention, replaces=of.recrawls == "replace")
    replica = Replica(of)
    for number, first in enumerate(range(0, len(rows), rows_of)):
        part = rows[first : first + rows_of]
        check = watch(replica, part) if watch else None
        data = packed(of, part)
        oracle.apply(data)
        replica.apply(decode(data), number, 0)
        if check:
            check(replica)
        if number in restarts:
            replica = restore(to_bytes(replica), of, LOG)
            replica.compact_if_due(1)
        replica.check()
    return oracle, replica
