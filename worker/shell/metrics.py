"""Every metric of neardup, by name, in one file. `serve` gives them to Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, start_http_server

from worker.errors import StopError

__all__ = [
    "ANSWERS",
    "BATCH_DOCUMENTS",
    "DOCUMENTS_INDEXED",
    "LATENCY_S",
    "LOG_OFFSET",
    "PENDING_BATCHES",
    "REPEATED_ROWS",
    "RETRIES",
    "REWINDS",
    "serve",
]

ANSWERS = Counter("neardup_answers_total", "Documents answered and committed by this worker", ["outcome"])
BATCH_DOCUMENTS = Histogram(
    "neardup_batch_documents", "Documents in a published batch", buckets=(1, 3, 10, 30, 100, 300, 1_000, 3_000)
)
LATENCY_S = Histogram(
    "neardup_latency_seconds",
    "From the read of a batch to its commit",
    buckets=(0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.25, 0.5, 1, 2, 5, 15, 60),
)
LOG_OFFSET = Gauge("neardup_log_offset", "Next offset of the fingerprint log to apply")
DOCUMENTS_INDEXED = Gauge("neardup_documents_indexed", "Originals in the index")
PENDING_BATCHES = Gauge("neardup_pending_batches", "Batches of verdicts not known to be committed")
REPEATED_ROWS = Counter(
    "neardup_repeated_rows_total", "Rows of the log ignored, because the log already had their offset"
)
RETRIES = Counter("neardup_retries_total", "Transactions aborted and tried again")
REWINDS = Counter("neardup_rewinds_total", "Times that the source was read again from the committed offsets")


def serve(port: int) -> None:
    """
    Serve /metrics on every interface; port 0 serves nothing.

    Raises:
        StopError: the port is taken.
    """
    if port:
        try:
            start_http_server(port)
        except OSError as error:
            raise StopError(f"metrics port {port} cannot be opened ({error}): choose another --metrics-port") from error
