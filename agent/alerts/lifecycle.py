"""What spooled notifications and subscriptions go through, as tables keyed (from, to)."""

from __future__ import annotations

from typing import Final

SPOOLED_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "published"): "brought by a node",
    ("new", "waiting"): "found on disk",
    ("waiting", "published"): "its turn has come",
    ("published", "published"): "no word of it for long",
    ("published", "waiting"): "somebody may not have it",
    ("waiting", "settled"): "everybody has it",
    ("published", "settled"): "everybody has it",
    ("waiting", "given_up"): "the spool is full, and this is the oldest",
    ("published", "given_up"): "the spool is full, and this is the oldest",
}
SUBSCRIPTION_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "attached"): "subscribe",
    ("new", "detached"): "found on disk",
    ("attached", "attached"): "subscribe again",
    ("detached", "attached"): "subscribe again",
    ("attached", "detached"): "durable, and nothing heard of its client for a lease",
    ("attached", "expired"): "not durable, and nothing heard of its client for a lease",
    ("detached", "expired"): "nothing heard of its client for too long",
    ("attached", "cancelled"): "unsubscribe",
    ("detached", "cancelled"): "unsubscribe",
}
