"""HTTP endpoint /metrics.

A scrape waits in a thread of its own until the process's event loop has copied the numbers, and
renders the text itself. The loop needs no lock, and a hanging loop shows as a failed scrape.
"""

from __future__ import annotations

import os
import queue
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from agent.metrics.families import BUILD_INFO, Family
from agent.metrics.numbers import Samples, gauge
from agent.wire.config import Metrics

if TYPE_CHECKING:
    from prometheus_client import Metric

# How long a scrape waits for the loop, and for its client to send the request.
PATIENCE_S: Final = 5.0
# Scrapes at a time; each has a thread and a file.
MAX_SCRAPES: Final = 8


class NotAnsweredError(Exception):
    """The event loop did not provide its numbers in time."""


class Page:
    """Serves the result of `take` at each scrape; `turn` calls it, in the caller's thread.

    Call `turn` in the loop whenever `fileno` is readable. OSError if the address cannot be bound.
    """

    def __init__(
        self,
        config: Metrics,
        families: Iterable[Family],
        take: Callable[[], Iterable[Samples]],
        *,
        patience_s: float = PATIENCE_S,
    ) -> None:
        from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
        from prometheus_client.exposition import make_wsgi_app

        self._families = tuple(families)
        self._take = take
        self._patience_s = patience_s
        self._version = version("sanderling")
        self._lock = (
            threading.Lock()
        )  # protects `_waiting` and `_closed`; the loop takes it once per scrape
        self._waiting: list[queue.SimpleQueue[list[Samples] | None]] = []
        self._closed = False
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._library = make_wsgi_app(registry)
        self._server = _listen(config.address)
        self._server.set_app(self._application)
        self.fileno = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # The poll interval bounds the time that stopping takes.
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="metrics", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._server.server_port

    def turn(self) -> None:
        """Hand the numbers to the waiting scrapes."""
        os.eventfd_read(self.fileno)
        with self._lock:
            waiting, self._waiting = self._waiting, []
        samples = [gauge(BUILD_INFO, [((self._version,), 1)]), *self._take()]
        for reply in waiting:
            reply.put(samples)

    def close(self) -> None:
        """Stop listening; waiting scrapes fail."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            os.close(self.fileno)
        for reply in waiting:
            reply.put(None)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- in the threads of the scrapes -----------------------------------------------------------

    def describe(self) -> Iterator[Metric]:
        """The families without samples, from which the library detects duplicate names."""
        return (_metric(family, None) for family in self._families)

    def collect(self) -> Iterator[Metric]:
        """Every family with its current samples; NotAnsweredError if the loop does not respond."""
        taken = {samples.family.name: samples for samples in self._ask()}
        return (_metric(family, taken.get(family.name)) for family in self._families)

    def _ask(self) -> list[Samples]:
        reply: queue.SimpleQueue[list[Samples] | None] = queue.SimpleQueue()
        with self._lock:
            if self._closed:
                raise NotAnsweredError
            self._waiting.append(reply)
            os.eventfd_write(self.fileno, 1)
        try:
            samples = reply.get(timeout=self._patience_s)
        except queue.Empty:
            samples = None
        if samples is None:
            raise NotAnsweredError
        return samples

    def _application(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        try:
            return self._library(environ, start_response)  # type: ignore[no-any-return]
        except NotAnsweredError:
            start_response("503 Service Unavailable", [("Content-Type", "text/plain")])
            return [b"the agent's loop gave no numbers in time\n"]


def _metric(family: Family, samples: Samples | None) -> Metric:
    from prometheus_client import core

    if family.kind == "histogram":
        histogram = core.HistogramMetricFamily(family.name, family.meaning, labels=family.labels)
        names = [*map(repr, family.bounds), "+Inf"]
        for labels, (counts, total) in samples.distributions.items() if samples else ():
            below, buckets = 0, []
            for name, count in zip(names, counts, strict=True):
                below += count
                buckets.append((name, float(below)))
            histogram.add_metric(labels, buckets, total)
        return histogram
    kind = core.CounterMetricFamily if family.kind == "counter" else core.GaugeMetricFamily
    metric = kind(family.name, family.meaning, labels=family.labels)
    for labels, value in samples.values.items() if samples else ():
        metric.add_metric(labels, value)
    return metric


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log nothing: scrapes are routine."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    """One thread a scrape. Of more than `MAX_SCRAPES` the oldest is cut: a scrape takes
    milliseconds, so the oldest is a client that sends its request byte by byte."""

    daemon_threads = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._scrapes_lock = threading.Lock()
        self._scrapes: dict[Any, None] = {}
        super().__init__(*args, **kwargs)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve in a thread of its own."""
        with self._scrapes_lock:
            if len(self._scrapes) >= MAX_SCRAPES:
                oldest = next(iter(self._scrapes))
                del self._scrapes[oldest]
                with suppress(OSError):  # it has ended meanwhile
                    oldest.shutdown(socket.SHUT_RDWR)
            self._scrapes[request] = None
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The body of the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._scrapes_lock:
                self._scrapes.pop(request, None)

    def server_bind(self) -> None:
        """Bind without looking up this host's name, which may take long."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of a client that disconnected."""


def _listen(address: str) -> _Server:
    host, _, port = address.rpartition(":")
    try:
        return _Server((host, int(port)), _Handler)
    except OSError as error:
        raise OSError(f"cannot serve metrics on {address}: {error.strerror or error}") from None
