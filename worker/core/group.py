"""
Plans a group of workers: memory, disk, log and snapshots of each, and how many workers it takes.

Every worker applies all rows of the log and searches for their originals; it prepares, answers and
publishes its share of the documents. So with N workers a document costs a worker

    sequencer's thread:   apply + search / threads + answer / N
    all of its cores:     apply + search           + (prepare + client + answer) / N

and the group's rate is bound by whichever is used up first. The constants are those of the kept
results of `make bench-scale` and `make bench-replay`; a test compares them.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from worker.core.planner import Plan, plan_directed
from worker.core.search import SearchRules

MONTH_S = 30 * 86_400
COPIES = 0.5  # of the documents
# A crawl is no steady stream: the group should judge this many times the average.
HEADROOM = 2.0
WORKERS_MAX = 64
ORIGINALS_MAX = 2**31  # rows of a replica are 32 bits, and are renumbered now and then
AHEAD_S = 365 * 86_400  # without a retention, a plan looks so far ahead
SETTLE_US = 0.55  # of a search in parallel: the pass over the rows that one thread makes
SHARED = 1.1  # processor time of a search by several threads, of that by one
WORKER_BYTES = 0.5e9
THREAD_BYTES = 160e6
HELD_BYTES = 39.5  # of an original in memory, besides the index, with a `state_dir`
FILE_BYTES = 266.0  # of an original, in the files of a `state_dir`
SNAPSHOT_BYTES = 257.0  # of an original, in one snapshot
SNAPSHOTS = 3  # two are kept, a third is being written
LOG_ROW_BYTES = 233.0
RESTORE_US = 1.1  # of an original, from a snapshot that is not in the page cache
# `worker/shell/checkpoint.py` says when a snapshot is written.
SNAPSHOT_S = (300.0, 3_600.0)
SNAPSHOT_ROWS = 500_000


class Parts(NamedTuple):
    """Processor time that a document costs a worker, in µs."""

    prepare: float
    apply: float  # a row of the log, without the search
    answer: float
    client: float


TEXT_OF_5_KB = Parts(prepare=12.6, apply=1.5, answer=2.1, client=16.0)


def documents_per_s(parts: Parts, search_us: float, workers: int, cores: int) -> float:
    """
    Return the rate of a group.

    >>> round(documents_per_s(Parts(40, 2, 4, 16), 3, 1, 2))
    30769
    """
    own_us = parts.prepare + parts.client + parts.answer
    alone = (
        1e6 / (parts.apply + search_us + parts.answer / workers),
        cores * 1e6 / (parts.apply + search_us + own_us / workers),
    )
    shared_us = SETTLE_US + SHARED * search_us / cores
    shared = (
        1e6 / (parts.apply + shared_us + parts.answer / workers),
        cores * 1e6 / (parts.apply + SETTLE_US + SHARED * search_us + own_us / workers),
    )
    return max(min(alone), min(shared))


class GroupPlan(NamedTuple):
    """The cost of a group for so many documents per month, in bytes and seconds of one worker."""

    search: Plan[SearchRules]
    originals: int
    average_per_s: float
    workers: int  # the fewest that judge HEADROOM times the average; 0: no number does
    group_per_s: float  # what these judge, or WORKERS_MAX of them
    memory_bytes: float
    disk_bytes: float
    snapshot_bytes_per_day: float
    log_bytes_per_month: float  # on each broker that holds it
    start_s: float  # from a snapshot
    start_from_log_s: float  # of a month


def plan_group(
    per_month: int, *, retention_s: float | None, memory_bytes: float | None, cores: int
) -> GroupPlan:
    """
    Plan a group for texts of 5 KB, half of which are copies.

    Args:
        per_month: documents in thirty days.
        retention_s: how long originals are kept; None: for ever, planned for a year.
        memory_bytes: what a worker may take; no limit when not given.
        cores: of a worker's machine.
    Raises:
        ValueError: an amount is out of bounds, or no search for so many originals fits.
    """
    kept_s = AHEAD_S if retention_s is None else retention_s
    rate = per_month / MONTH_S
    originals = ceil(rate * kept_s * (1 - COPIES))
    besides = WORKER_BYTES + cores * THREAD_BYTES + originals * HELD_BYTES
    if originals > ORIGINALS_MAX:
        raise ValueError(
            f"{originals:,} originals are more than the {ORIGINALS_MAX:,} that a worker can hold: "
            "keep them for a shorter time (--retention), "
            "or give parts of the crawl groups of their own"
        )
    plans = plan_directed(originals)
    fit = [
        one for one in plans if memory_bytes is None or besides + one.memory_bytes <= memory_bytes
    ]
    if not fit:
        least = besides + min(one.memory_bytes for one in plans)
        raise ValueError(
            f"{originals:,} originals take {least / 1e9:,.1f} GB of memory of each worker at "
            f"least, and a machine gives {(memory_bytes or 0) / 1e9:,.1f} GB: give more "
            "(--memory), or keep them for a shorter time (--retention)"
        )
    search = fit[0]
    search_us = search.query_insert_ns / 1e3
    rates = [
        documents_per_s(TEXT_OF_5_KB, search_us, count, cores)
        for count in range(1, WORKERS_MAX + 1)
    ]
    enough = [count for count, each in enumerate(rates, 1) if each >= HEADROOM * rate]
    every_s = min(max(SNAPSHOT_ROWS / rate, SNAPSHOT_S[0]), SNAPSHOT_S[1])
    row_us = TEXT_OF_5_KB.apply + search_us
    return GroupPlan(
        search=search,
        originals=originals,
        average_per_s=rate,
        workers=enough[0] if enough else 0,
        group_per_s=rates[enough[0] - 1] if enough else rates[-1],
        memory_bytes=besides + search.memory_bytes,
        disk_bytes=originals * (FILE_BYTES + SNAPSHOTS * SNAPSHOT_BYTES),
        snapshot_bytes_per_day=originals * SNAPSHOT_BYTES * 86_400 / every_s,
        log_bytes_per_month=per_month * LOG_ROW_BYTES,
        start_s=(originals * RESTORE_US + every_s * rate * row_us) / 1e6,
        start_from_log_s=per_month * row_us / 1e6,
    )
