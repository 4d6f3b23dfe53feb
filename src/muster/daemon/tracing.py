"""Traces for OpenTelemetry: what users ask for, commits and cycles. None unless an endpoint is set.

    OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 muster up

Requests are the parents of what they ask for: FastAPI traces them by itself.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import structlog

log = structlog.get_logger()

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SERVICE = "muster"

Attribute = str | int | float | bool


class Tracing:
    """What traces go through; nothing until it is begun."""

    def __init__(self) -> None:
        self._tracer: Any = None
        self._provider: Any = None

    def begin(self, environ: Mapping[str, str]) -> None:
        """Send traces where the environment says, if it says so."""
        if not any(environ.get(name) for name in ENDPOINTS):
            return
        try:
            from opentelemetry import trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ModuleNotFoundError:
            log.warning("no traces: they need `pip install 'musterd[otel]'`")
            return
        name = environ.get("OTEL_SERVICE_NAME", SERVICE)
        self._provider = TracerProvider(resource=Resource.create({"service.name": name}))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(self._provider)
        self._tracer = self._provider.get_tracer(SERVICE)

    @property
    def is_on(self) -> bool:
        """Whether traces are sent."""
        return self._tracer is not None

    @contextmanager
    def span(self, name: str, **attributes: Attribute) -> Iterator[dict[str, Attribute]]:
        """Trace a block; what it puts into the mapping is told with it."""
        if self._tracer is None:
            yield attributes
            return
        with self._tracer.start_as_current_span(f"muster.{name}") as span:
            try:
                yield attributes
            finally:
                for key, value in attributes.items():
                    span.set_attribute(f"muster.{key}", value)

    def close(self) -> None:
        """Send what is left, and end."""
        if self._provider is not None:
            self._provider.shutdown()
        self._tracer = self._provider = None


TRACING = Tracing()
"""Of this process."""
