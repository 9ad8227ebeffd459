"""
Spans from a document's read to its commit: the crawler's trace goes on in the answer's headers.
"""

from __future__ import annotations

import builtins
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from confluent_kafka import Producer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.conftest import Kafka
from tests.faults.harness import Deployment
from tests.shell.simulated_cluster import Scripted
from worker.core.document import Outcome
from worker.errors import DocumentError, RetryError, StopError
from worker.settings import Settings
from worker.shell.messages import VerdictBytes
from worker.shell.pipeline.partitions import Partitions
from worker.shell.pipeline.publishing import Publishing
from worker.shell.pipeline.stage import Batch, Share
from worker.shell.ports import InputMessage
from worker.shell.runtime.tracing import Tracing

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = (("traceparent", f"00-{TRACE}-{PARENT}-01".encode()), ("other", b"\xff"))


class Traced:
    """The real stage over one partition, with spans that are kept."""

    def __init__(self, publisher: Scripted) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.partitions = Partitions()
        self.partitions.assign({0: 0})
        self.publishing = Publishing(
            Settings(),
            publisher,
            self.partitions,
            sleep=lambda _s: None,
            traced=Tracing(provider).spans,
            retries_max=1,
        )

    def publish(self, *answers: VerdictBytes | DocumentError) -> None:
        """Publish a batch of these answers, read a second ago."""
        claim = self.partitions.claims()[0]
        self.partitions.read(claim, len(answers))
        messages = [InputMessage(0, at, b"k", b"v", headers=HEADERS) for at in range(len(answers))]
        shares = [Share(claim, 0, len(answers), 0, len(answers))]
        self.publishing.submit(Batch(messages, shares, time.monotonic() - 1, answers=answers))
        self.publishing.step()


NEW = VerdictBytes(b"k", b"{}", Outcome.NEW)


def test_a_verdict_carries_on_the_trace_of_its_document() -> None:
    """
    Its header names the span, a child of the crawler's from the read to the commit; a dead
    letter's, too.
    """
    publisher = Scripted()
    traced = Traced(publisher)
    traced.publish(NEW, DocumentError("invalid-json", "no JSON"))
    span, dead = traced.exporter.get_finished_spans()
    [verdict, letter] = publisher.written[0].messages
    assert span.context and span.parent and span.attributes and span.start_time and span.end_time
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert (
        dict(verdict.headers)["traceparent"]
        == f"00-{TRACE}-{span.context.span_id:016x}-01".encode()
    )
    assert (span.attributes["neardup.outcome"], span.attributes["messaging.kafka.offset"]) == (
        "new",
        0,
    )
    assert span.end_time - span.start_time >= 1_000_000_000
    # The class of its error.
    assert dead.attributes and dead.attributes["neardup.outcome"] == "invalid-json"
    assert "traceparent" in dict(letter.headers) and len(letter.headers) > 1  # its own, too


def test_a_batch_in_doubt_ends_its_spans_with_the_cause() -> None:
    """It is read again, and has spans of its own then."""
    traced = Traced(Scripted(RetryError("the coordinator moved")))
    traced.publish(NEW)
    (span,) = traced.exporter.get_finished_spans()
    assert (span.status.is_ok, span.status.description) == (False, "the coordinator moved")


class _Collector(BaseHTTPRequestHandler):
    """Takes what a worker sends to a collector."""

    received: ClassVar[list[tuple[str, bytes]]] = []

    def do_POST(self) -> None:
        self.received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_worker_on_kafka_passes_a_trace_on(kafka: Kafka, tmp_path: Path) -> None:
    """From the header of the document to that of its verdict, and the span to the collector."""
    document = b'{"doc_id": "a", "url": "https://a.example/", "fetched_at": "2026-01-02T03:04:05Z", "text": "a b c"}'
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as collector,
        Deployment(kafka.bootstrap, tmp_path, partitions=1, tracing=True) as deployment,
    ):
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        producer.produce(deployment.settings.topic_documents, document, b"a", headers=[*HEADERS])
        assert producer.flush(60) == 0
        url = f"http://127.0.0.1:{collector.server_port}"
        worker = deployment.start("one", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": url})
        deployment.until_committed(1)
        assert worker.stop() == 0
        (verdict,) = deployment.read(deployment.settings.topic_verdicts)
        collector.shutdown()
    assert dict(verdict.headers)["traceparent"].decode().split("-")[1] == TRACE
    ((path, sent),) = _Collector.received
    assert path == "/v1/traces" and bytes.fromhex(TRACE) in sent


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry is an extra."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("opentelemetry"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(StopError, match=r"pip install 'opentelemetry-exporter-otlp-proto-http"):
        Tracing()
