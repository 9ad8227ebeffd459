"""
Says where a document's wait goes, from two scrapes of its worker's metrics.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from worker.shell.runtime.metrics import STAGES

# What passes before the sequencer waits for a batch, and after its transaction.
BEFORE = "before: producer, broker, fetch, waiting for the batch before"
AFTER = "after: reader"
_BATCH = "neardup_stage_seconds"
_DOCUMENT = "neardup_latency_seconds"


class Totals(NamedTuple):
    """What a worker has counted since its start."""

    stage_s: dict[str, float]
    batches: float
    documents_s: float  # of all documents, from the time stamp in the topic to the commit
    documents: float


def scrape(port: int) -> Totals:
    """Return what the worker that serves its metrics at a port of this machine has counted."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return totals(answer.read().decode())


def totals(text: str) -> Totals:
    """Read a page of metrics."""
    samples = [each for family in text_string_to_metric_families(text) for each in family.samples]
    sums = {each.labels["stage"]: each.value for each in samples if each.name == f"{_BATCH}_sum"}
    counts = [
        each.value
        for each in samples
        if each.name == f"{_BATCH}_count" and each.labels["stage"] == STAGES[-1]
    ]
    # Each sample carries the group's label, too; these have no other.
    by_name = {each.name: each.value for each in samples}
    return Totals(sums, sum(counts), by_name[f"{_DOCUMENT}_sum"], by_name[f"{_DOCUMENT}_count"])


def shares_ms(begin: Totals, end: Totals, mean_ms: float) -> dict[str, float]:
    """
    Share out the mean wait of the documents between two scrapes.

    Args:
        mean_ms: from the producer's call to the reader.
    Returns:
        Milliseconds, in the order of the way: a batch's mean for each stage of the worker, and what
        is left before and behind them. Their sum is `mean_ms`. A worker counts its stages by batch:
        where large batches take longer than small ones, a document's stage takes longer than the
        mean of the batches, and what it lacks is in `BEFORE`.
    """
    batches = max(end.batches - begin.batches, 1)
    documents = max(end.documents - begin.documents, 1)
    committed_ms = 1_000 * (end.documents_s - begin.documents_s) / documents
    stages = {name: 1_000 * (end.stage_s[name] - begin.stage_s[name]) / batches for name in STAGES}
    before_ms = committed_ms - sum(stages.values())
    return {BEFORE: before_ms, **stages, AFTER: mean_ms - committed_ms}
