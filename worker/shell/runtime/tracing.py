"""
OpenTelemetry spans: one per document, from its read to its commit. Headers carry the context in and
out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from worker.errors import DocumentError, StopError, install_extra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

    from worker.shell.pipeline.stage import Batch


class Tracing:
    """
    Writes spans to an OTLP collector over HTTP, or to `provider`.

    The OTEL_ variables say where, and which are sampled.

    Raises StopError: OpenTelemetry is not installed.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        try:
            # An extra, and only those who trace load it.
            from opentelemetry import propagate, trace  # noqa: PLC0415
        except ImportError as error:
            raise StopError(
                f"tracing needs OpenTelemetry: {install_extra('otel')}, or set no tracing"
            ) from error
        self._propagate = propagate
        self._trace = trace
        self._provider = provider or _to_a_collector()
        self._tracer = self._provider.get_tracer("neardup")

    @contextmanager
    def spans(self, batch: Batch) -> Iterator[None]:
        """
        Trace the publishing of a batch: give each answer the context of its span, and end the spans
        with it.
        """
        begun = self._begin(batch)
        ended = set[int]()
        failure = "another worker answers it"
        try:
            yield
            ended = {at for share in batch.shares for at in range(share.begin, share.end)}
        except BaseException as error:
            failure = str(error)
            raise
        finally:
            for at, span in begun.items():
                if at not in ended:
                    span.set_status(self._trace.StatusCode.ERROR, failure)
                span.end()

    def _begin(self, batch: Batch) -> dict[int, Span]:
        read_at_ns = time.time_ns() - int((time.monotonic() - batch.read_at_s) * 1e9)
        spans: dict[int, Span] = {}
        outgoing = list(batch.outgoing)
        for at, (message, answer, out) in enumerate(
            zip(batch.messages, batch.answers, outgoing, strict=True)
        ):
            if answer is None or out is None:
                continue
            attributes: dict[str, Any] = {
                "messaging.system": "kafka",
                "messaging.destination.partition.id": str(message.partition),
                "messaging.kafka.offset": message.offset,
                "neardup.outcome": answer.code
                if isinstance(answer, DocumentError)
                else answer.outcome.value,
            }
            parent = self._propagate.extract(
                {name: value.decode("latin-1") for name, value in message.headers if value}
            )
            spans[at] = self._tracer.start_span(
                "judge document",
                parent,
                self._trace.SpanKind.CONSUMER,
                attributes,
                start_time=read_at_ns,
            )
            context: dict[str, str] = {}
            self._propagate.inject(context, self._trace.set_span_in_context(spans[at]))
            outgoing[at] = out._replace(
                headers=(*out.headers, *((k, v.encode()) for k, v in context.items()))
            )
        batch.outgoing = outgoing
        return spans

    def close(self) -> None:
        """Send the spans that are left, and stop."""
        self._provider.shutdown()


def _to_a_collector() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(resource=Resource({SERVICE_NAME: "neardup"}).merge(Resource.create()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
