"""Certificates of authorities, by which those of receivers are checked."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent.wire.config import ConfigError


def tls_context(folder: Path, ca: str, where: str) -> Callable[[], ssl.SSLContext]:
    """What makes the context in which certificates are checked, later, because the system's
    authorities, which count without a file, take long; ConfigError for a file that has none."""
    if not ca:
        return ssl.create_default_context
    path = folder / ca
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except FileNotFoundError:
        raise ConfigError(f"{where}: there is no file {path}") from None
    except ssl.SSLError:
        raise ConfigError(f"{where}: {path} has no certificate in PEM") from None
    except OSError as error:
        raise ConfigError(f"{where}: {path} cannot be read: {error.strerror}") from None
    return partial(ssl.create_default_context, cafile=str(path))
