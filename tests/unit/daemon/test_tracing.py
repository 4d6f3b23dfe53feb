"""Traces of a submission and a cycle, as a real collector gets them; none where none are asked for."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from muster.daemon.tracing import ENDPOINTS, TRACING, Tracing
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, until

trace_service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")


class Collector(BaseHTTPRequestHandler):
    """Keeps the spans that are posted to it."""

    spans: list[Any]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        sent = trace_service.ExportTraceServiceRequest.FromString(body)
        for resource in sent.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The spans that have reached a collector of this test's own."""
    kind = type("Own", (Collector,), {"spans": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv(ENDPOINTS[0], f"http://127.0.0.1:{server.server_address[1]}")
        yield kind.spans  # type: ignore[attr-defined]
        TRACING.close()
        server.shutdown()


def test_a_submission_and_a_cycle_reach_the_collector(collected: list[Any], tmp_path: Path) -> None:
    import os

    async def submitted() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("a", "live"))
            await until(made, lambda: made.daemon.cycles > 0)

    TRACING.begin(os.environ)
    asyncio.run(submitted())
    TRACING.close()
    told = {span.name: {each.key: each.value for each in span.attributes} for span in collected}
    assert {"muster.submit", "muster.commit", "muster.cycle"} <= told.keys()
    assert told["muster.submit"]["muster.user"].string_value == "ann"
    assert "muster.apart" in told["muster.cycle"] and "muster.seconds" in told["muster.cycle"]


def test_without_an_endpoint_nothing_is_loaded_or_told() -> None:
    tracing = Tracing()
    tracing.begin({})
    with tracing.span("cycle", jobs=1) as told:
        told["seconds"] = 0.1
    assert tracing._tracer is None
