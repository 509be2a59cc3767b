"""Configuration of outputs: filters as functions, secrets out of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from agent.net.authorities import tls_context
from agent.net.http_poster import Poster
from agent.net.keys import secret_text
from agent.wire.config import ConfigError
from agent.wire.overlay import Notification
from agent.wire.predicate_language import read_filter
from agent.wire.predicate_values import condition, key
from agent.wire.predicates import Filter, FilterError
from agent.wire.webhook_config import target

MAX_SECRET: Final = 4_096
SECRETS: Final = ("password_file", "authorization_file", "token_file")  # keys of sections


def configured_matcher(text: str, where: str) -> Callable[[Notification], bool]:
    """Whether the filter in `text` lets a notification through; ConfigError."""
    try:
        return matcher(read_filter(text))
    except FilterError as error:
        raise ConfigError(f"{where}: {error}") from None


def matcher(disjunction: Filter) -> Callable[[Notification], bool]:
    """The filter as a function; O(predicates) a notification."""
    alternatives = [
        [(each.attribute, condition(each)) for each in conjunction] for conjunction in disjunction
    ]

    def passes(notification: Notification) -> bool:
        told = notification.attributes
        return any(
            all(name in told and holds(key(told[name])) for name, holds in conjunction)
            for conjunction in alternatives
        )

    return passes


def secret_line(folder: Path, file: str, where: str) -> str:
    """The one line of a file that only its owner may read, or nothing without one; ConfigError."""
    if not file:
        return ""
    path = str(folder / file)
    text = secret_text(path).strip("\r\n")
    if not text or not text.isprintable() or len(text) > MAX_SECRET:
        raise ConfigError(f"{where}: {path} is not one line of text")
    return text


def check_output(section: object, folder: Path, kind: str, of: str = "") -> None:
    """ConfigError for a filter or a file of this section that cannot be used, as when the output is
    made; `of` ends the name of each key."""
    if wanted := getattr(section, "filter", ""):
        configured_matcher(wanted, f"{kind}.filter{of}")
    tls_context(folder, getattr(section, "ca", ""), f"{kind}.ca{of}")
    for name in SECRETS:
        secret_line(folder, getattr(section, name, ""), f"{kind}.{name}{of}")


def poster(url: str, timeout_s: float, folder: Path, ca: str, where: str) -> Poster:
    """Posts to that address; ConfigError."""
    return Poster(target(url), timeout_s, tls_context(folder, ca, where))
