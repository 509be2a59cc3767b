"""Webhook configuration: filters, receivers, and the keys that sign the posts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from agent.master.push.config_filters import configured_filter
from agent.net.authorities import tls_context
from agent.net.keys import secret_text
from agent.wire.config import ConfigError
from agent.wire.master_config import MasterConfig
from agent.wire.predicates import Filter
from agent.wire.webhook_config import MasterWebhook

# Bytes, as in the Standard Webhooks specification.
SHORTEST_KEY: Final = 24
MAX_KEY: Final = 64
MAX_KEYS: Final = 2
PREFIX: Final = "whsec_"


class Hook(NamedTuple):
    """A validated webhook. `context` makes the one in which its certificate is checked."""

    config: MasterWebhook
    wanted: Filter
    keys: tuple[bytes, ...]
    context: Callable[[], ssl.SSLContext]

    def __repr__(self) -> str:
        return f"<hook {self.config.name}>"  # never a key, because it is printed


def hooks_of(config: MasterConfig, folder: Path) -> tuple[Hook, ...]:
    """The webhooks in `[[webhook]]`. ConfigError in one line."""
    if len({each.name for each in config.webhook}) < len(config.webhook):
        raise ConfigError("webhook: two have the same name")
    return tuple([_hook(each, folder) for each in config.webhook])


def _hook(config: MasterWebhook, folder: Path) -> Hook:
    wanted = configured_filter(config.filter, f"webhook.filter of {config.name}")
    context = tls_context(folder, config.ca, f"webhook.ca of {config.name}")
    path = str(folder / config.secret)
    return Hook(config, wanted, keys_in(secret_text(path), path), context)


def keys_in(text: str, path: str) -> tuple[bytes, ...]:
    """The signing keys in a file's text; ConfigError names `path`."""
    keys: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip().removeprefix(PREFIX)
        if not word or word.startswith("#"):
            continue
        try:
            key = base64.b64decode(word, validate=True)
        except binascii.Error:
            key = b""
        if not SHORTEST_KEY <= len(key) <= MAX_KEY:
            raise ConfigError(
                f"{path}: line {number} is no key ({SHORTEST_KEY} to {MAX_KEY} bytes in "
                "Base64); openssl rand -base64 32 makes one"
            )
        keys.append(key)
    if not keys:
        raise ConfigError(f"{path}: no key in it; openssl rand -base64 32 makes one")
    if len(keys) > MAX_KEYS:
        raise ConfigError(f"{path}: {len(keys)} keys; at most {MAX_KEYS} sign at a time")
    return tuple(keys)


def headers(name: str, time_s: int, body: bytes, keys: Iterable[bytes]) -> dict[str, str]:
    """Standard Webhooks headers: the message's id, the time it was sent (s since 1970 UTC), and one
    signature of this master for each key."""
    signed = b"%s.%d.%s" % (name.encode(), time_s, body)
    made = [base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode() for key in keys]
    return {
        "webhook-id": name,
        "webhook-timestamp": str(time_s),
        "webhook-signature": " ".join(f"v1,{each}" for each in made),
    }
