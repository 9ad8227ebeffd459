"""
Every metric of neardup, by name, in one file. `HttpServer` serves them to Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    Metric,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from worker.log.rules import Ignored

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25, 0.5, 1, 2, 5, 15, 60)
_WAITS_S = (*_SECONDS, 300, 900, 3_600, 14_400, 86_400)
STAGES = ("prepare", "append", "answer", "publish")  # of a batch, in their order

OUTCOMES = ("new", "duplicate", "skipped", "deleted", "dead-letter")
DEAD_LETTER_CODES = (
    "date-out-of-range", "doc-id-too-long", "fingerprint-failed", "invalid-base64", "invalid-date",
    "invalid-field", "invalid-json", "invalid-key", "missing-field", "no-body", "not-an-object",
    "null-key", "oversize", "too-deep", "two-bodies", "unknown-charset", "unreadable",
    "url-too-long",
)  # fmt: skip

# Otherwise each counter would have a second line, which no one needs.
disable_created_metrics()  # type: ignore[no-untyped-call]

BUILD = Info(
    "neardup_build",
    "What this worker runs: version, fingerprint scheme "
    "and parameters, the log's definition, worker id, group",
)

# Documents
ANSWERS = Counter(
    "neardup_answers_total", "Documents answered and committed by this worker", ["outcome"]
)
DEAD_LETTERS = Counter(
    "neardup_dead_letters_total",
    "Documents that could not be judged, by the class of error",
    ["code"],
)
BATCH_DOCUMENTS = Histogram(
    "neardup_batch_documents",
    "Documents in a published batch",
    buckets=(1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000),
)


class _Latency(Collector):
    """A histogram that takes the documents of a batch at once."""

    # one: a scrape sees both.
    _seen: tuple[NDArray[np.int64], float] = (np.zeros(len(_WAITS_S) + 1, np.int64), 0.0)

    def observe(self, seconds: NDArray[np.float64]) -> None:
        """Count each; a clock behind the broker's makes it 0."""
        counts, total = self._seen
        seconds = np.maximum(seconds, 0)
        found = np.bincount(np.searchsorted(_WAITS_S, seconds), minlength=len(counts))
        self._seen = counts + found, total + float(seconds.sum())

    def collect(self) -> Iterator[HistogramMetricFamily]:
        counts, total = self._seen
        bounds = [*map(floatToGoString, _WAITS_S), "+Inf"]
        text = "From a document's time stamp in its topic to the commit of its answer"
        buckets = list(zip(bounds, np.cumsum(counts).tolist(), strict=True))
        yield HistogramMetricFamily("neardup_latency_seconds", text, buckets, total)


LATENCY_S = _Latency()
REGISTRY.register(LATENCY_S)
STAGE_S = Histogram(
    "neardup_stage_seconds",
    "Time that the sequencer spends on a batch, by stage: prepare (waiting for fingerprints), "
    "append (to the log, and applying it), answer (writing verdicts), publish (the transaction)",
    ["stage"],
    buckets=_SECONDS,
)
TRANSACTION_S = Histogram(
    "neardup_transaction_seconds", "Transactions that were committed", buckets=_SECONDS
)

# How far behind
LOG_LAG = Gauge(
    "neardup_log_lag", "Records of the fingerprint log known to be there and not applied yet"
)
LOG_AHEAD_S = Gauge(
    "neardup_log_ahead_seconds",
    "How far the log's last record is ahead of this machine's clock; 0: not at all",
)
QUEUED_BATCHES = Gauge(
    "neardup_queued_batches", "Batches read and not yet taken up by the sequencer"
)
PENDING_BATCHES = Gauge(
    "neardup_pending_batches", "Batches of verdicts not known to be committed, of all workers"
)

# The replica
LOG_OFFSET = Gauge("neardup_log_offset", "Next offset of the fingerprint log to apply")
DOCUMENTS_INDEXED = Gauge("neardup_documents_indexed", "Originals in the index")
DOCUMENTS_SERVED = Gauge(
    "neardup_documents_served",
    "Originals that the search serves at 55 µs per document, by its settings; 0: not known",
)
REPEATED_ROWS = Counter(
    "neardup_repeated_rows_total",
    "Rows of the log ignored, because the log already had their offset",
)
LOG_RECORDS_IGNORED = Counter(
    "neardup_log_records_ignored_total",
    "Records of the log, since this start, that no replica takes: not of its definition",
    ["reason"],
)

# Faults
HEADERS_LEFT_OUT = Counter(
    "neardup_headers_left_out_total",
    "Messages that were read or forwarded without their headers, by reason: size (of a new "
    "document, more than topic_new surely takes), name (a header's name is not UTF-8; counted when "
    "the message is read, and again when it is read again after a rewind)",
    ["reason"],
)
KAFKA_ERRORS = Counter(
    "neardup_kafka_errors_total", "Errors reported by the Kafka client, including passing ones"
)
OFFSETS_REFUSED = Gauge(
    "neardup_offsets_refused", "Partitions whose offset no worker has committed: the worker ends"
)
RETRIES = Counter("neardup_retries_total", "Transactions aborted and tried again")
REWINDS = Counter(
    "neardup_rewinds_total", "Times that the source was read again from the committed offsets"
)
REJOINS = Counter(
    "neardup_rejoins_total",
    "Times that this worker left its group and joined again, because partitions had no owner",
)

