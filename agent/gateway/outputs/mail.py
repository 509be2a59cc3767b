"""Alerts by e-mail: what waits goes together into one message, over STARTTLS or TLS."""

from __future__ import annotations

import smtplib
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from email.utils import formatdate
from hashlib import sha256
from random import random
from typing import BinaryIO, Final, NamedTuple

from agent.gateway.feed.alert_log import Logged
from agent.gateway.output_config import GatewayEmail
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.alert_sender import AlertSender
from agent.gateway.outputs.alert_text import NameOf, body, subject
from agent.gateway.outputs.base import Sources
from agent.gateway.outputs.from_config import configured_matcher, secret_line
from agent.net.attempt_limit import AttemptLimit
from agent.net.authorities import tls_context
from agent.net.connection_errors import in_words
from agent.runtime.printable import one_line
from agent.runtime.retrying import Answered, Retrying

KIND: Final = "email"
TLS_PORT: Final = 465  # where a server waits for TLS, and the client for its greeting
TOGETHER: Final = 50
MAX_SUBJECT: Final = 200
MAX_LINE: Final = 200
# Of a server; those to EHLO have the most lines, a dozen or two.
MAX_REPLY_LINES: Final = 100
OK: Final = 250
# What means the same in HTTP, by the first digit of SMTP's reply.
TEMPORARY: Final = 503
REFUSED: Final = 403


def letter(
    entries: Sequence[Logged], sender: str, to: Sequence[str], gateway: str, name_of: NameOf
) -> EmailMessage:
    """The message about these alerts; equal ids mean the same alerts."""
    made = EmailMessage()
    head = subject(entries[0], name_of)
    if len(entries) > 1:
        head += f", and {len(entries) - 1} more"
    made["Subject"] = f"[{gateway}] {head}"[:MAX_SUBJECT]
    made["From"] = sender
    made["To"] = ", ".join(to)
    made["Date"] = formatdate(entries[0].received_ms / 1e3)
    about = f"{gateway} {[(each.position, each.received_ms) for each in entries]}"
    digest = sha256(about.encode()).hexdigest()[:32]
    made["Message-ID"] = f"<{digest}@{sender.rpartition('@')[2]}>"
    made["Auto-Submitted"] = "auto-generated"
    made.set_content("\n\n".join(body(each, name_of) for each in entries) + "\n")
    return made


class _Reply:
    """Lines of one reply, of which a server may send so many."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._left = MAX_REPLY_LINES

    def readline(self, size: int) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise OSError(f"a reply of more than {MAX_REPLY_LINES} lines")
        return self._file.readline(size)

    def begin(self) -> None:
        """Another reply."""
        self._left = MAX_REPLY_LINES

    def close(self) -> None:
        self._file.close()


class _Connection(smtplib.SMTP):
    """Within the limit of the attempt, and with replies of bounded length."""

    def __init__(self, limit: AttemptLimit, host: str, port: int, timeout_s: float) -> None:
        self._limit = limit
        super().__init__(host, port, timeout=timeout_s)

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        return self._limit.connect((host, port), timeout)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None:
            assert self.sock is not None
            self.file = _Reply(self.sock.makefile("rb"))
        self.file.begin()
        return super().getreply()


class _TlsConnection(smtplib.SMTP_SSL, _Connection):
    """The same, with TLS from the start."""

    def __init__(
        self,
        limit: AttemptLimit,
        host: str,
        port: int,
        timeout_s: float,
        context: ssl.SSLContext,
    ) -> None:
        self._limit = limit
        self.context = context
        smtplib.SMTP.__init__(self, host, port, timeout=timeout_s)


class MailServer(NamedTuple):
    """Address, credentials, security; `context` makes the one that checks its certificate."""

    host: str
    port: int
    security: str
    context: Callable[[], ssl.SSLContext]
    timeout_s: float
    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return f"<mail server {self.host}:{self.port}>"  # never the password

    def send(self, message: EmailMessage) -> Answered:
        """One attempt, for a thread: it blocks."""
        with AttemptLimit(self.timeout_s) as limit:
            delivered: Answered | None = None
            try:
                with self._connected(limit) as server:
                    if self.user:
                        server.login(self.user, self.password)
                    # One recipient that is taken is enough: who has it must not get it again.
                    delivered = _delivered(server.send_message(message))
            except smtplib.SMTPRecipientsRefused as error:
                replies = error.recipients.values()
                return _worst([reply for reply, _ in replies], str(error.recipients))
            except (OSError, smtplib.SMTPException, ValueError) as error:
                # What goes wrong after the server's word changes nothing.
                if delivered:
                    return delivered
                if not (late := limit.ended(error)):
                    return _failed(error)
                if self.security != "tls" and self.port == TLS_PORT:
                    late += f'; port {TLS_PORT} is usually for security = "tls"'
                return Answered(0, late)
            return delivered

    def _connected(self, limit: AttemptLimit) -> smtplib.SMTP:
        if self.security == "tls":
            return _TlsConnection(limit, self.host, self.port, self.timeout_s, self.context())
        server = _Connection(limit, self.host, self.port, self.timeout_s)
        if self.security == "starttls":
            try:
                server.starttls(context=self.context())
            except BaseException:
                server.close()
                raise
        return server


def _delivered(refused: Mapping[str, tuple[int, bytes]]) -> Answered:
    each = [f"{to} ({code} {_text(said)})" for to, (code, said) in refused.items()]
    return Answered(OK, "", left_out=f"the server refuses {_text(', '.join(each))}" if each else "")


def _failed(error: Exception) -> Answered:
    if isinstance(error, smtplib.SMTPResponseException):
        return _worst([error.smtp_code], f"{error.smtp_code} {_text(error.smtp_error)}")
    return Answered(0, _text(in_words(error)))


def _worst(codes: Sequence[int], line: str) -> Answered:
    """Errors that are temporary for all recipients are tried again."""
    return Answered(TEMPORARY if any(code < 500 for code in codes) else REFUSED, _text(line))


def _text(what: object) -> str:
    shown = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)
    return one_line(shown, MAX_LINE)


def email_output(
    config: GatewayEmail,
    sources: Sources,
    *,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random,
) -> AlertSender:
    """The output; ConfigError."""
    server = MailServer(
        config.host,
        config.port,
        config.security,
        tls_context(sources.folder, config.ca, "email.ca"),
        config.timeout_s,
        config.user,
        secret_line(sources.folder, config.password_file, "email.password_file"),
    )

    def attempt(entries: Sequence[Logged]) -> Answered:
        name_of = sources.rooms.name_of
        made = letter(entries, config.sender, config.to, sources.gateway, name_of)
        return server.send(made)

    line: AlertLine[Logged] = AlertLine(
        sources.alerts.cursor(KIND),
        Retrying(jitter=jitter, give_up_s=config.give_up_s),
        configured_matcher(config.filter, "email.filter"),
        TOGETHER,
    )
    return AlertSender(KIND, KIND, sources, line, attempt, clock, config.every_s)
