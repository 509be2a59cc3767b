"""Transition tables of spooled notifications and of subscriptions, keyed (from, to)."""

from __future__ import annotations

from typing import Final

SPOOLED_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "published"): "received from a node",
    ("new", "waiting"): "restored from disk",
    ("waiting", "published"): "the rate limit allows it",
    ("published", "published"): "no outcome within the time-out",
    ("published", "waiting"): "some subscriber may not have it",
    ("waiting", "settled"): "every subscriber has it",
    ("published", "settled"): "every subscriber has it",
    ("waiting", "given_up"): "the spool is full, and this is the oldest",
    ("published", "given_up"): "the spool is full, and this is the oldest",
}
SUBSCRIPTION_TRANSITIONS: Final[dict[tuple[str, str], str]] = {
    ("new", "attached"): "subscribe",
    ("new", "detached"): "restored from disk",
    ("new", "standby"): "its client's other master hands it over: it collects",
    ("standby", "detached"): "the other master's inbox has come: it goes on from there",
    ("standby", "cancelled"): "it is not handed over",
    ("attached", "attached"): "subscribe again",
    ("detached", "attached"): "subscribe again",
    ("attached", "detached"): "durable, and its client was silent for a lease, or it is forwarded",
    ("attached", "expired"): "not durable, and its client was silent for a lease",
    ("detached", "expired"): "its client was silent for too long",
    ("attached", "cancelled"): "unsubscribe",
    ("detached", "cancelled"): "unsubscribe",
}