# Snapshots
SNAPSHOT_TIME = Gauge(
    "neardup_snapshot_timestamp_seconds",
    "Unix time of the last snapshot, written or restored; 0: none yet",
)
SNAPSHOT_OFFSET = Gauge(
    "neardup_snapshot_offset", "Offset of the fingerprint log where that snapshot stands"
)
SNAPSHOT_BYTES = Gauge("neardup_snapshot_bytes", "Size of the last snapshot, written or restored")
SNAPSHOT_WRITTEN_BYTES = Counter(
    "neardup_snapshot_written_bytes_total", "Bytes of all snapshots written; how they are paced"
)
STATE_FREE_BYTES = Gauge(
    "neardup_state_free_bytes", "Free space where the snapshots are; counted when one is due"
)
SNAPSHOT_S = Histogram("neardup_snapshot_seconds", "Time to write a snapshot", buckets=_SECONDS)
SNAPSHOT_FAILURES = Counter(
    "neardup_snapshot_failures_total", "Snapshots that could not be written; work went on"
)
SNAPSHOTS_REFUSED = Counter("neardup_snapshots_refused_total", "Damaged snapshots found at a start")

# Questions, if `metrics_port` is set
ANSWERED_AS = ("seen", "new", "skipped", "refused")
QUESTIONS = Counter(
    "neardup_questions_total",
    "Documents and URLs that were asked for, by the answer; "
    "refused: no answer, or a request that never came to one",
    ["answer"],
)
QUESTION_S = Histogram(
    "neardup_question_seconds",
    "Requests with questions, from the end of their head to the end of the answer",
    buckets=_SECONDS,
)
QUESTIONS_IN_FLIGHT = Gauge(
    "neardup_questions_in_flight", "Requests with questions that are being read or answered now"
)

# Counters with labels stand at 0 from the start: a rate would miss their first event.
for _metric, _labels in (
    (LOG_RECORDS_IGNORED, Ignored), (STAGE_S, STAGES), (ANSWERS, OUTCOMES),
    (DEAD_LETTERS, DEAD_LETTER_CODES), (QUESTIONS, ANSWERED_AS),
    (HEADERS_LEFT_OUT, ("size", "name")),
):  # fmt: skip
    for _label in _labels:
        _metric.labels(_label)


class Lag(NamedTuple):
    """The documents of an owned partition that have no committed answer."""

    documents: int
    seconds: float = 0.0  # age, by its time stamp, of the oldest document that was read
    held_s: float = 0.0  # how long one open transaction of a writer has held the partition up


class _SourceLag(Collector):
    """Asks when it is scraped: nothing to keep up to date between two scrapes."""

    lags: Callable[[], Mapping[int, Lag]] = dict  # of each owned partition; any thread may ask
    # Of each partition that no worker owns, if this worker counts them; see pipeline/membership.py.
    unowned: Mapping[int, int] = MappingProxyType({})
    # Client id and host of each member that is no worker -> partitions of the documents.
    foreign: Mapping[tuple[str, str], int] = MappingProxyType({})

    def collect(self) -> Iterator[GaugeMetricFamily]:
        lags = sorted(self.lags().items())
        for name, text, at in (
            ("neardup_source_lag", "Documents of an owned partition without a committed answer", 0),
            (
                "neardup_source_lag_seconds",
                "Age of the oldest document that was read and has no committed answer",
                1,
            ),
            (
                "neardup_source_held_seconds",
                "How long one open transaction of a crawler has held up an owned partition",
                2,
            ),
        ):
            family = GaugeMetricFamily(name, text, labels=["partition"])
            for partition, lag in lags:
                family.add_metric([str(partition)], lag[at])
            yield family
        yield self._unowned()
        yield self._foreign()

    def _unowned(self) -> GaugeMetricFamily:
        text = "Documents without a committed answer in a partition that no worker has"
        family = GaugeMetricFamily("neardup_unowned_lag", text, labels=["partition"])
        for partition, documents in sorted(self.unowned.items()):
            family.add_metric([str(partition)], documents)
        return family

    def _foreign(self) -> GaugeMetricFamily:
        text = "Partitions of the documents that a member of the group has which is no worker"
        labels = ["client_id", "host"]
        family = GaugeMetricFamily("neardup_foreign_member_partitions", text, labels=labels)
        for names, partitions in sorted(self.foreign.items()):
            family.add_metric(names, partitions)
        return family


SOURCE_LAG = _SourceLag()
REGISTRY.register(SOURCE_LAG)


class _OfGroup(Collector):
    """Every metric, labelled with the group: one sum of two groups says nothing of either."""

    def __init__(self, group: str) -> None:
        self._label = {"group": group}

    def collect(self) -> Iterator[Metric]:
        for family in REGISTRY.collect():
            family.samples = [
                sample._replace(labels=self._label | sample.labels) for sample in family.samples
            ]
            yield family


def of_group(group: str) -> CollectorRegistry:
    """Return all metrics of this process as a worker of this group serves them."""
    registry = CollectorRegistry(auto_describe=True)
    registry.register(_OfGroup(group))
    return registry
