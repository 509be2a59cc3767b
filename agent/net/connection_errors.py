"""Why there was no connection to a receiver or broker, in words."""

from __future__ import annotations

import socket
import ssl
from typing import Final

from agent.runtime.printable import one_line

# OpenSSL's numbers for a chain that ends with a certificate which is not known here.
UNKNOWN_AUTHORITY: Final = frozenset((18, 19, 20, 21))
# OpenSSL's reasons; others are told as they are.
TLS: Final = {
    "WRONG_VERSION_NUMBER": "it speaks no TLS on that port",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it wants a certificate of its clients; none can be given",
}


def in_words(error: Exception) -> str:
    """Why there was no connection, for an operator; in the error's own words if they will do. The
    address is not named, as it may be a secret."""
    if isinstance(error, ssl.SSLCertVerificationError):
        known = error.verify_code not in UNKNOWN_AUTHORITY
        remedy = "" if known else "; ca names the file with that of its authority"
        return f"its certificate is not accepted: {error.verify_message.rstrip('.')}{remedy}"
    if isinstance(error, (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)):
        return "it ended the connection without an answer; is TLS expected on one side only?"
    # One that Python made has no reason.
    if isinstance(error, ssl.SSLError) and (reason := getattr(error, "reason", None)):
        return TLS.get(reason) or f"TLS fails: {reason.replace('_', ' ').lower()}"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens on that host and port"
    if isinstance(error, socket.gaierror):
        return f"its host name was not found: {error.strerror}"
    return one_line(str(error)) or type(error).__name__
