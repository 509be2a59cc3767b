"""HTTP poster: one attempt at a time, at a receiver that may be slow."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, NamedTuple

from agent.net.attempt_limit import AttemptLimit
from agent.net.connection_errors import in_words
from agent.runtime.printable import one_line
from agent.runtime.retrying import Answered
from agent.wire.webhook_config import Target

MAX_LINE: Final = 200
# Before an answer: http.client reads them without end, and its thread takes a processor meanwhile.
MAX_INTERIM: Final = 8


class Request(NamedTuple):
    """One attempt; `headers` beside those of HTTP."""

    body: bytes
    headers: dict[str, str]


class _Response(HTTPResponse):
    """http.client's, which passes over a few interim answers."""

    _interim = -1

    def _read_status(self) -> Any:
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise HTTPException(f"more than {MAX_INTERIM} interim answers")
        return super()._read_status()  # type: ignore[misc]  # there is no public way


class Poster:
    """Posts to one receiver and waits for it: for a thread of its own, in which `ssl_context` is
    called, too, because reading certificates takes long."""

    def __init__(
        self, target: Target, timeout_s: float, ssl_context: Callable[[], ssl.SSLContext]
    ) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._open_context = ssl_context
        self._context: ssl.SSLContext | None = None

    def post(self, request: Request) -> Answered:
        """Post once, and return the outcome."""
        try:
            return self._attempt(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the process lives and is told
            return Answered(0, one_line(f"{type(error).__name__}: {error}", MAX_LINE))

    def _attempt(self, request: Request) -> Answered:
        connection = self._connection()
        with AttemptLimit(self._timeout_s) as limit, closing(connection):
            connection.response_class = _Response
            connection._create_connection = limit.connect  # type: ignore[attr-defined]  # noqa: SLF001
            try:
                connection.request("POST", self._target.path, request.body, request.headers)
                return _read(connection)
            except (OSError, HTTPException) as error:
                why = limit.ended(error) or in_words(error)
                return Answered(0, one_line(why, MAX_LINE))

    def _connection(self) -> HTTPConnection:
        _, host, port, _ = self._target
        if not self._target.tls:
            return HTTPConnection(host, port, timeout=self._timeout_s)
        self._context = self._context or self._open_context()
        return HTTPSConnection(host, port, timeout=self._timeout_s, context=self._context)


def _read(connection: HTTPConnection) -> Answered:
    """Read the status, not the body, which is never used. A redirection is an ordinary status:
    posts go only to the configured address."""
    response = connection.getresponse()
    line = f"{response.status} {response.reason}"
    if 300 <= response.status < 400:
        line += ", and redirections are not followed; set url to where it leads"
    after = response.getheader("Retry-After", "")
    # The other form is a date, by a clock that may be wrong.
    retry_after_s = float(after) if after.isascii() and after.isdigit() and len(after) < 9 else 0.0
    return Answered(response.status, one_line(line, MAX_LINE), retry_after_s)
