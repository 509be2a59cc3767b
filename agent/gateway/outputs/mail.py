"""Alerts by e-mail: what waits goes together into one message, over STARTTLS or TLS."""

from __future__ import annotations

import smtplib
import ssl
import time
from collections.abc import Callable, Sequence
from email.message import EmailMessage
from email.utils import formatdate
from hashlib import sha256
from random import random
from typing import Final, NamedTuple

from agent.gateway.alert_log import Logged
from agent.gateway.output_config import GatewayEmail
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.alert_sender import AlertSender
from agent.gateway.outputs.alert_text import NameOf, body, subject
from agent.gateway.outputs.base import Sources
from agent.gateway.outputs.from_config import configured_matcher, secret_line, tls_context
from agent.runtime.retrying import Answered, Retrying

KIND: Final = "email"
TOGETHER: Final = 50
MAX_SUBJECT: Final = 200
MAX_LINE: Final = 200
DELIVERED: Final = Answered(250, "")
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
        taken = False
        try:
            with self._connected() as server:
                if self.user:
                    server.login(self.user, self.password)
                server.send_message(message)  # one recipient that takes it is enough
                taken = True
        except smtplib.SMTPRecipientsRefused as error:
            return _worst([reply for reply, _ in error.recipients.values()], str(error.recipients))
        except (OSError, smtplib.SMTPException, ValueError) as error:
            # What goes wrong after the server's word changes nothing.
            return DELIVERED if taken else _failed(error)
        return DELIVERED

    def _connected(self) -> smtplib.SMTP:
        if self.security == "tls":
            return smtplib.SMTP_SSL(
                self.host, self.port, timeout=self.timeout_s, context=self.context()
            )
        server = smtplib.SMTP(self.host, self.port, timeout=self.timeout_s)
        if self.security == "starttls":
            try:
                server.starttls(context=self.context())
            except BaseException:
                server.close()
                raise
        return server


def _failed(error: Exception) -> Answered:
    if isinstance(error, smtplib.SMTPResponseException):
        return _worst([error.smtp_code], f"{error.smtp_code} {_text(error.smtp_error)}")
    return Answered(0, _text(error) or type(error).__name__)


def _worst(codes: Sequence[int], line: str) -> Answered:
    """Errors that are temporary for all recipients are tried again."""
    return Answered(TEMPORARY if any(code < 500 for code in codes) else REFUSED, _text(line))


def _text(what: object) -> str:
    shown = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)
    printable = "".join(c if c.isprintable() else " " for c in shown)
    return " ".join(printable.split())[:MAX_LINE]


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
